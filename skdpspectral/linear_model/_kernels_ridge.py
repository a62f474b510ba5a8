"""Linear models of a released second moment of features and targets."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

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

# Deviations of coefficients under the priors that are averaged, in standardized units;
# and steps by which the length of the coefficients is found.
_PRIORS = np.logspace(-3.0, 1.5, 10)
_LENGTH_STEPS = 8

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
    moment: Moment, intercept: bool, alike: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (P, k), and the best floors of eigenvalues (k,).

    Coefficients average two estimates. The first inverts the released moment with
    eigenvalues raised to a floor; floor and factor minimize a pessimistic version of
    Stein's unbiased risk estimate. The second is a posterior mean. If no floor is
    better than a constant, coefficients are 0 and the floor is infinite. With `alike`,
    targets are scores of classes, of which only the order matters: floor, factor and
    prior are common, and the best floor is used alone if none is better than zeros.
    """
    found, constant = _constants(moment, intercept)
    pooled = _summed if alike else np.asarray
    constant = pooled(constant)
    best = np.full(len(constant), np.inf) if alike else constant.copy()
    at = np.full(len(best), np.inf)
    if not len(found):
        return found, at
    if intercept and not alike and _is_filled(moment):
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
        other = _posterior_means(moment, values, kept, turned, pooled)
        found[:, some] = 0.5 * (found + other)[:, some]
    return vectors @ found, at


def _summed(values: np.ndarray) -> np.ndarray:
    """Return the sum over targets, repeated for each of them."""
    return np.broadcast_to(values.sum(), values.shape)


def _posterior_means(moment: Moment, values, kept, turned, pooled) -> np.ndarray:
    """Return posterior means of coefficients (P, k), averaged over normal priors.

    All are in the basis of the eigenvectors. Given beta and the corrected moment A with
    eigenvalues `kept`, released products with targets are A beta plus their noise, the
    remaining noise of A times beta, and sampling errors. Priors are weighted by
    likelihood; zero coefficients have half of the prior weight.
    """
    kept = np.maximum(kept, 0.0)[:, None]
    left = moment.spread**2 * _noise_left(values, kept[:, 0], moment.spread)
    sampling = np.maximum(moment.squares, 0.0) / moment.n_samples * kept
    likelihoods, means = [], []
    for prior in (0.0, *_PRIORS):
        mean = np.zeros_like(turned)
        for _ in range(_LENGTH_STEPS):
            noise = moment.cross_spread**2 + left * np.sum(mean**2, axis=0) + sampling
            total = (prior * kept) ** 2 + noise
            mean = prior**2 * kept / total * turned
        fit = -0.5 * np.sum(turned**2 / total + np.log(total), axis=0)
        likelihoods.append(pooled(fit))
        means.append(mean)
    likelihoods[0] = likelihoods[0] + math.log(len(_PRIORS))
    weights = softmax(likelihoods, axis=0)
    return np.sum(weights[:, None] * np.array(means), axis=0)


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


def _is_filled(moment: Moment) -> bool:
    """Return whether the moment of the constant shows that scales are far too small."""
    surely = float(moment.regressors[-1, -1]) + 2.0 * math.sqrt(2.0) * moment.spread
    return surely < _LEAST_CONSTANT


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


def moment_least_squares(moment: Moment) -> tuple[np.ndarray, np.ndarray] | None:
    """Return unpenalized coefficients and their covariances (k, P, P), or None.

    Covariances include noise and sampling, to first order, for homoscedastic errors.
    None means that the least eigenvalue may be noise.
    """
    if not len(moment.regressors):
        return None
    values, vectors = np.linalg.eigh(moment.regressors)
    order, spread = len(values), moment.spread
    least = max(edge_of_noise(spread, order), _LEAST * float(values[-1]))
    if not values[0] > least:
        return None
    inverse = (vectors / values) @ vectors.T
    found = inverse @ moment.cross
    spreads = np.empty((found.shape[1], order, order))
    for j in range(found.shape[1]):
        beta = found[:, j]
        explained = 2.0 * beta @ moment.cross[:, j] - beta @ moment.regressors @ beta
        rest = max(float(moment.squares[j] - explained), 0.0)
        noise = (moment.cross_spread**2 + spread**2 * beta @ beta) * np.eye(order)
        noise += spread**2 * np.outer(beta, beta)
        sampling = (rest / moment.n_samples) * inverse
        spreads[j] = inverse @ noise @ inverse + sampling
    return found, spreads
