"""Linear models of a released second moment of features and targets."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from .._linalg.eigen import edge_of_noise, shrink_eigenvalues


class Moment(NamedTuple):
    """Released second moments of P regressors and k targets.

    `regressors`, (P, P), ends with the constant if there is an intercept; `cross` has
    shape (P, k), and `squares`, of the targets, (k,). `spread` and `cross_spread` are
    standard deviations of the off-diagonal noise, from `n_samples` rows.
    """

    regressors: np.ndarray
    cross: np.ndarray
    squares: np.ndarray
    spread: float
    cross_spread: float
    n_samples: int


def moment_of(
    matrix, n_features: int, intercept: bool, spread, cross_spread, n_samples
) -> Moment:
    """Split the moment of features, targets and possibly a constant."""
    stop = len(matrix) - intercept
    inputs = np.r_[:n_features, stop : len(matrix)]
    targets = np.arange(n_features, stop)
    return Moment(
        matrix[np.ix_(inputs, inputs)],
        matrix[np.ix_(inputs, targets)],
        np.diag(matrix)[targets],
        spread,
        cross_spread,
        n_samples,
    )


# Least eigenvalue that is inverted, over the largest one.
_LEAST = 1e-12

# Floors that are compared, in units of the noise times the root of the order.
_FLOORS = np.logspace(-0.3, 1.5, 12)

# Floors without noise, over the largest eigenvalue.
_EXACT_FLOORS = np.logspace(-12.0, 0.0, 25)

# Deviations of the noise by which estimates are moved to the worse side, by the errors
# on six tables and made data.
_CAUTION = 0.35

# Steps by which prior variances, and the length of coefficients, are found.
_STEPS = 25

# Factor on the estimated share of the noise that is left in the corrected moment, which
# is too small for few or noisy eigenvalues; and its least value.
_LEFT_FACTOR, _LEAST_LEFT = 2.0, 0.2

# Mean square of the constant below which rows are not what was released of them.
_LEAST_CONSTANT = 0.5


def _least_floor(moment: Moment, values: np.ndarray) -> float:
    """Return the least eigenvalue that is inverted."""
    noise = 0.5 * moment.spread * math.sqrt(len(values))
    return max(noise, _LEAST * float(np.max(np.abs(values), initial=0.0)), 1e-300)


def penalized(moment: Moment, alphas: np.ndarray, intercept: bool) -> np.ndarray:
    """Return coefficients of shape (P, k) for one penalty per target.

    A penalty is on the squared coefficients, without the constant. Eigenvalues are
    corrected for noise, and at least half of its deviation times the root of the order.
    """
    free = np.ones(len(moment.regressors))
    if intercept:
        free[-1] = 0.0
    found = np.empty(moment.cross.shape)
    if not len(found):
        return found
    for alpha in np.unique(alphas):
        added = np.diag(free * (alpha / moment.n_samples))
        values, vectors = np.linalg.eigh(moment.regressors + added)
        kept = np.maximum(
            shrink_eigenvalues(values, moment.spread), _least_floor(moment, values)
        )
        which = alphas == alpha
        turned = vectors.T @ moment.cross[:, which]
        found[:, which] = vectors @ (turned / kept[:, None])
    return found


def _divided_differences(values, function, slopes) -> np.ndarray:
    """Return (f(w_i) - f(w_j)) / (w_i - w_j), with slopes of f on the diagonal."""
    apart = values[:, None] - values
    close = np.abs(apart) <= 1e-9 * np.max(np.abs(values))
    apart[close] = 1.0
    found = (function[:, None] - function) / apart
    found[close] = (0.5 * (slopes[:, None] + slopes))[close]
    return found


def chosen(
    moment: Moment, intercept: bool, kinds: np.ndarray, alike: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (P, k), and the best floors of eigenvalues (k,).

    Coefficients average two estimates. The first inverts the released moment with
    eigenvalues raised to a floor; floor and factor minimize a pessimistic version of
    Stein's unbiased risk estimate. The second is a posterior mean. If no floor is
    better than a constant, coefficients are 0 and the floor is infinite. With `alike`,
    targets are scores of classes, of which only the order matters: floor, factor and
    priors are common, and the best floor is used alone if none is better than zeros.
    `kinds` of regressors have a prior variance each.
    """
    found, constant = _constants(moment, intercept)
    pooled = (lambda v: np.broadcast_to(v.sum(), v.shape)) if alike else np.asarray
    constant = pooled(constant)
    best = np.full(len(constant), np.inf) if alike else constant.copy()
    at = np.full(len(best), np.inf)
    if not len(found):
        return found, at
    if intercept and not alike:  # scales may be far too small
        surely = moment.regressors[-1, -1] + 2.0 * math.sqrt(2.0) * moment.spread
        if surely < _LEAST_CONSTANT:
            return np.zeros_like(found), at
    values, vectors = np.linalg.eigh(moment.regressors)
    spread, order = moment.spread, len(values)
    kept = shrink_eigenvalues(values, spread)
    turned = vectors.T @ moment.cross
    floors = spread * math.sqrt(order) * _FLOORS
    if spread == 0.0:
        floors = max(float(values[-1]), 0.0) * _EXACT_FLOORS
    found = vectors.T @ found
    for floor in np.maximum(floors, _least_floor(moment, values)):
        inverse = 1.0 / np.maximum(kept, floor)
        slopes = np.where(kept > floor, -(inverse**2), 0.0)
        differences = _divided_differences(values, inverse, slopes)
        solution = inverse[:, None] * turned
        terms = _terms(moment, values, inverse, differences, turned, solution)
        risk, factor = _risk(moment, values, inverse, solution, terms, pooled)
        better = risk < best
        best[better], at[better] = risk[better], floor
        found[:, better] = (factor * solution)[:, better]
    if spread > 0.0:
        some = best < constant
        other = _posterior_means(moment, values, vectors, kept, kinds, alike)
        found[:, some] = 0.5 * (found + vectors.T @ other)[:, some]
    return vectors @ found, at


def _posterior_means(moment: Moment, values, vectors, kept, kinds, alike) -> np.ndarray:
    """Return posterior means of coefficients (P, k), for normal priors.

    Given beta and the corrected moment A with eigenvalues `kept`, released products
    with targets are A beta plus their noise, the remaining noise of A times beta, and
    sampling errors. Each kind of regressors has a prior variance, which maximizes the
    likelihood; with `alike` it is common to all targets.
    """
    kept = np.maximum(kept, 0.0)
    left = moment.spread**2 * _noise_left(values, kept, moment.spread)
    names, kinds = np.unique(kinds, return_inverse=True)
    counts = np.bincount(kinds)
    turned, n_targets = vectors.T @ moment.cross, moment.cross.shape[1]
    found = np.zeros_like(moment.cross)
    groups = [slice(None)] if alike else [slice(j, j + 1) for j in range(n_targets)]
    for group in groups:
        square = np.maximum(moment.squares[group], 0.0).mean()
        sampling = square / moment.n_samples * kept
        variances = np.full(len(names), max(square, 1e-300) / max(len(kept), 1))
        mean = found[:, group]
        for _ in range(_STEPS):
            length = np.sum(mean**2, axis=0).mean()
            noise = moment.cross_spread**2 + left * length + sampling
            noise = np.maximum(noise, 1e-300)
            roots = np.sqrt(variances)[kinds]
            # The posterior in units of the prior's deviations.
            scaled = roots[:, None] * vectors * (kept / np.sqrt(noise))
            inside = np.linalg.inv(np.eye(len(kept)) + scaled @ scaled.T)
            product = vectors @ ((kept / noise)[:, None] * turned[:, group])
            mean = roots[:, None] * (inside @ (roots[:, None] * product))
            second = np.mean(mean**2, axis=1) + variances[kinds] * np.diag(inside)
            variances = np.bincount(kinds, second) / counts
        found[:, group] = mean
    return found


def _noise_left(values, kept, spread: float) -> float:
    """Return about the share of the noise's squared norm left after corrections.

    It is Stein's unbiased estimate of their error, with a margin.
    """
    order = len(values)
    slopes = np.ones(order)
    if order > 1:
        apart = values + 1e-12 * spread * np.arange(order)
        slopes = np.clip(np.gradient(kept, apart), 0.0, 1.0)
    differences = _divided_differences(values, kept, slopes)
    divergence = 0.5 * (np.trace(differences) + differences.sum())
    noise = order * (order + 1) * spread**2
    error = np.sum((values - kept) ** 2) + 4.0 * spread**2 * divergence - noise
    return float(np.clip(_LEFT_FACTOR * error / noise, _LEAST_LEFT, 1.0))


def _constants(moment: Moment, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the shrunk constants of models without features, and their risks."""
    found, risk = np.zeros(moment.cross.shape), np.zeros(moment.cross.shape[1])
    if intercept:
        cross, noise = moment.cross[-1], moment.cross_spread
        with np.errstate(all="ignore"):
            share = noise / np.abs(cross)
            kept = np.nan_to_num(np.maximum(1.0 - share**2 - _CAUTION * share, 0.0))
        found[-1] = kept * cross
        risk = -(found[-1] ** 2)
    return found, risk


def _risk(moment, values, inverse, solution, terms, pooled):
    """Return each target's error above that of zeros, and the best factor.

    All are in the basis of the eigenvectors; both have shape (k,). Where zeros are
    better, the factor is 1, and the risk ranks the relatively most negative products
    last.
    """
    explained, fitted = terms
    # Noise of several targets is independent: squares of its deviations add up.
    length = np.sqrt(pooled(np.sum(solution**2, axis=0)))
    spread = _CAUTION * math.sqrt(2.0) * moment.spread
    fitted = pooled(np.maximum(fitted, 0.0)) + spread * length**2
    degrees = float(np.sum(np.clip(values, 0.0, None) * inverse))
    sampling = np.maximum(moment.squares, 0.0) * degrees / (2.0 * moment.n_samples)
    explained = pooled(explained) - _CAUTION * moment.cross_spread * length
    explained = explained - pooled(sampling)
    with np.errstate(all="ignore"):
        ratio = np.nan_to_num(explained / fitted, posinf=1.0)
        factor = np.where(ratio > 0.0, np.minimum(ratio, 1.0), 1.0)
        risk = factor**2 * fitted - 2.0 * factor * explained
        return np.where(ratio > 0.0, risk, explained**2 / fitted), factor


def _terms(moment, values, inverse, differences, turned, solution):
    """Return Stein's unbiased estimates of b'beta and of beta'A beta."""
    product = turned * solution
    bias = differences.sum(axis=1) + np.diag(differences)
    fitted = np.sum(values[:, None] * solution**2, axis=0)
    fitted = fitted - 2.0 * moment.spread**2 * (bias @ product)
    explained = product.sum(axis=0) - moment.cross_spread**2 * inverse.sum()
    return explained, fitted


class Inverse(NamedTuple):
    """Inverse of the moment of regressors, apart from directions hidden by the noise.

    `hidden`, (P, h), are orthonormal. Effects of one-hot columns have the mean 0.
    """

    matrix: np.ndarray
    hidden: np.ndarray


class Scores(NamedTuple):
    """Released means (k, P) of scores, moments (k, P, P), and noise of means (k,)."""

    means: np.ndarray
    squares: np.ndarray
    noise: np.ndarray


class Weighted(NamedTuple):
    """Estimates (k, P) for weighted rows, with covariances (k, P, P) and p-values (k,).

    `hidden`, (P, h), are directions that are not estimated; `kept`, (P,), are shares of
    mean squares that rows keep when they are weighted, up to the length `radius`.
    """

    estimates: np.ndarray
    covariances: np.ndarray
    p_values: np.ndarray
    hidden: np.ndarray
    kept: np.ndarray
    radius: float


def inverse_within(moment: Moment, blocks: np.ndarray) -> Inverse:
    """Invert the moment of regressors with a constant, where it exceeds its noise.

    Within each block of one-hot columns, effects weighted by released shares of the
    columns add up to 0; -1 is no block.
    """
    names = np.unique(blocks[blocks >= 0])
    shares = np.maximum(moment.regressors[-1], 1e-9)
    sums = np.where(names[:, None] == blocks, shares, 0.0)
    free = np.linalg.qr(sums.T, mode="complete")[0][:, len(names) :]
    values, vectors = np.linalg.eigh(free.T @ moment.regressors @ free)
    edge = edge_of_noise(moment.spread, len(values))
    least = max(edge, _LEAST * float(values[-1]))
    seen, vectors = values > least, free @ vectors
    matrix = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    return Inverse(matrix, vectors[:, ~seen])


def first_estimates(moment: Moment, inverse: Inverse) -> tuple[np.ndarray, np.ndarray]:
    """Return least-squares coefficients (P, k), and deviations of residuals (k,).

    These are at least those of the noise.
    """
    found = inverse.matrix @ moment.cross
    explained = np.sum((2.0 * moment.cross - moment.regressors @ found) * found, axis=0)
    noise = math.sqrt(2.0) * moment.cross_spread**2 / max(moment.spread, 1e-300)
    rest = np.maximum(moment.squares - explained, max(noise, 1e-300))
    return found, np.sqrt(rest / max(float(moment.regressors[-1, -1]), _LEAST_CONSTANT))


def weighted_estimates(
    moment: Moment, inverse, estimates, scores, kept, radius
) -> Weighted:
    """Return estimates (P, k) with covariances, and p-values of linearity.

    Covariances include the noise of scores and their sampling. Under linearity, scores
    of far rows have the mean 0, but for the errors of the estimates.
    """
    own, far = scores
    covariances, p_values = [], []
    values, vectors = np.linalg.eigh(inverse.matrix)
    seen = vectors[:, values > 1e-9 * max(float(values[-1]), 1e-300)]
    for j in range(estimates.shape[1]):
        square, far_square = (_positive(part.squares[j]) for part in scores)
        # The step is computed with the noise of the moment.
        step = inverse.matrix @ own.means[j]
        white = own.noise[j] ** 2 + moment.spread**2 * (step @ step)
        noise = white * np.eye(len(square)) + moment.spread**2 * np.outer(step, step)
        middle = noise + square / moment.n_samples
        covariances.append(inverse.matrix @ middle @ inverse.matrix)
        share = np.trace(far_square) / max(np.trace(square), 1e-300)
        # The sampling of far rows is larger with true coefficients than with these.
        law = far.noise[j] ** 2 * np.eye(len(square)) + far_square / moment.n_samples
        law, mean = seen.T @ (law + share * noise) @ seen, seen.T @ far.means[j]
        distance = float(mean @ np.linalg.pinv(law) @ mean)
        p_values.append(float(chdtrc(seen.shape[1], distance)))
    found = np.array(covariances).reshape(-1, *moment.regressors.shape)
    return Weighted(
        estimates.T, found, np.array(p_values), inverse.hidden, kept, radius
    )


def _positive(matrix: np.ndarray) -> np.ndarray:
    """Return the positive part of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
