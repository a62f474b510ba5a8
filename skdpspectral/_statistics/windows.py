"""Private scales, places and means of features on few rows, from overlapping windows.

A difference of two values lies in one octave, a value in one cell. Windows of several
neighbors overlap, so that counts add up over windows, for the price of one. Scales and
places are read from released counts by their likelihood, and clipped moments about
these give means, and better scales where the noise is small.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from .. import sensitivity
from .._linalg import features, walks
from .._tables.clipping import Box
from .._tables.pairs import PairWalk
from ..accounting._gaussian import calibrate_alike
from .feature_scales import (
    FeatureLaw,
    FeatureMoments,
    FeatureScales,
    FeatureStatistic,
    Spreads,
    UnitMoments,
    times,
)
from .statistic import Combination

# Rows, in units of sqrt(n_features) / mu, from which most scales are found; skewed
# features need more of them than normal ones.
_ENOUGH_ROWS = 25.0

# Octaves of a window, and the weight of a difference in each window that it is in: with
# the count of all differences, two of them are as far apart as one is from a tie.
_WIDTH = 4
_WEIGHT = 1.0 / math.sqrt(_WIDTH)

# Scales that are tried in each octave.
_STEPS = 4

# Octaves of the differences of a shape of scale 1, and points of its law.
_LOWEST, _HIGHEST, _POINTS = -8, 12, 400

# Prior odds of shapes, by whether all pairs differ or an unknown share of them does,
# and of a feature whose values are all alike.
_SHAPES = {
    ("normal", False): 0.35,
    ("normal", True): 0.1,
    ("lognormal", False): 0.15,
    ("lognormal", True): 0.05,
    ("cauchy", False): 0.05,
    ("two values", True): 0.2,
    ("counts", True): 0.1,
}
_ALIKE = 0.1

# Scale of the prior's heavy tail in octaves, and the share of the prior that is made of
# the scales of all features, within so many octaves of each.
_TAIL, _SHARED, _NEAR = 8.0, 0.5, 3

# Error of a shape, as a share of the pairs: laws of real features are none of these.
_MISFIT = 0.04

# A feature is seen if so much of the posterior lies within an octave of a scale.
_SURE = 0.5

# Features that are read together, and odds that are not followed further.
_PANEL, _NEGLIGIBLE = 16, -12.0


class Shape(NamedTuple):
    """Expected counts of a law of scale 1, (_STEPS, windows), and its moment."""

    windows: np.ndarray
    square: float


def overlapping(counts: np.ndarray, width: int) -> np.ndarray:
    """Return counts in windows of so many neighbors on a circle, by their first one."""
    out = counts.copy()
    for shift in range(1, width):
        out += np.roll(counts, shift, axis=-1)
    return out / math.sqrt(width)


def _windows(counts: np.ndarray) -> np.ndarray:
    """Return counts in overlapping windows, from counts by octaves."""
    length = counts.shape[-1]
    out = np.zeros((*counts.shape[:-1], length + _WIDTH - 1))
    for shift in range(_WIDTH):
        out[..., shift : shift + length] += _WEIGHT * counts
    return out


@functools.cache
def _shapes() -> dict[str, Shape]:
    """Return the shapes, by name."""
    levels = (np.arange(_POINTS) + 0.5) / _POINTS
    laws = {
        "normal": ndtri(levels),
        "lognormal": np.exp(ndtri(levels)),
        "cauchy": np.tan(np.pi * (levels - 0.5)),
        "two values": np.array([0.0, 1.0]),
        "counts": np.floor(-2.0 * np.log1p(-levels)),
    }
    # The Cauchy law has no variance: that of a normal law of the same quartiles.
    squares = {"cauchy": 2.0 / ndtri(0.75) ** 2}
    found = {}
    for name, law in laws.items():
        sizes = np.abs(law[:, None] - law)[np.triu_indices(len(law), 1)]
        sizes = sizes[sizes > 0.0]
        counts = np.zeros((_STEPS, _HIGHEST - _LOWEST))
        for step in range(_STEPS):
            octave = np.floor(np.log2(sizes) + step / _STEPS).astype(int)
            octave = np.clip(octave, _LOWEST, _HIGHEST - 1) - _LOWEST
            counts[step] = np.bincount(octave, minlength=counts.shape[1]) / len(sizes)
        square = squares.get(name, float(np.mean(sizes**2)))
        found[name] = Shape(_windows(counts), square)
    return found


@dataclass(frozen=True)
class ScaleWindows(FeatureStatistic):
    """Scales of features from counts of differences in overlapping windows.

    Fewer rows suffice than for histograms of single octaves, whose scales rest on no
    shape of a law. Means are not released. With `holes`, a share of the pairs that has
    no difference may be of missing values.
    """

    name: str = "windows"

    def mechanisms(self, mu: float) -> tuple:
        first, end = self.octaves
        # Windows, and the count of all differences that are no ties.
        shape = (self.n_features, end - first + _WIDTH)
        moved = sensitivity.difference_windows_sensitivity(self.n_features)
        more = {"magnitude": self.order.n_pairs, "lemma": "difference-windows"}
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def exact(self, rows: Any) -> np.ndarray:
        """Return what is released of rows, without noise."""
        first, end = self.octaves
        kernel = partial(
            features.octaves_of_differences,
            n_features=self.n_features,
            first_octave=first,
            n_octaves=end - first,
        )
        counts = walks.reduce_rows(rows, PairWalk(self.order, self.row_map), kernel)
        return np.column_stack([_windows(counts), counts.sum(axis=1)])

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release the windows of rows; return the scales that they show."""
        found = self.scales(self.released(release, rows), self.noise(release.plan))
        return self.in_units(None, *found)

    def released(self, release: Any, rows: Any) -> np.ndarray:
        """Release the windows of rows."""
        exact = self.exact(rows)
        counts = release(self.name, exact, overwrite=True)
        return counts

    def scales(self, released, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Return scales in units of a box, if any, and which of them are seen."""
        prior = self._prior()
        logs, seen = self._read(released, noise, prior)
        if seen.any():
            place = np.rint(logs[seen]).astype(int) - self.octaves[0]
            place = np.clip(place, 0, len(prior) - 1)
            near = np.bincount(place, minlength=len(prior))
            near = np.convolve(near, np.ones(2 * _NEAR + 1), mode="same")
            shared = near / near.sum()
            prior = (1.0 - _SHARED) * prior + _SHARED * shared
            logs, seen = self._read(released, noise, prior)
        return np.exp2(np.clip(np.where(seen, logs, 0.0), -1000.0, 1000.0)), seen

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        return (
            "Scales of features are estimated from counts of differences, based on "
            "the shapes of common distributions, and which features are unseen is "
            "part of the release.",
        )

    def unseen_features(self, plan: Any) -> tuple[str, ...]:
        """Say, from public numbers, if rows are too few for scales."""
        mu = getattr(plan[self.name], "mu", math.inf)
        needed = math.ceil(_ENOUGH_ROWS * math.sqrt(self.n_features) / mu)
        if self.n_samples >= needed:
            return ()
        said = (
            f"{self.n_samples} rows are too few to estimate {self.n_features} private "
            f"scales at this budget; at least {needed} are needed. Some features may "
            "be unseen, or their scales wrong by more than a factor of 2"
        )
        return (said,)

    def _prior(self) -> np.ndarray:
        """Return the prior probability of the octave of a scale."""
        place = np.arange(*self.octaves)
        # With lighter tails than Cauchy's, noise far from 1 is rarely taken for a
        # scale: 2e-39 was, of columns of few ones.
        weights = (1.0 + (place / _TAIL) ** 2) ** -2.0
        return weights / weights.sum()

    def _read(self, released, noise: float, prior) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms of scales to the base 2, and which of them are seen."""
        logs, seen = np.zeros(len(released)), np.zeros(len(released), dtype=np.bool_)
        for start in range(0, len(released), _PANEL):
            panel = released[start : start + _PANEL]
            feature, found, odds = self._candidates(panel, noise, prior)
            ends = np.searchsorted(feature, np.arange(len(panel) + 1))
            # What is left are a few numbers of each feature.
            for row, first, end in zip(count(start), ends, ends[1:], strict=False):
                own = slice(first, end)
                logs[row], seen[row] = _within_an_octave(found[own], odds[own])
        return logs, seen

    def _tried(self, panel, noise: float) -> Iterator[tuple]:
        """Yield shapes with their products with counts, and bounds on their odds."""
        n_pairs, products = self.order.n_pairs, self._products(panel)
        spread = math.hypot(noise, _MISFIT * n_pairs)
        for (name, ties), share in _SHAPES.items():
            if self.holes and not ties and (name, True) in _SHAPES:
                continue
            # Nothing tells where in the octave the gap between two values is.
            steps = 1 if name == "two values" else _STEPS
            known = math.log(share * (_STEPS // steps) / _ALIKE)
            for step in range(steps):
                product, square = products[name, step]
                if ties:
                    low, odds = _near_any_share(product, square, spread, n_pairs)
                else:
                    odds = n_pairs * (product - 0.5 * n_pairs * square) / spread**2
                    low = odds
                yield name, ties, step, product, square, known, spread, low, odds

    def _candidates(self, panel, noise: float, prior):
        """Return indices of features, scales of a posterior, and logarithmic odds."""
        n_pairs, log_prior = self.order.n_pairs, np.log(prior / _STEPS)
        tried, least = list(self._tried(panel, noise)), np.zeros((len(panel), 1))
        for *_, known, _, low, _ in tried:
            best = (low + (log_prior + known)).max(axis=1, keepdims=True)
            least = np.maximum(least, best)
        found, limit = [], least + (_NEGLIGIBLE - 1e-6)
        for name, ties, step, product, square, known, spread, _, odds in tried:
            row, place = np.nonzero(odds + (log_prior + known) > limit)
            odds = odds[row, place]
            pairs = np.full_like(odds, n_pairs)
            if ties:
                product = product[row, place]
                odds, pairs = of_any_share(product, square, spread, n_pairs)
            odds = odds + log_prior[place] + known
            moment = _shapes()[name].square * pairs / (2.0 * n_pairs)
            logs = self.octaves[0] + place + step / _STEPS + 0.5 * np.log2(moment)
            found.append((row, logs, odds))
        fields = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(fields[0], kind="stable")
        return tuple(field[order] for field in fields)

    def _products(self, panel) -> dict[tuple[str, int], tuple[np.ndarray, float]]:
        """Return products of shapes with counts, and with themselves."""
        windows, total = panel[:, :-1], panel[:, -1:]
        width = _HIGHEST - _LOWEST + _WIDTH - 1
        padded = np.pad(windows, ((0, 0), (-_LOWEST, width)))
        term, found = np.empty((len(panel), windows.shape[1] - _WIDTH + 1)), {}
        for name, shape in _shapes().items():
            for step, template in enumerate(shape.windows):
                product = np.zeros_like(term)
                for k in np.flatnonzero(template > 1e-4):
                    shifted = padded[:, k : k + term.shape[1]]
                    product += np.multiply(template[k], shifted, out=term)
                product += total
                found[name, step] = product, 1.0 + float(template @ template)
        return found


def _near_any_share(products, square: float, spread: float, n_pairs: int):
    """Return lower and upper bounds on odds of :func:`of_any_share`."""
    deviation = spread / math.sqrt(square)
    mean = products * (1.0 / (square * deviation))
    nearest = np.clip(mean, 0.0, n_pairs / deviation)
    # Integrals over [0, n] of exp(x mean - x^2 / 2) grow with the mean; beyond n they
    # are at most those of their tangents there.
    mean -= nearest
    mean *= nearest
    np.multiply(nearest, nearest, out=nearest)
    nearest *= 0.5
    width = math.log(math.sqrt(2.0 * math.pi) * deviation / n_pairs)
    # A mean over [0, n] is at most the largest number there.
    mean += nearest + min(width, 0.0)
    nearest += width + math.log(ndtr(n_pairs / deviation) - 0.5) - 1e-6
    return nearest, mean


def of_any_share(products, square, spread: float, n_pairs):
    """Return odds of a shape in a uniform share of the pairs, and that many pairs."""
    mean, deviation = products / square, spread / np.sqrt(square)
    upper, lower = (n_pairs - mean) / deviation, -mean / deviation
    # The probability of an interval, from the tail that loses no digits.
    flip = lower > 0.0
    high, low = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
    top = log_ndtr(high)
    inside = top + np.log(-np.expm1(np.minimum(log_ndtr(low) - top, -1e-15)))
    odds = 0.5 * (mean / deviation) ** 2 + inside
    odds += np.log(math.sqrt(2.0 * math.pi) * deviation / n_pairs)
    return odds, np.clip(mean, np.minimum(deviation, n_pairs), n_pairs)


def _within_an_octave(logs: np.ndarray, odds: np.ndarray) -> tuple[float, bool]:
    """Return the scale that most of a posterior is near, and whether that suffices."""
    best = float(odds.max(initial=0.0))
    kept = odds > best + _NEGLIGIBLE
    if not kept.any():
        return 0.0, False
    logs, weights = logs[kept], np.exp(odds[kept] - best)
    order = np.argsort(logs)
    logs, weights = logs[order], weights[order]
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    ends = np.searchsorted(logs, logs + 2.0, side="right")
    masses = sums[ends] - sums[:-1]
    first = int(np.argmax(masses))
    inside = slice(first, int(ends[first]))
    mean = float(np.average(logs[inside], weights=weights[inside]))
    return mean, bool(masses[first] >= _SURE * (sums[-1] + math.exp(-best)))


# Rows, in units of sqrt(n_features) / mu, below which windows tell more.
_FEW_ROWS = 200.0

# Of fewer rows in the same units nothing is seen, and reading windows of more features
# takes long.
_HOPELESS_ROWS, _MANY_FEATURES = 6.0, 1000

# Cells that normal values fill on either side of their mean.
_REACH = 8

# Cells of a feature, and of all features together: a power of two each.
_MOST_CELLS, _FEWEST_CELLS, _MOST_COUNTS = 1 << 13, 1 << 9, 1 << 22

# Scale of the prior's heavy tail in cells, odds of no place, and the error of a law, as
# a share of the rows.
_CELL_TAIL, _NOWHERE, _LAW_MISFIT = 8.0, 0.1, 0.02

# A place is seen if so much of the posterior lies within so many cells.
_SURE_PLACE, _NEAR_CELLS = 0.5, 4

# Counts that are read together.
_CELL_PANEL = 1 << 17


@dataclass(frozen=True)
class PlaceWindows(FeatureStatistic):
    """Places of features from counts of values in overlapping windows of cells.

    A cell is half as wide to as wide as a released scale. Cells go around a circle: a
    place is known up to its length, and the one that is nearest to 0 is meant. The
    number of values is released too, which may be NaN with `holes`.
    """

    name: str = "cells"

    @property
    def n_cells(self) -> int:
        """Cells of a feature, from the number of features."""
        cells = _MOST_CELLS
        while cells > _FEWEST_CELLS and cells * self.n_features > _MOST_COUNTS:
            cells //= 2
        return cells

    def mechanisms(self, mu: float) -> tuple:
        shape = (self.n_features, self.n_cells + 1)
        moved = sensitivity.value_windows_sensitivity(self.n_features)
        more = {"magnitude": self.n_samples, "lemma": "value-windows"}
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def exact(self, rows: Any, scale: np.ndarray) -> np.ndarray:
        """Return what is released of rows, without noise."""
        exponents = np.frexp(scale)[1] - 1
        kernel = partial(
            features.counts_in_cells, exponents=exponents, n_cells=self.n_cells
        )
        counts = features.sum_over_rows(rows, kernel, self.row_map)
        return np.column_stack([overlapping(counts, _WIDTH), counts.sum(axis=1)])

    def run(self, release: Any, rows: Any, *given: Any) -> tuple:
        """Release windows of rows; return places, and which of them are seen."""
        (scale,) = given
        exact = self.exact(rows, scale)
        released = release(self.name, exact, overwrite=True)
        noise = self.noise(release.plan)
        cells, seen = np.empty(self.n_features), np.empty(self.n_features, dtype=bool)
        exponents = np.frexp(scale)[1] - 1
        # In units of cells.
        widths, step = np.ldexp(scale, -exponents), max(1, _CELL_PANEL // self.n_cells)
        for start in range(0, self.n_features, step):
            some = slice(start, start + step)
            odds = self._odds(released[some], noise, widths[some])
            cells[some], seen[some] = self._likely_cell(odds)
        with np.errstate(over="ignore", under="ignore"):
            place = np.ldexp(cells + 0.5, exponents)
        seen &= np.isfinite(place)
        return np.where(seen, place, 0.0), seen

    @property
    def _cells(self) -> np.ndarray:
        """Cells by their signed distance from 0, in the order of the windows."""
        cells = np.arange(self.n_cells)
        return np.where(cells < self.n_cells // 2, cells, cells - self.n_cells)

    def _odds(self, panel, noise: float, widths) -> np.ndarray:
        """Return logarithmic odds of the cell of a mean, for normal values."""
        windows, total = panel[:, :-1], self.n_samples
        if self.holes:
            total = np.clip(panel[:, -1:], 1.0, self.n_samples)
        template = _template(widths, self.n_cells)
        square = np.sum(template**2, axis=1, keepdims=True)
        products = np.fft.irfft(
            np.fft.rfft(windows) * np.conj(np.fft.rfft(template)), self.n_cells
        )
        spread = math.hypot(noise, _LAW_MISFIT * self.n_samples)
        odds, _ = of_any_share(products, square, spread, total)
        prior = 1.0 / (1.0 + (self._cells / _CELL_TAIL) ** 2)
        return odds + np.log((1.0 - _NOWHERE) * prior / prior.sum())

    def _likely_cell(self, odds) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean cell where a posterior is densest, and if that suffices."""
        nowhere = math.log(_NOWHERE)
        best = np.maximum(odds.max(axis=1, keepdims=True), nowhere)
        weights = np.exp(odds - best)
        # Sums over neighbors on the circle.
        wrapped = np.pad(weights, ((0, 0), (_NEAR_CELLS, _NEAR_CELLS)), mode="wrap")
        near = np.lib.stride_tricks.sliding_window_view(
            wrapped, 2 * _NEAR_CELLS + 1, axis=1
        )
        middle = np.argmax(near.sum(axis=-1), axis=1)
        near = near[np.arange(len(odds)), middle]
        mass = near.sum(axis=1)
        offset = (
            near @ np.arange(-_NEAR_CELLS, _NEAR_CELLS + 1.0) / np.maximum(mass, 1e-300)
        )
        all_mass = weights.sum(axis=1) + np.exp(nowhere - best[:, 0])
        return self._cells[middle] + offset, mass >= _SURE_PLACE * all_mass


def _template(scale: np.ndarray, n_cells: int) -> np.ndarray:
    """Return expected counts in windows of normal values about the middle of cell 0."""
    edges = np.arange(-_REACH, _REACH + 2) - 0.5
    shares = np.diff(ndtr(edges / scale[:, None]), axis=1)
    counts = np.zeros((len(scale), n_cells))
    counts[:, np.arange(-_REACH, _REACH + 1)] = shares
    return overlapping(counts, _WIDTH)


# Shares of mu**2, by the features that are seen on small tables.
_SHARES = {"windows": 0.4, "cells": 0.2, "moments": 0.4}

# Half-width of what moments count, in scales, where noise is small.
_REACH_OF_MOMENTS = 3.0

# Relative error of a variance that windows show, and the largest ratio of a variance to
# it, or of it to a variance.
_ERROR, _FARTHEST = 0.5, 8.0

# A mean is so many deviations of its noise from the edge, or so far from the place.
_FROM_THE_EDGE, _FROM_THE_PLACE = 4.5, 0.7


@dataclass(frozen=True)
class WindowedScales(FeatureStatistic, Combination):
    """Location and scale of each feature of few rows, with no bounds known."""

    def parts(self) -> Mapping[str, Any]:
        """Return the statistics, in the order of their releases."""
        given = self.n_samples, self.n_features, self.box, self.holes
        found = ScaleWindows(*given), PlaceWindows(*given), FeatureMoments(*given)
        return {one.name: one for one in found}

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2."""
        return _SHARES

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release scales, places and moments."""
        windows, cells, moments = self.parts().values()
        counts = windows.released(release, rows)
        scale, seen = windows.scales(counts, windows.noise(release.plan))
        # Of the pairs that have a difference; the others may have holes.
        kept = np.clip(counts[:, -1], 1.0, self.n_samples) / self.n_samples
        if self.holes:
            scale = np.minimum(scale / np.sqrt(kept), np.finfo(float).max)
        place, placed = cells.run(release, rows, scale)
        reach = times(_REACH_OF_MOMENTS, scale)
        spreads = Spreads(seen, reach, scale, np.zeros_like(scale))
        radius = moments.radius(moments.noise(release.plan), spreads)
        found = moments.released(release, rows, place, radius)
        if found.present is not None:
            # Pairs of present values that are ties count too.
            share = np.clip(found.present, 1.0 / self.n_samples, 1.0)
            scale = scale * np.minimum(np.sqrt(kept) / share, 1.0)
        edge = np.maximum(1.0 - _FROM_THE_EDGE * found.noise, _FROM_THE_PLACE)
        seen = seen & placed & found.enough & (np.abs(found.mean) < edge)
        scale = _joint_scale(scale, radius, found)
        return self.in_units(found.place, scale, seen, found.present)

    def unseen_features(self, plan: Any) -> tuple[str, ...]:
        """Say, from public numbers, if rows are too few for scales."""
        return self.parts()["windows"].unseen_features(plan)


def _joint_scale(scale, radius, found: UnitMoments) -> np.ndarray:
    """Return scales from windows and moments, each by its error."""
    with np.errstate(over="ignore"):
        unit = np.square(radius / scale)
    error = unit * found.deviation
    weight = _ERROR**2 / (_ERROR**2 + error**2)
    variance = 1.0 + weight * (unit * found.variance - 1.0)
    return scale * np.sqrt(np.clip(variance, 1.0 / _FARTHEST, _FARTHEST))


def scales_of_features(
    n_samples: int,
    n_features: int,
    mu: float,
    box: Box | None = None,
    holes: bool = False,
    with_mean: bool = True,
) -> FeatureStatistic:
    """Return the statistic of scales, and means, for a public number of rows."""
    given, size = (n_samples, n_features, box, holes), n_samples * mu
    size /= math.sqrt(n_features)
    hopeless = with_mean and size < _HOPELESS_ROWS and n_features > _MANY_FEATURES
    if size < _FEW_ROWS and not hopeless:
        return WindowedScales(*given) if with_mean else ScaleWindows(*given)
    return FeatureScales(*given, with_mean=with_mean)
