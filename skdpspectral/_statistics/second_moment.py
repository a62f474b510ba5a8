"""The private second moment of bounded rows about a released mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import _linalg, sensitivity
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact
from .combination import Statistic
from .row_bounds import RowBounds


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of bounded rows.

    Components are made of a moment by its `bounds`, `n_samples` and `name`, by
    :meth:`kernel` and :meth:`squared_error`: a subclass may be another one, as of pairs
    of rows, which need no center.

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
            summation_error=sensitivity.summation_error(
                square, n, _linalg.rows_per_block(p)
            ),
            magnitude=2.0 * square,
        )
        return (moment,)

    def kernel(self, rows: Any, mean: Any) -> np.ndarray:
        """Exact second moment about a released mean; the lower triangle counts."""
        bounded = partial(self.bounds.for_second_moment, mean=mean)
        return _linalg.blocked_second_moment(rows, bounded)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the second moment of rows about a given mean, None for none."""
        return release(self.name, self.kernel(rows, *given), overwrite=True)

    def squared_error(self, mu: float, rank: int, signal: float, noise: float) -> float:
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

        Returns
        -------
        float
            For Gaussian rows, to first order; of statistical and private error.
        """
        gap, cross = self._law(rank, signal, noise)
        # Deviation of the noise off the diagonal.
        private = self.bounds.second_radius**2 / (self.n_samples * mu)
        pairs = 2.0 * rank * (self.bounds.n_features - rank)
        return pairs * (cross / self.n_samples + private**2) / gap**2

    def _law(self, rank: int, signal: float, noise: float) -> tuple[float, float]:
        """Gap, and variance of entries off the diagonal, of bounded Gaussian rows."""
        degrees, clip = self.bounds.n_features - rank, self.bounds.clip
        if clip is None:
            return _linalg.unit_row_moments(signal + noise, noise, rank, degrees)
        spread = rank * (signal + noise) + degrees * noise
        kept = min(1.0, clip**2 / spread)
        return kept * signal, kept**2 * noise * (signal + noise)
