"""Private principal components of bounded rows, within one budget.

They include components of rows that are divided by private scales, and ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaincinv

from .. import sensitivity
from .._linalg import eigen
from .._linalg.walks import Writing
from .._statistics.feature_scales import FeatureLaw, FeatureScales
from .._statistics.row_bounds import EARLY, floor_of, share_of
from .._statistics.scale_windows import ScaleWindows
from .._statistics.statistic import HALF, Combination, Statistic, Votes
from .._tables.clipping import Box
from .._tables.files import map_table
from ..mechanisms import Concern, Neighbors, Remark
from . import _kernels
from ._bounded_moments import LAYERS, LayeredMoment, SecondMoment
from ._kernels import correlations_of_signs

# Steps of the bisections, on a logarithmic scale.
STEPS = 12

# Signal that is assumed at least, in units of the noise variance.
LEAST_SIGNAL = 0.05


def chi_square_median(degrees: float) -> float:
    return 2.0 * float(gammaincinv(0.5 * degrees, 0.5))


class Scales(NamedTuple):
    """Released or public variances, both positive.

    `signal` is the mean variance along the components beyond the noise, and `noise`
    that across them.
    """

    signal: float
    noise: float


class Cell(NamedTuple):
    """Interval of a squared quantile, with an end of 0 or inf if no vote moved it."""

    low: float
    high: float
    middle: float


@dataclass(frozen=True)
class PrivateScales(Statistic):
    """Two variances, from noisy medians of lengths.

    Each step releases how many more rows than wanted are shorter than a tried length,
    for projections on released directions and for residuals. Medians, divided by those
    of chi-square distributions, are the variances. Lengths are in the public
    `norm_range`, in units of the rows. `signal` and `noise` are public variances, or
    None. `wanted` medians are 0 of projections and 1 of residuals.
    """

    n_samples: int
    n_features: int
    norm_range: tuple[float, float]
    signal: float | None
    noise: float | None
    name: str = "quantile"

    @property
    def wanted(self) -> tuple[int, ...]:
        """Medians that are released."""
        known = self.signal, self.noise
        return tuple(k for k in range(2) if known[k] is None)

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
        n_votes = len(self.wanted)
        moved = sensitivity.vote_sensitivity(n_votes, Neighbors.REPLACE_ONE)
        more = {"magnitude": self.n_samples, "lemma": "quantile-votes"}
        return Votes(self.name, STEPS).planned(mu, moved, n_votes, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> Scales:
        """Release the votes, halved for pairs, and return the scales.

        Given are orthonormal rows of shape (r, p), public or released.
        """
        (components,) = given
        return self.of(self.cells(release, rows, components), len(components))

    def cells(self, release: Any, rows: Any, components: np.ndarray) -> dict[int, Cell]:
        """Release the votes; return the cells of the wanted squared quantiles."""
        if not self.wanted:
            return {}
        low, high = (2.0 * math.log(length) for length in self.norm_range)
        span = {"components": components, "low": low, "high": high}
        counts = np.cumsum(rows.reduce(partial(_counts, **span)), axis=1)
        votes = counts * (self.n_samples / rows.divisor)
        half, wanted = 0.5 * self.n_samples * rows.weight, np.array(self.wanted)
        first, last = Votes(self.name, STEPS).run(
            release, lambda place: votes[wanted, place] - half, len(wanted)
        )
        middles = np.exp(low + 0.5 * (first + last) / 2**STEPS * (high - low))
        lows, highs = np.exp(low + np.array((first, last)) / 2**STEPS * (high - low))
        lows = np.where(first > 0, lows, 0.0)
        highs = np.where(last < 2**STEPS, highs, np.inf)
        found = zip(self.wanted, lows, highs, middles, strict=True)
        return {k: Cell(*map(float, cell)) for k, *cell in found}

    def of(self, cells: dict[int, Cell], rank: int) -> Scales:
        """Return the variances for released cells and `rank` directions."""
        signal, noise = self.signal, self.noise
        if noise is None:
            degrees = max(self.n_features - rank, 1)
            noise = cells[1].middle / chi_square_median(degrees)
        if signal is None:
            signal = cells[0].middle / chi_square_median(rank) - noise
        return Scales(max(signal, LEAST_SIGNAL * noise), noise)


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
    them, and `total` is that of all directions; `unit` is the number of data units per
    unit of the rows. `above_noise` and `deviations` are as in :class:`Directions`, and
    `remark` is a sentence about a choice by releases.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    total: float
    unit: float
    above_noise: int
    remark: str = ""
    deviations: np.ndarray | None = None


# Most components that are planned for where their number is released first.
MOST_COMPONENTS = 50


class PrincipalComponents(Combination):
    """Components of rows about a given mean, from one release of their second moment.

    `moment` is a SecondMoment, or has its methods. `rank` is None for all components
    above the noise.
    """

    def __init__(self, moment: SecondMoment, rank: int | None) -> None:
        super().__init__({"first": moment}, {"first": 1.0})
        bounds, n, p = moment.bounds, moment.n_samples, moment.bounds.n_features
        self.moment, self.bounds, self.rank = moment, bounds, rank
        # Number of components that is planned for, and that is released at most.
        self.width = min(n, p, MOST_COMPONENTS) if rank is None else rank
        self.most = self.width

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release components of rows about a given mean, or None."""
        origin, *more = given
        found = self.directions(release, rows, origin, *more)
        values = np.maximum(found.values, 0.0)
        # The other eigenvalues of a variance are not negative either.
        total = float(np.trace(found.matrix))
        if self.bounds.ranks:  # standardized features have a variance of 1 each
            total = float(len(found.matrix))
        total = max(total, float(values.sum()), np.finfo(float).tiny)
        return Components(
            found.mean,
            found.vectors,
            values,
            total,
            self.bounds.variance_unit,
            found.above_noise,
            deviations=found.deviations,
        )

    @property
    def early(self) -> SecondMoment:
        """Second release of the moment, at the cost of a center that was given up."""
        return replace(self.moment, name=EARLY)

    def directions(
        self, release: Any, X: Any, origin: Any, floor: float = 0.0, more: Any = ()
    ) -> Directions:
        """Release all parts.

        `origin` is the released center of the rows X, or their order of pairs. Rows
        shorter than a released length, `floor`, are not scaled up. `more` are moments
        of the same rows that are released, too.
        """
        exact = self.moment.kernel(X, origin, floor)
        return self._first(release, exact, origin, more)

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

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Return :meth:`SecondMoment.squared_error` at the cost of all releases."""
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
    """Return the share of mu**2 for scales of ranked features, by `public_size`."""
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
