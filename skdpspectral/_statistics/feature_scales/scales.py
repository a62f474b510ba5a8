"""Places and scales of all features from one budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._tables.clipping import Box
from ...mechanisms import PrivacyPlan
from ..combination import Combination, Statistic
from .difference_counts import DifferenceCounts
from .moments import FeatureMoments
from .places import Phases

# Shares of mu**2, by the error of scales and the features seen on tables of 85 to 122
# features.
_SHARES = {"differences": 0.5, "places": 0.1, "moments": 0.4}
_SHORTEST = float(np.finfo(float).tiny)


class FeatureLaw(NamedTuple):
    """Public values of each feature, in the units of the data.

    Attributes
    ----------
    mean : ndarray of shape (n_features,) or None
        Means; 0, or the middle of the box, for features that are not seen. None
        without.
    scale : ndarray of shape (n_features,)
        Standard deviations; 1, or the half-width of the box, for such features.
    seen : ndarray of bool of shape (n_features,)
        Whether a feature's variance stands out of the noise.
    center : ndarray of shape (n_features,)
        Public middle of the box; 0 without one.
    """

    mean: np.ndarray | None
    scale: np.ndarray
    seen: np.ndarray
    center: np.ndarray


@dataclass(frozen=True)
class FeatureScales(Combination):
    """Location and scale of each feature, with no bounds known.

    Differences of rows show how far values lie apart, phases on circles where they
    lie, and moments about that place, cut at a multiple of the differences, the mean
    and the standard deviation. Without means differences are all.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows, at least 2 rows.
    with_mean : bool, default=True
        Whether means are wanted.
    box : Box or None, default=None
        Public bounds, feature by feature.
    """

    n_samples: int
    n_features: int
    with_mean: bool = True
    box: Box | None = None

    def parts(self) -> Mapping[str, Statistic]:
        """Return the statistics, in the order of their releases."""
        shape = (self.n_samples, self.n_features)
        differences = DifferenceCounts(*shape, boxed=self.box is not None)
        if not self.with_mean:
            return {"differences": differences}
        return {
            "differences": differences,
            "places": Phases(*shape),
            "moments": FeatureMoments(*shape),
        }

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2."""
        return _SHARES if self.with_mean else {"differences": 1.0}

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release scales, and means if they are wanted."""
        parts = self.parts()
        bounded = None if self.box is None else self.box.to_unit
        spreads = parts["differences"].run(release, rows, bounded)
        if not self.with_mean:
            return self._law(None, spreads.scale, spreads.found)
        place = parts["places"].run(release, rows, bounded, spreads.scale)
        if self.box is not None:
            place = np.clip(place, -1.0, 1.0)
        found = parts["moments"].run(release, rows, bounded, place, spreads)
        return self._law(*found)

    def _law(self, mean, scale, seen) -> FeatureLaw:
        """Return values in the units of the data, and what stands for unseen ones."""
        middle, unit = np.zeros(self.n_features), np.ones(self.n_features)
        if self.box is not None:
            middle, unit = self.box.midpoint, self.box.unit
        # What is shorter than all normal numbers has no inverse to scale by.
        seen = seen & (scale * unit >= _SHORTEST)
        scale = np.where(seen, scale, 1.0) * unit
        if mean is not None:
            mean = middle + np.where(seen, mean, 0.0) * unit
        return FeatureLaw(mean, scale, seen, middle)

    def faintest(self, plan: PrivacyPlan) -> float:
        """Share of pairs that must differ in a feature for it to be seen; public."""
        part = self.parts()["differences"]
        noise = getattr(plan[part.name], "noise_std", 0.0)
        return part.faintest(noise)

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return ("Which features are unseen is part of what is released.",)
