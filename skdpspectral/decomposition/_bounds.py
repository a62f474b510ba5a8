"""How rows are bounded, and what they are measured from, by public parameters."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy import sparse

from .. import sensitivity
from .._linalg import walks
from .._statistics.statistic import HALF, Terms, weight_of
from .._tables.clipping import clip_rows, make_box, normalize_rows
from .._tables.pairs import PairOrder, PairWalk
from ..mechanisms._relations import check_real, shown
from ._strategies import CENTERS, PrivateMean

# Radii in units of the data.
_SHORTEST_RADIUS, _LONGEST_RADIUS = 1e-60, 1e60


# Radii, in units of the box, whose squares float64 arithmetic can handle.
_SMALLEST, _LARGEST = 1e-60, 1e60


# Centers that are found in steps, and whether rows are paired then: releases tell with
# "auto", and with "private" they are not.
_SEARCHED = {"auto": None, "private": False}


# What rows are cut to where their lengths matter, and no public clip is given.
_LONGEST = 1e100


class RowBounds:
    """How one fit bounds its rows, from public parameters alone.

    Parameters
    ----------
    n_features : int
        Number of features.
    bounds, clip_norm, center, scale
        As in :class:`~skdpspectral.DPPCA`.
    search : bool, default=False
        Whether "auto" and "private" mean a center that is found in steps, and not the
        mean of rows in a public ball.

    Attributes
    ----------
    box : Box or None
        Public box of the features.
    box_radius : float
        Radius of the box in its own units; infinite without a box.
    centered : bool
        Whether a private mean of rows in a public ball is subtracted.
    searched : bool
        Whether a center is found in steps, by releases.
    paired : bool or None
        Whether rows are compared in pairs; None where releases tell.
    weight : float
        What is released of means, unless releases tell: half of those of pairs.
    clip : float or None
        Bound of the rows of the second moment, in units of the box; None for unit
        rows.
    second_radius : float
        Bound on the norm of the rows of the second moment.
    mean_radius : float or None
        Bound of the rows of the private mean, in units of the box; None without.
    unit : float
        Data units per unit of the box.
    variance_unit : float
        Data units per unit of the rows of the second moment.
    scale, clip_norm, center_radius
        As they were given, radii as floats in units of the data.
    """

    def __init__(
        self,
        n_features,
        *,
        bounds=None,
        clip_norm=None,
        center="auto",
        scale=None,
        search=False,
    ):
        if not (scale is None or (isinstance(scale, str) and scale == "bounds")):
            raise ValueError(f'scale must be None or "bounds", got {shown(scale)}')
        self.n_features, self.scale = n_features, scale
        # As a Python float: a float32 radius would round sensitivity and noise.
        self.clip_norm = clip_norm = None if clip_norm is None else float(clip_norm)
        self.box = make_box(bounds, n_features, per_feature=scale is not None)
        self.box_radius = math.inf
        self.unit = unit = 1.0
        if self.box is not None:
            self.box_radius = sensitivity.box_radius(self.box.half_widths)
            self.unit = unit = 1.0 if scale is not None else float(self.box.unit[0])
        found = _private_center(center)
        self.centered, self.center_radius = found
        self.searched = search and isinstance(center, str) and center in _SEARCHED
        # What is not searched for is compared: a mean of rows of a wide box would be
        # its noise, which is the first component then.
        self.paired = isinstance(center, str) and center in ("auto", "pairs")
        if self.searched:
            self.centered, self.paired = False, _SEARCHED[center]
        self.weight = HALF if self.paired else 1.0
        public = (self.box, clip_norm, self.center_radius)
        if self.centered and all(radius is None for radius in public):
            raise ValueError(
                "center: a private mean needs public bounds, or a public radius as in "
                "center=PrivateMean(radius), or a clip_norm"
            )
        self.clip = self.mean_radius = None
        if clip_norm is not None:
            # About a center in the box, no row of the box is longer than this.
            known = not (self.centered or self.searched or self.paired)
            reach = self.box_radius * (1.0 if known else 2.0)
            self.clip = min(clip_norm / unit, reach)
        if self.centered:
            radius = clip_norm if self.box is None else math.inf
            radius = radius if self.center_radius is None else self.center_radius
            self.mean_radius = min(radius / unit, self.box_radius)
        self.second_radius = 1.0 if self.clip is None else self.clip
        self.variance_unit = 1.0 if self.clip is None else unit
        for name in ("clip", "mean_radius"):
            _check_radius(name, getattr(self, name))

    def for_mean(self, block):
        """Rows of the private mean."""
        if self.box is None:
            return clip_rows(block, self.mean_radius)
        block = self.box.to_unit(block)
        return clip_rows(block, self.mean_radius, out=block)

    def _about(self, block, mean):
        """Rows in units of the box, about a released mean, and memory to reuse."""
        own = None
        if self.box is not None:
            block = own = self.box.to_unit(block)
        if mean is not None:
            block = own = np.subtract(block, mean, out=own, dtype=np.float64)
        return block, own

    def for_second_moment(self, block, mean=None, floor: float = 0.0):
        """Rows of the second moment, about a released mean.

        Without a public clip rows of at least a released length, `floor`, become unit
        rows, and shorter ones keep their length over it.
        """
        block, own = self._about(block, mean)
        if self.clip is None:
            return normalize_rows(block, floor=floor, out=own)
        return clip_rows(block, self.clip, out=own)

    def for_projections(self, block, mean=None):
        """Rows about a released mean whose lengths are kept, up to a public clip."""
        block, own = self._about(block, mean)
        # Without one, a clip that no sensitivity rests on: squares stay finite.
        clip = _LONGEST if self.clip is None else self.clip
        return clip_rows(block, clip, out=own)

    def pairs(self, order: PairOrder, then=None) -> PairWalk:
        """Walk over differences of paired rows, in units of the box."""
        row_map = None if self.box is None else self.box.to_unit
        return PairWalk(order, row_map, then=then)

    def for_pairs(self, difference, lengths: bool = False, floor: float = 0.0):
        """Bound differences, in their own memory: for the second moment.

        With `lengths`, or a public clip, they are over the root of two: their
        covariance is then that of the rows. So is `floor` measured, as for rows.
        """
        own = None if sparse.issparse(difference) else difference
        if self.clip is None and not lengths:
            return normalize_rows(difference, floor=math.sqrt(2.0) * floor, out=own)
        difference *= math.sqrt(0.5)
        clip = _LONGEST if self.clip is None else self.clip
        return clip_rows(difference, clip, out=own)

    def blocks(self, X, origin=None) -> Terms:
        """Return blocks of :meth:`for_projections`, or of differences.

        Parameters
        ----------
        X : array or sparse CSR matrix of shape (n, p)
            The rows.
        origin : ndarray of shape (p,), PairOrder or None, default=None
            A released point, in units of the box; or which rows are paired.
        """
        if isinstance(origin, PairOrder):
            walk = self.pairs(origin, partial(self.for_pairs, lengths=True))
            walked = walks.Walked(X, walk)
            return Terms(walked, origin.n_pairs, weight_of(origin))
        about = partial(self.for_projections, mean=origin)
        return Terms(walks.Walked(X, walks.RowWalk(about)), X.shape[0])

    def project_mean(self, mean):
        """Move a noisy mean to where a mean can be: public facts alone."""
        if self.box is not None:
            mean = np.clip(mean, -self.box.half_widths, self.box.half_widths)
        return clip_rows(mean[None], self.mean_radius)[0]

    def to_data_units(self, mean):
        """Return a mean in units of the box as a point in units of the data."""
        known = isinstance(mean, np.ndarray)
        mean = mean if known else np.zeros(self.n_features)
        return mean if self.box is None else self.box.midpoint + self.box.unit * mean

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what a reader of the guarantee must know."""
        sentences = []
        if self.paired:
            sentences.append(
                "Rows are compared with each other in pairs, and half of each mean "
                "over pairs is released; no mean was estimated."
            )
        elif not (self.centered or self.searched):
            what = "the origin" if self.box is None else "the midpoint of the bounds"
            sentences.append(
                f"Variance is measured about {what}; no mean was estimated."
            )
        flat = 0 if self.box is None else int(np.sum(self.box.half_widths == 0.0))
        if flat:
            sentences.append(f"{flat} features have no extent and count for nothing.")
        return tuple(sentences)


def _private_center(center) -> tuple[bool, float | None]:
    """Return whether rows are centered at a private mean, and its public radius.

    Parameters
    ----------
    center : {"auto", "none", "pairs", "private"} or PrivateMean
        As in :class:`~skdpspectral.DPPCA`.

    Raises
    ------
    ValueError
        Naming center, or the radius.
    """
    if isinstance(center, PrivateMean):
        if center.radius is None:
            return True, None
        # As a Python float: a float32 radius would round sensitivity and noise.
        radius = check_real("radius of PrivateMean", center.radius)
        if not _SHORTEST_RADIUS <= radius <= _LONGEST_RADIUS:
            raise ValueError(
                f"radius of PrivateMean must be in [{_SHORTEST_RADIUS:g}, "
                f"{_LONGEST_RADIUS:g}], got {radius}"
            )
        return True, radius
    if not isinstance(center, str) or center not in CENTERS:
        raise ValueError(
            f"center must be one of {CENTERS} or a PrivateMean(radius), got "
            f"{shown(center)}"
        )
    return center == "private", None


def _check_radius(name: str, radius: float | None) -> None:
    """Refuse a radius whose square float64 arithmetic cannot handle."""
    if radius is None or _SMALLEST <= radius <= _LARGEST:
        return
    parameter = "clip_norm" if name == "clip" else "radius of PrivateMean"
    raise ValueError(
        f"{parameter} is {radius:g} half-widths of the bounds, out of the range of "
        f"float64 arithmetic; choose {parameter} of the order of the bounds"
    )
