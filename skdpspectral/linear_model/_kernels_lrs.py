"""Low rank plus sparse regressions of many users, and the directions that they share.

User i has rows X_i (m x d), targets y_i, and a model y = X_i (U w_i + b_i) with U
(d x r) shared, w_i in R^r and b_i with at most k_i nonzeros. Functions of a
:class:`Block` work without a loop over users, and compute each user's numbers from that
user's rows and U alone, with the same bits in any block: only the kernels of
``per_user`` sum. `scores` are (XU)', of shape (n_users, rank, height), and G is X'X.

Given w_i and b_i, the loss is quadratic in U: its gradient is -sum_i X_i' e_i w_i' at
the residuals e_i, and its curvature sum_i (w_i w_i') (x) G_i.

Without privacy, the solver is the algorithm of Pal et al. (2023) with three changes:
supports by pursuit instead of thresholds with unknown constants, w rotated with U, and
new fits of the users with the largest errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .._linalg import per_user
from .._linalg.per_user import Block, GroupedRows

# Numbers of contributions, or of Gram matrices, that are in memory together.
_PART_NUMBERS = 1 << 18


@dataclass(frozen=True)
class LocalRules:
    """Limits and penalties of a user's fit, the same for all users."""

    sparsity: int  # largest number of nonzeros of b
    ridge_shared: float  # penalty of |w - prior|^2
    ridge_sparse: float  # penalty of |b|^2
    prior: np.ndarray  # (rank,): target of shrinking w or, with `fixed`, its value
    fixed: bool = False
    free: bool = False  # `sparsity` features, whatever the number of rows

    def allowed(self, counts: np.ndarray) -> np.ndarray:
        """Return the nonzeros supported by counts of rows: at most (m - r) / 2."""
        if self.free:
            return np.full(len(counts), self.sparsity)
        rank = 0 if self.fixed else len(self.prior)
        return np.clip((counts - rank) // 2, 0, self.sparsity)


class LocalFit(NamedTuple):
    """Parameters of the users of a block: arrays whose first axis is the user."""

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray  # b on `support`
    loss: np.ndarray  # the penalized squared error
    residual: np.ndarray  # y - X (U w + b)
    n_used: np.ndarray  # leading features of `support` that are used

    def take(self, chosen) -> LocalFit:
        """Return the parameters of some users."""
        return LocalFit(*(value[chosen] for value in self))

    def where(self, chosen: np.ndarray, other: LocalFit) -> LocalFit:
        """Return this fit for the chosen users, and `other` for the rest."""
        each = (chosen.reshape(-1, *(1,) * (value.ndim - 1)) for value in self)
        return LocalFit(*map(np.where, each, self, other))

    def put(self, chosen: np.ndarray, part: LocalFit) -> LocalFit:
        """Return this fit with the parameters of some users replaced."""
        whole = LocalFit(*map(np.copy, self))
        for value, new in zip(whole, part, strict=True):
            value[chosen] = new
        return whole


def used_features(support: np.ndarray, n_used: np.ndarray) -> np.ndarray:
    """Return the leading features of supports, ascending; -1 for unused places."""
    used = np.arange(support.shape[1]) < n_used[:, None]
    return np.sort(np.where(used, support, -1), axis=1)


def shared_scores(block: Block, U: np.ndarray) -> np.ndarray:
    """Return (X U)' of shape (n_users, rank, height)."""
    return per_user.products(U.T, block.X, transpose_right=True)


def least_squares(
    block: Block, scores: np.ndarray, support: np.ndarray, allowed, rules: LocalRules
) -> LocalFit:
    """Fit w and b on the leading `allowed` features of given supports."""
    # Gram matrices of many columns are larger than the rows: of a few users at a time.
    fits = [
        _least_squares(block.take(p), scores[p], support[p], allowed[p], rules)
        for p in slices_of(block, (scores.shape[1] + support.shape[1] + 1) ** 2)
    ]
    if len(fits) == 1:
        return fits[0]
    return LocalFit(*map(np.concatenate, zip(*fits, strict=True)))


def _least_squares(block, scores, support, allowed, rules: LocalRules) -> LocalFit:
    rank, sparsity = scores.shape[1], support.shape[1]
    used = np.arange(sparsity) < allowed[:, None]
    target, free = block.y, rank
    if rules.fixed:
        target, free = target - _combine(scores, rules.prior), 0
    shared = scores[:, :free]
    columns = chosen_columns(block, shared, support, used, target)
    # One product: the Gram matrix of the columns, and what they have of the target.
    gram = per_user.products(columns, columns, transpose_right=True)
    q = np.arange(gram.shape[1] - 1)
    A = per_user.users_last(gram[:, : len(q)])
    A, right = A[:, : len(q)], A[:, len(q) :]
    A[q[:free], q[:free]] += rules.ridge_shared
    A[q[free:], q[free:]] += rules.ridge_sparse
    right[:free] += (rules.ridge_shared * rules.prior[:free])[:, None, None]
    per_user.solve_in_place(A, right)
    # The coefficients of columns and target that give the residual.
    coefficients = per_user.empty_stack(len(gram), 1, len(q) + 1)
    np.negative(right[:, 0].T, out=coefficients[:, 0, : len(q)])
    coefficients[:, 0, len(q)] = 1.0
    residual = per_user.products(coefficients, columns)[:, 0]
    weights, sparse = -coefficients[:, 0, :free], -coefficients[:, 0, free:-1] * used
    if rules.fixed:
        weights = np.broadcast_to(rules.prior, (len(scores), rank)).copy()
    loss = _penalized(residual, weights, sparse, rules)
    return LocalFit(weights, support, sparse, loss, residual, allowed)


def chosen_columns(block, scores, support, used, *beside) -> np.ndarray:
    """Return scores, used features, and further rows: (n_users, q, height)."""
    rank, n_columns = scores.shape[1], scores.shape[1] + support.shape[1]
    height = n_columns + len(beside)
    out = per_user.empty_stack(len(scores), height, block.X.shape[1])
    out[:, :rank] = scores
    users = np.arange(len(scores))[:, None]
    features = block.X[users, :, support]
    np.multiply(features, used[:, :, None], out=out[:, rank:n_columns])
    for place, rows in enumerate(beside, n_columns):
        out[:, place] = rows
    return out


def _penalized(residual, weights, sparse, rules: LocalRules) -> np.ndarray:
    """Return the penalized squared error."""
    parts = residual, weights - rules.prior, sparse
    error, shared, own = (per_user.totals(np.square(part)) for part in parts)
    return error + (rules.ridge_shared * shared + rules.ridge_sparse * own)


def _combine(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return X U w, of shape (n_users, height)."""
    weights = np.broadcast_to(weights, (len(scores), scores.shape[1]))
    return per_user.products(weights[:, None, :], scores)[:, 0]


def carried_fit(block, scores, weights, support, sparse, rules) -> LocalFit:
    """Evaluate parameters from an earlier U at the current one."""
    users = np.arange(len(scores))[:, None]
    columns = block.X[users, :, support]
    residual = block.y - _combine(scores, weights)
    residual -= per_user.products(sparse[:, None, :], columns)[:, 0]
    loss = _penalized(residual, weights, sparse, rules)
    n_used = rules.allowed(block.counts)
    return LocalFit(weights, support, sparse, loss, residual, n_used)


def first_fit(block, scores, rules, n_used: int = 0) -> LocalFit:
    """Fit w, and b on the first `n_used` features."""
    support = np.tile(np.arange(rules.sparsity), (len(scores), 1))
    used = np.full(len(scores), n_used)
    return least_squares(block, scores, support, used, rules)


# Columns that keep less than this share of their square beside XU are not chosen.
_COLLINEAR = 1e-9


def residual_gradients(block: Block, residual: np.ndarray) -> np.ndarray:
    """Return X'e, (n_users, n_features), for residuals (n_users, height)."""
    return per_user.products(residual[:, None], block.X)[:, 0]


def gradient_and_squares(block, columns, residual):
    """Return X'e, and the square of each feature beside columns H of each user."""
    # diag(G) - diag(X'H (H'H)^-1 H'X), infinite for features in the span of H.
    given = [residual[:, None], per_user.orthonormal(columns)]
    both = per_user.products(per_user.joined(given), block.X)
    rest = block.squares.copy()
    for j in range(1, both.shape[1]):
        rest -= np.square(both[:, j])
    # NaN compares false.
    np.copyto(rest, np.inf, where=~(rest > _COLLINEAR * block.squares))
    return both[:, 0], rest


def _beside(scores: np.ndarray, rules: LocalRules) -> np.ndarray:
    """Return the columns that every support is combined with."""
    return scores[:, :0] if rules.fixed else scores


def pursue(block, scores, rules, n_steps, fit, step, rest=None):
    """Take steps of hard-thresholding pursuit; return fit, steps and gradients X'e."""
    # The support moves to the largest of sqrt(D) |b + step * X'e / D|, with D = `rest`
    # the square of each feature beside XU.
    if rest is None:
        columns = _beside(scores, rules)
        gradient, rest = gradient_and_squares(block, columns, fit.residual)
    else:
        gradient = residual_gradients(block, fit.residual)
    moving, step = np.arange(len(scores)), step.copy()
    current, now, own_step = fit, gradient, step
    for _ in range(n_steps):
        support, tried = _moves(block, now, rest, current, own_step, rules)
        if not len(tried):
            break
        moving, rest = moving[tried], rest[tried]
        block, scores = block.take(tried), per_user.take(scores, tried)
        current, own_step = current.take(tried), own_step[tried]
        allowed = rules.allowed(block.counts)
        new = least_squares(block, scores, support[tried], allowed, rules)
        better = new.loss < current.loss
        current = new.where(better, current)
        own_step = np.where(better, own_step, 0.5 * own_step)
        now = residual_gradients(block, current.residual)
        fit, step[moving], gradient[moving] = fit.put(moving, current), own_step, now
    return fit, step, gradient


def _moves(block, gradient, rest, fit, step, rules):
    """Return the supports after a step, and the users for whom they change."""
    moved = step[:, None] * gradient
    moved /= rest
    moved[np.arange(len(moved))[:, None], fit.support] += fit.sparse
    size = np.square(moved, out=moved)
    size *= rest
    # Infinite squares, and what overflows, are not worth it; NaN compares false.
    np.copyto(size, -1.0, where=~(size < np.inf))
    support = per_user.largest(size, rules.sparsity)
    features = used_features(support, rules.allowed(block.counts))
    before = used_features(fit.support, fit.n_used)
    return support, np.flatnonzero((features != before).any(axis=1))


def thresholding_pursuit(
    block, scores, rules, n_steps, start=None, rest=None
) -> LocalFit:
    """Run hard-thresholding pursuit (Foucart 2011) beside XU, from w or a fit."""
    if rules.free:  # there is nothing to pursue
        return first_fit(block, scores, rules, rules.sparsity)
    fit = first_fit(block, scores, rules) if start is None else start
    if not rules.sparsity:
        return fit
    ones = np.ones(len(scores))
    return pursue(block, scores, rules, n_steps, fit, ones, rest)[0]


def _put_feature(support: np.ndarray, position, feature) -> np.ndarray:
    """Write each user's feature at a position; the replaced one moves."""
    users = np.arange(len(support))
    old = support[users, position]
    support = np.where(support == feature[:, None], old[:, None], support)
    support[users, position] = feature
    return support


def _best_features(gradient, rest, fit, used, n_best) -> np.ndarray:
    """Return features that lower the loss most beside those used, best first."""
    gain = np.square(gradient)
    gain /= rest
    np.copyto(gain, -1.0, where=~np.isfinite(gain))
    users, columns_used = np.nonzero(used)
    gain[users, fit.support[users, columns_used]] = -2.0
    return per_user.largest(gain, n_best)


def _with_best(block, scores, fit, position, rules, n_before) -> np.ndarray:
    """Return supports with the best feature at a position, beside `n_before` others."""
    used = np.arange(n_before) < position[:, None]
    support = fit.support[:, :n_before]
    columns = chosen_columns(block, _beside(scores, rules), support, used)
    gradient, rest = gradient_and_squares(block, columns, fit.residual)
    best = _best_features(gradient, rest, fit, used, 1)[:, 0]
    return _put_feature(fit.support, position, best)


def _start(block, scores, rules, n_starts: int) -> tuple:
    """Return the fit of w alone, squares beside XU, and the best first features."""
    fit = first_fit(block, scores, rules)
    columns = _beside(scores, rules)
    gradient, rest = gradient_and_squares(block, columns, fit.residual)
    unused = np.zeros((len(scores), 0), dtype=bool)
    return fit, rest, _best_features(gradient, rest, fit, unused, n_starts)


def matching_pursuit(block, scores, rules, fit, first) -> LocalFit:
    """Run orthogonal least squares beside XU, from each user's `first` feature."""
    allowed = rules.allowed(block.counts)
    for j in range(rules.sparsity):
        position = np.full(len(scores), j)
        if j == 0:
            support = _put_feature(fit.support, position, first)
        else:
            support = _with_best(block, scores, fit, position, rules, j)
        fit = least_squares(block, scores, support, np.minimum(allowed, j + 1), rules)
    return fit


def exchange(block, scores, fit, rules) -> LocalFit:
    """Replace each feature of the support in turn, to leave local optima."""
    allowed = rules.allowed(block.counts)
    last, n_before = np.maximum(allowed - 1, 0), max(rules.sparsity - 1, 0)
    for j in range(rules.sparsity):
        support = _put_feature(fit.support, last, fit.support[:, j])
        fewer = least_squares(block, scores, support, last, rules)
        support = _with_best(block, scores, fewer, last, rules, n_before)
        new = least_squares(block, scores, support, allowed, rules)
        better = (new.loss < fit.loss) & (j < allowed)
        fit = new.where(better, fit)
    return fit


# Steps of hard-thresholding pursuit of a cold fit at most, and starts.
_COLD_STEPS, _COLD_STARTS = 15, 3


def cold_fit(block, scores, rules) -> LocalFit:
    """Fit users from scratch: the best of several pursuits, with exchanges."""
    given = block, scores, rules
    if rules.free or not rules.sparsity:
        return thresholding_pursuit(*given, _COLD_STEPS)
    alone, rest, features = _start(*given, min(_COLD_STARTS, block.X.shape[2]))
    best = thresholding_pursuit(*given, _COLD_STEPS, alone, rest)
    for first in features.T:
        fit = matching_pursuit(*given, alone, first)
        fit = thresholding_pursuit(*given, _COLD_STEPS, fit, rest)
        best = fit.where(fit.loss < best.loss, best)
    return exchange(block, scores, best, rules)


def _greedy_fit(block, scores, rules) -> LocalFit:
    """Run matching pursuit, and thresholding pursuit from its result."""
    given = block, scores, rules
    alone, _, features = _start(*given, 1)
    fit = matching_pursuit(*given, alone, features[:, 0])
    return thresholding_pursuit(*given, _COLD_STEPS, fit)


# Relative ridge of the curvature, for directions that no user's rows see.
_JITTER = 1e-12
# Conjugate-gradient steps of an outer iteration, which end early if so much of the
# gradient is left: with fewer, ill-conditioned fits need more iterations.
_CG_STEPS, _CG_ENOUGH = 4, 0.03
# Rows that the preconditioner is made from, and features that it is worth it for.
_MEAN_GRAM_ROWS = 1 << 17
_MEAN_GRAM_FEATURES = 2048


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
    rows, columns = np.triu_indices(weights.shape[1])
    out = per_user.empty_stack(len(weights), len(rows))
    np.multiply(weights[:, rows], weights[:, columns], out=out)
    out *= np.where(rows == columns, 1.0, np.sqrt(2.0))
    return out


def packed_grams(block: Block, factors=1.0, out=None) -> np.ndarray:
    """Packed X'X of each user, (n_users, d (d + 1) / 2), times factors (n_users, 1)."""
    # A copy: numpy mirrors the triangle of a product of a matrix with itself, entry by
    # entry, which takes longer than the other triangle.
    again = per_user.joined([block.X])
    grams = per_user.products(again, block.X, transpose_left=True)
    rows, columns = np.triu_indices(block.X.shape[2])
    factors = factors * np.where(rows == columns, 1.0, np.sqrt(2.0))
    return np.multiply(grams[:, rows, columns], factors, out=out)


def curvature_matrix(packed: np.ndarray, rank: int, n_features: int) -> np.ndarray:
    """Return the curvature, (r d, r d), of stacked columns of U from a packed one."""
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


def leading_directions(matrix: np.ndarray, rank: int) -> np.ndarray:
    """Return leading eigenvectors of a symmetric matrix, (d, r)."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :rank]


def user_moments(
    block: Block, scores: np.ndarray, fit: LocalFit, units=(1.0, 1.0)
) -> Iterator[np.ndarray]:
    """Yield packed (w w') (x) G/m and X'(y - X b) w'/m in units, a few users a time."""
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


def solve_moments(total: np.ndarray, rank: int, n_features: int, floor: float):
    """Return least-squares U, (n_features, rank), from sums of `user_moments`."""
    size = n_curvature(rank, n_features)
    packed = total[:size].reshape(n_packed(rank), -1)
    values, vectors = np.linalg.eigh(curvature_matrix(packed, rank, n_features))
    values = np.maximum(values, max(floor, np.finfo(float).tiny))
    solution = vectors @ ((vectors.T @ total[size:]) / values)
    return solution.reshape(rank, n_features).T


# Every so many iterations, this share of the users is fitted anew.
_REPAIR_EVERY, _REPAIR_SHARE = 10, 0.2


class AlternatingSolver:
    """Parameters of all users as in ``LocalFit``, their next steps, and their rules."""

    def __init__(self, rows: GroupedRows, rules, n_jobs=None):
        self.rows, self.rules = rows, rules
        self._n_jobs, self._factor, n_users = n_jobs, None, rows.n_users
        self.weights = np.zeros((n_users, len(rules.prior)))
        self.support = np.tile(np.arange(rules.sparsity), (n_users, 1))
        self.sparse = np.zeros((n_users, rules.sparsity))
        self.loss, self.step = np.full(n_users, np.inf), np.ones(n_users)

    def _write(self, users, fit: LocalFit) -> None:
        """Store the fit of a block."""
        self.weights[users], self.support[users] = fit.weights, fit.support
        self.sparse[users], self.loss[users] = fit.sparse, fit.loss

    def _sum(self, part: Callable, *shape: int) -> np.ndarray:
        """Return the sum over blocks of a function of a block."""
        return sum(self.rows.map(part, self._n_jobs), np.zeros(shape))

    # -- starts --------------------------------------------------------------------

    def start(self, init) -> np.ndarray:
        """Return the start of a name, or the given array."""
        d, rules = self.rows.n_features, self.rules

        def correlations(block: Block):
            return (block.y[:, None] @ block.X)[:, 0].sum(axis=0)

        def squares(block: Block):
            """Return sums of squared correlations beside sparse parts."""
            empty = np.zeros((len(block), 0, block.X.shape[1]))
            alone = replace(rules, ridge_shared=0.0, prior=np.zeros(0))
            fit = thresholding_pursuit(block, empty, alone, _COLD_STEPS)
            s = (fit.residual[:, None] @ block.X)[:, 0]
            s /= np.maximum(block.counts, 1)[:, None]
            return s.T @ s

        if rules.fixed:  # pooled least squares, for weights of one
            right = self._sum(correlations, d)
            return self.shared_step(np.ones((self.rows.n_users, 1)), right[:, None])
        if not isinstance(init, str):
            return init
        return leading_directions(self._sum(squares, d, d), len(rules.prior))

    # -- the alternation -----------------------------------------------------------

    def fit(self, U, max_iter: int, tol: float, progress: Callable) -> tuple:
        """Return U, the number of iterations, and whether U moved by at most `tol`."""
        move, iteration = np.inf, 0
        for iteration in range(1, max_iter + 1):
            gradient = self._local_steps(U, first=iteration == 1)
            U, move = self._move(U, gradient)
            if not self.rules.fixed:  # weights shrink to their mean
                mean = self.weights.mean(axis=0)
                self.rules = replace(self.rules, prior=mean)
            if iteration % _REPAIR_EVERY == 0 and self.rules.sparsity:
                self._repair(U)
            if progress(iteration, move) or move <= tol:
                break
        self.fit_anew(U)
        return U, iteration, bool(move <= tol)

    def _local_steps(self, U: np.ndarray, first: bool) -> np.ndarray:
        """Improve all users at U and return sum_i X_i' e_i w_i'."""
        rules = self.rules

        def part(block: Block):
            own, scores = block.users, shared_scores(block, U)
            support, allowed = self.support[own], rules.allowed(block.counts)
            allowed = 0 * allowed if first else allowed
            fit = least_squares(block, scores, support, allowed, rules)
            if rules.sparsity:
                given = block, scores, rules, 1, fit, self.step[own]
                fit, self.step[own], gradient = pursue(*given)
            else:
                gradient = residual_gradients(block, fit.residual)
            self._write(own, fit)
            return gradient.T @ fit.weights

        return self._sum(part, *U.shape)

    def _move(self, U: np.ndarray, gradient: np.ndarray):
        """Take the shared step; return the new U and how far it moved."""
        new = U + self.shared_step(self.weights, gradient)
        if self.rules.fixed:
            length = max(np.linalg.norm(new), np.finfo(float).tiny)
            return new, np.linalg.norm(new - U) / length
        new, R = positive_qr(new)
        self.weights[:] = self.weights @ R.T
        return new, float(np.linalg.norm(new - U @ (U.T @ new)))

    def shared_step(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the change of U towards least squares, given w and the gradient."""
        # Preconditioned by sum w w' (x) mean Gram: exact for w independent of features.
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
            own = weights[block.users]
            seen = block.X @ (own @ direction.T)[:, :, None]
            curved = block.X.transpose(0, 2, 1) @ seen
            return curved[:, :, 0].T @ own

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
        chosen = np.zeros(self.rows.n_users, dtype=bool)

        def part(block):
            totals[block.users] = np.square(block.y).sum(axis=1)

        self.rows.map(part, self._n_jobs)
        losses = self.loss / np.maximum(totals, np.finfo(float).tiny)
        worst = np.argsort(-losses, kind="stable")
        chosen[worst[: int(np.ceil(_REPAIR_SHARE * len(worst)))]] = True
        self.fit_anew(U, _greedy_fit, chosen)

    def fit_anew(self, U, fresh=cold_fit, chosen=None, known=True) -> None:
        """Fit some users, or all, from scratch; if they are `known`, keep the best."""
        rules = self.rules

        def part(block):
            if chosen is not None:
                block = block.take(np.flatnonzero(chosen[block.users]))
            if not len(block):
                return
            own, scores = block.users, shared_scores(block, U)
            fit = fresh(block, scores, rules)
            if known:
                carried = self.weights[own], self.support[own], self.sparse[own]
                carried = carried_fit(block, scores, *carried, rules)
                better = fit.loss < carried.loss
                fit = fit.where(better, carried)
                self.step[own] = np.where(better, 1.0, self.step[own])
            self._write(own, fit)

        self.rows.map(part, self._n_jobs)


def _finite(array: np.ndarray) -> np.ndarray:
    """Return an array of finite numbers, or raise LinAlgError."""
    if not np.isfinite(array).all():
        raise np.linalg.LinAlgError("numbers are out of the range of float64")
    return array
