"""One user's part of a low rank plus sparse regression, for many users at once.

User i has rows X_i (m x d), targets y_i, and a model y = X_i (U w_i + b_i) with U
(d x r) shared, w_i in R^r and b_i with at most k_i nonzeros. Supports of b_i are found
by greedy pursuits. Every function works on a :class:`Block`, without a loop over users,
and computes each user's numbers from that user's rows and U alone, with the same bits
in any block: only the kernels of ``per_user`` sum.

Common arguments: `block`; `scores`, which is (XU)' of shape (n_users, rank, height);
`squares`, which is diag(G) for G = X'X, of shape (n_users, n_features); and `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._linalg import per_user
from .._linalg.per_user import Block

# Numbers of the Gram matrices that are in memory together.
_GRAM_NUMBERS = 1 << 21


@dataclass(frozen=True)
class LocalRules:
    """Limits and penalties of a user's fit, the same for all users.

    `sparsity`: largest number k of nonzeros of b, at most d. `ridge_shared`,
    `ridge_sparse`: penalties of |w - prior|^2 and |b|^2. `prior` (rank,): target of
    shrinking w or, with `fixed`, its value. `free`: whether every user has `sparsity`
    features, whatever the number of rows.
    """

    sparsity: int
    ridge_shared: float
    ridge_sparse: float
    prior: np.ndarray
    fixed: bool = False
    free: bool = False

    def allowed(self, counts: np.ndarray) -> np.ndarray:
        """Return the nonzeros supported by counts of rows: at most (m - r) / 2."""
        if self.free:
            return np.full(len(counts), self.sparsity)
        rank = 0 if self.fixed else len(self.prior)
        return np.clip((counts - rank) // 2, 0, self.sparsity)


@dataclass(frozen=True)
class LocalFit:
    """Parameters of the users of a block: arrays whose first axis is the user.

    `support` has different features for each user, of which the leading `n_used` are
    used, and `sparse` is b on it. `loss` is the penalized squared error, and `residual`
    is y - X (U w + b).
    """

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    loss: np.ndarray
    residual: np.ndarray
    n_used: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """Features in use, ascending; -1 for unused places."""
        return used_features(self.support, self.n_used)

    @classmethod
    def appended(cls, fits: list[LocalFit]) -> LocalFit:
        """Concatenate the users of several fits."""
        names = vars(fits[0])
        return cls(
            **{name: np.concatenate([vars(f)[name] for f in fits]) for name in names}
        )

    def take(self, chosen) -> LocalFit:
        """Return the parameters of some users."""
        return LocalFit(**{name: value[chosen] for name, value in vars(self).items()})

    def where(self, chosen: np.ndarray, other: LocalFit) -> LocalFit:
        """Return this fit for the chosen users, and `other` for the rest."""
        picked = {}
        for name, value in vars(self).items():
            each = chosen.reshape(-1, *(1,) * (value.ndim - 1))
            picked[name] = np.where(each, value, getattr(other, name))
        return LocalFit(**picked)


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
    size = max(1, _GRAM_NUMBERS // (scores.shape[1] + support.shape[1] + 1) ** 2)
    if len(scores) <= size:
        return _least_squares(block, scores, support, allowed, rules)
    parts = [slice(start, start + size) for start in range(0, len(scores), size)]
    return LocalFit.appended(
        [
            _least_squares(block.take(p), scores[p], support[p], allowed[p], rules)
            for p in parts
        ]
    )


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
    error, shared, own = per_user.squares(residual, weights - rules.prior, sparse)
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


def gradient_and_squares(block, columns, residual, squares):
    """Return X'e, and the square of each feature beside columns H of each user.

    The squares are diag(G) - diag(X'H (H'H)^-1 H'X), infinite for features in the span
    of H.
    """
    given = [residual[:, None], per_user.orthonormal(columns)]
    both = per_user.products(per_user.joined(given), block.X)
    rest = squares.copy()
    for j in range(1, both.shape[1]):
        rest -= np.square(both[:, j])
    # NaN compares false.
    np.copyto(rest, np.inf, where=~(rest > _COLLINEAR * squares))
    return both[:, 0], rest


def _beside(scores: np.ndarray, rules: LocalRules) -> np.ndarray:
    """Return the columns that every support is combined with."""
    return scores[:, :0] if rules.fixed else scores


def local_step(block, scores, squares, fit, step, rules):
    """Take one step of hard-thresholding pursuit from a least-squares fit.

    The support moves to the largest of sqrt(D) |b + step * X'e / D|, with D the square
    of each feature beside XU, if that lowers the loss; otherwise the step is halved.
    Returns the fit, the next steps (n_users,), the users whose support was to move, and
    the gradient X'e, (n_users, n_features).
    """
    gradient, rest = gradient_and_squares(
        block, _beside(scores, rules), fit.residual, squares
    )
    support, tried = _moves(block, gradient, rest, fit, step, rules)
    if not len(tried):
        return fit, step, tried, gradient
    part, own = block.take(tried), per_user.take(scores, tried)
    given = (fit.take(tried), support[tried], step[tried])
    new, own_step = _stepped(part, own, *given, rules)
    step = step.copy()
    step[tried] = own_step
    gradient[tried] = residual_gradients(part, new.residual)
    return _put(fit, tried, new), step, tried, gradient


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
    return support, np.flatnonzero((features != fit.features).any(axis=1))


def _stepped(block, scores, fit, support, step, rules):
    """Take steps to supports that lower the loss; halve the others."""
    allowed = rules.allowed(block.counts)
    new = least_squares(block, scores, support, allowed, rules)
    better = new.loss < fit.loss
    return new.where(better, fit), np.where(better, step, 0.5 * step)


def _put(fit: LocalFit, chosen: np.ndarray, part: LocalFit) -> LocalFit:
    """Replace the parameters of some users."""
    values = {name: value.copy() for name, value in vars(fit).items()}
    for name, value in values.items():
        value[chosen] = getattr(part, name)
    return LocalFit(**values)


def thresholding_pursuit(
    block, scores, squares, rules, n_steps, start=None, rest=None
) -> LocalFit:
    """Run hard-thresholding pursuit (Foucart 2011) beside XU, from w or a fit.

    Users whose support has converged are skipped. `rest` is the result of
    :func:`gradient_and_squares` beside XU, if known.
    """
    if rules.free:  # there is nothing to pursue
        return first_fit(block, scores, rules, rules.sparsity)
    fit = first_fit(block, scores, rules) if start is None else start
    if not rules.sparsity:
        return fit
    if rest is None:
        columns = _beside(scores, rules)
        gradient, rest = gradient_and_squares(block, columns, fit.residual, squares)
    else:
        gradient = residual_gradients(block, fit.residual)
    current, moving, step = fit, np.arange(len(scores)), np.ones(len(scores))
    for _ in range(n_steps):
        support, tried = _moves(block, gradient, rest, current, step, rules)
        if not len(tried):
            break
        moving, rest = moving[tried], rest[tried]
        block, scores = block.take(tried), per_user.take(scores, tried)
        given = (current.take(tried), support[tried], step[tried])
        current, step = _stepped(block, scores, *given, rules)
        fit = _put(fit, moving, current)
        gradient = residual_gradients(block, current.residual)
    return fit


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


def _with_best(block, scores, squares, fit, position, rules, n_before) -> np.ndarray:
    """Return supports with the best feature at a position, beside `n_before` others."""
    used = np.arange(n_before) < position[:, None]
    support = fit.support[:, :n_before]
    columns = chosen_columns(block, _beside(scores, rules), support, used)
    gradient, rest = gradient_and_squares(block, columns, fit.residual, squares)
    best = _best_features(gradient, rest, fit, used, 1)[:, 0]
    return _put_feature(fit.support, position, best)


class _Start(NamedTuple):
    """The common start of a block's pursuits: the fit of w alone.

    `rest` are squares of the features beside XU, and `features`, (n_users, n_starts),
    the most promising first features, best first.
    """

    fit: LocalFit
    rest: np.ndarray
    features: np.ndarray


def _start(block, scores, squares, rules, n_starts: int) -> _Start:
    fit = first_fit(block, scores, rules)
    columns = _beside(scores, rules)
    gradient, rest = gradient_and_squares(block, columns, fit.residual, squares)
    unused = np.zeros((len(scores), 0), dtype=bool)
    features = _best_features(gradient, rest, fit, unused, n_starts)
    return _Start(fit, rest, features)


def matching_pursuit(
    block, scores, squares, rules, first: int = 0, start=None
) -> LocalFit:
    """Run orthogonal least squares beside XU, from the feature ranked `first`."""
    start = start or _start(block, scores, squares, rules, first + 1)
    fit, allowed = start.fit, rules.allowed(block.counts)
    for j in range(rules.sparsity):
        position = np.full(len(scores), j)
        if j == 0:
            support = _put_feature(fit.support, position, start.features[:, first])
        else:
            support = _with_best(block, scores, squares, fit, position, rules, j)
        fit = least_squares(block, scores, support, np.minimum(allowed, j + 1), rules)
    return fit


def exchange(block, scores, squares, fit, rules) -> LocalFit:
    """Replace each feature of the support in turn, to leave local optima."""
    allowed = rules.allowed(block.counts)
    last, n_before = np.maximum(allowed - 1, 0), max(rules.sparsity - 1, 0)
    for j in range(rules.sparsity):
        support = _put_feature(fit.support, last, fit.support[:, j])
        fewer = least_squares(block, scores, support, last, rules)
        support = _with_best(block, scores, squares, fewer, last, rules, n_before)
        new = least_squares(block, scores, support, allowed, rules)
        better = (new.loss < fit.loss) & (j < allowed)
        fit = new.where(better, fit)
    return fit


def cold_fit(block, scores, squares, rules, n_steps, n_starts=1) -> LocalFit:
    """Fit users from scratch: the best of several pursuits, with exchanges.

    Hard-thresholding pursuit starts from w alone, and from `n_starts` runs of
    orthogonal least squares.
    """
    if rules.free or not rules.sparsity:
        return thresholding_pursuit(block, scores, squares, rules, n_steps)
    n_starts = min(n_starts, block.X.shape[2])
    start = _start(block, scores, squares, rules, n_starts)
    given = (block, scores, squares, rules)
    best = thresholding_pursuit(*given, n_steps, start.fit, start.rest)
    for first in range(n_starts):
        fit = matching_pursuit(*given, first, start)
        fit = thresholding_pursuit(*given, n_steps, fit, start.rest)
        best = fit.where(fit.loss < best.loss, best)
    return exchange(block, scores, squares, best, rules)
