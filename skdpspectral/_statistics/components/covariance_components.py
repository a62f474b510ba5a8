"""Principal components with the covariance of all features, in one release of both."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ... import _linalg
from ...mechanisms import PrivacyPlan
from ..combination import Statistic
from ..row_bounds import RowBounds
from ..second_moment import EARLY
from ..whole_covariance import MomentLayer, WholeCovariance
from .principal_components import MOST_COMPONENTS
from .released import Components


class CovarianceComponents(Statistic):
    """Eigenvectors and eigenvalues of a released covariance about a given mean.

    Parameters
    ----------
    bounds : RowBounds
        How rows are bounded: by a public clip, or by private ones without it.
    n_samples : int
        Public number of rows.
    rank : int or None
        Number of components; None for as many as stand out of the noise.
    norm_range : tuple (low, high)
        Public range of private lengths, in units of the bounded rows.
    """

    def __init__(
        self,
        bounds: RowBounds,
        n_samples: int,
        rank: int | None,
        norm_range: tuple[float, float],
    ) -> None:
        self.bounds, self.n_samples, self.rank = bounds, n_samples, rank
        low, high = norm_range
        # Nothing in the box is longer, whatever center in it is taken off.
        reach = 2.0 * bounds.box_radius
        self.whole = WholeCovariance(
            n_samples,
            bounds.n_features,
            (low, min(high, reach) if reach > low else high),
            paired=bounds.paired,
            clip=bounds.clip,
        )

    def mechanisms(self, mu: float) -> tuple:
        """Plan the releases at a total cost of mu; infinite for no noise."""
        return self.whole.mechanisms(mu)

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release the covariance of rows about a given origin.

        It is a released center, the order of pairs, or None. A released length that is
        given too is of no use here; layers beside the first one are.
        """
        origin, *others = given
        more = others[1] if len(others) > 1 else ()
        found = self.whole.run(release, self.bounds.blocks(rows, origin), *more)
        rank = self.rank or self._released_rank(found)
        values, vectors = _linalg.top_eigh(found.matrix, rank)
        above = self._above_noise(found, vectors)
        degrees, total = self.bounds.n_features - rank, float(np.trace(found.matrix))
        noise = (total - float(values.sum())) / degrees if degrees else 0.0
        noise = max(noise, np.finfo(float).tiny)
        mean = origin if isinstance(origin, np.ndarray) else None
        unit = self.bounds.unit
        return Components(
            mean, vectors, values, total, noise, unit, above, covariance=found.matrix
        )

    def _above_noise(self, found, vectors) -> int:
        """Count components that the first layer tells from its noise."""
        along = np.sort(np.sum((vectors @ found.layer) * vectors, axis=1))[::-1]
        return _linalg.count_above_noise(
            along,
            float(np.trace(found.layer)),
            len(found.layer),
            found.spread,
            self.n_samples,
        )

    def doubts(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Say what a fit by that plan cannot be relied on for: from public numbers."""
        if self.whole.votes_are_sure(plan):
            return ()
        said = (
            f"{self.n_samples} rows are too few for private lengths at this budget: "
            "they may come out at any scale, and the covariance with them; a public "
            "clip_norm, or bounds and a narrower norm_range, would help."
        )
        return (said,)

    @property
    def early(self) -> MomentLayer:
        """What may be released beside the first layer, for the cost of a center."""
        return replace(self.whole.near, name=EARLY)

    def relative_noise(self, plan: PrivacyPlan) -> float:
        """Deviation of the noise off the diagonal, for rows of at most unit norm."""
        noise_std = getattr(plan[self.whole.near.name], "noise_std", 0.0)
        return noise_std / math.sqrt(2.0)

    def _released_rank(self, found) -> int:
        rank = _linalg.select_rank(found.layer, found.spread, self.n_samples)
        return min(rank, self.n_samples, self.bounds.n_features, MOST_COMPONENTS)

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Expected squared projection distance for Gaussian rows, to first order.

        As :meth:`SecondMoment.squared_error`, at a cost of all releases together.
        """
        rank, degrees = self.rank, self.bounds.n_features - self.rank
        if not degrees:
            return 0.0
        laws = np.array([[rank, signal + noise], [degrees, noise]])
        clip = self.whole.clip
        square = _upper_quartile(*laws.T) if clip is None else clip**2
        kept = min(1.0, square / float(np.prod(laws, axis=1).sum()))
        share = dict(self.whole.combined(mu).shares())["near"]
        private = square / (self.n_samples * mu * math.sqrt(share))
        private *= 2.0 if paired else 1.0
        cross = kept**2 * noise * (signal + noise) / self.n_samples
        error = 2.0 * rank * degrees * (cross + private**2) / (kept * signal) ** 2
        return min(error, 2.0 * min(rank, degrees))


def _upper_quartile(degrees: np.ndarray, variances: np.ndarray) -> float:
    """Upper quartile of the squared length of a Gaussian row, by a gamma law."""
    mean = float(np.sum(degrees * variances))
    spread = 2.0 * float(np.sum(degrees * variances**2))
    return float(gammaincinv(mean**2 / spread, 0.75)) * spread / mean
