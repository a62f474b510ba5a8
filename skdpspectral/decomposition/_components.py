"""Private variances of rows along and across directions, from votes about lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from .. import sensitivity
from .._statistics.statistic import Statistic, Votes
from ..mechanisms import Neighbors
from . import _kernels

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
