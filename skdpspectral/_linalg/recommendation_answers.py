"""What a user answers about their ratings: vectors of norm at most 1, in whole steps.

Every function makes one vector a user, of that user's own ratings and public numbers
alone, and returns the sum over the users of a block: whole numbers, which add up
without any rounding, in any order.
"""

from __future__ import annotations

import numpy as np

from .recommendation_rows import RatingsBlock

# Entries are held in steps of 2**-21, rounded towards zero: sums over at most 2**31
# users, of entries of modulus at most 1, are exact in float64.
STEP = 2.0**-21
# Residuals count up to this many units, of which the range of ratings has four.
LARGEST = 3.0
# A user's mean is drawn to the middle of the range as by so many ratings there.
_PRIOR_RATINGS = 3.0
# Each number about a user as a whole is answered at this scale, exact in steps.
SIDE = 0.125
# What is left to the ratings, beside three such numbers, one, and none: the squares
# add up to less than 1 by more than rounding can put on top.
SHARE_BESIDE_THREE = 0.976
SHARE_BESIDE_ONE = 0.992
SHARE_ALONE = 1.0 - 2.0**-20
# Lengths below this are taken for it. Residuals so small as to have a square that
# underflows then come to nothing, whatever stands beside them.
_SHORTEST = 2.0**-100
# Largest ratio of a user's weights in two rounds that is told.
LARGEST_RATIO = 4.0


def _steps(values: np.ndarray) -> np.ndarray:
    return np.trunc(values / STEP)


def clipped(values: np.ndarray) -> np.ndarray:
    """Residuals within the largest that counts."""
    return np.clip(values, -LARGEST, LARGEST)


def from_own_mean(block: RatingsBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return users' shrunk means, and ratings measured from them, clipped."""
    means = block.totals(block.values) / (block.counts + _PRIOR_RATINGS)
    return means, clipped(block.values - means[block.of_user])


def first_weights(block: RatingsBlock, centered: np.ndarray) -> np.ndarray:
    """Weight of a user such that one and residual, over their items, have norm 1."""
    squares = block.counts + block.totals(centered * centered)
    return SHARE_BESIDE_THREE / np.sqrt(np.maximum(squares, 1.0))


def centered_answers(block: RatingsBlock) -> np.ndarray:
    """Sum users' weights, weighted residuals, and three numbers about each user.

    The vector of a user with weight s and residuals e is (s, s e) over the items that
    they rated, and 1, the mean square of the residuals over one plus itself, and the
    shrunk mean clipped to +-1, times ``SIDE``; zero for a user without ratings.

    Parameters
    ----------
    block : RatingsBlock
        Users and ratings, in units of a quarter of the range, from its middle.

    Returns
    -------
    ndarray of shape (2 * n_items + 3,)
        Whole numbers of steps.
    """
    means, centered = from_own_mean(block)
    weights = first_weights(block, centered)
    some = block.counts > 0
    squares = block.totals(centered * centered)
    spread = squares / np.maximum(block.counts + squares, 1.0)
    level = np.clip(means, -1.0, 1.0)
    sides = [_steps(SIDE * side[some]).sum() for side in (some, spread, level)]
    own = weights[block.of_user]
    return np.concatenate(
        [
            block.item_totals(_steps(own)),
            block.item_totals(_steps(own * centered)),
            sides,
        ]
    )


def click_answers(block: RatingsBlock) -> np.ndarray:
    """Sum users' vectors of equal entries over their items, and a number of users.

    Parameters
    ----------
    block : RatingsBlock
        Users and items; values are not used.

    Returns
    -------
    ndarray of shape (n_items + 1,)
        Whole numbers of steps. The last entry is the number of users with any item,
        times ``SIDE``.
    """
    weights = SHARE_BESIDE_ONE / np.sqrt(np.maximum(block.counts, 1.0))
    n_users = np.count_nonzero(block.counts)
    answers = block.item_totals(_steps(weights[block.of_user]))
    return np.append(answers, _steps(np.float64(SIDE)) * n_users)


def residual_answers(block: RatingsBlock, residuals: np.ndarray) -> np.ndarray:
    """Sum users' residuals, scaled to a common norm, and what one of theirs weighs.

    Parameters
    ----------
    block : RatingsBlock
        Users and ratings.
    residuals : ndarray of shape (n_ratings,)
        What is left of each rating, clipped.

    Returns
    -------
    ndarray of shape (n_items + 1,)
        Whole numbers of steps. The last entry is the sum of the quotients of a user's
        weight here and in :func:`centered_answers`, over ``LARGEST_RATIO``, clipped
        to 1, times ``SIDE``.
    """
    weights = SHARE_BESIDE_ONE / _lengths(block, residuals)
    before = first_weights(block, from_own_mean(block)[1])
    some = block.counts > 0
    ratios = np.minimum(weights / before / LARGEST_RATIO, 1.0)[some]
    answers = block.item_totals(_steps(weights[block.of_user] * residuals))
    return np.append(answers, _steps(SIDE * ratios).sum())


def taste_answers(block: RatingsBlock, residuals, tastes: np.ndarray) -> np.ndarray:
    """Sum products of users' unit residuals and unit tastes.

    Parameters
    ----------
    block : RatingsBlock
        Users and ratings.
    residuals : ndarray of shape (n_ratings,)
        What is left of each rating, clipped.
    tastes : ndarray of shape (n_users, k)
        Weights of each user, finite, of modulus below 1e100.

    Returns
    -------
    ndarray of shape (n_items, k)
        Whole numbers of steps.
    """
    square = np.zeros(len(block))
    for taste in tastes.T:
        square += taste * taste
    lengths = np.maximum(np.sqrt(square), _SHORTEST)
    unit = residuals * (SHARE_ALONE / _lengths(block, residuals))[block.of_user]
    return np.column_stack(
        [
            block.item_totals(_steps(unit * (taste / lengths)[block.of_user]))
            for taste in tastes.T
        ]
    )


def _lengths(block: RatingsBlock, values: np.ndarray) -> np.ndarray:
    return np.maximum(np.sqrt(block.totals(values * values)), _SHORTEST)
