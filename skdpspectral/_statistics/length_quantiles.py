"""Private quantiles of the lengths of rows, from votes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .. import sensitivity
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Neighbors
from .combination import Statistic

# Cells that the logarithmic range of lengths is divided into, as a power of two; and
# those of the finest search.
GRID_BITS, CELL_BITS = 12, 3


def row_squares(rows: Any) -> np.ndarray:
    """Squared lengths of rows, dense or sparse, without looking for overflow."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.vecdot(rows, rows)


class LengthCounts:
    """How many rows are longer than each point of a public logarithmic grid.

    Parameters
    ----------
    low, high : float
        Public range of lengths. Rows shorter than `low` have no length to speak of.

    Attributes
    ----------
    longer : ndarray of shape (2**12 + 1,)
        Rows beyond each point of the grid; all rows that count beyond the first one.
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
    of the noisy answer only the sign is used.

    Parameters
    ----------
    name : str
        What the names of the releases begin with.
    n_steps : int
        Steps of the bisection; it searches ``2**n_steps`` cells of the grid of
        :class:`LengthCounts`, each 8 of its points wide.
    n_samples : int
        Public number of rows.
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
        """Release the votes.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : LengthCounts
            Of the rows.
        *given : start, number, share, weight
            Public or released point of the grid that the search begins at; how many
            rows are wanted beyond the quantile, and which share of those that have a
            length; what a row counts, 1 but for differences.

        Returns
        -------
        int
            Point of the grid.
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
