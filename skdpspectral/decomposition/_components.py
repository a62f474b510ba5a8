"""Private principal components of bounded rows, or of ranks, within one budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from .. import sensitivity
from .._linalg import eigen
from .._statistics.row_bounds import EARLY, share_of
from .._statistics.statistic import Combination, Statistic, Votes
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


# What is said of components of ranks.
_OF_RANKS = (
    "Components are computed from correlations that are estimated with Kendall's rank "
    "correlations, which use only the signs of differences of rows in each feature. No "
    "scale of a feature was measured."
)


class Ranked(Combination):
    """Components of correlations from signs of differences, which need no scales."""

    def __init__(self, components: Any) -> None:
        self.components, self.bounds = components, components.bounds
        super().__init__({"components": components}, {"components": 1.0})

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Release the components."""
        return self.components.run(release, rows)

    def remarks(self) -> tuple[str, ...]:
        """Return a sentence about the scales."""
        return (Remark(_OF_RANKS, Concern.MEASURED), *super().remarks())

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Raise: ranks have no variances in units of the data."""
        raise ValueError(
            "expected_error requires variances in the units of the data, but ranks "
            "have no units; fit simulated rows of the same shape instead"
        )
