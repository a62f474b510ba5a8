"""Pearson correlations from a noisy second moment of signs of differences.

All of it is post-processing: of the released matrix, and of the deviation of its noise.
"""

from __future__ import annotations

import math

import numpy as np

from .._linalg.walks import blas_threads

# Points of the mixture that a diagonal is taken from, per deviation of its noise and at
# most, and steps towards the most likely one.
_POINTS_PER_DEVIATION, _MOST_POINTS, _STEPS = 2, 200, 60

# Deviations of noise that a released trace may be below 1, its value without ties.
_NEAR_ONE = 5.0

# Features up to which the matrix is projected, and steps of the projection: each is a
# whole eigendecomposition.
_MOST_PROJECTED, _PROJECTIONS = 300, 12

# What a feature is divided by, at least: in deviations of the noise on it, and such
# that the edge of the noise on the correlations is at most so large, in units of the
# variance of a feature.
_FEWEST_DEVIATIONS, _LARGEST_EDGE, _FLOORS = 2.0, 2.0, 40

# Slope of the correlation in Kendall's, at 0, for normal features.
_SLOPE = 0.5 * math.pi


def correlations_of_signs(matrix: np.ndarray, spread: float) -> np.ndarray:
    r"""Return estimated correlations of features from a released moment of signs.

    `matrix`, of which only the lower triangle is read, is the mean of z z', z the signs
    of a pair over the root of the number that are not 0, plus symmetric noise of
    standard deviation `spread` off the diagonal and :math:`\sqrt2` times that on it.

    The diagonal, of shares of pairs without a tie, is replaced by its posterior mean
    (:func:`shrink_diagonal`), and the matrix by the nearest one that is positive
    semidefinite with that diagonal. Each feature is divided by the root of its
    share, or of a larger number where noise would hide the others: such features have
    a variance below 1. :func:`bridge` turns the result into Pearson's correlations.
    """
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    order = len(matrix)
    shares = shrink_diagonal(np.diag(matrix), spread)
    if order <= _MOST_PROJECTED:
        matrix = nearest_semidefinite(matrix, shares)
    matrix[np.diag_indices(order)] = shares
    weights, is_quiet = _weights(shares, spread)
    if order > _MOST_PROJECTED and not is_quiet:
        # Correlations would be noise for the most part, and nothing has removed it.
        return matrix * order
    scaled = weights[:, None] * matrix * weights
    variances = np.diag(scaled).copy()
    largest = float(shares.max(initial=0.0))
    found = bridge(scaled, shares / largest if largest > 0.0 else shares)
    found[np.diag_indices(order)] = variances
    # The feature with the largest share is a standardized one.
    highest = float(variances.max())
    return found / highest if highest > 0.0 else found


def shrink_diagonal(released: np.ndarray, spread: float) -> np.ndarray:
    """Return posterior means of a diagonal of numbers that are not negative.

    The prior is the distribution on a grid under which the released numbers are most
    likely, found by expectation maximization. Features without ties share one number,
    which is then found; and rare features come near 0.
    """
    order, deviation = len(released), math.sqrt(2.0) * spread
    trace = float(np.sum(released))
    if trace > 1.0 - _NEAR_ONE * deviation * math.sqrt(order):
        released = released + (1.0 - trace) / order
    middle = max(float(np.mean(released)), 0.0)
    highest = max(float(np.max(released)), middle)
    few_points = highest * _POINTS_PER_DEVIATION < _MOST_POINTS * deviation
    if highest == 0.0 or not few_points:
        return np.maximum(released, 0.0)
    count = math.ceil(highest * _POINTS_PER_DEVIATION / deviation) + 2
    points = np.append(np.linspace(0.0, highest, count), middle)
    squares = ((released[:, None] - points) / deviation) ** 2
    likelihood = np.exp(0.5 * (squares.min(axis=1, keepdims=True) - squares))
    # Half of the prior is that all features are alike.
    prior = np.append(np.full(count, 0.5 / count), 0.5)
    for _ in range(_STEPS):
        posterior = _normalized(likelihood * prior)
        prior = posterior.mean(axis=0)
    return _normalized(likelihood * prior) @ points


def _normalized(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(axis=1, keepdims=True)


def nearest_semidefinite(matrix: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    r"""Return about the nearest positive semidefinite matrix with a given diagonal.

    Nearest in Frobenius norm [1]_. It is the positive part of the matrix with another
    diagonal, which is found by accelerated gradient steps on the dual problem [2]_; the
    diagonal of the result is near the given one, and not equal to it.

    .. [1] Higham (2002), Computing the nearest correlation matrix, IMA Journal of
       Numerical Analysis 22.
    .. [2] Malick (2004), A dual approach to semidefinite least-squares problems, SIAM
       Journal on Matrix Analysis and Applications 26.
    """
    at = np.diag_indices(len(matrix))
    found, shifted = matrix, matrix.copy()
    last = ahead = diagonal.copy()
    momentum = 1.0
    with blas_threads(len(matrix)):
        for _ in range(_PROJECTIONS):
            shifted[at] = ahead
            values, vectors = np.linalg.eigh(shifted)
            found = (vectors * np.maximum(values, 0.0)) @ vectors.T
            step = ahead + diagonal - np.diag(found)
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            ahead = step + (momentum - 1.0) / following * (step - last)
            last, momentum = step, following
    return 0.5 * (found + found.T)


def _weights(shares: np.ndarray, spread: float) -> tuple[np.ndarray, bool]:
    """Return what features are multiplied by, and whether their noise is small then.

    The least divisor is the smallest one for which it is, at most the mean share. A
    feature of no share has no weight.
    """
    # Without noise too, the square of its inverse is a number.
    least = np.finfo(float).tiny ** 0.25
    low = max(_FEWEST_DEVIATIONS * math.sqrt(2.0) * spread, least)
    high = max(low, float(np.mean(shares)))
    floors = np.geomspace(low, high, _FLOORS)
    squares = 1.0 / np.maximum(shares, floors[:, None])
    # Of noise whose deviation is a product of two weights; without a floor at most.
    edges = 2.0 * spread * np.sqrt(squares.max(axis=1) * squares.sum(axis=1))
    quiet = np.flatnonzero(edges <= _LARGEST_EDGE)
    chosen = squares[quiet[0]] if len(quiet) else squares[-1]
    return np.where(shares > 0.0, np.sqrt(chosen), 0.0), len(quiet) > 0


def bridge(kendall: np.ndarray, shares: np.ndarray) -> np.ndarray:
    r"""Return Pearson's correlations for Kendall's (tau-b), off the diagonal.

    For two normal features it is :math:`\sin(\pi \tau / 2)`, and for two features of
    two values each it is :math:`\tau` itself. `shares` are those of pairs without
    a tie, 1 for continuous features and at most 1/2 for two values. In between, the
    slope at 0 is a product of one number per feature: for a normal and a two-valued
    one it is the root of :math:`\pi / 2`, which is exact for small correlations and a
    split at the median.
    """
    kendall = np.clip(kendall, -1.0, 1.0)
    slopes = 1.0 + (math.sqrt(_SLOPE) - 1.0) * np.clip(2.0 * shares - 1.0, 0.0, 1.0)
    curved = (np.outer(slopes, slopes) - 1.0) / (_SLOPE - 1.0)
    return kendall + curved * (np.sin(_SLOPE * kendall) - kendall)
