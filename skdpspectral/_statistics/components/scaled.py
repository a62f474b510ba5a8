"""Components of rows whose features are divided by private scales first."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..._tables.clipping import Box
from ..._tables.mapped_rows import map_table
from ..combination import Combination
from ..feature_scales.scales import FeatureLaw, FeatureScales
from ..second_moment import floor_of
from ..terms import HALF
from .released import Components

# Shares of mu**2, by the variance of standardized features that is kept on real tables:
# a feature that is not seen is lost, and one whose scale is too small counts too much.
_SHARES = {"feature_scales": 0.5, "components": 0.5}


class ScaledComponents(NamedTuple):
    """Released components in units of scaled rows, and what rows are scaled by."""

    components: Components
    law: FeatureLaw


class Scaled(Combination):
    """Private scales of all features, and components of rows in units of them.

    Parameters
    ----------
    components : Statistic
        What is released of the scaled rows, which no bounds are known of.
    n_samples : int
        Public number of rows.
    box : Box or None
        Public bounds that rows are clipped into first, feature by feature.
    with_mean : bool, default=True
        Whether means are released too, and subtracted: not where rows are to stay
        sparse.
    """

    def __init__(
        self, components: Any, n_samples: int, box: Box | None, with_mean: bool = True
    ) -> None:
        self.components, self.bounds = components, components.bounds
        # With means scales are those of moments, and not of differences alone.
        n_features = self.bounds.n_features
        self.scales = FeatureScales(n_samples, n_features, with_mean, box)
        self._parts = {"feature_scales": self.scales, "components": components}
        self._shares = _SHARES

    def run(self, release: Any, rows: Any, *given: Any) -> ScaledComponents:
        """Release scales, and components of what they make of the rows."""
        law = self.scales.run(release, rows)
        found = self.components.run(
            release, self._divided(rows, law), *self._floor(release.plan, law)
        )
        if getattr(self.components.rest, "noise", None) is None:
            found = replace(found, noise=_noise_among_seen(found, law.seen))
        return ScaledComponents(_among_seen(found, law.seen), law)

    def _floor(self, plan: Any, law: FeatureLaw) -> tuple[float, ...]:
        """Length below which unit rows of scaled features keep theirs."""
        if not self.bounds.paired or self.bounds.clip is not None:
            return ()
        rest = self.components.rest
        edge = 2.0 * math.sqrt(self.bounds.n_features) * rest.relative_noise(plan)
        # Every feature that is seen has a variance of about one.
        return (floor_of(math.sqrt(max(int(law.seen.sum()), 1)), edge / HALF),)

    def _divided(self, rows: Any, law: FeatureLaw):
        """Rows about means in units of scales; zeros for features that are not seen."""
        box = self.scales.box
        weights = np.where(law.seen, 1.0 / law.scale, 0.0)
        if sparse.issparse(rows):
            rows = sparse.csr_array(rows, dtype=np.float64, copy=True)
            rows.data *= weights[rows.indices]
            return rows

        shift = 0.0 if law.mean is None else law.mean - law.center
        with np.errstate(over="ignore", invalid="ignore"):
            shift = shift * weights
        return map_table(rows, partial(_divide, box=box, weights=weights, shift=shift))

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Refuse: nobody knows variances in units of private scales."""
        raise ValueError(
            'expected_error knows variances in units of the data: scale="private" '
            "leaves none; ask with scale=None"
        )


def _divide(block, box: Box | None, weights: np.ndarray, shift) -> np.ndarray:
    """Divide features, cut at the bounds, by scales, and shift them then."""
    with np.errstate(over="ignore", invalid="ignore"):
        if box is not None:
            return box.to_unit(block) * (weights * box.unit) - shift
        return block * weights - shift


def _among_seen(found: Components, seen: np.ndarray) -> Components:
    """Leave out of components what noise has made of features that are not seen.

    Where fewer features are seen than components were asked for, the last are zero.
    """
    vectors = np.zeros_like(found.vectors)
    count = min(len(vectors), int(seen.sum()))
    if count:
        basis, triangle = np.linalg.qr(found.vectors[:count, seen].T)
        signs = np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
        vectors[:count, seen] = (basis * signs).T
    above = min(found.above_noise, count)
    return replace(found, vectors=vectors, above_noise=above)


def _noise_among_seen(found: Components, seen: np.ndarray) -> float | None:
    """Released variance across components, of the features that have any."""
    rank = len(found.vectors)
    across = int(seen.sum()) - rank
    if found.noise is None or across <= 0:
        return found.noise
    return found.noise * (len(seen) - rank) / across
