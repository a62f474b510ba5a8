"""The private second moment of bounded rows about a center, or of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import _linalg, sensitivity
from .._tables.pairs import PairOrder
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact
from .combination import Statistic
from .row_bounds import RowBounds
from .terms import HALF, pair_order, summation_error, weight_of

# Length below which rows keep theirs, in typical lengths: at most, and its square in
# units of one over the largest eigenvalue of the noise; by the variance that is kept on
# six tables and three simulations.
_HIGHEST_FLOOR, _FLOOR_OF_NOISE = 1.6, 0.004
_LEAST_LENGTH, _LARGEST_LENGTH = 1e-60, 1e60
# Name of a moment that is released with what a center would have cost.
EARLY = "second_moment_early"


def floor_of(typical: float, edge: float) -> float:
    """Length below which rows keep theirs, so that noise does not hide the moment.

    The longer it is, the more does the moment resemble that of unbounded rows, and the
    smaller it is beside its noise.

    Parameters
    ----------
    typical : float
        Released or public length of many rows.
    edge : float
        Largest eigenvalue of the noise on the moment of unit rows.
    """
    most = _FLOOR_OF_NOISE / _HIGHEST_FLOOR**2
    floor = typical * math.sqrt(_FLOOR_OF_NOISE / max(edge, most))
    return min(max(floor, _LEAST_LENGTH), _LARGEST_LENGTH)


def share_of(plan: Any, name: str, other: str) -> float:
    """Weight of one of two releases of a statistic in their mean, by their costs."""
    costs = [plan[each].mu ** 2 for each in (name, other)]
    return 0.5 if math.isinf(costs[0]) else costs[0] / (costs[0] + costs[1])


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of bounded rows, or half of that of pairs.

    Parameters
    ----------
    bounds : RowBounds
        How rows are bounded.
    n_samples : int
        Public number of rows.
    name : str, default="second_moment"
        Name of the release.
    """

    bounds: RowBounds
    n_samples: int
    name: str = "second_moment"

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        n, p = self.n_samples, self.bounds.n_features
        if not math.isfinite(mu):
            return (Exact(self.name, (p, p), symmetric=True),)
        square = self.bounds.second_radius**2
        moment = calibrate_gaussian(
            self.name,
            sensitivity.second_moment_sensitivity(self.bounds.second_radius, n),
            mu,
            (p, p),
            symmetric=True,
            summation_error=summation_error(square, n, p, self.bounds.paired),
            magnitude=2.0 * square,
        )
        return (moment,)

    def kernel(self, rows: Any, origin: Any, floor: float = 0.0) -> np.ndarray:
        """Exact second moment about a released mean; the lower triangle counts.

        Of pairs, half of it. Rows shorter than a released length, `floor`, keep theirs
        (:meth:`RowBounds.for_second_moment`).
        """
        bounds = self.bounds
        if not isinstance(origin, PairOrder):
            about = partial(bounds.for_second_moment, mean=origin, floor=floor)
            return _linalg.blocked_second_moment(rows, about)
        walk = bounds.pairs(origin, partial(bounds.for_pairs, floor=floor))
        kernel = partial(_linalg.sum_of_outer_products, n_features=bounds.n_features)
        moment = _linalg.reduce_rows(rows, walk, kernel)
        moment /= origin.n_pairs
        moment *= HALF
        return moment

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the second moment about a given mean, None for none, or of pairs."""
        (origin,) = given
        return self.release(release, self.kernel(rows, origin), origin)

    def release(self, release: Any, exact: np.ndarray, origin: Any) -> np.ndarray:
        """Release what :meth:`kernel` gave; its memory is used again."""
        released = release(self.name, exact, overwrite=True)
        if weight_of(origin) != 1.0:
            released /= weight_of(origin)
        return released

    def noise_std(self, plan: Any, origin: Any) -> float:
        """Deviation of the noise off the diagonal of what :meth:`run` gives."""
        planned = getattr(plan[self.name], "noise_std", 0.0)
        return planned / math.sqrt(2.0) / weight_of(origin)

    def squared_error(
        self, mu: float, rank: int, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Expected squared projection distance of its leading eigenvectors.

        Parameters
        ----------
        mu : float
            Cost of the release.
        rank : int
            Number of components.
        signal, noise : float
            Variances along the components beyond the noise, and across them, in units
            of the bounded rows.
        paired : bool, default=False
            Whether rows are compared in pairs.

        Returns
        -------
        float
            For Gaussian rows, to first order; of statistical and private error.
        """
        gap, cross = self._law(rank, signal, noise)
        # Deviation of the noise off the diagonal.
        private = self.bounds.second_radius**2 / (self.n_samples * mu)
        sampling = cross / self.n_samples
        if self.bounds.searched and self.bounds.clip is None and not paired:
            # Rows of a normal law are of about the same length.
            edge = 2.0 * math.sqrt(self.bounds.n_features) * private
            private *= max(1.0, floor_of(1.0, edge)) ** 2
        if paired:
            # Of pairs that share rows; exact for clipped differences of normal rows.
            order = pair_order(self.n_samples, self.bounds.n_features)
            sampling *= 1.0 + 0.5 / order.n_shifts
            private /= HALF
        entries = 2.0 * rank * (self.bounds.n_features - rank)
        return entries * (sampling + private**2) / gap**2

    def _law(self, rank: int, signal: float, noise: float) -> tuple[float, float]:
        """Gap, and variance of entries off the diagonal, of bounded Gaussian rows."""
        degrees, clip = self.bounds.n_features - rank, self.bounds.clip
        if clip is None:
            return _linalg.unit_row_moments(signal + noise, noise, rank, degrees)
        spread = rank * (signal + noise) + degrees * noise
        kept = min(1.0, clip**2 / spread)
        return kept * signal, kept**2 * noise * (signal + noise)
