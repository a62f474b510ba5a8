"""A private center of rows without public bounds, found in steps, or pairs of rows.

First a typical distance between rows and their distance from the origin are released;
then clipped means with shrinking radii approach the rows. Releases and their shares are
planned from public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg.walks import RowWalk, Walked, Writing
from .._tables.clipping import clip_rows
from .._tables.pairs import PairOrder, PairWalk, PoolWalk
from ..accounting import calibrate_gaussian, split_mu
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Exact, Gaussian, PrivacyPlan, Remark
from .row_bounds import RowBounds, floor_of
from .statistic import HALF, Choice, Combination, Statistic, Votes, pair_order

# Rows that a center is made from, at most: more would only take time.
_MOST_ROWS = 1 << 17

# Clips of the first step, and of others, in units of the length that rows have then.
_FIRST_CLIP, _CLIP = 1.1, 1.1

# Clips that noise allows, at most.
_WIDEST_CLIP = 4.0


@dataclass(frozen=True)
class Sample:
    """The rows that a center is computed from, chosen by the table's shape.

    These are `n_rows` rows in the first `n_pools` pools of `order`. A mean of rows in
    the unit ball has the sensitivity `moved` and a rounding error of at most
    `rounding`.
    """

    bounds: RowBounds
    order: PairOrder
    n_pools: int
    n_rows: int
    moved: float = field(init=False)
    rounding: float = field(init=False)

    def __post_init__(self) -> None:
        block, n_rows = self.order.block_rows, self.n_rows
        terms = (n_rows // block + self.n_pools) * block
        numbers = {
            "moved": sensitivity.mean_sensitivity(1.0, n_rows),
            "rounding": sensitivity.summation_error(1.0, terms, block),
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, bounds: RowBounds, n_samples: int) -> Sample:
        """Return the sample of a table of `n_samples` rows."""
        order = PairOrder(n_samples, bounds.n_features, 1)
        n_pools = order.pools_with(_MOST_ROWS)
        return cls(bounds, order, n_pools, order.rows_of(n_pools))

    def _mapped(self, block, out=None) -> np.ndarray:
        box = self.bounds.box
        if box is None:
            return np.asarray(block, np.float64)
        return box.to_unit(block, out=out)

    def about(self, X, point) -> Walked:
        """Walk over blocks of rows minus a point."""
        return self._walked(X, partial(self._about, point=point))

    def lengths(self, X) -> Walked:
        """Walk over lengths of rows."""
        return self._walked(X, self._lengths)

    def _walked(self, X, row_map) -> Walked:
        if self.n_rows == self.order.n_samples:
            # Their order is of no account: sums over all of them are.
            return Walked(X, RowWalk(Writing(row_map), self.order.block_rows))
        return Walked(X, PoolWalk(self.order, self.n_pools, Writing(row_map)))

    def _about(self, block, point, out=None) -> np.ndarray:
        if self.bounds.box is not None:
            block = self.bounds.box.to_unit(block, out=out)
        with np.errstate(over="ignore"):
            return np.subtract(block, point, out=out, dtype=np.float64)

    def _lengths(self, block, out=None) -> np.ndarray:
        return row_lengths(self._mapped(block, out))

    def distances(self, X) -> Walked:
        """Walk over lengths of differences, divided by the root of two."""
        walk = PairWalk(self.order, self._mapped, self.n_pools, _half_lengths)
        return Walked(X, walk)


def _half_lengths(differences: np.ndarray) -> np.ndarray:
    return math.sqrt(0.5) * row_lengths(differences)


def row_lengths(rows: np.ndarray) -> np.ndarray:
    """Return lengths of rows, infinity on overflow and zero on underflow."""
    with np.errstate(all="ignore"):
        return np.sqrt(np.vecdot(rows, rows))


@dataclass(frozen=True)
class Quantile(Statistic):
    """A length that exceeds a share `level` of terms, by noisy bisection.

    It takes `n_steps` on a logarithmic scale; one row moves a share by at most `moved`.
    """

    name: str
    n_steps: int
    level: float
    moved: float

    def mechanisms(self, mu: float) -> tuple:
        rounding = {"summation_error": 2.0**-50, "lemma": "quantile-votes"}
        return Votes(self.name, self.n_steps).planned(mu, self.moved, **rounding)

    def run(self, release: Any, rows: Any, *given: Any) -> float:
        """Return the length; given is its range, as base-2 logarithms."""
        low, high = given
        points = np.linspace(low, high, 2**self.n_steps + 1)
        counts = rows.reduce(partial(counts_of_lengths, points=points))
        shares = np.cumsum(counts) / counts.sum()
        votes = Votes(self.name, self.n_steps)
        first, last = votes.run(release, lambda place: shares[place] - self.level)
        return 2.0 ** float(0.5 * (points[first[0]] + points[last[0]]))


def counts_of_lengths(blocks, points: np.ndarray) -> np.ndarray:
    """Count lengths between powers of two."""
    counts = np.zeros(len(points) + 1, dtype=np.int64)
    for lengths in blocks:
        with np.errstate(divide="ignore"):
            # A row that is not finite counts as a long one.
            logs = np.nan_to_num(np.log2(lengths), nan=np.inf, posinf=np.inf)
        counts += np.bincount(np.searchsorted(points, logs), minlength=len(counts))
    return counts


# Lengths that are told from each other: half-octaves of all that float64 can square.
EDGES = np.linspace(-199.0, 199.0, 797)
N_LENGTHS = len(EDGES) + 1
# Neighboring cells that lengths are read from, and their least share of the distances.
_CELLS, _LEAST_SEEN = 3, 0.4
# What a histogram of half the differences, and one of the rows, sum up to.
TOTALS = (HALF, 1.0)


@dataclass(frozen=True)
class Lengths(Statistic):
    """Histograms of lengths: of half of the differences between rows, and of rows.

    One row moves each by at most sqrt(2) / n, and both by 2 / n.
    """

    sample: Sample
    name: str = "lengths"

    def mechanisms(self, mu: float) -> tuple:
        moved = sensitivity.mean_sensitivity(1.0, self.sample.n_rows)
        rounding = {"summation_error": 2.0**-50, "lemma": "length-shares shared-center"}
        shape = (len(TOTALS), N_LENGTHS)
        return calibrate_alike([self.name], moved, mu, shape, **rounding)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        kernel, exact = partial(counts_of_lengths, points=EDGES), []
        walks = self.sample.distances(rows), self.sample.lengths(rows)
        for total, walked in zip(TOTALS, walks, strict=True):
            counts = walked.reduce(kernel)
            exact.append(total * (counts / counts.sum()))
        return release(self.name, np.stack(exact))


def read_lengths(shares: np.ndarray) -> tuple[float, float]:
    """Return the typical distance of rows, and their distance from the start.

    Each is read from the neighboring cells with the largest share. Differences are not
    much longer than most rows. A typical distance of zero means that none is seen.
    """
    pairs, rows = shares / np.array(TOTALS)[:, None]
    first = _first_of_window(rows, 0, N_LENGTHS)
    reach = quantile_of(_window(rows, first), ROW_LEVEL)
    octave = 2
    nearest = max(first - octave * int(_FARTHEST), 0)
    place = _first_of_window(pairs, nearest, first + octave)
    if pairs[place : place + _CELLS].sum() < _LEAST_SEEN:
        return 0.0, reach
    return quantile_of(_window(pairs, place), PAIR_LEVEL), reach


def _first_of_window(shares: np.ndarray, first: int, last: int) -> int:
    """Return where neighboring cells have the largest share, between two places."""
    sums = np.convolve(shares, np.ones(_CELLS), mode="valid")
    return first + int(np.argmax(sums[first:last]))


def _window(shares: np.ndarray, first: int) -> np.ndarray:
    """Return shares of neighboring cells, over their sum, and no others."""
    out = np.zeros_like(shares)
    cells = slice(first, first + _CELLS)
    out[cells] = np.maximum(shares[cells], 0.0)
    return out / max(out.sum(), 1e-150)


def quantile_of(shares: np.ndarray, level: float) -> float:
    """Return a length below which a share of others lies."""
    sums = np.cumsum(shares)
    place = min(max(int(np.searchsorted(sums, level)), 1), N_LENGTHS - 2)
    within = (level - sums[place - 1]) / max(shares[place], 1e-12)
    within = min(max(within, 0.0), 1.0)
    step = EDGES[place] - EDGES[place - 1]
    return 2.0 ** float(EDGES[place - 1] + step * within)


@dataclass(frozen=True)
class CenterSteps(Statistic):
    """Clipped means that approach the rows of a sample, step by step.

    `shares` are the steps' shares of mu**2.
    """

    sample: Sample
    shares: tuple[float, ...]
    name: str = "center"

    @property
    def step_names(self) -> list[str]:
        return [f"{self.name}_{step}" for step in range(1, len(self.shares) + 1)]

    def mechanisms(self, mu: float) -> tuple:
        shape = (self.sample.bounds.n_features,)
        if not math.isfinite(mu):
            return tuple(Exact(name, shape) for name in self.step_names)
        moved = self.sample.moved
        rounding = {"summation_error": self.sample.rounding, "magnitude": 2.0}
        rounding["lemma"] = "private-center"
        costs, steps = split_mu(mu, list(self.shares)), list[Gaussian]()
        for cost, paid in groupby(
            zip(costs, self.step_names, strict=True), itemgetter(0)
        ):
            names = [name for _, name in paid]
            first = calibrate_gaussian(names[0], moved, cost, shape, **rounding)
            steps.extend(first.repeated(names))
        return tuple(steps)

    def course(
        self, plan: Mapping, typical: float, reach: float, allowed: float = 0.0
    ) -> tuple[list[float], list[float], float]:
        """Return radii of the steps, weights of their average, and the error's length.

        They depend on public numbers, on the released typical distance of rows, and on
        their released distance `reach` from the start. If noise of length `allowed` is
        harmless, radii are wider, which reduces the bias of clipping.
        """
        n_features = self.sample.bounds.n_features
        radius, radii, errors = _FIRST_CLIP * reach, [], []
        for step, name in enumerate(self.step_names):
            unit = getattr(plan[name], "noise_std", 0.0)
            wide = 0.0
            if 2 * step >= len(self.step_names):
                harmless = allowed / max(unit * math.sqrt(n_features), 1e-150)
                wide = min(harmless, _WIDEST_CLIP * typical)
            radii.append(min(max(radius, wide, 1e-60), 1e60))
            noise = unit * radii[-1]
            errors.append(noise * math.sqrt(n_features))
            longer = math.hypot(typical, errors[-1] + noise)
            radius = min(radius, _CLIP * longer)
        precision = np.array([max(error, 1e-150) ** -2.0 for error in errors])
        # From far away clipped rows are pulled to where the steps began.
        precision[: len(errors) // 2] = 0.0
        weights = precision / precision.sum()
        return radii, weights.tolist(), float(np.hypot.reduce(weights * errors))

    @staticmethod
    def narrowed(n_steps: int, factor: float, n_features: int) -> float:
        """Return the radius after all steps over the first; noise is `factor` radii."""
        radius = _CLIP * factor * (1.0 + 1.0 / math.sqrt(n_features))
        return float(_FIRST_CLIP * radius ** (n_steps - 1))

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the steps of given radii; return their weighted average."""
        radii, weights = given
        point = np.zeros(self.sample.bounds.n_features)
        center = np.zeros_like(point)
        for name, radius, weight in zip(self.step_names, radii, weights, strict=True):
            point = point + radius * self.mean(release, rows, name, point, radius)
            center += weight * point
        return center

    def mean(self, release: Any, rows: Any, name: str, point, radius: float):
        """Release the mean of rows about a point, clipped at a radius, over it."""
        kernel = partial(_sum_of_clipped, radius=radius, n_features=len(point))
        total = self.sample.about(rows, point).reduce(kernel)
        mean = total / self.sample.n_rows / radius
        return release(name, mean, overwrite=True)


def _sum_of_clipped(blocks, radius: float, n_features: int) -> np.ndarray:
    """Sum clipped rows, in their own memory."""
    total = np.zeros(n_features)
    for block in blocks:
        total += clip_rows(block, radius, out=block).sum(axis=0)
    return total


@dataclass(frozen=True)
class Nearness(Statistic):
    """Shares of rows that are close to a center relative to its error.

    Means over rows of min(1, e^2 / x^2) with the distance x from the center, where e is
    its error, or a typical distance.
    """

    sample: Sample
    name: str = "center_nearness"

    def mechanisms(self, mu: float) -> tuple:
        half = sensitivity.box_radius([0.5, 0.5])
        moved = sensitivity.mean_sensitivity(half, self.sample.n_rows)
        error = 2.0 * self.sample.rounding
        rounding = {"summation_error": error, "lemma": "private-center"}
        return calibrate_alike([self.name], moved, mu, (2,), **rounding)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the two means for a given center and given lengths."""
        center, *lengths = given
        least = max(self.sample.bounds.clip or 0.0, 1e-150)
        kernel = partial(_sums_of_nearness, lengths=np.array(lengths), least=least)
        total = self.sample.about(rows, center).reduce(kernel)
        return release(self.name, total / self.sample.n_rows)


def _sums_of_nearness(blocks, lengths: np.ndarray, least: float) -> np.ndarray:
    """Sum min(1, e^2 / x^2) over rows, for two lengths e."""
    total = np.zeros(2)
    for block in blocks:
        distances = np.maximum(row_lengths(block), least)
        shares = np.minimum(lengths[:, None] / distances, 1.0)
        total += np.nan_to_num(shares**2).sum(axis=1)
    return total


# Names of steps from near by, and from far away.
NEAR, FAR = "center", "far_center"
_FIRST_STEP, _LENGTHS = f"{NEAR}_1", Lengths.name

# Halvings of the two lengths, of the first in a box too; the noise of their votes at
# most, as a share of the voters; and what they cost at least, as a share of mu**2.
_DISTANCE_STEPS, _BOXED_STEPS, _REACH_STEPS, _VOTE_NOISE = 11, 7, 6, 0.12
_LEAST_VOTES = 0.001

# Share of mu**2 beyond which votes are replaced by histograms of lengths, which cost a
# third of it; what these cost at most; and the noise in each cell of that of the rows,
# as a share of them.
_DEAR_VOTES, _DEAR_LENGTHS, _CELL_NOISE = 0.1, 0.12, 0.06

# Shares of mu**2: of the steps, at least, and in units of what the noise hides in a
# box; of the test at most.
_LEAST, _WANTED_IN_BOX, _NEARNESS = 0.02, 6.0, 0.02


class Limits(NamedTuple):
    """Public limits of a search.

    The share of mu**2 of the steps is `wanted`, in units of what the noise hides where
    rows may be anywhere, and at most `most`; that of the whole search is at most
    `dearest`. Each step must leave less than `slowest` of the distance. In units of the
    noise on the moment, `error` is what the noise of a center may add to it, and `near`
    what rows beside the center may.
    """

    wanted: float
    most: float
    dearest: float
    slowest: float
    error: float
    near: float


# Limits if votes are cheap, and of few rows: the first component is then about as large
# as the noise, and what a center adds must be less.
_USUAL = Limits(9.0, 0.3, 0.5, 1.0, 2.0, 2.0)
_OF_FEW_ROWS = Limits(7.0, 0.4, 0.52, 0.55, 0.85, 1.0)

# Shares of steps from near by.
_NEAR_STEPS = (0.25, 0.25, 0.5)

# Distance, in units of the typical one, from which others must be able to come, and
# the share of the last of them.
_FAR, _LAST = 1e4, 0.3
_FEWEST_STEPS, _MOST_STEPS = 4, 16

# Lengths that are told from each other, as powers of two: of any table, and below the
# diameter of a box.
_SHORTEST, _LONGEST, _BOXED_OCTAVES = -199.0, 199.0, 32.0

# Quantiles of the lengths.
PAIR_LEVEL, ROW_LEVEL = 0.6, 0.65


class Search(NamedTuple):
    """How lengths are found, steps from near and from far, and the costs of all parts.

    `lengths` and `costs` have the same names; "center" and "rest" are costs of others.
    """

    lengths: dict[str, Statistic]
    steps: tuple[Statistic, ...]
    costs: dict[str, float]


def plan_search(sample: Sample, mu: float, forced: bool) -> Search | None:
    """Plan the search for a center at a cost of mu; None if it does not pay off.

    A `forced` search is always planned, for at most half of the budget.
    """
    n_samples, n_features = sample.order.n_samples, sample.bounds.n_features
    lengths: dict[str, Statistic] = dict(
        zip(("distance", "reach"), length_quantiles(sample), strict=True)
    )
    shares = {name: _share_of_votes(votes, mu) for name, votes in lengths.items()}
    limits = _USUAL
    if not forced and math.fsum(shares.values()) > _DEAR_VOTES:
        lengths = {"lengths": Lengths(sample)}
        noise = sensitivity.mean_sensitivity(1.0, sample.n_rows) / mu
        shares, limits = {"lengths": (noise / _CELL_NOISE) ** 2}, _OF_FEW_ROWS
        if shares["lengths"] > _DEAR_LENGTHS:
            return None
    shares["nearness"] = 0.0 if forced else min(_NEARNESS, 6.0 / n_features)
    # Enough that the error of the center stays below what noise on the moment hides.
    wanted = limits.wanted if sample.bounds.box is None else _WANTED_IN_BOX
    wanted *= math.sqrt(n_features) * n_samples / (sample.n_rows**2 * mu)
    shares["steps"] = min(max(wanted, _LEAST), limits.most)
    mu_steps = mu * math.sqrt(shares["steps"])
    factor = _noise_of(sample, mu_steps) / math.sqrt(_NEAR_STEPS[0])
    total = math.fsum(shares.values())
    if not forced and (total > limits.dearest or factor > limits.slowest):
        return None
    scale = min(1.0, limits.dearest / total)
    shares = {name: scale * share for name, share in shares.items()}
    center = shares.pop("steps") + shares["nearness"]
    within = {"steps": 1.0 - shares["nearness"] / center}
    within["nearness"] = shares.pop("nearness") / center
    shares["center"] = center
    shares["rest"] = 1.0 - math.fsum(shares.values())
    costs = dict.fromkeys(shares, mu)
    if math.isfinite(mu):
        costs = dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))
    far = _far_steps(sample, mu_steps)
    steps: list[Statistic] = []
    for name, split in ((NEAR, _NEAR_STEPS), (FAR, far)):
        means = CenterSteps(sample, split, name)
        if forced:
            steps.append(means)
        else:
            parts = {"steps": means, "nearness": Nearness(sample, f"{name}_nearness")}
            steps.append(Combination(parts, within))
    return Search(lengths, tuple(steps), costs)


def _share_of_votes(votes: Quantile, mu: float) -> float:
    """Return the share of mu**2 at which votes are reliable."""
    return max(votes.n_steps * (votes.moved / _VOTE_NOISE / mu) ** 2, _LEAST_VOTES)


def length_quantiles(sample: Sample) -> tuple[Quantile, Quantile]:
    """Return the quantiles of distances of rows, and of distances from the origin."""
    of_pairs = sensitivity.pair_mean_sensitivity(1.0, sample.n_rows)
    of_rows = sensitivity.mean_sensitivity(0.5, sample.n_rows)
    n_steps = _DISTANCE_STEPS if sample.bounds.box is None else _BOXED_STEPS
    return (
        Quantile("pair_distance", n_steps, PAIR_LEVEL, of_pairs),
        Quantile("row_reach", _REACH_STEPS, ROW_LEVEL, of_rows),
    )


def distance_range(bounds: RowBounds) -> tuple[float, float]:
    """Return the range of the typical distance, as base-2 logarithms."""
    if bounds.box is None:
        return _SHORTEST, _LONGEST
    longest = math.log2(math.sqrt(2.0) * bounds.box_radius)
    return longest - _BOXED_OCTAVES, longest


def _noise_of(sample: Sample, mu: float) -> float:
    """Return the length of the noise of one step, in units of its radius."""
    return 2.0 * math.sqrt(sample.bounds.n_features) / (sample.n_rows * mu)


def _far_steps(sample: Sample, mu: float) -> tuple[float, ...]:
    """Return shares of the fewest steps from far away, or else the farthest."""
    n_features, length = sample.bounds.n_features, _noise_of(sample, mu)
    best, shares = math.inf, ()
    for n_steps in range(_FEWEST_STEPS, _MOST_STEPS + 1):
        each = (1.0 - _LAST) / (n_steps - 1)
        noise = length / math.sqrt(each)
        left = CenterSteps.narrowed(n_steps, noise, n_features)
        if left < best:
            best, shares = left, (*[each] * (n_steps - 1), _LAST)
        if left * _FAR <= 1.0:
            break
    return shares


# Least share of rows that lie about a center which is not beside them, and share from
# which the typical distance is in doubt.
_LEAST_BESIDE, _DOUBTFUL = 0.2, 0.95

# Deviations of noise that the test forgives.
_FORGIVEN = 1.5

# How far from the origin rows may lie, in octaves of a typical distance.
_NEAREST, _FARTHEST = -1.0, 21.0

# Largest eigenvalue of the noise, on the moment of unit rows, with which long rows may
# be worth more than others.
_LOW_NOISE = 0.012

# Share of what the noise hides that a wider clip of the steps may add.
_HARMLESS = 0.01


class SearchedComponents(Statistic):
    """Components of rows about a center that is searched for, or of pairs of rows.

    Pairs are used if public numbers show that no center would be accurate enough.
    Otherwise the typical distance of rows and their distance from the origin are
    released, which determine whether the steps start near or far, or pairs get the rest
    of the budget. A last release shows whether too many rows are close to the center
    relative to its error. Rows below the typical distance, or a multiple of it that
    noise allows, are not scaled up. With little noise, by public numbers, `layered`
    replaces `rest`.

    The ``run`` of `rest` receives the center or the order of pairs, a length below
    which rows are not scaled up, and its ``early`` release, if any.
    """

    def __init__(
        self, bounds: RowBounds, n_samples: int, rest: Any, layered: Any = None
    ) -> None:
        self.bounds, self.n_samples, self.rest = bounds, n_samples, rest
        self.layered = layered
        self.forced = HALF not in bounds.weights
        # Rows that a center is made from.
        self.sample = Sample.of(bounds, n_samples)

    def _search(self, mu: float) -> Search | None:
        """Plan the search at a total cost of mu; None if it does not pay off."""
        if self.n_samples < 2:  # one row has no distance
            return None
        return plan_search(self.sample, mu, self.forced)

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all releases, and state whether rows are paired in any case."""
        plan = super().plan(epsilon, delta, **named)
        if self.forced or _FIRST_STEP in {m.name for m in plan.releases()}:
            return plan
        remark = Remark(
            "Rows are compared with each other in pairs: with so few rows and so "
            "small a budget, no private center is accurate enough.",
            Concern.CENTER,
        )
        return replace(plan, remarks=(*plan.remarks, remark))

    def remarks(self) -> tuple[str, ...]:
        return self.bounds.remarks()

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        return self.rest.caveats(plan)

    def mechanisms(self, mu: float) -> tuple:
        search = self._search(mu)
        if search is None:
            return self.rest.mechanisms(mu)
        costs, rest = search.costs, self._rest_at(mu)
        branches = search.steps if self.forced else (*search.steps, rest.early)
        return (
            *(
                mechanism
                for name, lengths in search.lengths.items()
                for mechanism in lengths.mechanisms(costs[name])
            ),
            *Choice("center", *branches).mechanisms(costs["center"]),
            *rest.mechanisms(costs["rest"]),
        )

    def _rest_at(self, mu: float) -> Any:
        """Return the statistic after the search, at a total cost of mu."""
        size = self.n_samples, self.bounds.n_features
        noise = 2.0 * math.sqrt(size[1]) / (size[0] * mu)
        if self.layered is None or noise > _LOW_NOISE:
            return self.rest
        return self.layered

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the center, if any, and the rest; return the result of the rest."""
        planned = {mechanism.name: mechanism for mechanism in release.plan.releases()}
        order = pair_order(self.n_samples, self.bounds.n_features)
        if _FIRST_STEP not in planned:
            return self.rest.run(release, rows, order)
        rest = self._planned_rest(planned)
        typical, reach = self._lengths(release, rows, planned)
        # Largest eigenvalue of the noise on the moment about a center.
        edge = 2.0 * math.sqrt(self.bounds.n_features)
        edge *= rest.relative_noise(release.plan)
        allowed = math.sqrt(_HARMLESS * edge) * typical
        if not typical > 0.0:
            remark = Remark(
                "Rows were compared with each other in pairs, because no typical "
                "distance of rows is seen with this number of rows and this budget.",
                Concern.CENTER,
            )
            found = rest.run(release, rows, order, 0.0, (rest.early,))
            return replace(found, remark=remark)
        courses = [
            (steps, steps.course(planned, typical, reach, allowed))
            for steps in _planned_steps(planned, self.sample)
        ]
        steps, (radii, weights, error) = min(courses, key=lambda course: course[1][2])
        limits = _OF_FEW_ROWS if _LENGTHS in planned else _USUAL
        if not self.forced and self._part(error, typical) > limits.error * edge:
            floor = floor_of(typical, edge / HALF)
            found = rest.run(release, rows, order, floor, (rest.early,))
            remark = Remark(
                "Rows were compared with each other in pairs: they are too far from "
                "the origin for this number of rows and this budget.",
                Concern.CENTER,
            )
            return replace(found, remark=remark)
        center = steps.run(release, rows, radii, weights)
        if self.bounds.box is not None:
            half = self.bounds.box.half_widths
            center = center.clip(-half, half)
        if self.forced:
            return rest.run(release, rows, center, floor_of(typical, edge))
        nearness = Nearness(self.sample, f"{steps.name}_nearness")
        near, beside = nearness.run(release, rows, center, error, typical)
        forgiven = _FORGIVEN * getattr(planned[nearness.name], "noise_std", 0.0)
        if near <= limits.near * edge + forgiven and beside >= _LEAST_BESIDE:
            found = rest.run(release, rows, center, floor_of(typical, edge))
            remark = (
                "Rows were measured from a private center, which is accurate enough."
            )
            return replace(found, remark=remark)
        remark = Remark(
            "Rows were compared with each other in pairs, because the private center "
            "is not accurate enough: many rows lie close to it, or nearly all of them "
            "far from it. Features in different units and repeated rows can cause "
            'this; scale="ranks" or center="pairs" may help.',
            Concern.CENTER,
        )
        # Where nearly no row is farther away, votes may have gone astray.
        sure = beside <= _DOUBTFUL + forgiven
        floor = floor_of(typical, edge / HALF) if sure else 0.0
        found = rest.run(release, rows, order, floor)
        return replace(found, mean=center, remark=remark)

    def _planned_rest(self, planned: Mapping) -> Any:
        """Return the statistic after the search, according to a plan."""
        plain = self.layered is None or planned["second_moment"].symmetric
        return self.rest if plain else self.layered

    def _lengths(self, release, rows, planned: Mapping) -> tuple[float, float]:
        """Return the typical distance of rows, and their distance from the start."""
        if _LENGTHS in planned:
            return read_lengths(Lengths(self.sample).run(release, rows))
        distance, reach = length_quantiles(self.sample)
        told = distance_range(self.bounds)
        typical = distance.run(release, self.sample.distances(rows), *told)
        low = math.log2(typical) + _NEAREST
        lengths = self.sample.lengths(rows)
        return typical, reach.run(release, lengths, low, low - _NEAREST + _FARTHEST)

    def _part(self, error: float, typical: float) -> float:
        """Return the share of the moment that an error of the center adds."""
        return min(error / max(self.bounds.clip or typical, 1e-150), 1.0) ** 2

    def squared_error(self, mu: float, signal: float, noise: float) -> float:
        """Return the error of the rest, with a center or pairs, from public numbers."""
        search = self._search(mu)
        if search is None:
            return self.rest.squared_error(mu, signal, noise, True)
        return self.rest.squared_error(search.costs["rest"], signal, noise)

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Return the expected projection distance of a plan, to first order."""
        return math.sqrt(self.squared_error(plan.mu, signal, noise))


def _planned_steps(planned: Mapping, sample: Sample) -> list[CenterSteps]:
    """Return the planned steps from near and from far."""
    found = []
    for name in (NEAR, FAR):
        numbers = (each.removeprefix(f"{name}_") for each in planned)
        count = sum(number.isdigit() for number in numbers)
        if count:
            found.append(CenterSteps(sample, (1.0,) * count, name))
    return found
