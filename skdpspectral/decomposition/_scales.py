"""Private variances along and across released directions, from noisy quantiles.

Private quantiles of the lengths of rows, from votes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaincinv

from .. import sensitivity
from .._statistics.statistic import Statistic
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Neighbors
from . import _kernels

# Steps of the bisections, on a logarithmic scale.
STEPS = 12

# Signal that is assumed at least, in units of the noise variance.
LEAST_SIGNAL = 0.05


def chi_square_median(degrees: float) -> float:
    """Median of the chi-square law."""
    return 2.0 * float(gammaincinv(0.5 * degrees, 0.5))


# Highest quantile of the projections' lengths that a clip is made from, votes beyond it
# in units of their noise, and the share of rows of a normal law that are clipped.
_HIGHEST, _FEWEST_VOTES, _CLIPPED_SHARE = 0.98, 5.0, 1e-3


class Scales(NamedTuple):
    """Released or public variances, and a clip of projections.

    `signal` is the mean variance along the components beyond the noise, `noise` that
    across them, both positive. `radius` is a length that few projections exceed; None
    if it was not asked for.
    """

    signal: float
    noise: float
    radius: float | None


class Cell(NamedTuple):
    """Interval from `low` to `high` in which votes place a squared quantile.

    These are zero and infinite where no vote has moved them; `middle` lies between them
    on the logarithmic scale.
    """

    low: float
    high: float
    middle: float


@dataclass(frozen=True)
class PrivateScales(Statistic):
    """Two variances and a clip, from noisy quantiles of lengths.

    Every step releases how many rows more than wanted lie below a tried length, for
    projections on released directions and for residuals at once. Their medians over
    those of chi-square laws are the variances. Lengths lie in the public `norm_range`,
    in units of the rows. `signal` and `noise` are public variances, of a direction
    beyond the noise and of the noise; None for private ones. With `with_radius` a clip
    of projections is released too. `wanted` are the quantiles that are bisected: 0 and
    2 of projections, 1 of residuals.
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
        """Ranges (low, high) that releases can give of the signal and the noise.

        They are public; `rank` is the number of released directions.
        """
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
        """Deviation of the noise of each vote, but for the grid's share."""
        moved = sensitivity.vote_sensitivity(len(self.wanted), Neighbors.REPLACE_ONE)
        return moved * math.sqrt(STEPS) / mu

    def mechanisms(self, mu: float) -> tuple:
        """Plan the releases at a total cost of mu."""
        if not self.wanted:
            return ()
        shape = (len(self.wanted),)
        names = [f"{self.name}_{step}" for step in range(1, STEPS + 1)]
        moved = sensitivity.vote_sensitivity(shape[0], Neighbors.REPLACE_ONE)
        return calibrate_alike(names, moved, mu, shape, magnitude=self.n_samples)

    def run(self, release: Any, rows: Any, *given: Any) -> Scales:
        """Release the votes, and return the scales that they make.

        Of differences half the votes count. Given are orthonormal rows of shape (r, p)
        that are public, or released.
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
        """Release the votes; return where they place the wanted squared quantiles."""
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
        """Votes of all rows together."""
        return self.n_samples * rows.weight

    def of(self, cells: dict[int, Cell], rank: int) -> Scales:
        """Return the variances that released cells make, for so many directions."""
        signal, noise = self.signal, self.noise
        if noise is None:
            degrees = max(self.n_features - rank, 1)
            noise = cells[1].middle / chi_square_median(degrees)
        if signal is None:
            signal = cells[0].middle / chi_square_median(rank) - noise
        return Scales(max(signal, LEAST_SIGNAL * noise), noise, None)


def _counts(blocks, components, low: float, high: float) -> np.ndarray:
    """Rows whose logarithmic squares lie just below the k-th of all dyadic points."""
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
    """Quantile with enough votes beyond it, by the public noise."""
    noise_std = getattr(mechanism, "noise_std", 0.0)
    return min(max(0.5, 1.0 - _FEWEST_VOTES * noise_std / voters), _HIGHEST)


def _bisect(release, scales: PrivateScales, counts, levels, low: float, high: float):
    """Squared quantiles from noisy votes; of the noisy answers only signs are used."""
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


# Cells that the logarithmic range of lengths is divided into, as a power of two; and
# those of the finest search.
GRID_BITS, CELL_BITS = 12, 3


def row_squares(rows: Any) -> np.ndarray:
    """Squared lengths of rows, dense or sparse, without looking for overflow."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.vecdot(rows, rows)


class LengthCounts:
    """Counts of rows that are longer than each point of a logarithmic grid.

    Rows shorter than `low` count nowhere; `longer` has all rows that count at its first
    point.
    """

    def __init__(self, low: float, high: float):
        self._points = np.linspace(2 * math.log(low), 2 * math.log(high), self.size + 1)
        self.longer = np.zeros(self.size + 1, dtype=np.int64)

    size = 2**GRID_BITS

    def update(self, rows: Any) -> None:
        """Count rows, dense or sparse; what is not a number counts as very long."""
        with np.errstate(all="ignore"):
            logs = np.nan_to_num(np.log(row_squares(rows)), nan=np.inf, posinf=np.inf)
        places = np.searchsorted(self._points, logs)
        found = np.bincount(places, minlength=self.size + 2)
        self.longer += found[::-1].cumsum()[::-1][1:]

    def length(self, point: int) -> float:
        """Return the length at a point of the grid."""
        return math.exp(0.5 * self._points[min(point, self.size)])


@dataclass(frozen=True)
class LengthQuantile(Statistic):
    """A length that a wanted share, or number, of rows exceeds: by noisy bisection.

    Every step releases how many rows more than wanted are longer than a tried length;
    of the noisy answer only the sign is used. The bisection searches ``2**n_steps``
    cells of the grid of :class:`LengthCounts`, each 8 of its points wide.
    """

    name: str
    n_steps: int
    n_samples: int

    @property
    def moved(self) -> float:
        """Sensitivity of a vote: how far one row can move it.

        With pairs a vote counts for less, so that all of a row's are one again.
        """
        return sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)

    def noise_std(self, mu: float) -> float:
        """Standard deviation of the noise of each vote, but for the grid's share."""
        return self.moved * math.sqrt(self.n_steps) / mu

    def mechanisms(self, mu: float) -> tuple:
        """Plan the votes at a total cost of mu; infinite for no noise."""
        names = [f"{self.name}_{step}" for step in range(1, self.n_steps + 1)]
        n = float(self.n_samples)
        # Counts are exact; their part of a row may be none that float64 has.
        rounding = n * 2.0**-50
        return calibrate_alike(
            names, self.moved, mu, (1,), summation_error=rounding, magnitude=n
        )

    def run(self, release: Any, rows: LengthCounts, *given: Any) -> int:
        """Release the votes; return a point of the grid.

        Given are the public or released point that the search begins at, how many rows
        are wanted beyond the quantile, which share of those that have a length, and
        what a row counts: 1 but for differences.
        """
        start, number, share, weight = given
        wanted = number + share * weight * int(rows.longer[0])
        first, last = 0, 2**self.n_steps
        for step in range(1, self.n_steps + 1):
            middle = (first + last) // 2
            point = min(start + (middle << CELL_BITS), rows.size)
            votes = np.array([weight * int(rows.longer[point]) - wanted])
            if release(f"{self.name}_{step}", votes)[0] > 0.0:
                first = middle
            else:
                last = middle
        # The middle of the last cell.
        return min(start + (last << CELL_BITS) - (1 << CELL_BITS - 1), rows.size)
