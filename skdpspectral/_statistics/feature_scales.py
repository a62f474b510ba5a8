"""Private locations and scales of features without known bounds.

Histograms of differences of rows give scales, phases on circles give approximate
locations, and clipped moments about these give means and standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from .. import sensitivity
from .._linalg import features, walks
from .._tables.clipping import Box
from .._tables.pairs import PairOrder, PairWalk, PoolWalk
from ..accounting import calibrate_gaussian
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Exact, Gaussian, PrivacyPlan
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


# Rows that pairs can be made of.
_FEWEST_ROWS = 2


def refuse_too_few(n_samples: int) -> None:
    """Refuse tables of which no two rows can be compared."""
    if n_samples < _FEWEST_ROWS:
        raise ValueError(
            f"n_samples={n_samples} must be at least {_FEWEST_ROWS}: scales are "
            "computed from differences of rows"
        )


_SMALLEST_SCALE = float(np.finfo(float).tiny)


class FeatureLaw(NamedTuple):
    """Public values of each feature, in the units of the data, (n_features,).

    `seen` is whether a feature's variance exceeds the noise. For other features,
    `mean`, if released, is 0 or the box's midpoint, and `scale` is 1 or the half-width.
    `center` is the midpoint of the box, 0 without one. `present` is the share of values
    that are not missing, or None.
    """

    mean: np.ndarray | None
    scale: np.ndarray
    seen: np.ndarray
    center: np.ndarray
    present: np.ndarray | None = None


@dataclass(frozen=True)
class FeatureStatistic(Statistic):
    """Releases about each feature, in a `box` of public bounds if there are any.

    With `holes`, values may be NaN.
    """

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
        return FeatureLaw(mean, scale, seen, middle, present)


class Spreads(NamedTuple):
    """Released spreads of each feature: arrays of shape (n_features,).

    `found` is whether differences exceed the noise; `reach` is the highest node that
    does, 1 if none. `scale` is about the standard deviation, 1 if nothing was found,
    and `tail` the share of the highest node in the variance.
    """

    found: np.ndarray
    reach: np.ndarray
    scale: np.ndarray
    tail: np.ndarray


@dataclass(frozen=True)
class DifferenceHistograms(FeatureStatistic):
    """Histograms of the differences of paired rows, one per feature, without ties.

    Ties are left out, so that a feature of mostly equal values has a scale, too. In a
    box, differences are at most 2. With `holes`, differences from missing values are
    not counted either, and `scale` is that of the others. `factor` multiplies the
    thresholds for the noise.
    """

    name: str = "differences"
    factor: float = 1.0

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
        kernel = partial(
            features.counts_of_differences,
            n_features=self.n_features,
            first_octave=self.octaves[0],
            n_nodes=self.n_nodes,
        )
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
    """Released moments about locations, in units of radii; `place` are finite means.

    `deviation` and `noise` are the standard deviations of the noise in variance and
    mean. `enough` is whether enough values are present.
    """

    place: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    deviation: np.ndarray
    noise: Any
    enough: Any
    present: np.ndarray | None


@dataclass(frozen=True)
class FeatureMoments(FeatureStatistic):
    """Mean and mean square of each feature, clipped about a released location.

    With `holes` the share of present values is released, too; squares are then released
    less `_MIDDLE` for present values, so that the share adds no sensitivity.
    """

    name: str = "moments"

    @property
    def _weight(self) -> float:
        """Weight of squares: the largest that adds no sensitivity."""
        return math.sqrt(sensitivity.free_moment_weight(1))

    @property
    def _weights(self) -> np.ndarray:
        """Weights of values, squares and, with holes, of presence."""
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
        sums = features.sum_over_rows(rows, walks.Writing(kernel), self.row_map)
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
        for all_rows in (False, True):
            for n_circles in _LADDERS:
                phases = self._phases(n_circles, mu)
                if self._suffice(phases, all_rows):
                    return (phases,)
        return (phases,)

    def _phases(self, n_circles: int, mu: float) -> Gaussian:
        moved = sensitivity.phase_sensitivity(self.n_features, n_circles)
        shape = (self.n_features, n_circles, 2)
        more = {"magnitude": self.n_samples, "lemma": "phases"}
        return calibrate_gaussian(self.name, moved, mu, shape, **more)

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
        planned = release.plan[self.name]
        n_circles = planned.shape[1]
        steps = _LADDERS[n_circles] * np.arange(n_circles)
        # Of a scale in [2**(e-1), 2**e), the shortest circle is 2**(e+3) long.
        exponents = (np.frexp(scale)[1] + _SHORTEST_CIRCLE)[:, None] + steps
        kernel = partial(features.phase_sums, exponents=exponents)
        n_pools = self._n_pools
        if n_pools < self.order.n_pools and self._suffice(planned, all_rows=False):
            then = None if row_map is None else walks.Writing(row_map)
            walk = PoolWalk(self.order, n_pools, then)
            phases = features.sum_over_blocks(rows, walk, kernel)
        else:
            phases = features.sum_over_rows(rows, kernel, row_map)
        released = release(self.name, phases, overwrite=True)
        return np.nan_to_num(features.unwind_phases(released, exponents))


# Shares of mu**2, by the error of scales and the features seen on tables of 85 to 122
# features.
_SHARES = {"differences": 0.5, "places": 0.1, "moments": 0.4}


@dataclass(frozen=True)
class FeatureScales(FeatureStatistic, Combination):
    """Locations and scales of features without known bounds.

    Differences of rows give scales, phases on circles give locations, and clipped
    moments about these give means and standard deviations; without means only
    differences are released. With `holes`, the share of present values is released with
    the means. Names of releases begin with `prefix`; `factor` is that of
    :class:`DifferenceHistograms`.
    """

    with_mean: bool = True
    prefix: str = ""
    factor: float = 1.0

    def parts(self) -> Mapping[str, Any]:
        """Return the statistics, in the order of their releases."""
        given = self.n_samples, self.n_features, self.box, self.holes
        found: list[FeatureStatistic] = [
            DifferenceHistograms(*given, factor=self.factor)
        ]
        if self.with_mean:
            found += [Phases(*given), FeatureMoments(*given)]
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

    def unseen_features(self, plan: PrivacyPlan) -> tuple[str, ...]:
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
