r"""Supports of users' sparse parts, by greedy pursuits, for many users at once.

Like the fits of ``local``, which they are made of, pursuits compute each user's numbers
from that user's rows and U alone, with the same bits in whatever block it stands. The
parameters `block`, `scores`, `squares` and `rules` are those of that module.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import per_user
from .local import (
    LocalFit,
    LocalRules,
    chosen_columns,
    first_fit,
    least_squares,
    used_features,
)
from .user_rows import Block

# Columns that keep less than this share of their square beside XU are not chosen.
_COLLINEAR = 1e-9


def gradients(block: Block, residual: np.ndarray) -> np.ndarray:
    """X'e at residuals e of shape (n_users, height): (n_users, n_features)."""
    return per_user.products(residual[:, None], block.X)[:, 0]


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
    given = [residual[:, None], per_user.orthonormal(columns)]
    both = per_user.products(per_user.joined(given), block.X)
    rest = squares.copy()
    for j in range(1, both.shape[1]):
        rest -= np.square(both[:, j])
    # NaN compares false.
    np.copyto(rest, np.inf, where=~(rest > _COLLINEAR * squares))
    return both[:, 0], rest


def _beside(scores: np.ndarray, rules: LocalRules) -> np.ndarray:
    """Columns that every support stands beside."""
    return scores[:, :0] if rules.fixed else scores


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
    gradient : ndarray of shape (n_users, n_features)
        X'e at the residuals e of that fit.
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
    gradient[tried] = gradients(part, new.residual)
    return _put(fit, tried, new), step, tried, gradient


def _moves(block, gradient, rest, fit, step, rules):
    """Supports that a step leads to, and the users for whom they are other ones."""
    support = _next_support(gradient, rest, fit, step, rules)
    features = used_features(support, rules.allowed(block.counts))
    return support, np.flatnonzero((features != fit.features).any(axis=1))


def _stepped(block, scores, fit, support, step, rules):
    """Take steps to supports where they lower the loss; halve them elsewhere."""
    allowed = rules.allowed(block.counts)
    new = least_squares(block, scores, support, allowed, rules)
    better = new.loss < fit.loss
    return new.where(better, fit), np.where(better, step, 0.5 * step)


def _next_support(gradient, rest, fit, step, rules) -> np.ndarray:
    moved = step[:, None] * gradient
    moved /= rest
    moved[np.arange(len(moved))[:, None], fit.support] += fit.sparse
    size = np.square(moved, out=moved)
    size *= rest
    # Infinite squares, and what overflows, are not worth it; NaN compares false.
    np.copyto(size, -1.0, where=~(size < np.inf))
    return per_user.largest(size, rules.sparsity)


def _put(fit: LocalFit, chosen: np.ndarray, part: LocalFit) -> LocalFit:
    """Replace the parameters of some users."""
    values = {name: value.copy() for name, value in vars(fit).items()}
    for name, value in values.items():
        value[chosen] = getattr(part, name)
    return LocalFit(**values)


def thresholding_pursuit(
    block, scores, squares, rules, n_steps, start=None, rest=None
) -> LocalFit:
    """Hard-thresholding pursuit (Foucart 2011) beside XU, from w alone or a fit.

    Users whose support is at rest are left alone: further steps would not move them.
    `rest` is what :func:`gradient_and_squares` gives beside XU, where it is known.
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
        gradient = gradients(block, fit.residual)
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
        gradient = gradients(block, current.residual)
    return fit


def _put_feature(support: np.ndarray, position, feature) -> np.ndarray:
    """Write each user's feature at a position; what it takes the place of moves."""
    users = np.arange(len(support))
    old = support[users, position]
    support = np.where(support == feature[:, None], old[:, None], support)
    support[users, position] = feature
    return support


def _best_features(gradient, rest, fit, used, n_best) -> np.ndarray:
    """Features that lower the loss most beside those used, the best one first."""
    gain = np.square(gradient)
    gain /= rest
    np.copyto(gain, -1.0, where=~np.isfinite(gain))
    users, columns_used = np.nonzero(used)
    gain[users, fit.support[users, columns_used]] = -2.0
    return per_user.largest(gain, n_best)


def _with_best(block, scores, squares, fit, position, rules, n_before) -> np.ndarray:
    """Supports with the feature that lowers the loss most at a position.

    What stands before the position, at most `n_before` features, is kept; `fit` is the
    fit on that.
    """
    used = np.arange(n_before) < position[:, None]
    support = fit.support[:, :n_before]
    columns = chosen_columns(block, _beside(scores, rules), support, used)
    gradient, rest = gradient_and_squares(block, columns, fit.residual, squares)
    best = _best_features(gradient, rest, fit, used, 1)[:, 0]
    return _put_feature(fit.support, position, best)


@dataclass(frozen=True)
class _Start:
    """What pursuits of a block begin with: the fit of w alone, and what that leaves.

    Parameters
    ----------
    fit : LocalFit
        Of w alone.
    rest : ndarray of shape (n_users, n_features)
        Squares of the features beside XU.
    features : ndarray of shape (n_users, n_starts)
        The most promising first features, the best one first.
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
    """Orthogonal least squares beside XU: the best feature, then the next best.

    With `first`, it starts from the feature that is so many places behind the best.
    `start` is what all pursuits of the block begin with, where it is known.
    """
    if start is None:
        start = _start(block, scores, squares, rules, first + 1)
    fit, best = start.fit, start.features[:, first]
    allowed = rules.allowed(block.counts)
    for j in range(rules.sparsity):
        position = np.full(len(scores), j)
        if j == 0:
            support = _put_feature(fit.support, position, best)
        else:
            support = _with_best(block, scores, squares, fit, position, rules, j)
        fit = least_squares(block, scores, support, np.minimum(allowed, j + 1), rules)
    return fit


def exchange(block, scores, squares, fit, rules) -> LocalFit:
    """Take each feature of the support out in turn, and put the best one in.

    Finds its way out of supports that no step of the pursuits improves.
    """
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
