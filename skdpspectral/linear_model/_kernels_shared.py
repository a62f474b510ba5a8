"""Shared directions from users' moments, and their alternation without privacy.

For a release, every user contributes one vector, a function of that user's rows and U
alone, with the same bits in any block. Given w_i and b_i, the loss is quadratic in U
(d x r): its gradient is -sum_i X_i' e_i w_i' at the residuals e_i, and its curvature
A = sum_i (w_i w_i') (x) G_i, where G_i = X_i'X_i.

Without privacy, the solver is the algorithm of Pal et al. (2023) with three changes:
supports by pursuit instead of thresholds with unknown constants, w rotated with U, and
new fits of the users with the largest errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from .._linalg import per_user
from .._linalg.per_user import Block, UserRows
from . import _kernels_users

# Relative ridge of the curvature, for directions that no user's rows see.
_JITTER = 1e-12
# Conjugate-gradient steps an outer iteration: more buy nothing (they are warm).
_CG_STEPS = 2
# One step is enough if it leaves so much of the gradient.
_CG_ENOUGH = 0.1
# Rows that the preconditioner is made from, and features that it is worth it for.
_MEAN_GRAM_ROWS = 1 << 17
_MEAN_GRAM_FEATURES = 2048
# Grams of all users are kept up to so many numbers.
_KEPT_GRAM_NUMBERS = 1 << 27
# Numbers that stay in the cache between two products.
_CACHED_NUMBERS = 1 << 16
# From so many features on, forming Grams costs more than a few products with X.
_GRAM_FEATURES = 24


def unpack_symmetric(packed: np.ndarray, size: int) -> np.ndarray:
    """Unpack upper triangles with off-diagonals times sqrt(2) to (n, size, size)."""
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, np.sqrt(0.5))
    matrices = np.empty((len(packed), size, size))
    matrices[:, rows, columns] = packed * factors
    matrices[:, columns, rows] = matrices[:, rows, columns]
    return matrices


def packed_outer(weights: np.ndarray) -> np.ndarray:
    """Packed w w' of each user, of shape (n_users, r (r + 1) / 2)."""
    n_users, size = weights.shape
    out = per_user.empty_stack(n_users, size * (size + 1) // 2)
    starts = _row_starts(size)
    for row in range(size):
        place = slice(starts[row], starts[row + 1])
        np.multiply(weights[:, row:], weights[:, row, None], out=out[:, place])
    factors = np.full(out.shape[1], np.sqrt(2.0))
    factors[starts[:-1]] = 1.0
    out *= factors
    return out


def _row_starts(size: int) -> np.ndarray:
    """Return the start of each row of a packed upper triangle, and its end."""
    return np.cumsum([0, *range(size, 0, -1)])


def packed_grams(block: Block) -> np.ndarray:
    """Packed X'X of each user, of shape (n_users, d (d + 1) / 2)."""
    d = block.X.shape[2]
    out = np.empty((len(block), d * (d + 1) // 2))
    write_packed_grams(block, np.ones((len(block), 1)), out)
    return out


def write_packed_grams(block: Block, factors: np.ndarray, out: np.ndarray) -> None:
    """Write packed X'X of each user, times a factor.

    `factors` (n_users, 1). `out` (n_users, d (d + 1) / 2): where to write.
    """
    d = block.X.shape[2]
    # A copy: numpy mirrors the triangle of a product of a matrix with itself, entry by
    # entry, which takes longer than the other triangle.
    again = per_user.joined([block.X])
    grams = per_user.products(again, block.X, transpose_left=True)
    beside = factors * np.sqrt(2.0)
    starts = _row_starts(d)
    for row in range(d):
        place = slice(starts[row], starts[row + 1])
        np.multiply(grams[:, row, row:], beside, out=out[:, place])
    out[:, starts[:-1]] = np.diagonal(grams, axis1=1, axis2=2) * factors


def curvature_matrix(packed: np.ndarray, rank: int, n_features: int) -> np.ndarray:
    """Return the (r d, r d) curvature of a packed element of Sym(r) (x) Sym(d).

    `packed`, (r (r + 1) / 2, d (d + 1) / 2), is a product of :func:`packed_outer` and
    :func:`packed_grams`. The result acts on the stacked columns of U.
    """
    inner = unpack_symmetric(packed, n_features)
    inner = inner.transpose(1, 2, 0).reshape(n_features**2, -1)
    full = unpack_symmetric(inner, rank).reshape(n_features, n_features, rank, rank)
    size = rank * n_features
    return full.transpose(2, 0, 3, 1).reshape(size, size)


def solve_curvature(curvature: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the matrix D of shape (d, r) with curvature vec(D) = vec(right)."""
    _require_finite(curvature, right)
    largest = float(np.diagonal(curvature).max(initial=0.0))
    if not largest > 0.0:
        return np.zeros_like(right)
    flat = right.T.ravel()
    matrix = curvature / largest + _JITTER * np.eye(len(flat))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.LinAlgWarning)
            solution = linalg.solve(matrix, flat / largest, assume_a="pos")
    except linalg.LinAlgError:
        solution = linalg.lstsq(matrix, flat / largest)[0]
    return solution.reshape(right.shape[::-1]).T


def _require_finite(*arrays: np.ndarray) -> None:
    """Raise LinAlgError for arrays that are not finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise np.linalg.LinAlgError("numbers are out of the range of float64")


def positive_qr(U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the QR decomposition with a nonnegative diagonal of R."""
    Q, R = np.linalg.qr(U)
    signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
    return Q * signs, R * signs[:, None]


def _few_users(block: Block):
    """Yield slices of users whose rows fit into the cache."""
    size = max(1, _CACHED_NUMBERS // max(1, block.X[0].size))
    return (slice(i, i + size) for i in range(0, len(block), size))


class SharedStep:
    """Least-squares improvement of U, given the users' parameters.

    `solver`: "direct" forms the curvature from the rows at each step, "cached" from
    users' Grams in memory; both solve a dr x dr system. "cg" takes one or two
    conjugate-gradient steps, whose cost does not depend on the rank; its preconditioner
    is exact if users' weights are independent of their features.
    """

    def __init__(self, rows: UserRows, solver: str, n_jobs=None):
        self._rows, self._n_jobs = rows, n_jobs
        d = rows.n_features
        self._n_packed = d * (d + 1) // 2
        if solver == "auto":
            small = rows.n_users * self._n_packed <= _KEPT_GRAM_NUMBERS
            solver = "cached" if small and d <= _GRAM_FEATURES else "cg"
        self.solver = solver
        self._grams: np.ndarray | None = None
        self._factor = None

    def __call__(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the change of U, (n_features, rank).

        `weights`, (n_users, rank), are w, and `gradient` is sum_i X_i' e_i w_i' at U.
        """
        if self.solver == "cg":
            return self._conjugate_gradient(weights, gradient)
        packed = self._packed_curvature(weights)
        return solve_curvature(
            curvature_matrix(packed, weights.shape[1], self._rows.n_features), gradient
        )

    def _packed_curvature(self, weights: np.ndarray) -> np.ndarray:
        if self.solver == "cached":
            return packed_outer(weights).T @ self._cached_grams()

        def part(block):
            return packed_outer(weights[block.users]).T @ packed_grams(block)

        return sum(self._rows.map(part, self._n_jobs))

    def _cached_grams(self) -> np.ndarray:
        if self._grams is None:
            self._grams = np.empty((self._rows.n_users, self._n_packed))

            def fill(block):
                self._grams[block.users] = packed_grams(block)

            self._rows.map(fill, self._n_jobs)
        return self._grams

    def _curvature_times(self, weights: np.ndarray, direction: np.ndarray):
        """Return sum_i G_i D w_i w_i' for a direction D of the shape of U."""

        def part(block):
            own = weights[block.own]
            moved = (own @ direction.T)[:, :, None]
            curved = np.empty((len(own), block.X.shape[2]))
            # A few users at a time: their rows are still in the cache when read again.
            for some in _few_users(block):
                seen = block.X[some] @ moved[some]
                np.matmul(block.Xt[some], seen, out=curved[some, :, None])
            return curved.T @ own

        return sum(self._rows.map(part, self._n_jobs))

    def _conjugate_gradient(self, weights: np.ndarray, gradient: np.ndarray):
        """Iterate from zero, preconditioned by sum w w' (x) the mean Gram."""
        outer = weights.T @ weights
        ridge = _JITTER * max(float(np.trace(outer)), np.finfo(float).tiny)
        inverse = np.linalg.inv(outer + ridge * np.eye(len(outer)))
        change, rest = np.zeros_like(gradient), gradient.copy()
        direction = whitened = self._precondition(rest) @ inverse
        product = first = np.vdot(rest, whitened)
        for _ in range(_CG_STEPS):
            if not product > _CG_ENOUGH**2 * first or not first > 0.0:
                break
            curved = self._curvature_times(weights, direction)
            length = product / np.vdot(direction, curved)
            change, rest = change + length * direction, rest - length * curved
            whitened = self._precondition(rest) @ inverse
            before, product = product, np.vdot(rest, whitened)
            direction = whitened + product / before * direction
        return change

    def _precondition(self, right: np.ndarray) -> np.ndarray:
        if self._rows.n_features > _MEAN_GRAM_FEATURES:
            return right
        _require_finite(right)
        if self._factor is None:
            gram = self._some_gram()
            _require_finite(gram)
            self._factor = linalg.cho_factor(gram)
        return linalg.cho_solve(self._factor, right)

    def _some_gram(self) -> np.ndarray:
        """Return the regularized Gram matrix of some rows."""
        d, n_rows = self._rows.n_features, 0
        total = np.zeros((d, d))
        for block in self._rows.blocks():
            rows = block.X.reshape(-1, d)
            total += rows.T @ rows
            n_rows += len(rows)
            if n_rows >= _MEAN_GRAM_ROWS:
                break
        ridge = 1e-3 * float(np.trace(total)) / d
        return total + max(ridge, np.finfo(float).tiny) * np.eye(d)


# Numbers of the contributions that are in memory together.
_PART_NUMBERS = 1 << 18


def n_packed(size: int) -> int:
    """Return the length of a packed symmetric matrix."""
    return size * (size + 1) // 2


def n_curvature(rank: int, n_features: int) -> int:
    """Return the length of a packed element of Sym(r) (x) Sym(d)."""
    return n_packed(rank) * n_packed(n_features)


def slices_of(block: Block, width: int) -> Iterator[slice]:
    """Yield slices of a block's users whose vectors fit into memory."""
    size = max(1, _PART_NUMBERS // max(1, width))
    return (slice(start, start + size) for start in range(0, len(block), size))


def start_moments(block: Block) -> np.ndarray:
    """Packed s s' of each user's correlations s = X'y, scaled to unit norm.

    Returns (n_users, d (d + 1) / 2): vectors of unit norm, or zero.
    """
    with np.errstate(all="ignore"):  # 0 / 0 of a user without correlations
        s = per_user.products(block.y[:, None], block.X)[:, 0]
        s = s / np.abs(s).max(axis=1, initial=0.0, keepdims=True)
        s = s / per_user.norms(s)[:, None]
    return packed_outer(np.where(np.isfinite(s), s, 0.0))


def leading_directions(total: np.ndarray, rank: int, n_features: int) -> np.ndarray:
    """Return leading eigenvectors, (d, r), by value, of a packed matrix."""
    matrix = unpack_symmetric(total[None], n_features)[0]
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :rank]


def user_moments(
    block: Block, scores: np.ndarray, fit: _kernels_users.LocalFit, units=(1.0, 1.0)
) -> Iterator[np.ndarray]:
    """Yield packed (w w') (x) G/m and X'(y - X b) w'/m, a few users at a time.

    `scores` is (XU)', (n_users, rank, height), `fit` has the users' parameters at U,
    and `units` are divisors of the two parts. Vectors have the length n_curvature +
    rank * n_features, and the memory layout of ``per_user.empty_stack``.
    """
    rank, d = scores.shape[1], block.X.shape[2]
    # y - X b = residual + X U w
    shared = per_user.products(fit.weights[:, None, :], scores)[:, 0]
    target = fit.residual + shared
    for part in slices_of(block, n_curvature(rank, d)):
        yield _moments(block.take(part), fit.weights[part], target[part], units)


def _moments(block: Block, weights: np.ndarray, target: np.ndarray, units):
    (n_users, rank), d = weights.shape, block.X.shape[2]
    n_first = n_curvature(rank, d)
    counts = np.maximum(block.counts, 1)[:, None]
    right = per_user.products(target[:, None], block.X)
    out = per_user.empty_stack(n_users, n_first + rank * d)
    curvature = out[:, :n_first].reshape(n_users, n_packed(rank), n_packed(d))
    outer = packed_outer(weights) / (counts * units[0])
    if rank == 1:
        write_packed_grams(block, outer, curvature[:, 0])
    else:
        grams = np.empty((n_users, n_packed(d)))
        write_packed_grams(block, np.ones((n_users, 1)), grams)
        np.multiply(outer[:, :, None], grams[:, None, :], out=curvature)
    gradient = out[:, n_first:].reshape(n_users, rank, d)
    np.multiply((weights / (counts * units[1]))[:, :, None], right, out=gradient)
    return out


def row_norms(vectors: np.ndarray) -> np.ndarray:
    """Return the norm of each row; infinity on overflow."""
    norms = per_user.norms(vectors)
    return np.where(np.isnan(norms), np.inf, norms)


def solve_moments(total: np.ndarray, rank: int, n_features: int, floor: float):
    """Return least-squares U, (n_features, rank), from summed contributions.

    `total` has the sums of :func:`user_moments`; `floor` is the least eigenvalue of the
    curvature. U is not orthonormal.
    """
    size = n_curvature(rank, n_features)
    packed = total[:size].reshape(n_packed(rank), -1)
    values, vectors = np.linalg.eigh(curvature_matrix(packed, rank, n_features))
    values = np.maximum(values, max(floor, np.finfo(float).tiny))
    solution = vectors @ ((vectors.T @ total[size:]) / values)
    return solution.reshape(rank, n_features).T


# Every so many iterations, this share of the users is fitted anew.
_REPAIR_EVERY = 10
_REPAIR_SHARE = 0.2
# Largest number of steps of hard-thresholding pursuit of a cold fit.
COLD_STEPS = 15
# Starts of the final fit of every user.
COLD_STARTS = 3


@dataclass
class UserParameters:
    """Parameters of all users: arrays whose first axis is the user.

    `weights` (n_users, rank): w.
    `support` (n_users, sparsity): features of b.
    `sparse` (n_users, sparsity): b on its support.
    `loss` (n_users,): penalized squared error.
    `step` (n_users,): length of the next step of pursuit.
    """

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    loss: np.ndarray
    step: np.ndarray

    @classmethod
    def zeros(cls, n_users: int, rank: int, sparsity: int) -> UserParameters:
        """Return parameters of users before any fit."""
        return cls(
            weights=np.zeros((n_users, rank)),
            support=np.tile(np.arange(sparsity), (n_users, 1)),
            sparse=np.zeros((n_users, sparsity)),
            loss=np.full(n_users, np.inf),
            step=np.ones(n_users),
        )

    def write(self, users, fit: _kernels_users.LocalFit) -> None:
        """Store the fit of a block."""
        self.weights[users], self.support[users] = fit.weights, fit.support
        self.sparse[users], self.loss[users] = fit.sparse, fit.loss

    def coefficients(self, U: np.ndarray, users=slice(None)) -> np.ndarray:
        """Return U w + b of some users, (n_users, n_features)."""
        weights, support = self.weights[users], self.support[users]
        out = weights @ U.T
        out[np.arange(len(out))[:, None], support] += self.sparse[users]
        return out


class AlternatingSolver:
    """State of the alternation: U, the users' parameters, and their solvers.

    `rules`: penalties and sparsity, whose prior is replaced with `shrink`. `shrink`:
    whether `ridge_shared` shrinks to the mean weights, updated in each iteration.
    """

    def __init__(self, rows: UserRows, rules, *, shrink, solver="auto", n_jobs=None):
        self.rows, self.rules, self._shrink = rows, rules, shrink
        self._n_jobs = n_jobs
        self._shared_step = SharedStep(rows, solver, n_jobs)
        self._fresh = True
        rank = len(rules.prior)
        self.users = UserParameters.zeros(rows.n_users, rank, rules.sparsity)

    def start(self, init) -> np.ndarray:
        """Return the start of a name, or the given array."""
        if self.rules.fixed:
            return self.pooled_start()
        if not isinstance(init, str):
            return init
        return self.moment_start() if init == "moments" else self.spectral_start()

    def spectral_start(self) -> np.ndarray:
        """Return leading directions of users' correlations minus their sparse parts."""
        d, rank = self.rows.n_features, len(self.rules.prior)
        none = {"prior": np.zeros(0), "fixed": False}
        alone = replace(self.rules, ridge_shared=0.0, **none)

        def part(block):
            empty = np.zeros((len(block), 0, block.X.shape[1]))
            squares = self.rows.column_squares(block)
            fit = _kernels_users.thresholding_pursuit(
                block, empty, squares, alone, COLD_STEPS
            )
            s = (fit.residual[:, None] @ block.X)[:, 0]
            s /= np.maximum(block.counts, 1)[:, None]
            return s.T @ s

        total = sum(self.rows.map(part, self._n_jobs), np.zeros((d, d)))
        return np.linalg.eigh(total)[1][:, ::-1][:, :rank]

    def pooled_start(self) -> np.ndarray:
        """Return pooled least squares, for weights fixed at one."""
        d = self.rows.n_features

        def part(block):
            return (block.y[:, None] @ block.X)[:, 0].sum(axis=0)

        right = sum(self.rows.map(part, self._n_jobs), np.zeros(d))
        return self._shared_step(np.ones((self.rows.n_users, 1)), right[:, None])

    def moment_start(self) -> np.ndarray:
        """Return leading directions of sum y^2 x x' (method of moments)."""
        d, rank = self.rows.n_features, len(self.rules.prior)

        def part(block):
            rows = (block.X * block.y[:, :, None]).reshape(-1, d)
            return rows.T @ rows

        total = sum(self.rows.map(part, self._n_jobs), np.zeros((d, d)))
        return np.linalg.eigh(total)[1][:, ::-1][:, :rank]

    def fit(
        self, U: np.ndarray, max_iter: int, tol: float, progress: Callable
    ) -> tuple[np.ndarray, int, bool]:
        """Alternate until U converges; return U, n_iter and whether it converged.

        It stops if U moves by at most `tol`, after `max_iter` iterations, or if
        ``progress(iteration, move)`` is true.
        """
        move, iteration = np.inf, 0
        for iteration in range(1, max_iter + 1):
            gradient = self._local_steps(U)
            U, move = self._move(U, gradient)
            if self._shrink:
                mean = self.users.weights.mean(axis=0)
                self.rules = replace(self.rules, prior=mean)
            if iteration % _REPAIR_EVERY == 0 and self.rules.sparsity:
                self._repair(U)
            if progress(iteration, move) or move <= tol:
                break
        self.refit(U)
        return U, iteration, bool(move <= tol)

    def _local_steps(self, U: np.ndarray) -> np.ndarray:
        """Improve all users at U and return sum_i X_i' e_i w_i'."""
        users, rules, fresh = self.users, self.rules, self._fresh
        self._fresh = False

        def part(block: Block):
            own = block.own
            scores = _kernels_users.shared_scores(block, U)
            squares = self.rows.column_squares(block)
            if fresh:
                fit = _kernels_users.first_fit(block, scores, rules)
            else:
                allowed = rules.allowed(block.counts)
                support = users.support[own]
                fit = _kernels_users.least_squares(
                    block, scores, support, allowed, rules
                )
            if rules.sparsity:
                fit, users.step[own], _, gradient = _kernels_users.local_step(
                    block, scores, squares, fit, users.step[own], rules
                )
            else:
                gradient = _kernels_users.residual_gradients(block, fit.residual)
            users.write(own, fit)
            return gradient.T @ fit.weights

        return sum(self.rows.map(part, self._n_jobs))

    def _move(self, U: np.ndarray, gradient: np.ndarray):
        """Take the shared step; return the new U and how far it moved."""
        new = U + self._shared_step(self.users.weights, gradient)
        if self.rules.fixed:
            length = max(np.linalg.norm(new), np.finfo(float).tiny)
            return new, np.linalg.norm(new - U) / length
        new, R = positive_qr(new)
        self.users.weights[:] = self.users.weights @ R.T
        return new, float(np.linalg.norm(new - U @ (U.T @ new)))

    def _repair(self, U: np.ndarray) -> None:
        """Refit the users with the largest errors, and keep improvements."""
        worst = np.argsort(-self._relative_losses(), kind="stable")
        chosen = np.zeros(self.rows.n_users, dtype=bool)
        chosen[worst[: int(np.ceil(_REPAIR_SHARE * len(worst)))]] = True
        self._fit_anew(U, chosen, greedy=True)

    def _relative_losses(self) -> np.ndarray:
        totals = np.zeros(self.rows.n_users)

        def part(block):
            totals[block.users] = np.square(block.y).sum(axis=1)

        self.rows.map(part, self._n_jobs)
        return self.users.loss / np.maximum(totals, np.finfo(float).tiny)

    def refit(self, U: np.ndarray) -> None:
        """Refit all users from scratch at the final U, and keep improvements."""
        self._fit_anew(U, np.ones(self.rows.n_users, dtype=bool), greedy=False)

    def _fit_anew(self, U: np.ndarray, chosen: np.ndarray, *, greedy: bool) -> None:
        def part(block):
            if not chosen[block.users].all():
                block = block.take(np.flatnonzero(chosen[block.users]))
            if not len(block):
                return
            own, rules = block.own, self.rules
            scores = _kernels_users.shared_scores(block, U)
            squares = self.rows.column_squares(block)
            if greedy:
                fit = _kernels_users.matching_pursuit(block, scores, squares, rules)
                fit = _kernels_users.thresholding_pursuit(
                    block, scores, squares, rules, COLD_STEPS, fit
                )
            else:
                fit = _kernels_users.cold_fit(
                    block, scores, squares, rules, COLD_STEPS, COLD_STARTS
                )
            carried = _kernels_users.carried_fit(
                block,
                scores,
                self.users.weights[own],
                self.users.support[own],
                self.users.sparse[own],
                rules,
            )
            better = fit.loss < carried.loss
            self.users.write(own, fit.where(better, carried))
            self.users.step[own] = np.where(better, 1.0, self.users.step[own])

        self.rows.map(part, self._n_jobs)


def solve_users(rows: UserRows, U: np.ndarray, rules, n_jobs=None) -> UserParameters:
    """Fit every user beside given directions U, from that user's rows alone."""
    users = UserParameters.zeros(rows.n_users, U.shape[1], rules.sparsity)

    def part(block: Block):
        scores = _kernels_users.shared_scores(block, U)
        squares = rows.column_squares(block)
        users.write(
            block.own,
            _kernels_users.cold_fit(
                block, scores, squares, rules, COLD_STEPS, COLD_STARTS
            ),
        )

    rows.map(part, n_jobs)
    return users
