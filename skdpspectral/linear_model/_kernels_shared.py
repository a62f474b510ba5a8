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

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from .._linalg import per_user
from .._linalg.per_user import Block, UserRows
from . import _kernels_users

# Relative ridge of the curvature, for directions that no user's rows see.
_JITTER = 1e-12
# Conjugate-gradient steps of an outer iteration, which end early if so much of the
# gradient is left: with fewer, ill-conditioned fits need more iterations.
_CG_STEPS, _CG_ENOUGH = 4, 0.03
# Rows that the preconditioner is made from, and features that it is worth it for.
_MEAN_GRAM_ROWS = 1 << 17
_MEAN_GRAM_FEATURES = 2048
# Numbers that stay in the cache between two products.
_CACHED_NUMBERS = 1 << 16


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
    size = weights.shape[1]
    out = per_user.empty_stack(len(weights), n_packed(size))
    for row, place in enumerate(_packed_rows(size)):
        np.multiply(weights[:, row:], weights[:, row, None], out=out[:, place])
        out[:, place.start + 1 : place.stop] *= np.sqrt(2.0)
    return out


def _packed_rows(size: int) -> list[slice]:
    """Return the places of the rows of a packed upper triangle."""
    starts = np.cumsum([0, *range(size, 0, -1)])
    return list(itertools.starmap(slice, itertools.pairwise(starts)))


def packed_grams(block: Block, factors=1.0, out=None) -> np.ndarray:
    """Packed X'X of each user, (n_users, d (d + 1) / 2), times factors (n_users, 1)."""
    d = block.X.shape[2]
    out = np.empty((len(block), n_packed(d))) if out is None else out
    # A copy: numpy mirrors the triangle of a product of a matrix with itself, entry by
    # entry, which takes longer than the other triangle.
    again = per_user.joined([block.X])
    grams = per_user.products(again, block.X, transpose_left=True)
    beside = factors * np.sqrt(2.0)
    places = _packed_rows(d)
    for row, place in enumerate(places):
        np.multiply(grams[:, row, row:], beside, out=out[:, place])
    diagonal = np.diagonal(grams, axis1=1, axis2=2)
    out[:, [place.start for place in places]] = diagonal * factors
    return out


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


def positive_qr(U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the QR decomposition with a nonnegative diagonal of R."""
    Q, R = np.linalg.qr(U)
    signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
    return Q * signs, R * signs[:, None]


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
    """Packed s s' of each user's correlations s = X'y, of unit norm or zero."""
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
        packed_grams(block, outer, curvature[:, 0])
    else:
        grams = packed_grams(block)
        np.multiply(outer[:, :, None], grams[:, None, :], out=curvature)
    gradient = out[:, n_first:].reshape(n_users, rank, d)
    np.multiply((weights / (counts * units[1]))[:, :, None], right, out=gradient)
    return out


def row_norms(vectors: np.ndarray) -> np.ndarray:
    """Return the norm of each row; infinity on overflow."""
    norms = per_user.norms(vectors)
    return np.where(np.isnan(norms), np.inf, norms)


def solve_moments(total: np.ndarray, rank: int, n_features: int, floor: float):
    """Return least-squares U, (n_features, rank), from a sum of :func:`user_moments`.

    `floor` is the least eigenvalue of the curvature.
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
    """Parameters of all users as in ``LocalFit``, and their next steps of pursuit."""

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


class AlternatingSolver:
    """State of the alternation: U, the users' parameters, and the rules of their fits.

    With `shrink`, the prior of `rules` is the mean of the weights, updated in each
    iteration.
    """

    def __init__(self, rows: UserRows, rules, *, shrink, n_jobs=None):
        self.rows, self.rules, self._shrink = rows, rules, shrink
        self._n_jobs, self._factor = n_jobs, None
        rank = len(rules.prior)
        self.users = UserParameters.zeros(rows.n_users, rank, rules.sparsity)

    def _sum(self, part: Callable, *shape: int) -> np.ndarray:
        """Return the sum over blocks of a function of a block."""
        return sum(self.rows.map(part, self._n_jobs), np.zeros(shape))

    # -- starts --------------------------------------------------------------------

    def start(self, init) -> np.ndarray:
        """Return the start of a name, or the given array."""
        d = self.rows.n_features
        if self.rules.fixed:  # pooled least squares, for weights of one
            right = self._sum(_correlations, d)
            return self.shared_step(np.ones((self.rows.n_users, 1)), right[:, None])
        if not isinstance(init, str):
            return init
        total = self._sum(self._residual_correlations, d, d)
        return np.linalg.eigh(total)[1][:, ::-1][:, : len(self.rules.prior)]

    def _residual_correlations(self, block: Block) -> np.ndarray:
        """Return the sum of s s' for users' correlations beside their sparse parts."""
        none = {"prior": np.zeros(0), "fixed": False}
        alone = replace(self.rules, ridge_shared=0.0, **none)
        empty = np.zeros((len(block), 0, block.X.shape[1]))
        squares = self.rows.column_squares(block)
        fit = _kernels_users.thresholding_pursuit(
            block, empty, squares, alone, COLD_STEPS
        )
        s = (fit.residual[:, None] @ block.X)[:, 0]
        s /= np.maximum(block.counts, 1)[:, None]
        return s.T @ s

    # -- the alternation -----------------------------------------------------------

    def fit(
        self, U: np.ndarray, max_iter: int, tol: float, progress: Callable
    ) -> tuple[np.ndarray, int, bool]:
        """Alternate until U converges; return U, n_iter and whether it converged.

        It stops if U moves by at most `tol`, after `max_iter` iterations, or if
        ``progress(iteration, move)`` is true.
        """
        move, iteration = np.inf, 0
        for iteration in range(1, max_iter + 1):
            gradient = self._local_steps(U, first=iteration == 1)
            U, move = self._move(U, gradient)
            if self._shrink:
                mean = self.users.weights.mean(axis=0)
                self.rules = replace(self.rules, prior=mean)
            if iteration % _REPAIR_EVERY == 0 and self.rules.sparsity:
                self._repair(U)
            if progress(iteration, move) or move <= tol:
                break
        # All users from scratch at the final U.
        everybody = np.ones(self.rows.n_users, dtype=bool)
        self._fit_anew(U, everybody, _kernels_users.cold_fit, COLD_STARTS)
        return U, iteration, bool(move <= tol)

    def _local_steps(self, U: np.ndarray, first: bool) -> np.ndarray:
        """Improve all users at U and return sum_i X_i' e_i w_i'."""
        users, rules = self.users, self.rules

        def part(block: Block):
            own = block.own
            scores = _kernels_users.shared_scores(block, U)
            support, allowed = users.support[own], rules.allowed(block.counts)
            allowed = 0 * allowed if first else allowed
            fit = _kernels_users.least_squares(block, scores, support, allowed, rules)
            if rules.sparsity:
                squares = self.rows.column_squares(block)
                fit, users.step[own], _, gradient = _kernels_users.local_step(
                    block, scores, squares, fit, users.step[own], rules
                )
            else:
                gradient = _kernels_users.residual_gradients(block, fit.residual)
            users.write(own, fit)
            return gradient.T @ fit.weights

        return self._sum(part, *U.shape)

    def _move(self, U: np.ndarray, gradient: np.ndarray):
        """Take the shared step; return the new U and how far it moved."""
        new = U + self.shared_step(self.users.weights, gradient)
        if self.rules.fixed:
            length = max(np.linalg.norm(new), np.finfo(float).tiny)
            return new, np.linalg.norm(new - U) / length
        new, R = positive_qr(new)
        self.users.weights[:] = self.users.weights @ R.T
        return new, float(np.linalg.norm(new - U @ (U.T @ new)))

    def shared_step(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the change of U, (n_features, rank), towards least squares.

        `weights`, (n_users, rank), are w, and `gradient` is sum_i X_i' e_i w_i' at U.
        Conjugate gradients from zero are preconditioned by sum w w' (x) the mean Gram,
        which is exact if weights are independent of features.
        """
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

    def _curvature_times(self, weights: np.ndarray, direction: np.ndarray):
        """Return sum_i G_i D w_i w_i' for a direction D of the shape of U."""

        def part(block):
            own = weights[block.own]
            moved = (own @ direction.T)[:, :, None]
            curved = np.empty((len(own), block.X.shape[2]))
            # A few users at a time: their rows are still in the cache when read again.
            size = max(1, _CACHED_NUMBERS // max(1, block.X[0].size))
            for start in range(0, len(block), size):
                some = slice(start, start + size)
                seen = block.X[some] @ moved[some]
                transposed = block.X[some].transpose(0, 2, 1)
                np.matmul(transposed, seen, out=curved[some, :, None])
            return curved.T @ own

        return self._sum(part, *direction.shape)

    def _precondition(self, right: np.ndarray) -> np.ndarray:
        if self.rows.n_features > _MEAN_GRAM_FEATURES:
            return right
        if self._factor is None:  # of the regularized Gram matrix of some rows
            d, n_rows = self.rows.n_features, 0
            total = np.zeros((d, d))
            for block in self.rows.blocks():
                rows = block.X.reshape(-1, d)
                total += rows.T @ rows
                n_rows += len(rows)
                if n_rows >= _MEAN_GRAM_ROWS:
                    break
            ridge = max(1e-3 * float(np.trace(total)) / d, np.finfo(float).tiny)
            self._factor = linalg.cho_factor(_finite(total + ridge * np.eye(d)))
        return linalg.cho_solve(self._factor, _finite(right))

    # -- users from scratch --------------------------------------------------------

    def _repair(self, U: np.ndarray) -> None:
        """Refit the users with the largest errors, and keep improvements."""
        totals = np.zeros(self.rows.n_users)

        def part(block):
            totals[block.users] = np.square(block.y).sum(axis=1)

        self.rows.map(part, self._n_jobs)
        losses = self.users.loss / np.maximum(totals, np.finfo(float).tiny)
        worst = np.argsort(-losses, kind="stable")
        chosen = np.zeros(self.rows.n_users, dtype=bool)
        chosen[worst[: int(np.ceil(_REPAIR_SHARE * len(worst)))]] = True
        self._fit_anew(U, chosen, _greedy_fit)

    def _fit_anew(self, U: np.ndarray, chosen: np.ndarray, fresh: Callable, *how):
        """Fit some users from scratch, and keep improvements."""
        users, rules = self.users, self.rules

        def part(block):
            if not chosen[block.users].all():
                block = block.take(np.flatnonzero(chosen[block.users]))
            if not len(block):
                return
            own = block.own
            scores = _kernels_users.shared_scores(block, U)
            squares = self.rows.column_squares(block)
            fit = fresh(block, scores, squares, rules, COLD_STEPS, *how)
            carried = users.weights[own], users.support[own], users.sparse[own]
            carried = _kernels_users.carried_fit(block, scores, *carried, rules)
            better = fit.loss < carried.loss
            users.write(own, fit.where(better, carried))
            users.step[own] = np.where(better, 1.0, users.step[own])

        self.rows.map(part, self._n_jobs)


def _finite(array: np.ndarray) -> np.ndarray:
    """Return an array of finite numbers, or raise LinAlgError."""
    if not np.isfinite(array).all():
        raise np.linalg.LinAlgError("numbers are out of the range of float64")
    return array


def _correlations(block: Block) -> np.ndarray:
    return (block.y[:, None] @ block.X)[:, 0].sum(axis=0)


def _greedy_fit(block, scores, squares, rules, n_steps) -> _kernels_users.LocalFit:
    """Run matching pursuit, and thresholding pursuit from its result."""
    fit = _kernels_users.matching_pursuit(block, scores, squares, rules)
    return _kernels_users.thresholding_pursuit(
        block, scores, squares, rules, n_steps, fit
    )


def solve_users(rows: UserRows, U: np.ndarray, rules, n_jobs=None) -> UserParameters:
    """Fit every user beside given directions U, from that user's rows alone."""
    users = UserParameters.zeros(rows.n_users, U.shape[1], rules.sparsity)

    def part(block: Block):
        scores = _kernels_users.shared_scores(block, U)
        squares = rows.column_squares(block)
        how = COLD_STEPS, COLD_STARTS
        fit = _kernels_users.cold_fit(block, scores, squares, rules, *how)
        users.write(block.own, fit)

    rows.map(part, n_jobs)
    return users
