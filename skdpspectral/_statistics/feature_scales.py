"""Private locations and scales of features without known bounds.

Histograms of differences of rows give scales, phases on circles give approximate
locations, and clipped moments about these give means and standard deviations.

On few rows, a difference of two values lies in one octave, a value in one cell. Windows
of several neighbors overlap, so that counts add up over windows, for the price of one.
Scales and places are read from released counts by their likelihood.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from .. import sensitivity
from .._linalg import features, walks
from .._linalg.walks import PairOrder, PairWalk, PoolWalk, RowWalk, Writing
from .._tables.clipping import Box
from ..accounting import calibrate_gaussian
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Exact, PrivacyPlan
from .statistic import Combination, Statistic, mean_summation_error

# All normal numbers of float64, two nodes an octave, where memory allows it.
_LOWEST_OCTAVE, _HIGHEST_OCTAVE = -1022, 1023
_MOST_NUMBERS, _FEWEST_OCTAVES = 1 << 25, 256
# Probability of a false alarm in all features together, its share for nodes between
# 2**-32 and 2**32, and how many nodes side by side may show a feature together.
_FALSE_ALARMS, _USUAL_SHARE, _USUAL_OCTAVE = 0.02, 0.9, 32
_WINDOWS = (1, 2, 3)
# What the highest of several nodes must hold by itself, in deviations.
_ALONE = 2.0
# Nodes that a tail may reach beyond what stands out by itself.
_TAIL_NODES = 8
# Nodes below the highest whose squares count: two differ by a factor of 2**8.
_COUNTED_NODES = 16
# Features that are looked at together.
_PANEL = 256


def refuse_too_few(n_samples: int) -> None:
    """Refuse tables of which no two rows can be compared."""
    if n_samples < 2:
        said = "must be at least 2: scales are computed from differences of rows"
        raise ValueError(f"n_samples={n_samples} {said}")


_SMALLEST_SCALE = float(np.finfo(float).tiny)


class FeatureLaw(NamedTuple):
    """Public values of features in units of the data."""

    mean: np.ndarray | None
    scale: np.ndarray
    seen: np.ndarray  # others have the middle and half-width of the box, or 0 and 1
    present: np.ndarray | None = None  # shares of values


@dataclass(frozen=True)
class FeatureStatistic(Statistic):
    """Releases about features, in a `box` if there is one; `holes` allow NaN."""

    n_samples: int
    n_features: int
    box: Box | None = None
    holes: bool = False
    name: str = ""

    @property
    def order(self) -> PairOrder:
        """Pairs and pools of rows; each row is in two pairs."""
        return PairOrder(self.n_samples, self.n_features, 1)

    @property
    def octaves(self) -> tuple[int, int]:
        """First and last octave of histograms, from the number of features."""
        half = max(_MOST_NUMBERS // (2 * self.n_features), _FEWEST_OCTAVES) // 2
        return max(-half, _LOWEST_OCTAVE), min(half, _HIGHEST_OCTAVE)

    @property
    def row_map(self) -> Any:
        """Map of rows to units of the box, None without one."""
        return None if self.box is None else self.box.to_unit

    def noise(self, plan: Any) -> float:
        """Deviation of the planned noise."""
        return getattr(plan[self.name], "noise_std", 0.0)

    def in_units(self, mean, scale, seen, present=None) -> FeatureLaw:
        """Return a law in the units of the data, with defaults for unseen features."""
        middle, unit = np.zeros(self.n_features), np.ones(self.n_features)
        if self.box is not None:
            middle, unit = self.box.midpoint, self.box.unit
        # Scales below all normal numbers have no inverse.
        seen = seen & (scale * unit >= _SMALLEST_SCALE)
        scale = np.where(seen, scale, 1.0) * unit
        if mean is not None:
            mean = middle + np.where(seen, mean, 0.0) * unit
        return FeatureLaw(mean, scale, seen, present)


class Spreads(NamedTuple):
    """Released spreads of features."""

    found: np.ndarray  # of others, reach and scale are 1
    reach: np.ndarray  # the highest node
    scale: np.ndarray  # a deviation
    tail: np.ndarray  # share of the highest node in the variance


@dataclass(frozen=True)
class DifferenceHistograms(FeatureStatistic):
    """Histograms of differences of paired rows, without ties and missing values."""

    # Without ties, a feature of mostly equal values has a scale, too.
    name: str = "differences"
    factor: float = 1.0  # of thresholds

    @property
    def octaves(self) -> tuple[int, int]:
        first, last = super().octaves
        return first, last if self.box is None else 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of each histogram, none of which is beyond a box."""
        first, last = self.octaves
        return 2 * (last - first) + (2 if self.box is None else 1)

    def mechanisms(self, mu: float) -> tuple:
        shape = (self.n_features, self.n_nodes)
        moved = sensitivity.difference_counts_sensitivity(self.n_features)
        more = {"magnitude": self.order.n_pairs, "lemma": "difference-counts"}
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> Spreads:
        """Release the histograms of rows."""
        size = {"n_features": self.n_features, "n_nodes": self.n_nodes}
        size |= {"first_octave": self.octaves[0]}
        kernel = partial(features.counts_of_differences, **size)
        counts = walks.reduce_rows(rows, PairWalk(self.order, self.row_map), kernel)
        noise = self.noise(release.plan)
        return self._spreads(release(self.name, counts, overwrite=True), noise)

    def _spreads(self, counts: np.ndarray, noise: float) -> Spreads:
        """Compute spreads from released counts and their noise's deviation."""
        nodes = features.node_values(self.octaves[0], self.n_nodes)
        highest = self._highest(counts, noise, self._usual_rates())
        if (highest >= 0).any():
            # Thresholds are lower at nodes that are the highest of other features.
            seen = np.bincount(highest[highest >= 0], minlength=self.n_nodes)
            again = self._highest(counts, noise, 0.5 * seen / seen.sum())
            highest = np.where(highest < 0, again, highest)
        found = highest >= 0
        highest[~found] = 0
        self._extend(highest, counts, noise)
        reach = nodes[highest]
        below = highest[:, None] - np.arange(_COUNTED_NODES)
        kept = np.where(below < 0, 0.0, np.take_along_axis(counts, below, axis=1))
        ratios = nodes[np.maximum(below, 0)] / reach[:, None]
        squares = np.maximum(np.sum(kept * ratios**2, axis=1), noise)
        squares[~found] = 1.0
        n_pairs = self.order.n_pairs
        if self.holes:
            # Which of the others are ties, and which have holes, is not known.
            n_pairs = np.clip(kept.sum(axis=1), squares, n_pairs)
        scale = reach * np.sqrt(squares / (2.0 * n_pairs))
        scale[~found] = reach[~found] = 1.0
        return Spreads(found, reach, scale, np.clip(kept[:, 0] / squares, 0.0, 1.0))

    def _extend(self, highest, counts, noise: float) -> None:
        """Move highest nodes up, in place, while the next ones have counts."""
        for _ in range(_TAIL_NODES):
            ahead = np.minimum(highest[:, None] + (1, 2), self.n_nodes - 1)
            tail = np.take_along_axis(counts, ahead, axis=1)
            one = tail[:, 0] > _ALONE * noise
            two = tail.sum(axis=1) > _ALONE * math.sqrt(2.0) * noise
            highest += (one | (two & (tail[:, 1] > noise))) & (highest < ahead[:, 0])

    def smallest_visible_share(self, noise: float) -> float:
        """Return the share of pairs with similar differences that is detectable."""
        limits = self._limits(noise, self._usual_rates())
        return float(limits.min()) / self.order.n_pairs

    def _usual_rates(self) -> np.ndarray:
        """Return each node's share of the false alarms."""
        octave = self.octaves[0] + np.arange(self.n_nodes) // 2
        usual = np.abs(octave) <= _USUAL_OCTAVE
        share = np.where(usual, _USUAL_SHARE, 1.0 - _USUAL_SHARE)
        share /= np.where(usual, usual.sum(), max((~usual).sum(), 1))
        return 0.5 * share

    def _limits(self, noise: float, rates: np.ndarray) -> np.ndarray:
        """Return the counts that noise exceeds at given false-alarm rates."""
        rates = _FALSE_ALARMS / (self.n_features * len(_WINDOWS)) * rates
        limits = -noise * ndtri(np.where(rates > 0.0, rates, 0.5))
        limits[rates == 0.0] = np.inf
        return self.factor * limits

    def _highest(self, counts, noise: float, rates: np.ndarray) -> np.ndarray:
        """Return each feature's highest node above the noise, -1 for none."""
        limits = self._limits(noise, rates)
        highest = np.empty(len(counts), dtype=np.int64)
        for start in range(0, len(counts), _PANEL):
            panel = counts[start : start + _PANEL]
            alarms = np.zeros(panel.shape, dtype=bool)
            alone = panel > _ALONE * noise
            together = np.zeros_like(panel)
            for width in _WINDOWS:
                together[:, width - 1 :] += panel[:, : panel.shape[1] - width + 1]
                alarms |= (together > math.sqrt(width) * limits) & alone
            last = panel.shape[1] - 1 - np.argmax(alarms[:, ::-1], axis=1)
            highest[start : start + _PANEL] = np.where(alarms.any(axis=1), last, -1)
        return highest


# Errors of the logarithm of a scale from noise: up to the first, values beyond the
# highest difference are kept too; above the second, the tails are cut.
_SMALL_ERROR, _LARGE_ERROR = 0.003, 0.05
# Share of the highest node in the variance below which it is a mere tail.
_FEW_AT_THE_END = 0.5
# Shortest and longest radius in units of the highest difference, and without noise.
_SHORTEST_RADIUS, _LONGEST_RADIUS, _ENDLESS = 0.7, 2.0, 1024.0
_LARGEST = float(np.finfo(float).max)
# Variances below so many deviations of their noise are none.
_DEVIATIONS = 3.0
# What is subtracted from squares of present values, so that none contributes much.
_MIDDLE = 0.5
# Deviations from a mean at which standardized values are cut: rare indicators are
# nearer.
FARTHEST = 30.0
# Means of so many deviations of their noise from the edge may be of values beyond it.
_FROM_THE_EDGE = 4.5


class UnitMoments(NamedTuple):
    """Released moments about locations, in units of radii."""

    place: np.ndarray  # finite means
    mean: np.ndarray
    variance: np.ndarray
    deviation: np.ndarray  # of the noise in variances
    noise: Any  # its deviation in means
    enough: Any  # whether enough values are present
    present: np.ndarray | None


@dataclass(frozen=True)
class FeatureMoments(FeatureStatistic):
    """Mean and mean square of each feature, clipped about a released location."""

    name: str = "moments"

    @property
    def _weight(self) -> float:
        """Weight of squares: the largest that adds no sensitivity."""
        return math.sqrt(sensitivity.free_moment_weight(1))

    @property
    def _weights(self) -> np.ndarray:
        """Weights of values, squares and, with holes, of presence."""
        # Squares are released less _MIDDLE: presence then adds no sensitivity.
        presence = [math.sqrt(sensitivity.free_presence_weight())]
        return np.array([1.0, self._weight] + self.holes * presence)

    def mechanisms(self, mu: float) -> tuple:
        n, p = self.n_samples, self.n_features
        # Sums of squares and of the middles to subtract are rounded by themselves.
        terms = (1.0, self._weight * (1.0 + _MIDDLE * self.holes), *self._weights[2:])
        longest = math.sqrt(p) * math.hypot(*terms)
        return calibrate_alike(
            [self.name],
            sensitivity.feature_moments_sensitivity(n, p),
            mu,
            (p, len(self._weights)),
            summation_error=mean_summation_error(longest, n, p),
            magnitude=2.0 * self._weight,
            lemma="feature-moments",
        )

    def radius(self, noise: float, spreads: Spreads) -> np.ndarray:
        """Return clipping radii that balance the errors of noise and clipping."""
        if noise == 0.0:
            return times(_ENDLESS, spreads.reach)
        per_error = 2.0 * self._weight / noise
        wanted = [
            np.minimum(spreads.scale / spreads.reach * math.sqrt(e), _LONGEST_RADIUS)
            for e in (_SMALL_ERROR * per_error, _LARGE_ERROR * per_error)
        ]
        # What lies at the highest node, as the rare value of an indicator, is kept.
        shortest = np.where(spreads.tail < _FEW_AT_THE_END, _SHORTEST_RADIUS, 1.0)
        units = np.maximum(np.minimum(wanted[1], 1.0), np.maximum(wanted[0], shortest))
        return times(units, spreads.reach)

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release moments about places, given spreads."""
        place, spreads = given
        radius = self.radius(self.noise(release.plan), spreads)
        found = self.released(release, rows, place, radius)
        # A mean at the edge is that of clipped values alone: the place is wrong, and
        # the variance is noise.
        inside = np.abs(found.mean) < 1.0 - _FROM_THE_EDGE * found.noise
        seen = spreads.found & inside & found.enough
        # Where noise hides the variance of a few large values, as of capital gains,
        # their differences still show a scale.
        clear = seen & (found.variance > _DEVIATIONS * found.deviation)
        scale = radius * np.sqrt(np.where(clear, found.variance, 1.0))
        scale = np.where(clear, scale, spreads.scale)
        return self.in_units(found.place, scale, seen, found.present)

    def released(self, release: Any, rows: Any, place, radius) -> UnitMoments:
        """Release moments of mapped rows about locations, in units of radii."""
        noise = self.noise(release.plan)
        if self.box is not None:
            place = np.clip(place, -1.0, 1.0)
        kernel = partial(
            features.moment_sums, center=place, radius=radius, holes=self.holes
        )
        sums = features.sum_over_rows(rows, Writing(kernel), self.row_map)
        if self.holes:
            sums[:, 1] -= _MIDDLE * sums[:, 2]
        sums *= self._weights / self.n_samples
        released = release(self.name, sums, overwrite=True)
        square, square_noise = released[:, 1] / self._weight, noise / self._weight
        present, enough = None, np.True_
        if self.holes:
            presence_noise = noise / self._weights[2]
            present = np.clip(released[:, 2] / self._weights[2], 0.0, 1.0)
            enough = present > _FROM_THE_EDGE * presence_noise
            share = np.where(enough, present, 1.0)
            square = square / share + _MIDDLE
            # Of a quotient: near the middle, the noise of the share hardly counts.
            square_noise = np.hypot(square_noise, (square - _MIDDLE) * presence_noise)
            square_noise, noise = square_noise / share, noise / share
            released = released / share[:, None]
        mean = np.clip(released[:, 0], -1.0, 1.0)
        variance = square - mean**2 + noise**2
        deviation = np.hypot(square_noise, 2.0 * mean * noise)
        with np.errstate(over="ignore"):
            place = np.clip(place + radius * mean, -_LARGEST, _LARGEST)
        return UnitMoments(place, mean, variance, deviation, noise, enough, present)


def times(units, lengths: np.ndarray) -> np.ndarray:
    """Return the product, at most the largest float."""
    with np.errstate(over="ignore"):
        return np.minimum(units * lengths, _LARGEST)


# Circles, and by how many powers of two each is longer than the one before: the longer
# the steps, the fewer circles share the budget and the less noise they bear. The last
# circle is 2**16 to 2**40 times as long as the first.
_LADDERS = {3: 20, 4: 13, 5: 10, 6: 7, 7: 5, 8: 3, 9: 2}
# Noise of a mean phase that still tells which turn of the next shorter circle is meant,
# in units of one over the ratio of their lengths: 4 deviations and a half.
_NOISE_ALLOWED = 0.3
# The shortest circle is 8 to 16 scales long, so that phases of most values are close.
_SHORTEST_CIRCLE = 3
# Rows whose phases are summed, at most, where so many or fewer circles suffice for
# them: then their noise moves a place by less than a tenth of a scale.
_MOST_ROWS, _MOST_CIRCLES = 1 << 17, 7


@dataclass(frozen=True)
class Phases(FeatureStatistic):
    """Mean phases of features on circles of several lengths, from short to long."""

    name: str = "places"

    def mechanisms(self, mu: float) -> tuple:
        """Plan as few circles as the noise allows; infinite mu means no noise."""
        if not math.isfinite(mu):
            return (Exact(self.name, (self.n_features, min(_LADDERS), 2)),)
        more = {"magnitude": self.n_samples, "lemma": "phases"}
        for all_rows in (False, True):
            for n_circles in _LADDERS:
                moved = sensitivity.phase_sensitivity(self.n_features, n_circles)
                shape = (self.n_features, n_circles, 2)
                phases = calibrate_gaussian(self.name, moved, mu, shape, **more)
                if self._suffice(phases, all_rows):
                    return (phases,)
        return (phases,)

    def _suffice(self, phases: Any, all_rows: bool) -> bool:
        """Return whether the planned noise allows circles so few and so long."""
        n_circles = phases.shape[1]
        n_rows = self.n_samples if all_rows else self.order.rows_of(self._n_pools)
        allowed = _NOISE_ALLOWED * 2.0 ** -_LADDERS[n_circles] * n_rows
        few = all_rows or n_circles <= _MOST_CIRCLES
        return few and getattr(phases, "noise_std", 0.0) <= allowed

    @property
    def _n_pools(self) -> int:
        return self.order.pools_with(_MOST_ROWS)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release phases of rows; return a finite location of each feature."""
        (scale,), row_map = given, self.row_map
        planned, n_pools = release.plan[self.name], self._n_pools
        n_circles = planned.shape[1]
        steps = _LADDERS[n_circles] * np.arange(n_circles)
        # Of a scale in [2**(e-1), 2**e), the shortest circle is 2**(e+3) long.
        exponents = (np.frexp(scale)[1] + _SHORTEST_CIRCLE)[:, None] + steps
        walk: walks.Walk = RowWalk(row_map and Writing(row_map))
        if n_pools < self.order.n_pools and self._suffice(planned, all_rows=False):
            walk = PoolWalk(self.order, n_pools, row_map and Writing(row_map))
        kernel = partial(features.phase_sums, exponents=exponents)
        phases = features.sum_over_blocks(rows, walk, kernel)
        released = release(self.name, phases, overwrite=True)
        return np.nan_to_num(features.unwind_phases(released, exponents))


# Shares of mu**2, by the error of scales and the features seen on tables of 85 to 122
# features.
_SHARES = {"differences": 0.5, "places": 0.1, "moments": 0.4}


@dataclass(frozen=True)
class FeatureScales(FeatureStatistic, Combination):
    """Locations and scales of features: differences, then places and moments."""

    with_mean: bool = True
    prefix: str = ""  # of the names of releases
    factor: float = 1.0

    def parts(self) -> Mapping[str, Any]:
        """Return the statistics, in the order of their releases."""
        given = self.n_samples, self.n_features, self.box, self.holes
        spreads = DifferenceHistograms(*given, factor=self.factor)
        means = (Phases(*given), FeatureMoments(*given)) if self.with_mean else ()
        found = (spreads, *means)
        return {one.name: replace(one, name=self.prefix + one.name) for one in found}

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2."""
        return _SHARES if self.with_mean else {"differences": 1.0}

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release scales and, if requested, means."""
        parts = self.parts()
        spreads = parts["differences"].run(release, rows)
        if not self.with_mean:
            return self.in_units(None, spreads.scale, spreads.found)
        place = parts["places"].run(release, rows, spreads.scale)
        return parts["moments"].run(release, rows, place, spreads)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn, from public numbers, if noise hides every feature."""
        part = self.parts()["differences"]
        share = part.smallest_visible_share(part.noise(plan))
        if not share > 1.0:
            return ()
        said = (
            f"no feature can be seen: of {self.n_samples} pairs of rows, "
            f"{share * self.n_samples:.0f} would have to differ in it; use more rows, "
            "fewer features or a larger epsilon"
        )
        return (said,)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        return ("Which features are unseen is part of the release.",)


# -- few rows: overlapping windows -----------------------------------------------------

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
_READ_TOGETHER, _NEGLIGIBLE = 16, -12.0


def overlapping(counts: np.ndarray) -> np.ndarray:
    """Return counts in windows of neighbors on a circle, by the last of each."""
    shifted = [np.roll(counts, shift, axis=-1) for shift in range(_WIDTH)]
    return _WEIGHT * np.sum(shifted, axis=0)


def _windows(counts: np.ndarray) -> np.ndarray:
    """Return counts in overlapping windows, from counts by octaves."""
    return overlapping(np.pad(counts, ((0, 0), (0, _WIDTH - 1))))


@functools.cache
def _shapes() -> dict[str, tuple[np.ndarray, float]]:
    """Return counts of laws of scale 1, (_STEPS, windows), and moments, by name."""
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
        found[name] = _windows(counts), squares.get(name, float(np.mean(sizes**2)))
    return found


@dataclass(frozen=True)
class ScaleWindows(FeatureStatistic):
    """Scales of features by overlapping windows: for fewer rows than histograms."""

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
        return release(self.name, self.exact(rows), overwrite=True)

    def scales(self, released, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Return scales in units of a box, if any, and which of them are seen."""
        # With lighter tails than Cauchy's, noise far from 1 is rarely taken for a
        # scale: 2e-39 was, of columns of few ones.
        prior = (1.0 + (np.arange(*self.octaves) / _TAIL) ** 2) ** -2.0
        prior /= prior.sum()
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

    def caveats(self, plan: Any) -> tuple[str, ...]:
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

    def _read(self, released, noise: float, prior) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms of scales to the base 2, and which of them are seen."""
        logs, seen = np.zeros(len(released)), np.zeros(len(released), dtype=np.bool_)
        for start in range(0, len(released), _READ_TOGETHER):
            panel = released[start : start + _READ_TOGETHER]
            feature, found, odds = self._candidates(panel, noise, prior)
            ends = np.searchsorted(feature, np.arange(len(panel) + 1))
            # What is left are a few numbers of each feature.
            for row, first, end in zip(count(start), ends, ends[1:], strict=False):
                own = slice(first, end)
                logs[row], seen[row] = _within_an_octave(found[own], odds[own])
        return logs, seen

    def _tried(self, panel, spread: float) -> Iterator[tuple]:
        """Yield shapes with their products with counts, and upper bounds on odds."""
        n_pairs, products = self.order.n_pairs, self._products(panel)
        for (name, ties), share in _SHAPES.items():
            if self.holes and not ties and (name, True) in _SHAPES:
                continue
            # Nothing tells where in the octave the gap between two values is.
            steps = 1 if name == "two values" else _STEPS
            known = math.log(share * (_STEPS // steps) / _ALIKE)
            for step in range(steps):
                product, square = products[name, step]
                if ties:
                    most = most_of_any_share(product, square, spread, n_pairs)
                else:
                    most = n_pairs * (product - 0.5 * n_pairs * square) / spread**2
                yield name, step, known, most, (product, square) if ties else None

    def _candidates(self, panel, noise: float, prior):
        """Return indices of features, scales of a posterior, and logarithmic odds."""
        n_pairs, log_prior = self.order.n_pairs, np.log(prior / _STEPS)
        spread, rows = math.hypot(noise, _MISFIT * n_pairs), np.arange(len(panel))
        tried, least, found = list(self._tried(panel, spread)), np.zeros(len(panel)), []

        def odds_at(row, place, known, most, of_a_share):
            odds = most[row, place]
            pairs = np.full_like(odds, n_pairs)
            if of_a_share is not None:
                product, square = of_a_share
                odds, pairs = of_any_share(product[row, place], square, spread, n_pairs)
            return odds + log_prior[place] + known, pairs

        for _, _, known, most, of_a_share in tried:
            best = np.argmax(most + log_prior, axis=1)
            odds, _ = odds_at(rows, best, known, most, of_a_share)
            least = np.maximum(least, odds)
        limit = least[:, None] + (_NEGLIGIBLE - 1e-6)
        for name, step, known, most, of_a_share in tried:
            row, place = np.nonzero(most + (log_prior + known) > limit)
            odds, pairs = odds_at(row, place, known, most, of_a_share)
            moment = _shapes()[name][1] * pairs / (2.0 * n_pairs)
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
        for name, (templates, _) in _shapes().items():
            for step, template in enumerate(templates):
                product = np.zeros_like(term)
                for k in np.flatnonzero(template > 1e-4):
                    shifted = padded[:, k : k + term.shape[1]]
                    product += np.multiply(template[k], shifted, out=term)
                product += total
                found[name, step] = product, 1.0 + float(template @ template)
        return found


def most_of_any_share(products, square: float, spread: float, n_pairs: int):
    """Return upper bounds on odds of :func:`of_any_share`, which take less time."""
    deviation = spread / math.sqrt(square)
    mean = products * (1.0 / (square * deviation))
    # A mean of exp(x mean - x^2 / 2) over [0, n] is at most the largest number there.
    nearest = np.clip(mean, 0.0, n_pairs / deviation)
    width = math.log(math.sqrt(2.0 * math.pi) * deviation / n_pairs)
    return nearest * (mean - 0.5 * nearest) + min(width, 0.0)


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
    """Places of features from counts of values in overlapping windows of cells."""

    # Cells are half to one released scale wide, on a circle: of the places in a cell,
    # the nearest to 0 is meant. The number of values, without holes, is released, too.
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
        return np.column_stack([overlapping(counts), counts.sum(axis=1)])

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
    return overlapping(counts)


# Half-width of what moments count, in scales, where noise is small.
_REACH_OF_MOMENTS = 3.0
# Relative error of a variance that windows show, and the largest ratio of a variance to
# it, or of it to a variance.
_ERROR, _FARTHEST = 0.5, 8.0
# A mean is that near to the edge by itself, whatever its noise.
_FROM_THE_PLACE = 0.7


@dataclass(frozen=True)
class WindowedScales(FeatureStatistic, Combination):
    """Location and scale of each feature of few rows, with no bounds known."""

    def parts(self) -> Mapping[str, Any]:
        """Return the statistics, in the order of their releases."""
        given = self.n_samples, self.n_features, self.box, self.holes
        found = ScaleWindows(*given), PlaceWindows(*given), FeatureMoments(*given)
        return {one.name: one for one in found}

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2, by the features seen on small tables."""
        return {"windows": 0.4, "cells": 0.2, "moments": 0.4}

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
    refuse_too_few(n_samples)
    given, size = (n_samples, n_features, box, holes), n_samples * mu
    size /= math.sqrt(n_features)
    hopeless = with_mean and size < _HOPELESS_ROWS and n_features > _MANY_FEATURES
    if size < _FEW_ROWS and not hopeless:
        return WindowedScales(*given) if with_mean else ScaleWindows(*given)
    return FeatureScales(*given, with_mean=with_mean)
