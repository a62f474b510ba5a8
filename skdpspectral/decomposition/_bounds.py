"""How rows are bounded, and from which origin they are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .. import sensitivity
from .._base.sklearn_compat import StrOptions
from .._base.strategies import register
from .._linalg import walks
from .._statistics.statistic import HALF, Terms
from .._tables.clipping import clip_rows, make_box, normalize_rows
from .._tables.pairs import PairOrder, PairWalk
from ..mechanisms._relations import check_real, shown

CENTERS = ("auto", "none", "pairs", "private")


@register
class PrivateMean(BaseEstimator):
    """A private mean as the center of the rows: ``center=PrivateMean(radius)``.

    Parameters
    ----------
    radius : float or None, default=None
        Public radius in [1e-60, 1e60], in units of the data (of the scaled features
        with ``scale="bounds"``), about the midpoint of the bounds or the origin, that
        rows are clipped to for the mean. None takes that of the box, or ``clip_norm``
        without bounds; one of the three is needed.

    See Also
    --------
    skdpspectral.DPPCA : Which takes it as `center`.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.decomposition import PrivateMean
    >>> DPPCA(center=PrivateMean(5.0)).get_params()["center__radius"]
    5.0
    """

    _parameter_constraints: ClassVar[dict] = {"radius": [Real, None]}

    def __init__(self, radius=None):
        self.radius = radius


@dataclass(frozen=True)
class PublicPoint:
    """Rows are measured from the midpoint of public bounds, or from the origin."""


@dataclass(frozen=True)
class Pairs:
    """Rows are compared with other rows, in pairs."""


@dataclass(frozen=True)
class Searched:
    """Rows are measured from a private center that is found in steps.

    With `or_pairs`, public numbers and releases may choose pairs instead.
    """

    or_pairs: bool


# Radii of a private mean, in units of the data.
_SHORTEST_RADIUS, _LONGEST_RADIUS = 1e-60, 1e60


def find_origin(center, search: bool) -> PublicPoint | PrivateMean | Pairs | Searched:
    """Return the origin that a parameter `center` asks for, or an error that names it.

    Without `search`, "auto" means pairs, as the mean of rows of a wide box would be its
    noise, which is the first component then; and "private" means a private mean.
    """
    if isinstance(center, PrivateMean):
        if center.radius is None:
            return PrivateMean()
        # As a Python float: a float32 radius would round sensitivity and noise.
        radius = check_real("radius of PrivateMean", center.radius)
        if not _SHORTEST_RADIUS <= radius <= _LONGEST_RADIUS:
            raise ValueError(
                f"radius of PrivateMean must be in [{_SHORTEST_RADIUS:g}, "
                f"{_LONGEST_RADIUS:g}], got {radius}"
            )
        return PrivateMean(radius)
    if not isinstance(center, str) or center not in CENTERS:
        raise ValueError(
            f"center must be one of {CENTERS} or a PrivateMean(radius), got "
            f"{shown(center)}"
        )
    if center == "none":
        return PublicPoint()
    if search and center != "pairs":
        return Searched(or_pairs=center == "auto")
    return PrivateMean() if center == "private" else Pairs()


def is_private(center) -> bool:
    """Return whether a `center` is a private mean, whatever the bounds are."""
    named = isinstance(center, str) and center == "private"
    return named or isinstance(center, PrivateMean)


CENTER_CONSTRAINT = [StrOptions(set(CENTERS)), PrivateMean]

# Radii, in units of the box, whose squares float64 arithmetic can handle.
_SMALLEST, _LARGEST = 1e-60, 1e60

# Clip of rows whose lengths matter, where no public clip is given.
_LONGEST = 1e100


class RowBounds:
    """Bounds and origin of the rows of a fit, from public parameters alone.

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
    origin : PublicPoint, PrivateMean, Pairs or Searched
        What rows are measured from.
    weights : tuple of float
        Weights that what is released of a mean may have: 1 of one over rows, half of
        one over pairs, or both where releases choose.
    box : Box or None
        Public box of the features.
    box_radius : float
        Radius of the box in its own units; infinite without a box.
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
        self.origin = origin = find_origin(center, search)
        self.weights = (HALF,) if isinstance(origin, Pairs) else (1.0,)
        if isinstance(origin, Searched) and origin.or_pairs:
            self.weights = (1.0, HALF)
        self.clip = self.mean_radius = None
        if clip_norm is not None:
            # About a center in the box, no row of the box is longer than this.
            reach = self.box_radius * (1.0 if isinstance(origin, PublicPoint) else 2.0)
            self.clip = min(clip_norm / unit, reach)
        if isinstance(origin, PrivateMean):
            radius = clip_norm if self.box is None else math.inf
            radius = radius if origin.radius is None else origin.radius
            if radius is None:
                raise ValueError(
                    "center: a private mean needs public bounds, or a public radius as "
                    "in center=PrivateMean(radius), or a clip_norm"
                )
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

        `origin` is a released point in units of the box, the order of pairs, or None.
        """
        if isinstance(origin, PairOrder):
            walk = self.pairs(origin, partial(self.for_pairs, lengths=True))
            walked = walks.Walked(X, walk)
            return Terms(walked, origin.n_pairs, HALF)
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
        if isinstance(self.origin, Pairs):
            sentences.append(
                "Rows are compared with each other in pairs, and half of each mean "
                "over pairs is released; no mean was estimated."
            )
        elif isinstance(self.origin, PublicPoint):
            what = "the origin" if self.box is None else "the midpoint of the bounds"
            sentences.append(
                f"Variance is measured about {what}; no mean was estimated."
            )
        flat = 0 if self.box is None else int(np.sum(self.box.half_widths == 0.0))
        if flat:
            sentences.append(f"{flat} features have no extent and count for nothing.")
        return tuple(sentences)


def _check_radius(name: str, radius: float | None) -> None:
    """Refuse a radius whose square float64 arithmetic cannot handle."""
    if radius is None or _SMALLEST <= radius <= _LARGEST:
        return
    parameter = "clip_norm" if name == "clip" else "radius of PrivateMean"
    raise ValueError(
        f"{parameter} is {radius:g} half-widths of the bounds, out of the range of "
        f"float64 arithmetic; choose {parameter} of the order of the bounds"
    )
