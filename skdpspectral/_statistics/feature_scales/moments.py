"""Means and mean squares of features about a place, cut at a radius of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ... import _linalg, sensitivity
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact
from ..combination import Statistic
from ..terms import summation_error
from .difference_counts import Spreads

# Errors of the logarithm of a scale from noise: up to the first, values beyond the
# highest difference are kept too; above the second, the tails are cut.
_SMALL_ERROR, _LARGE_ERROR = 0.003, 0.05
# Share of the highest node in the variance below which it is a mere tail.
_FEW_AT_THE_END = 0.5
# Shortest and longest radius in units of the highest difference, and without noise.
_SHORTEST, _LONGEST, _ENDLESS = 0.7, 2.0, 1024.0
_LARGEST = float(np.finfo(float).max)
# Variances below so many deviations of their noise are none.
_DEVIATIONS = 3.0
# Means of so many deviations of their noise from the edge may be of values beyond it.
_FROM_THE_EDGE = 4.5


class Moments(NamedTuple):
    """Mean and standard deviation of features, and whether they stand out of noise."""

    mean: np.ndarray
    scale: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True)
class FeatureMoments(Statistic):
    """Mean and mean square of each feature, cut to [-1, 1] about a released place.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows.
    name : str, default="moments"
        Name of the release.
    """

    n_samples: int
    n_features: int
    name: str = "moments"

    @property
    def _weight(self) -> float:
        """What squares are multiplied by: as much as costs nothing."""
        return math.sqrt(sensitivity.free_moment_weight(1))

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        n, p = self.n_samples, self.n_features
        shape = (p, 2)
        if not math.isfinite(mu):
            return (Exact(self.name, shape),)
        longest = math.sqrt(self.n_features) * math.hypot(1.0, self._weight)
        moments = calibrate_gaussian(
            self.name,
            sensitivity.feature_moments_sensitivity(self.n_samples, self.n_features),
            mu,
            shape,
            summation_error=summation_error(longest, n, p, False),
            magnitude=2.0 * self._weight,
        )
        return (moments,)

    def radius(self, noise: float, spreads: Spreads) -> np.ndarray:
        """Where to cut: where noise and what is cut off do the least harm."""
        if noise == 0.0:
            return _times(_ENDLESS, spreads.reach)
        per_error = 2.0 * self._weight / noise
        wanted = [
            np.minimum(spreads.scale / spreads.reach * math.sqrt(e), _LONGEST)
            for e in (_SMALL_ERROR * per_error, _LARGE_ERROR * per_error)
        ]
        # What lies at the highest node, as the rare value of an indicator, is kept.
        shortest = np.where(spreads.tail < _FEW_AT_THE_END, _SHORTEST, 1.0)
        units = np.maximum(np.minimum(wanted[1], 1.0), np.maximum(wanted[0], shortest))
        return _times(units, spreads.reach)

    def run(self, release: Any, rows: Any, *given: Any) -> Moments:
        """Release moments of rows under a map, about places, with known spreads.

        Parameters
        ----------
        release, rows
            As for every statistic.
        *given : callable or None, ndarray of shape (n_features,), Spreads
            Map of blocks of rows, released places, and released differences.

        Returns
        -------
        Moments
            In the units of the mapped rows.
        """
        row_map, place, spreads = given
        noise = getattr(release.plan[self.name], "noise_std", 0.0)
        radius = self.radius(noise, spreads)
        kernel = partial(_linalg.moment_sums, center=place, radius=radius)
        sums = _linalg.sum_over_rows(rows, kernel, row_map)
        sums *= np.array([1.0, self._weight]) / self.n_samples
        released = release(self.name, sums, overwrite=True)
        mean = np.clip(released[:, 0], -1.0, 1.0)
        square_noise = noise / self._weight
        variance = released[:, 1] / self._weight - mean**2 + noise**2
        deviation = np.hypot(square_noise, 2.0 * mean * noise)
        # A mean at the edge is that of values that were all cut: the place was lost,
        # and what looks like a variance is noise.
        inside = np.abs(mean) < 1.0 - _FROM_THE_EDGE * noise
        seen = spreads.found & inside & (variance > _DEVIATIONS * deviation)
        scale = radius * np.sqrt(np.where(seen, variance, 1.0))
        with np.errstate(over="ignore"):
            center = np.clip(place + radius * mean, -_LARGEST, _LARGEST)
        return Moments(center, scale, seen)


def _times(units, lengths: np.ndarray) -> np.ndarray:
    """Product that ends with the largest float."""
    with np.errstate(over="ignore"):
        return np.minimum(units * lengths, _LARGEST)
