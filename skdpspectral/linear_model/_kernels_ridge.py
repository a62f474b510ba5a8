"""Linear models of a released second moment of features, or functions of these."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtr

from .._linalg.eigen import edge_of_noise, shrink_eigenvalues


class Moment(NamedTuple):
    """Released second moments of P regressors and k targets."""

    regressors: np.ndarray  # (P, P), ends with the constant
    cross: np.ndarray  # (P, k)
    squares: np.ndarray  # (k,), of the targets
    spread: float  # standard deviation of the off-diagonal noise
    cross_spread: float  # that of `cross`
    n_samples: int


def moment_of(matrix, n_features: int, *noise) -> Moment:
    """Split the moment of features, targets and a constant."""
    last = len(matrix) - 1
    inputs, targets = np.r_[:n_features, last], np.arange(n_features, last)
    parts = (matrix[np.ix_(inputs, each)] for each in (inputs, targets))
    return Moment(*parts, np.diag(matrix)[targets], *noise)


# Least eigenvalue that is inverted, over the largest one.
_LEAST = 1e-12

# Floors that are compared, in units of the noise times the root of the order.
_FLOORS = np.logspace(-0.3, 1.5, 12)

# Floors without noise, over the largest eigenvalue.
_EXACT_FLOORS = np.logspace(-12.0, 0.0, 25)

# Deviations of the noise by which estimates are moved to the worse side, by the errors
# on six tables and made data.
_CAUTION = 0.35

# Steps by which prior variances, and the length of coefficients, are found; and targets
# times cubed regressors above which they are common to all targets.
_STEPS, _MOST_WORK = 25, 2e8

# Share of the noise's variance that is taken to be left in the corrected moment: by R2
# of ten tables at three budgets, as good as an estimate from the release.
_NOISE_LEFT = 0.5

# Mean square of the constant below which rows are not what was released of them.
_LEAST_CONSTANT = 0.5


def _least_floor(moment: Moment, values: np.ndarray) -> float:
    """Return the least eigenvalue that is inverted."""
    noise = 0.5 * moment.spread * math.sqrt(len(values))
    return max(noise, _LEAST * float(np.max(np.abs(values), initial=0.0)), 1e-300)


def penalized(moment: Moment, alpha: float) -> np.ndarray:
    """Return coefficients of shape (P, k) for a penalty on all but the constant."""
    free = np.ones(len(moment.regressors))
    free[-1] = 0.0
    added = np.diag(free * (alpha / moment.n_samples))
    values, vectors = np.linalg.eigh(moment.regressors + added)
    kept = shrink_eigenvalues(values, moment.spread)
    kept = np.maximum(kept, _least_floor(moment, values))
    return vectors @ (vectors.T @ moment.cross / kept[:, None])


def _divided_differences(values, function, slopes) -> np.ndarray:
    """Return (f(w_i) - f(w_j)) / (w_i - w_j), with slopes of f on the diagonal."""
    apart = values[:, None] - values
    close = np.abs(apart) <= 1e-9 * np.max(np.abs(values))
    apart[close] = 1.0
    found = (function[:, None] - function) / apart
    found[close] = (0.5 * (slopes[:, None] + slopes))[close]
    return found


def chosen(
    moment: Moment, kinds: np.ndarray, alike: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (P, k), and the best floors of eigenvalues (k,)."""
    # Half a posterior mean and half the inverse of least pessimistic risk, or 0 and an
    # infinite floor if a constant is better. `alike` targets are scores of classes.
    found, cross = np.zeros(moment.cross.shape), moment.cross[-1]
    with np.errstate(all="ignore"):  # models without features, shrunk to 0
        share = moment.cross_spread / np.abs(cross)
        left = np.nan_to_num(np.maximum(1.0 - share**2 - _CAUTION * share, 0.0))
    found[-1] = left * cross
    pooled = (lambda v: np.broadcast_to(v.sum(), v.shape)) if alike else np.asarray
    constant = pooled(-(found[-1] ** 2))
    best = np.full(len(constant), np.inf) if alike else constant.copy()
    at = np.full(len(best), np.inf)
    if not alike:  # scales may be far too small
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
        terms = _stein_estimates(moment, values, inverse, differences, turned, solution)
        risk, factor = _risk(moment, values, inverse, solution, terms, pooled)
        better = risk < best
        best[better], at[better] = risk[better], floor
        found[:, better] = (factor * solution)[:, better]
    if spread > 0.0:
        some = best < constant
        other = _posterior_means(moment, vectors, kept, kinds, alike)
        found[:, some] = 0.5 * (found + vectors.T @ other)[:, some]
    return vectors @ found, at


def _posterior_means(moment: Moment, vectors, kept, kinds, alike) -> np.ndarray:
    """Return posterior means of coefficients (P, k), for normal priors."""
    # Each kind of regressors has the prior variance of the largest likelihood.
    kept = np.maximum(kept, 0.0)
    left = _NOISE_LEFT * moment.spread**2
    names, kinds = np.unique(kinds, return_inverse=True)
    counts = np.bincount(kinds)
    turned, n_targets = vectors.T @ moment.cross, moment.cross.shape[1]
    found = np.zeros_like(moment.cross)
    groups = [slice(j, j + 1) for j in range(n_targets)]
    if alike or n_targets * len(kept) ** 3 > _MOST_WORK:
        groups = [slice(None)]
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


def _risk(moment, values, inverse, solution, terms, pooled):
    """Return each target's error above that of zeros, and the best factor, or 1."""
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
        # Where zeros are better, the relatively most negative products are last.
        return np.where(ratio > 0.0, risk, explained**2 / fitted), factor


def _stein_estimates(moment, values, inverse, differences, turned, solution):
    """Return Stein's estimates of b'beta and beta'A beta (:ref:`theory_ridge_risk`)."""
    product = turned * solution
    bias = differences.sum(axis=1) + np.diag(differences)
    fitted = np.sum(values[:, None] * solution**2, axis=0)
    fitted = fitted - 2.0 * moment.spread**2 * (bias @ product)
    explained = product.sum(axis=0) - moment.cross_spread**2 * inverse.sum()
    return explained, fitted


class Scores(NamedTuple):
    """Released means (k, P) of scores, moments (k, P, P), and noise of means (k,)."""

    means: np.ndarray
    squares: np.ndarray
    noise: np.ndarray


def inverse_within(moment: Moment, blocks: np.ndarray) -> tuple:
    """Return the inverse moment where it exceeds its noise, and hidden directions."""
    # Weighted effects of a one-hot block (-1: none) add up to 0. Noise of rare columns
    # would turn the directions of others.
    released = 0.5 * (moment.regressors[-1] + np.diag(moment.regressors))
    rare = (blocks >= 0) & (released <= edge_of_noise(moment.spread, len(blocks)))
    names = np.unique(blocks[(blocks >= 0) & ~rare])
    within = (names[:, None] == blocks) & ~rare
    sums = np.where(within, np.maximum(moment.regressors[-1], 1e-9), 0.0)
    left_out = np.eye(len(blocks))[rare]
    fixed = np.concatenate([sums, left_out])
    free = np.linalg.qr(fixed.T, mode="complete")[0][:, len(fixed) :]
    values, vectors = np.linalg.eigh(free.T @ moment.regressors @ free)
    edge = edge_of_noise(moment.spread, len(values))
    least = max(edge, _LEAST * float(values[-1]))
    seen, vectors = values > least, free @ vectors
    matrix = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    return matrix, np.column_stack([left_out.T, vectors[:, ~seen]])


def first_estimates(moment: Moment, inverse) -> tuple[np.ndarray, np.ndarray]:
    """Return least-squares coefficients (P, k), and deviations of residuals (k,)."""
    found = inverse @ moment.cross
    explained = np.sum((2.0 * moment.cross - moment.regressors @ found) * found, axis=0)
    noise = math.sqrt(2.0) * moment.cross_spread**2 / max(moment.spread, 1e-300)
    rest = np.maximum(moment.squares - explained, max(noise, 1e-300))
    return found, np.sqrt(rest / max(float(moment.regressors[-1, -1]), _LEAST_CONSTANT))


def errors_of(moment: Moment, inverse, own: Scores, far: Scores) -> tuple:
    """Return covariances of errors (k, P, P), and p-values of linearity (k,)."""
    # Under linearity, scores of far rows have the mean 0, but for these errors.
    covariances, p_values = [], []
    values, vectors = np.linalg.eigh(inverse)
    seen = vectors[:, values > 1e-9 * max(float(values[-1]), 1e-300)]
    for j in range(len(own.means)):
        square, far_square = _positive(own.squares[j]), _positive(far.squares[j])
        # The step is computed with the noise of the moment.
        step = inverse @ own.means[j]
        white = own.noise[j] ** 2 + moment.spread**2 * (step @ step)
        noise = white * np.eye(len(square)) + moment.spread**2 * np.outer(step, step)
        middle = noise + square / moment.n_samples
        covariances.append(inverse @ middle @ inverse)
        share = np.trace(far_square) / max(np.trace(square), 1e-300)
        # The sampling of far rows is larger with true coefficients than with these.
        law = far.noise[j] ** 2 * np.eye(len(square)) + far_square / moment.n_samples
        law, mean = seen.T @ (law + share * noise) @ seen, seen.T @ far.means[j]
        distance = float(mean @ np.linalg.pinv(law) @ mean)
        p_values.append(float(chdtrc(seen.shape[1], distance)))
    found = np.array(covariances).reshape(-1, *moment.regressors.shape)
    return found, np.array(p_values)


def _positive(matrix: np.ndarray) -> np.ndarray:
    """Return the positive part of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


# -- functions of features -------------------------------------------------------------

# Kinds of columns, whose coefficients have a prior variance each; the constant is one.
CONSTANT, LEVEL, SLOPE, WAVE, PAIR = range(5)

# Weights of slopes and of all products of a number, and where slopes end.
_SLOPE, _PAIRS, _END = 0.8, 0.7, 3.0

# Waves per number, waves per part of a pair, and the largest relative noise at which
# they are used; and how many pairs there may be.
_CHOICES = (("pairs", 4, 2, 0.15), ("pairs", 3, 1, 0.15), ("additive", 3, 0, 0.3))
_MOST_PAIRS = 400


class Basis(NamedTuple):
    """Columns made of standardized features: others, slopes, waves and products."""

    expanded: np.ndarray  # (n_features,): numbers; others stay as they are
    waves: int  # in a feature; without any, all features stay as they are
    pairs: int  # waves in each part of a product

    @property
    def name(self) -> str:
        """Name of the kind of functions."""
        return "pairs" if self.pairs else "additive" if self.waves else "linear"

    @property
    def _pairs(self) -> np.ndarray:
        numbers = np.flatnonzero(self.expanded)
        i, j = np.triu_indices(len(numbers), 1)
        return np.column_stack([numbers[i], numbers[j]])[: None if self.pairs else 0]

    def sources(self) -> np.ndarray:
        """Return the features that each column is made of, (width, 2)."""
        others, numbers = (np.flatnonzero(e) for e in (~self.expanded, self.expanded))
        alone = np.concatenate([others, numbers, np.repeat(numbers, self.waves)])
        pairs = np.repeat(self._pairs, self.pairs**2, axis=0)
        return np.concatenate([np.column_stack([alone, alone]), pairs]).astype(int)

    def kinds(self, blocks: np.ndarray) -> np.ndarray:
        """Return the kind of each column, given the blocks of one-hot features."""
        if not self.waves:
            return np.where(blocks >= 0, LEVEL, SLOPE)
        d, n_pairs = int(self.expanded.sum()), len(self._pairs)
        counts = [len(self.expanded) - d, d, d * self.waves, n_pairs * self.pairs**2]
        return np.repeat([LEVEL, SLOPE, WAVE, PAIR], counts)

    def square(self, others: float) -> float:
        """Return the mean squared length of rows, given that of other columns."""
        waves = sum(1.0 / k**2 for k in range(1, self.waves + 1))
        pairs = _PAIRS**2 * (len(self._pairs) > 0)
        return others + float(self.expanded.sum()) * (waves + _SLOPE**2 + pairs)

    def expand(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns for standardized rows."""
        numbers = rows[:, self.expanded]
        parts = [rows[:, ~self.expanded], _SLOPE * np.clip(numbers, -_END, _END)]
        angles = math.pi * ndtr(numbers)
        orders = np.arange(1, max(self.waves, self.pairs) + 1)
        cosines = math.sqrt(2.0) * np.cos(angles[:, :, None] * orders)
        waves = cosines[:, :, : self.waves] / orders[: self.waves]
        parts.append(waves.reshape(len(rows), -1))
        if len(self._pairs):
            place = np.cumsum(self.expanded) - 1
            i, j = place[self._pairs].T
            weight = _PAIRS * math.sqrt(len(place[self.expanded]) / len(i))
            part = cosines[:, :, : self.pairs]
            products = weight * part[:, i, :, None] * part[:, j, None, :]
            parts.append(products.reshape(len(rows), -1))
        return np.concatenate(parts, axis=1)


def chosen_basis(
    wanted: str, expanded: np.ndarray, others: float, n_targets: int, reach: float
) -> Basis:
    """Return a basis, or the richest of low noise; `reach` is n times mu."""
    d = int(expanded.sum())
    for name, waves, pairs, most in _CHOICES:
        if wanted not in (name, "auto") or (
            pairs and not 0 < d * (d - 1) // 2 <= _MOST_PAIRS
        ):
            continue
        basis = Basis(expanded, waves, pairs)
        width = len(basis.sources()) + n_targets + 1
        noise = (basis.square(others) + n_targets + 1) * math.sqrt(width) / reach
        last = wanted == "additive" or (wanted == "pairs" and pairs == 1)
        if d and (noise <= most or last):
            return basis
    if wanted == "pairs" and d:  # of a single number, or of too many
        return Basis(expanded, 3, 0)
    return Basis(np.zeros(len(expanded), dtype=bool), 0, 0)
