r"""One user's part of a low rank plus sparse regression, for many users at once.

User i has rows X_i (m x d), targets y_i, and a model y = X_i (U w_i + b_i) with U
(d x r) shared, w_i in R^r and b_i with at most k_i nonzeros. Every function here
works on a :class:`Block`, without a loop over users, and computes each user's numbers
from that user's rows and U alone, with the same bits in whatever block it stands:
only the kernels of ``per_user`` sum.

What they are given is alike: the `block`; `scores`, which is (XU)' of shape (n_users,
rank, height); `squares`, which is diag(G) for G = X'X, of shape (n_users, n_features);
and the `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import per_user
from .user_rows import Block

# Columns that keep less than this share of their square beside XU are not chosen.
_COLLINEAR = 1e-9


@dataclass(frozen=True)
class LocalRules:
    """What a user's fit is allowed and charged for, the same for all users.

    Parameters
    ----------
    sparsity : int
        Largest number k of nonzeros of b, at most d.
    ridge_shared, ridge_sparse : float
        Penalties of |w - prior|^2 and |b|^2.
    prior : ndarray of shape (rank,)
        What w is shrunk to; with `fixed`, what it is.
    fixed : bool, default=False
        Whether w is not fitted.
    free : bool, default=False
        Whether every user has all features, `sparsity` of them, whatever their rows.
    """

    sparsity: int
    ridge_shared: float
    ridge_sparse: float
    prior: np.ndarray
    fixed: bool = False
    free: bool = False

    def allowed(self, counts: np.ndarray) -> np.ndarray:
        """Nonzeros that each user's count of rows supports: (m - r) / 2 at most."""
        if self.free:
            return np.full(len(counts), self.sparsity)
        rank = 0 if self.fixed else len(self.prior)
        return np.clip((counts - rank) // 2, 0, self.sparsity)


@dataclass(frozen=True)
class LocalFit:
    """Parameters of the users of a block.

    Parameters
    ----------
    weights : ndarray of shape (n_users, rank)
        w.
    support : ndarray of shape (n_users, sparsity)
        Different features for each user.
    sparse : ndarray of shape (n_users, sparsity)
        b on the support; zero where a user is not allowed so many nonzeros.
    loss : ndarray of shape (n_users,)
        Penalized squared error.
    residual : ndarray of shape (n_users, height)
        y - X (U w + b).
    n_used : ndarray of shape (n_users,)
        How many features of the support are used, the leading ones.
    """

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    loss: np.ndarray
    residual: np.ndarray
    n_used: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """Features in use, in ascending order; -1 in the place of others."""
        return _features(self.support, self.n_used)

    def take(self, chosen) -> LocalFit:
        """Return the parameters of some users."""
        return LocalFit(**{name: value[chosen] for name, value in vars(self).items()})

    def where(self, chosen: np.ndarray, other: LocalFit) -> LocalFit:
        """Take this fit for the chosen users, and another for the rest."""
        pick = {
            name: np.where(
                chosen.reshape(-1, *(1,) * (value.ndim - 1)),
                value,
                getattr(other, name),
            )
            for name, value in vars(self).items()
        }
        return LocalFit(**pick)


def _features(support: np.ndarray, n_used: np.ndarray) -> np.ndarray:
    used = np.arange(support.shape[1]) < n_used[:, None]
    return np.sort(np.where(used, support, -1), axis=1)


def shared_scores(block: Block, U: np.ndarray) -> np.ndarray:
    """(X U)' of shape (n_users, rank, height)."""
    return per_user.products(U.T, block.X, transpose_right=True)


def least_squares(
    block: Block, scores: np.ndarray, support: np.ndarray, allowed, rules: LocalRules
) -> LocalFit:
    """Fit w and b on given supports.

    Parameters
    ----------
    block, scores, rules
        See above.
    support : ndarray of shape (n_users, sparsity)
        Features of b, the leading ``allowed`` of which are used.
    allowed : ndarray of shape (n_users,)
        Nonzeros of each user.

    Returns
    -------
    LocalFit
        The minimizers.
    """
    rank, sparsity = scores.shape[1], support.shape[1]
    used = np.arange(sparsity) < allowed[:, None]
    columns = _columns(block, scores, support, used, rules)
    target, free = block.y, rank
    if rules.fixed:
        target, free = target - _combine(scores, rules.prior), 0
    gram = per_user.products(columns, columns, transpose_right=True)
    right = per_user.products(columns, target[:, :, None])[:, :, 0]
    penalty = np.repeat((rules.ridge_shared, rules.ridge_sparse), (free, sparsity))
    q = np.arange(free + sparsity)
    gram[:, q, q] += penalty
    right[:, :free] += rules.ridge_shared * rules.prior[:free]
    solution = per_user.solve_each(gram, right[:, :, None])[:, :, 0]
    residual = target - per_user.products(solution[:, None, :], columns)[:, 0]
    weights, sparse = solution[:, :free], solution[:, free:] * used
    if rules.fixed:
        weights = np.broadcast_to(rules.prior, (len(scores), rank)).copy()
    error, shared, own = per_user.squares(residual, weights - rules.prior, sparse)
    loss = error + (rules.ridge_shared * shared + rules.ridge_sparse * own)
    return LocalFit(weights, support, sparse, loss, residual, allowed)


def _columns(block, scores, support, used, rules: LocalRules) -> np.ndarray:
    """XU, unless its weights are fixed, and the used features: (n_users, q, height)."""
    users = np.arange(len(scores))[:, None]
    columns = block.X[users, :, support] * used[:, :, None]
    parts = [columns] if rules.fixed else [scores, columns]
    return per_user.joined(parts)


def _combine(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X U w, of shape (n_users, height)."""
    weights = np.broadcast_to(weights, (len(scores), scores.shape[1]))
    return per_user.products(weights[:, None, :], scores)[:, 0]


def carried_fit(block, scores, weights, support, sparse, rules) -> LocalFit:
    """Evaluate parameters of an earlier U, as they are, at the current one."""
    users = np.arange(len(scores))[:, None]
    columns = block.X[users, :, support]
    residual = block.y - _combine(scores, weights)
    residual -= per_user.products(sparse[:, None, :], columns)[:, 0]
    error, shared, own = per_user.squares(residual, weights - rules.prior, sparse)
    loss = error + (rules.ridge_shared * shared + rules.ridge_sparse * own)
    n_used = rules.allowed(block.counts)
    return LocalFit(weights, support, sparse, loss, residual, n_used)


def gradient_and_squares(block, columns, residual, squares):
    """X'e, and the square of each feature beside some columns.

    Parameters
    ----------
    block : Block
        Rows.
    columns : ndarray of shape (n_users, q, height)
        What is projected out, transposed.
    residual : ndarray of shape (n_users, height)
        e.
    squares : ndarray of shape (n_users, n_features)
        See above.

    Returns
    -------
    gradient : ndarray of shape (n_users, n_features)
        X'e.
    rest : ndarray of shape (n_users, n_features)
        diag(G) - diag(X'H (H'H)^-1 H'X) for the columns H; infinite for features
        that they explain, so that those are never worth it.
    """
    both = per_user.products(per_user.joined([residual[:, None], columns]), block.X)
    gradient, rest = both[:, 0], squares
    if columns.shape[1]:
        cross = both[:, 1:]
        solved = per_user.products(per_user.inverse_grams(columns), cross)
        rest = squares - per_user.totals(solved * cross)
    return gradient, np.where(rest > _COLLINEAR * squares, rest, np.inf)


def local_step(block, scores, squares, fit, step, rules):
    """Take one step of hard-thresholding pursuit from a least-squares fit.

    The support moves to the largest of sqrt(D) |b + step * X'e / D|, with D the
    square of each feature beside XU; the step is taken where it lowers the loss.
    Elsewhere the support stays and the step is halved.

    Parameters
    ----------
    block, scores, squares, rules
        See above.
    fit : LocalFit
        What :func:`least_squares` gives on its support.
    step : ndarray of shape (n_users,)
        Length of each user's step.

    Returns
    -------
    fit : LocalFit
        No user's loss is larger than before.
    step : ndarray of shape (n_users,)
        Steps for the next time.
    tried : ndarray of int
        Users whose support was to move; the others are at rest.
    """
    support, tried = _moves(block, scores, squares, fit, step, rules)
    if not len(tried):
        return fit, step, tried
    part, own = block.take(tried), per_user.take(scores, tried)
    given = (fit.take(tried), support[tried], step[tried])
    new, own_step = _stepped(part, own, *given, rules)
    step = step.copy()
    step[tried] = own_step
    return _put(fit, tried, new), step, tried


def _moves(block, scores, squares, fit, step, rules):
    """Supports that a step leads to, and the users for whom they are other ones."""
    support = _next_support(block, scores, squares, fit, step, rules)
    features = _features(support, rules.allowed(block.counts))
    return support, np.flatnonzero((features != fit.features).any(axis=1))


def _stepped(block, scores, fit, support, step, rules):
    """Take steps to supports where they lower the loss; halve them elsewhere."""
    allowed = rules.allowed(block.counts)
    new = least_squares(block, scores, support, allowed, rules)
    better = new.loss < fit.loss
    return new.where(better, fit), np.where(better, step, 0.5 * step)


def _next_support(block, scores, squares, fit, step, rules) -> np.ndarray:
    beside = scores[:, :0] if rules.fixed else scores
    gradient, rest = gradient_and_squares(block, beside, fit.residual, squares)
    moved = step[:, None] * gradient / rest
    moved[np.arange(len(moved))[:, None], fit.support] += fit.sparse
    size = np.square(moved) * rest
    # Infinite squares, and what overflows, are not worth it; NaN compares false.
    return per_user.largest(np.where(size < np.inf, size, -1.0), rules.sparsity)


def _put(fit: LocalFit, chosen: np.ndarray, part: LocalFit) -> LocalFit:
    """Replace the parameters of some users."""
    values = {name: value.copy() for name, value in vars(fit).items()}
    for name, value in values.items():
        value[chosen] = getattr(part, name)
    return LocalFit(**values)


def first_fit(block, scores, rules, n_used: int = 0) -> LocalFit:
    """Fit w, and b on so many leading features."""
    support = np.tile(np.arange(rules.sparsity), (len(scores), 1))
    used = np.full(len(scores), n_used)
    return least_squares(block, scores, support, used, rules)


def thresholding_pursuit(block, scores, squares, rules, n_steps, start=None):
    """Hard-thresholding pursuit (Foucart 2011) beside XU, from w alone or a fit.

    Users whose support is at rest are left alone: further steps would not move them.
    """
    if rules.free:  # there is nothing to pursue
        return first_fit(block, scores, rules, rules.sparsity)
    fit = first_fit(block, scores, rules) if start is None else start
    current, moving, step = fit, np.arange(len(scores)), np.ones(len(scores))
    for _ in range(n_steps if rules.sparsity else 0):
        support, tried = _moves(block, scores, squares, current, step, rules)
        if not len(tried):
            break
        moving, squares = moving[tried], squares[tried]
        block, scores = block.take(tried), per_user.take(scores, tried)
        given = (current.take(tried), support[tried], step[tried])
        current, step = _stepped(block, scores, *given, rules)
        fit = _put(fit, moving, current)
    return fit


def _put_feature(support: np.ndarray, position, feature) -> np.ndarray:
    """Write each user's feature at a position; what it takes the place of moves."""
    users = np.arange(len(support))
    old = support[users, position]
    support = np.where(support == feature[:, None], old[:, None], support)
    support[users, position] = feature
    return support


def _with_best(block, scores, squares, fit, position, rules, rank=0) -> np.ndarray:
    """Supports with the feature that lowers the loss most at a position.

    What stands before the position is kept; `fit` is the fit on that. With `rank`,
    the feature that is so many places behind the best.
    """
    used = np.arange(rules.sparsity) < position[:, None]
    columns = _columns(block, scores, fit.support, used, rules)
    gradient, rest = gradient_and_squares(block, columns, fit.residual, squares)
    gain = np.square(gradient) / rest
    gain = np.where(np.isfinite(gain), gain, -1.0)
    users, columns_used = np.nonzero(used)
    gain[users, fit.support[users, columns_used]] = -2.0
    best = per_user.largest(gain, rank + 1)[:, rank]
    return _put_feature(fit.support, position, best)


def matching_pursuit(block, scores, squares, rules, first=0) -> LocalFit:
    """Orthogonal least squares beside XU: the best feature, then the next best.

    With `first`, it starts from the feature that is so many places behind the best.
    """
    fit = first_fit(block, scores, rules)
    allowed = rules.allowed(block.counts)
    for j in range(rules.sparsity):
        position = np.full(len(scores), j)
        rank = first if j == 0 else 0
        support = _with_best(block, scores, squares, fit, position, rules, rank)
        fit = least_squares(block, scores, support, np.minimum(allowed, j + 1), rules)
    return fit


def exchange(block, scores, squares, fit, rules) -> LocalFit:
    """Take each feature of the support out in turn, and put the best one in.

    Finds its way out of supports that no step of the pursuits improves.
    """
    allowed = rules.allowed(block.counts)
    last = np.maximum(allowed - 1, 0)
    for j in range(rules.sparsity):
        support = _put_feature(fit.support, last, fit.support[:, j])
        fewer = least_squares(block, scores, support, last, rules)
        support = _with_best(block, scores, squares, fewer, last, rules)
        new = least_squares(block, scores, support, allowed, rules)
        better = (new.loss < fit.loss) & (j < allowed)
        fit = new.where(better, fit)
    return fit


def cold_fit(block, scores, squares, rules, n_steps, n_starts=1) -> LocalFit:
    """Fit users from nothing: the best of several pursuits, with exchanges.

    Parameters
    ----------
    block, scores, squares, rules
        See above.
    n_steps : int
        Steps of hard-thresholding pursuit, from w alone and again from each start.
    n_starts : int, default=1
        Runs of orthogonal least squares, from the most promising first features.

    Returns
    -------
    LocalFit
        What has the smallest loss for each user.
    """
    best = thresholding_pursuit(block, scores, squares, rules, n_steps)
    if rules.free or not rules.sparsity:
        return best
    for first in range(min(n_starts, block.X.shape[2])):
        fit = matching_pursuit(block, scores, squares, rules, first)
        fit = thresholding_pursuit(block, scores, squares, rules, n_steps, fit)
        best = fit.where(fit.loss < best.loss, best)
    return exchange(block, scores, squares, best, rules)
