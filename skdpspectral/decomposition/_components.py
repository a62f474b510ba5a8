"""Private principal components of bounded rows, within one budget.

They include components of rows that are divided by private scales, and ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaincinv

from .. import sensitivity
from .._linalg import eigen
from .._linalg.walks import Writing
from .._statistics.feature_scales import FeatureLaw, FeatureScales
from .._statistics.scale_windows import ScaleWindows
from .._statistics.statistic import HALF, Combination, Statistic
from .._tables.clipping import Box
from .._tables.files import map_table
from ..accounting import split_mu
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Neighbors, Remark
from . import _kernels
from ._bounded_moments import (
    EARLY,
    LAYERS,
    LayeredMoment,
    ProjectedMoment,
    SecondMoment,
    floor_of,
    share_of,
)
from ._kernels import correlations_of_signs

# Steps of the bisections, on a logarithmic scale.
STEPS = 12

# Signal that is assumed at least, in units of the noise variance.
LEAST_SIGNAL = 0.05


def chi_square_median(degrees: float) -> float:
    return 2.0 * float(gammaincinv(0.5 * degrees, 0.5))


# Highest quantile of the projections' lengths that a clip is made from, votes beyond it
# in units of their noise, and the share of rows of a normal law that are clipped.
_HIGHEST, _FEWEST_VOTES, _CLIPPED_SHARE = 0.98, 5.0, 1e-3


class Scales(NamedTuple):
    """Released or public variances, and a clip of projections.

    `signal` is the mean variance along the components beyond the noise, and `noise`
    that across them, both positive. Few projections exceed `radius`, which may be None.
    """

    signal: float
    noise: float
    radius: float | None


class Cell(NamedTuple):
    """Interval of a squared quantile according to votes, and its logarithmic middle.

    An end that no vote has moved is zero or infinite.
    """

    low: float
    high: float
    middle: float


@dataclass(frozen=True)
class PrivateScales(Statistic):
    """Two variances and a clip, from noisy quantiles of lengths.

    Each step releases how many more rows than wanted are shorter than a tried length,
    for projections on released directions and for residuals. Medians, divided by those
    of chi-square distributions, are the variances. Lengths are in the public
    `norm_range`, in units of the rows. `signal` and `noise` are public variances, or
    None. With `with_radius` a clip of projections is released, too. `wanted` quantiles
    are 0 and 2 of projections, 1 of residuals.
    """

    n_samples: int
    n_features: int
    norm_range: tuple[float, float]
    signal: float | None
    noise: float | None
    with_radius: bool
    name: str = "quantile"
    wanted: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        missing = (self.signal is None, self.noise is None, self.with_radius)
        wanted = tuple([k for k in range(3) if missing[k]])
        object.__setattr__(self, "wanted", wanted)

    def ranges(self, rank: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return public ranges of the released signal and noise."""
        low, high = (length**2 for length in self.norm_range)
        noise = (self.noise, self.noise)
        if self.noise is None:
            median = chi_square_median(max(self.n_features - rank, 1))
            noise = (low / median, high / median)
        most = self.signal
        if self.signal is None:
            most = high / chi_square_median(rank)
        least = 0.0 if self.signal is None else self.signal
        least = max(least, LEAST_SIGNAL * noise[0])
        return (least, max(most, LEAST_SIGNAL * noise[1])), noise

    def noise_std(self, mu: float) -> float:
        """Return the deviation of each vote's noise, without the grid's share."""
        moved = sensitivity.vote_sensitivity(len(self.wanted), Neighbors.REPLACE_ONE)
        return moved * math.sqrt(STEPS) / mu

    def mechanisms(self, mu: float) -> tuple:
        if not self.wanted:
            return ()
        shape = (len(self.wanted),)
        names = [f"{self.name}_{step}" for step in range(1, STEPS + 1)]
        moved = sensitivity.vote_sensitivity(shape[0], Neighbors.REPLACE_ONE)
        more = {"magnitude": self.n_samples, "lemma": "quantile-votes"}
        return calibrate_alike(names, moved, mu, shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> Scales:
        """Release the votes, halved for pairs, and return the scales.

        Given are orthonormal rows of shape (r, p), public or released.
        """
        (components,) = given
        cells = self.cells(release, rows, components)
        scales = self.of(cells, len(components))
        if not self.with_radius:
            return scales
        level = _upper_level(release.plan[f"{self.name}_1"], self._voters(rows))
        half = 0.5 * len(components)
        laws = [gammaincinv(half, q) for q in (1 - _CLIPPED_SHARE, level)]
        radius = math.sqrt(cells[2].middle * laws[0] / laws[1])
        return scales._replace(radius=radius)

    def cells(self, release: Any, rows: Any, components: np.ndarray) -> dict[int, Cell]:
        """Release the votes; return the cells of the wanted squared quantiles."""
        if not self.wanted:
            return {}
        low, high = (2.0 * math.log(length) for length in self.norm_range)
        span = {"components": components, "low": low, "high": high}
        counts = np.cumsum(rows.reduce(partial(_counts, **span)), axis=1)
        votes = counts * (self.n_samples / rows.divisor)
        voters = self._voters(rows)
        level = _upper_level(release.plan[f"{self.name}_1"], voters)
        levels = np.array((0.5, 0.5, level)) * voters
        return _bisect(release, self, votes, levels, low, high)

    def _voters(self, rows: Any) -> float:
        """Return the number of votes of all rows."""
        return self.n_samples * rows.weight

    def of(self, cells: dict[int, Cell], rank: int) -> Scales:
        """Return the variances for released cells and `rank` directions."""
        signal, noise = self.signal, self.noise
        if noise is None:
            degrees = max(self.n_features - rank, 1)
            noise = cells[1].middle / chi_square_median(degrees)
        if signal is None:
            signal = cells[0].middle / chi_square_median(rank) - noise
        return Scales(max(signal, LEAST_SIGNAL * noise), noise, None)


def _counts(blocks, components, low: float, high: float) -> np.ndarray:
    """Count rows whose logarithmic squares are just below each dyadic point."""
    points = np.linspace(low, high, 2**STEPS + 1)
    counts = np.zeros((2, len(points) + 1), dtype=np.int64)
    for rows in blocks:
        with np.errstate(all="ignore"):
            along, across = _kernels.squared_parts(rows, components)
            for count, squares in zip(counts, (along, across), strict=True):
                # A row that is not finite counts as a long one.
                logs = np.nan_to_num(np.log(squares), nan=np.inf, posinf=np.inf)
                count += np.bincount(
                    np.searchsorted(points, logs), minlength=len(points) + 1
                )
    return counts


def _upper_level(mechanism, voters: float) -> float:
    """Return a quantile with enough votes beyond it, given the public noise."""
    noise_std = getattr(mechanism, "noise_std", 0.0)
    return min(max(0.5, 1.0 - _FEWEST_VOTES * noise_std / voters), _HIGHEST)


def _bisect(release, scales: PrivateScales, counts, levels, low: float, high: float):
    """Return cells of squared quantiles, using only the signs of noisy votes."""
    wanted = np.array(scales.wanted)
    parts = np.array([0, 1, 0])[wanted]
    levels = levels[wanted]
    first, last = np.zeros(3, dtype=int), np.full(3, 2**STEPS)
    for step in range(1, STEPS + 1):
        middle = (first + last)[wanted] // 2
        votes = counts[parts, middle] - levels
        below = release(f"{scales.name}_{step}", votes) > 0.0
        last[wanted] = np.where(below, middle, last[wanted])
        first[wanted] = np.where(below, first[wanted], middle)
    share = 0.5 * (first + last)[wanted] / 2**STEPS
    middles = np.exp(low + share * (high - low))
    ends = np.array((first, last))[:, wanted]
    lows, highs = np.exp(low + ends / 2**STEPS * (high - low))
    lows = np.where(ends[0] > 0, lows, 0.0)
    highs = np.where(ends[1] < 2**STEPS, highs, np.inf)
    found = zip(wanted.tolist(), lows, highs, middles, strict=True)
    return {k: Cell(*map(float, cell)) for k, *cell in found}


@dataclass(frozen=True)
class Directions:
    """Released components, and other values released to find them.

    `mean` is None, or in units of the bounded rows. `vectors` are orthonormal rows,
    leading first; `values` are those of `matrix` along them: the released second moment
    or, with ranks, correlations. `scales` are variances that a mechanism needed, or
    None. `above_noise` counts components that exceed the noise. `deviations` are
    standard deviations of the entries of `vectors` due to noise, or None.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    matrix: np.ndarray
    scales: Scales | None
    above_noise: int
    deviations: np.ndarray | None = None


@dataclass(frozen=True)
class Components:
    """Released components, in units of the bounded rows.

    `vectors` are orthonormal rows, leading first. `values` are released variances along
    them, `total` is that of all directions, and `noise` that of a direction across
    them, None for unit rows; `unit` is the number of data units per unit of the rows.
    `above_noise` and `deviations` are as in :class:`Directions`, `remark` is a sentence
    about a choice by releases, and `covariance` that of all features, if released.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    total: float
    noise: float | None
    unit: float
    above_noise: int
    remark: str = ""
    covariance: np.ndarray | None = None
    deviations: np.ndarray | None = None


# Shares of mu**2, once a private mean is paid: of the covariance within the
# components, and of private lengths.
COVARIANCE_SHARE, LENGTHS_SHARE = 0.15, 0.04

# Deviations of the votes' noise that half of the rows have, where the share of the
# votes may rise so far; and those below which the lengths are in doubt.
_SURE, _MOST_VOTES, _FAIRLY_SURE = 3.5, 0.35, 2.5

# Most components that are planned for where their number is released first.
MOST_COMPONENTS = 50


class PrincipalComponents(Combination):
    """Components of rows about a given mean, from one release of their second moment.

    `moment` is a SecondMoment, or has its methods. `rank` is None for all components
    above the noise. With `covariance`, the covariance within them is released, too,
    from projections clipped to the public length `radius`, the clip of the rows, or a
    private length in `norm_range`. `noise` is a public variance across them, or None.
    All are in units of the bounded rows.
    """

    # What further releases need: variances, a clip, and what refines the components.
    scales: PrivateScales | None = None
    reach: PrivateScales | None = None
    second: Statistic | None = None

    def __init__(
        self,
        moment: SecondMoment,
        rank: int | None,
        covariance: bool,
        noise: float | None,
        norm_range: tuple[float, float],
        radius: float | None = None,
    ) -> None:
        bounds, n, p = moment.bounds, moment.n_samples, moment.bounds.n_features
        self.moment, self.bounds, self.rank, self.noise = moment, bounds, rank, noise
        self.radius = bounds.clip if radius is None else radius
        # Number of components that is planned for, and that is released at most.
        self.width = min(n, p, MOST_COMPONENTS) if rank is None else rank
        self.most = self.width
        self.within = None
        if covariance:
            self.within = ProjectedMoment(n, p, self.width, bounds.weights)
        self._plan_more(norm_range)
        shares = self._shared()
        parts = {
            "first": self.moment,
            "scales": self.scales,
            "second": self.second,
            "reach": self.reach,
            "covariance": self.within,
        }
        kept = {name: parts[name] for name in parts if name in shares}
        super().__init__(kept, shares)

    def _plan_more(self, norm_range: tuple[float, float]) -> None:
        """Plan further releases, given a public range of lengths."""
        if self._is_unclipped():
            size = self.moment.n_samples, self.bounds.n_features
            self.scales = PrivateScales(*size, norm_range, 0.0, self.noise, True)

    def _is_unclipped(self) -> bool:
        """Return whether projections are clipped to a private length."""
        return self.within is not None and self.radius is None

    def _shared(self) -> dict[str, float]:
        """Return the shares of mu**2."""
        shares = {} if self.within is None else {"covariance": COVARIANCE_SHARE}
        # All quantiles get the same noise.
        found = {"scales": self.scales, "reach": self.reach}
        votes = {name: len(part.wanted) for name, part in found.items() if part}
        total = sum(votes.values())
        voting = {name: count for name, count in votes.items() if count}
        shares |= {name: LENGTHS_SHARE * n / total for name, n in voting.items()}
        shares["first"] = 1.0 - math.fsum(shares.values())
        return shares

    def costs(self, mu: float) -> dict[str, float]:
        """Return the cost of each part at a total cost of mu.

        Votes get more than their share if rows are few, as they would be unreliable.
        """
        shares = dict(self._shares)
        votes = [name for name in ("scales", "reach") if name in shares]
        usual = math.fsum(shares[name] for name in votes)
        if not votes or not math.isfinite(mu):
            return super().costs(mu)
        part = {"scales": self.scales, "reach": self.reach}[votes[0]]
        noise = part.noise_std(math.sqrt(shares[votes[0]]) * mu)
        wanted = usual * (_SURE * noise / (0.5 * self._voters)) ** 2
        total = min(max(wanted, usual), max(_MOST_VOTES, usual))
        for name in shares:
            shares[name] *= (
                total / usual if name in votes else (1.0 - total) / (1.0 - usual)
            )
        return dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))

    def caveats(self, plan) -> tuple[str, ...]:
        """Warn if the budget makes private lengths unreliable."""
        if self.scales is None:
            return ()
        names = {m.name for m in plan.releases()} & {"quantile_1", "reach_1"}
        noise = max((getattr(plan[n], "noise_std", 0.0) for n in names), default=0.0)
        if _FAIRLY_SURE * noise <= 0.5 * self._voters:
            return ()
        remark = (
            f"{self.moment.n_samples} rows are too few for private lengths at this "
            "budget: the lengths, and the variances with them, may have any scale; "
            "public variances, a narrower norm_range or a clip_norm would help."
        )
        return (remark,)

    @property
    def _voters(self) -> float:
        """Least number of votes of all rows."""
        return self.moment.n_samples * min(self.bounds.weights)

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release components of rows about a given mean, or None."""
        origin, *more = given
        found = self.directions(release, rows, origin, *more)
        if self.within is not None:
            blocks = self.bounds.blocks(rows, origin)
            return self._with_covariance(release, blocks, found)
        vectors, values = found.vectors, np.maximum(found.values, 0.0)
        # The other eigenvalues of a variance are not negative either.
        kept = float(values.sum())
        total = float(np.trace(found.matrix))
        if self.bounds.ranks:  # standardized features have a variance of 1 each
            total = float(len(found.matrix))
        total = max(total, kept, np.finfo(float).tiny)
        noise = None
        if self.bounds.clip is not None:
            noise = (total - kept) / max(self.bounds.n_features - len(vectors), 1)
        unit = self.bounds.variance_unit
        above = found.above_noise
        return Components(
            found.mean,
            vectors,
            values,
            total,
            noise,
            unit,
            above,
            deviations=found.deviations,
        )

    @property
    def early(self) -> SecondMoment:
        """Second release of the moment, at the cost of a center that was given up."""
        return replace(self.moment, name=EARLY)

    def directions(
        self, release: Any, X: Any, origin: Any, floor: float = 0.0, more: Any = ()
    ) -> Directions:
        """Release everything except the covariance.

        `origin` is the released center of the rows X, or their order of pairs. Rows
        shorter than a released length, `floor`, are not scaled up. `more` are moments
        of the same rows that are released, too.
        """
        exact = self.moment.kernel(X, origin, floor)
        found = self._first(release, exact, origin, more)
        if self.scales is None:
            return found
        blocks = self.bounds.blocks(X, origin)
        scales = self.scales.run(release, blocks, found.vectors)
        return replace(found, scales=scales)

    def _first(self, release, exact: np.ndarray, origin, more) -> Directions:
        """Return components of a first release of the moment; overwrites `exact`."""
        others = [
            (other, other.release(release, exact.copy(order="F"), origin))
            for other in more
        ]
        matrix = self.moment.release(release, exact, origin)
        spread = self.moment.noise_std(release.plan, origin)
        for other, also in others:
            share = share_of(release.plan, other.name, self.moment.name)
            also *= share
            matrix *= 1.0 - share
            matrix += also
            spread *= math.sqrt(1.0 - share)
        if isinstance(self.moment, LayeredMoment):
            matrix, spread = self._of_layers(matrix, spread)
        rank = self.rank or self._released_rank(matrix, spread)
        values, vectors = eigen.top_eigh(matrix, rank, spread)
        above = eigen.count_above_noise(
            values, np.trace(matrix), len(matrix), spread, self.moment.n_samples
        )
        deviations = eigen.entry_deviations(values, vectors, np.trace(matrix), spread)
        if self.bounds.ranks:
            matrix, deviations = correlations_of_signs(matrix, spread), None
            values, vectors = eigen.top_eigh(matrix, rank)
        mean = origin if isinstance(origin, np.ndarray) else None
        return Directions(mean, vectors, values, matrix, None, above, deviations)

    def _of_layers(self, layers: np.ndarray, spread: float) -> tuple[np.ndarray, float]:
        """Return the mean of packed layers for the components, and its noise."""
        weights = eigen.weights_as_unit_rows(layers, spread)
        rank = self.rank
        if rank is None:
            plain = eigen.mean_of_layers(layers, weights)
            noise = spread * float(np.linalg.norm(weights))
            rank = self._released_rank(plain, noise)
        weights = eigen.weights_of_layers(layers, LAYERS, weights, rank, spread)
        matrix = eigen.mean_of_layers(layers, weights)
        return matrix, spread * float(np.linalg.norm(weights))

    def relative_noise(self, plan) -> float:
        """Return the off-diagonal deviation of noise for rows in the unit ball."""
        return self.moment.noise_std(plan, None) / self.bounds.second_radius**2

    def _released_rank(self, matrix, spread: float) -> int:
        """Return the number of components above the noise of a released matrix."""
        rank = eigen.select_rank(matrix, spread, self.moment.n_samples)
        return min(rank, self.most)

    def _with_covariance(self, release, blocks, found: Directions) -> Components:
        """Return components with the released covariance within them."""
        vectors, scales = found.vectors, found.scales
        degrees = self.bounds.n_features - len(vectors)
        if scales is not None:
            noise = scales.noise
        elif self.noise is not None:
            noise = self.noise
        else:
            along = float(np.sum((vectors @ found.matrix) * vectors))
            noise = max(float(np.trace(found.matrix)) - along, 0.0) / max(degrees, 1)
        radius = self.radius
        if self.reach is not None:
            radius = self.reach.run(release, blocks, vectors).radius
        elif radius is None:
            radius = scales.radius
        within = self.within.run(release, blocks, vectors, radius)
        values, vectors = _kernels.leading_first(within, vectors)
        # A variance along a component is at least that across them.
        values = np.maximum(values, noise)
        total = float(values.sum()) + degrees * noise
        total = max(total, np.finfo(float).tiny)
        unit, above = self.bounds.unit, found.above_noise
        return Components(found.mean, vectors, values, total, noise, unit, above)

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Return :meth:`SecondMoment.squared_error` at the cost of all releases.

        The number of components is known; the error is at most the largest distance.
        """
        most = 2.0 * min(self.rank, self.bounds.n_features - self.rank)
        if most == 0.0:
            return 0.0
        return min(self._expected(self.costs(mu), signal, noise, paired), most)

    def _expected(self, costs: dict, signal: float, noise: float, paired) -> float:
        """Return the expected squared distance, given the cost of each part."""
        law = self.rank, signal, noise
        return self.moment.squared_error(costs["first"], *law, paired)


# Rows for scales beside components of ranks, in units of sqrt(n_features) / mu at the
# cost of the scales, and the least and largest share of mu**2 that they have.
_ROWS_FOR_SCALES, _LEAST_SHARE, _LARGEST_SHARE = 40.0, 0.05, 0.3


def share_of_scales(size: float) -> float:
    """Return the share of mu**2 for scales of ranked features; 0 for few rows.

    `size` is the public number of rows in units of sqrt(n_features) / mu.
    """
    share = (_ROWS_FOR_SCALES / size) ** 2
    return 0.0 if share > _LARGEST_SHARE else max(share, _LEAST_SHARE)


# Shares of mu**2, by the variance of standardized features that is kept on real tables:
# a feature that is not seen is lost, and one whose scale is too small counts too much.
_SHARES = {"feature_scales": 0.5, "components": 0.5}


class ScaledComponents(NamedTuple):
    """Released components in units of scaled rows, and the scales."""

    components: Components
    law: FeatureLaw


class Scaled(Combination):
    """Private scales of all features, and components of the scaled rows.

    Rows are first clipped to a public `box`. With `with_mean`, means are released and
    subtracted, which sparse rows do not support.
    """

    def __init__(
        self, components: Any, n_samples: int, box: Box | None, with_mean: bool = True
    ) -> None:
        self.components, self.bounds = components, components.bounds
        # With means scales are those of moments, and not of differences alone.
        n_features = self.bounds.n_features
        self.scales = FeatureScales(n_samples, n_features, with_mean, box)
        parts = {"feature_scales": self.scales, "components": components}
        super().__init__(parts, _SHARES)

    def run(self, release: Any, rows: Any, *given: Any) -> ScaledComponents:
        """Release scales, and components of the scaled rows."""
        law = self.scales.run(release, rows)
        found = self.components.run(
            release, self._divided(rows, law), *self._floor(release.plan, law)
        )
        if getattr(self.components.rest, "noise", None) is None:
            found = replace(found, noise=_noise_among_seen(found, law.seen))
        return ScaledComponents(_among_seen(found, law.seen), law)

    def _floor(self, plan: Any, law: FeatureLaw) -> tuple[float, ...]:
        """Return the length below which unit rows are not scaled up."""
        if self.bounds.weights != (HALF,) or self.bounds.clip is not None:
            return ()
        rest = self.components.rest
        edge = 2.0 * math.sqrt(self.bounds.n_features) * rest.relative_noise(plan)
        # Every feature that is seen has a variance of about one.
        return (floor_of(math.sqrt(max(int(law.seen.sum()), 1)), edge / HALF),)

    def _divided(self, rows: Any, law: FeatureLaw):
        """Return standardized rows; features that are not seen become zero."""
        box = self.scales.box
        weights = np.where(law.seen, 1.0 / law.scale, 0.0)
        if sparse.issparse(rows):
            rows = sparse.csr_array(rows, dtype=np.float64, copy=True)
            rows.data *= weights[rows.indices]
            return rows

        shift = 0.0 if law.mean is None else law.mean - law.center
        with np.errstate(over="ignore", invalid="ignore"):
            shift = shift * weights
        divide = partial(_divide, box=box, weights=weights, shift=shift)
        return map_table(rows, Writing(divide))

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Raise: variances in units of private scales are unknown."""
        raise ValueError(
            "expected_error requires variances in the units of the data, which "
            'scale="private" does not keep; fit simulated rows of the same shape '
            "instead"
        )


# What is said of components of ranks.
_OF_RANKS = (
    "Components are computed from correlations that are estimated with Kendall's rank "
    "correlations, which use only the signs of differences of rows in each feature."
)
_NO_SCALES = " No scale of a feature was measured."


class Ranked(Combination):
    """Components of correlations from signs of differences, which need no scales.

    `scales` standardize features for the scores of rows, for a `share` of mu**2; if it
    is 0 and private scales were `asked` for, features are unseen unless the bounds have
    a box.
    """

    def __init__(self, components: Any, asked: bool = False, share: float = 0.0):
        self.components, self.bounds = components, components.bounds
        self.scales, self.asked = None, asked
        parts: dict[str, Statistic] = {"components": components}
        shares = {"components": 1.0}
        if share > 0.0:
            size = components.n_samples, self.bounds.n_features
            self.scales = ScaleWindows(*size, self.bounds.box)
            parts = {"feature_scales": self.scales, **parts}
            shares = {"feature_scales": share, "components": 1.0 - share}
        super().__init__(parts, shares)

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Release scales, if any, and components."""
        law = None
        if self.scales is not None:
            law = self.scales.run(release, rows)
        elif self.asked and self.bounds.box is None:
            none = np.zeros(self.bounds.n_features)
            law = FeatureLaw(None, none + 1.0, none > 0.0, none)
        found = self.components.run(release, rows)
        return found if law is None else ScaledComponents(found, law)

    def remarks(self) -> tuple[str, ...]:
        """Return a sentence about the scales."""
        said = _OF_RANKS + _NO_SCALES * (self.scales is None)
        return (Remark(said, Concern.MEASURED), *super().remarks())

    def caveats(self, plan) -> tuple[str, ...]:
        """Warn if private scales were requested for too few rows."""
        found = super().caveats(plan)
        if not self.asked or self.scales is not None:
            return found
        size = f"{self.components.n_samples} rows of {self.bounds.n_features} features"
        said = (
            f"{size} are too few for private scales at this budget: components_ "
            "come from rank correlations; "
        )
        if self.bounds.box is None:
            said += (
                "transform does not scale features. Pass bounds, or public units with "
                'scale="ranks"'
            )
        else:
            said += "transform divides features by the half-widths of the bounds"
        return (*found, said)

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Raise: ranks have no variances in units of the data."""
        raise ValueError(
            "expected_error requires variances in the units of the data, but ranks "
            "have no units; fit simulated rows of the same shape instead"
        )


def _divide(block, box: Box | None, weights: np.ndarray, shift, out=None) -> np.ndarray:
    """Divide clipped features by scales, and shift them."""
    with np.errstate(over="ignore", invalid="ignore"):
        if box is not None:
            block = out = box.to_unit(block, out=out)
            weights = weights * box.unit
        block = np.multiply(block, weights, out=out, dtype=np.float64)
        return np.subtract(block, shift, out=block)


def _among_seen(found: Components, seen: np.ndarray) -> Components:
    """Zero the entries of components for features that are not seen."""
    vectors = np.zeros_like(found.vectors)
    count = min(len(vectors), int(seen.sum()))
    if count:
        basis, triangle = np.linalg.qr(found.vectors[:count, seen].T)
        signs = np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
        vectors[:count, seen] = (basis * signs).T
    if count < len(vectors):
        vectors[count:, ~seen] = np.linalg.qr(found.vectors[count:, ~seen].T)[0].T
    above = min(found.above_noise, count)
    deviations = found.deviations if seen.all() else None
    return replace(found, vectors=vectors, above_noise=above, deviations=deviations)


def _noise_among_seen(found: Components, seen: np.ndarray) -> float | None:
    """Released variance across components, of the features that have any."""
    rank = len(found.vectors)
    across = int(seen.sum()) - rank
    if found.noise is None or across <= 0:
        return found.noise
    return found.noise * (len(seen) - rank) / across
