"""Bounded rows: their bounds and origin, private means, and pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .. import sensitivity
from .._linalg import walks
from .._tables.clipping import clip_rows, make_box, normalize_rows
from .._tables.pairs import PairOrder, PairWalk, row_differences
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Remark, check_real, shown
from .statistic import (
    HALF,
    Combination,
    Statistic,
    Terms,
    mean_summation_error,
    pair_order,
)

# Of clients, who may also find one together.
CENTERS_OF_CLIENTS = ("auto", "none", "pairs", "private", "shared")


@dataclass(eq=False, repr=False)
class PrivateMean(BaseEstimator):
    """A private mean as the `center` of rows, in :class:`~skdpspectral.FederatedDPPCA`.

    Parameters
    ----------
    radius : float or None, default=None
        Public radius in [1e-60, 1e60], in units of the data (of the scaled features
        with ``scale="bounds"``). Rows are clipped to this distance from the midpoint of
        the bounds or the origin before averaging. None uses the radius of the box, or
        ``clip_norm`` without bounds; one of the three is required.

    Examples
    --------
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.decomposition import PrivateMean
    >>> FederatedDPPCA(center=PrivateMean(5.0)).get_params()["center__radius"]
    5.0
    """

    _parameter_constraints: ClassVar[dict] = {"radius": [Real, None]}

    radius: float | None = None


@dataclass(frozen=True)
class PublicPoint:
    """Rows are measured from the midpoint of public bounds, or from the origin."""


@dataclass(frozen=True)
class Pairs:
    """Rows are compared with other rows, in pairs."""


@dataclass(frozen=True)
class Shared:
    """Clients find a center together; each measures from there or compares pairs."""


# Radii of a private mean, in units of the data.
_SHORTEST_RADIUS, _LONGEST_RADIUS = 1e-60, 1e60


def find_origin(center):
    """Return the origin that a parameter `center` requests, or an error that names it.

    "private" is a private mean, and "auto" is pairs: the mean of rows of a wide box
    would be mostly noise.
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
    known = CENTERS_OF_CLIENTS
    if not isinstance(center, str) or center not in known:
        raise ValueError(
            f"center must be one of {known} or a PrivateMean(radius), got "
            f"{shown(center)}"
        )
    if center == "none":
        return PublicPoint()
    if center == "shared":
        return Shared()
    return PrivateMean() if center == "private" else Pairs()


# Radii, in units of the box, whose squares float64 arithmetic can handle.
_SMALLEST, _LARGEST = 1e-60, 1e60

# Clip of rows whose lengths matter, where no public clip is given.
_LONGEST = 1e100


class RowBounds:
    """Bounds and origin of the rows of a fit, from public parameters alone.

    Parameters are those of :class:`~skdpspectral.FederatedDPPCA`.

    `origin` is what rows are measured from. `weights` are those that a released mean
    may have: 1 over rows, half over pairs, or both where releases choose. `box` is the
    public box or None, and `box_radius` its radius in its own units. In units of the
    box, `clip` bounds the rows of the second moment (None for unit rows) and
    `mean_radius` those of the private mean (None without one). `second_radius` bounds
    the norm of the rows of the second moment. `unit` and `variance_unit` are data units
    per unit of the box, and of these rows.
    """

    def __init__(
        self,
        n_features,
        *,
        bounds=None,
        clip_norm=None,
        center="auto",
        scale=None,
    ):
        if not (scale is None or (isinstance(scale, str) and scale == "bounds")):
            raise ValueError(
                f'scale must be None or "bounds", got {shown(scale)}: clients share '
                "one task, and its scales must be public. Divide features by public "
                'scales, or pass bounds with scale="bounds"'
            )
        self.n_features, self.scale = n_features, scale
        # As a Python float: a float32 radius would round sensitivity and noise.
        self.clip_norm = clip_norm = None if clip_norm is None else float(clip_norm)
        self.box = make_box(bounds, n_features, per_feature=scale is not None)
        self.box_radius = math.inf
        self.unit = unit = 1.0
        if self.box is not None:
            self.box_radius = sensitivity.box_radius(self.box.half_widths)
            self.unit = unit = 1.0 if scale is not None else float(self.box.unit[0])
        self.origin = origin = find_origin(center)
        self.weights = (HALF,) if isinstance(origin, Pairs) else (1.0,)
        if isinstance(origin, Shared):
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

    def for_mean(self, block, out=None):
        """Rows of the private mean; maps of rows may be given memory for them."""
        block, own = self._about(block, None, out)
        return clip_rows(block, self.mean_radius, out=own)

    def _about(self, block, mean, own=None):
        """Rows in units of the box, about a released mean, and memory to reuse."""
        if self.box is not None:
            block = own = self.box.to_unit(block, out=own)
        if mean is not None:
            block = own = np.subtract(block, mean, out=own, dtype=np.float64)
        return block, own

    def for_second_moment(self, block, mean=None, floor: float = 0.0, out=None):
        """Rows of the second moment, about a released mean.

        Without a public clip, rows shorter than the released length `floor` are divided
        by it, and all others by their own length.
        """
        block, own = self._about(block, mean, out)
        if self.clip is None:
            return normalize_rows(block, floor=floor, out=own)
        return clip_rows(block, self.clip, out=own)

    def for_projections(self, block, mean=None, out=None):
        """Rows about a released mean whose lengths are kept, up to a public clip."""
        block, own = self._about(block, mean, out)
        # Without one, a clip that no sensitivity rests on: squares stay finite.
        clip = _LONGEST if self.clip is None else self.clip
        return clip_rows(block, clip, out=own)

    def pairs(self, order: PairOrder, then=None) -> PairWalk:
        """Walk over differences of paired rows, in units of the box."""
        row_map = None if self.box is None else self.box.to_unit
        return PairWalk(order, row_map, then=then, difference=row_differences)

    def for_pairs(self, difference, lengths: bool = False, floor: float = 0.0):
        """Bound differences, or their signs, for the second moment, in place.

        With `lengths` or a public clip they are divided by the root of two, so that
        their covariance is that of the rows. `floor` is measured as for rows.
        """
        own = None if sparse.issparse(difference) else difference
        if self.clip is None and not lengths:
            return normalize_rows(difference, floor=math.sqrt(2.0) * floor, out=own)
        difference *= math.sqrt(0.5)
        clip = _LONGEST if self.clip is None else self.clip
        return clip_rows(difference, clip, out=own)

    def blocks(self, X, origin=None) -> Terms:
        """Return blocks of rows about a released point, if any, or of differences."""
        if isinstance(origin, PairOrder):
            walk = self.pairs(origin, partial(self.for_pairs, lengths=True))
            walked = walks.Walked(X, walk)
            return Terms(walked, origin.n_pairs, HALF)
        about = walks.Writing(partial(self.for_projections, mean=origin))
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
        sentences, said = [], ""
        if isinstance(self.origin, Pairs):
            said = (
                "Rows are compared with each other in pairs, and half of each mean "
                "over pairs is released; no mean was estimated."
            )
        elif isinstance(self.origin, Shared):
            said = (
                "Rows are measured from a private center that the clients find "
                "together, or compared in pairs where it is not accurate enough."
            )
        elif isinstance(self.origin, PublicPoint):
            what = "the origin" if self.box is None else "the midpoint of the bounds"
            said = f"Variance is measured about {what}; no mean was estimated."
        if said:
            sentences.append(Remark(said, Concern.MEASURED))
        flat = 0 if self.box is None else int(np.sum(self.box.half_widths == 0.0))
        if flat:
            said = f"{flat} features have no extent and count for nothing."
            sentences.append(Remark(said, Concern.MEASURED))
        return tuple(sentences)


def _check_radius(name: str, radius: float | None) -> None:
    """Refuse a radius whose square float64 arithmetic cannot handle."""
    if radius is None or _SMALLEST <= radius <= _LARGEST:
        return
    parameter = "clip_norm" if name == "clip" else "radius of PrivateMean"
    raise ValueError(
        f"{parameter} is {radius:g} half-widths of the bounds, which is out of the "
        f"range of float64 arithmetic; choose {parameter} on the scale of the bounds"
    )


# Length below which rows keep theirs, in typical lengths: at most, and its square in
# units of one over the largest eigenvalue of the noise; by the variance that is kept on
# six tables and three simulations.
_HIGHEST_FLOOR, _FLOOR_OF_NOISE = 1.6, 0.004
_LEAST_LENGTH, _LARGEST_LENGTH = 1e-60, 1e60


def floor_of(typical: float, edge: float) -> float:
    """Length below which rows keep theirs, so that noise does not hide the moment.

    `typical` is a length of many rows, and `edge` the largest eigenvalue of the noise
    on the moment of unit rows.
    """
    most = _FLOOR_OF_NOISE / _HIGHEST_FLOOR**2
    floor = typical * math.sqrt(_FLOOR_OF_NOISE / max(edge, most))
    return min(max(floor, _LEAST_LENGTH), _LARGEST_LENGTH)


def weight_of(origin: Any) -> float:
    """Weight of what is released of a mean: half of one over pairs."""
    return HALF if isinstance(origin, PairOrder) else 1.0


def plan_second_moment(
    name: str,
    n_samples: int,
    n_features: int,
    mu: float,
    *,
    weights: tuple[float, ...],
    radius: float = 1.0,
    width: int | None = None,
    lemma: str = "second-moment pair-moment sign-moment",
) -> tuple:
    """Plan a second moment of rows of norm at most `radius`; infinite mu for no noise.

    With `width`, it is of projections on so many directions.
    """
    shape, square = (n_features if width is None else width,) * 2, radius**2
    return calibrate_alike(
        [name],
        sensitivity.second_moment_sensitivity(radius, n_samples),
        mu,
        shape,
        symmetric=True,
        summation_error=mean_summation_error(square, n_samples, n_features, weights),
        magnitude=2.0 * square,
        lemma=lemma if width is None else "projected-moment",
    )


# Shares of mu**2 of a private mean, and of what is made of rows about it.
_SHARES = {"mean": 0.15, "rest": 1.0 - 0.15}


class Mean(Statistic):
    """The private mean of bounded rows, whose bounds have a `mean_radius`."""

    def __init__(self, bounds: RowBounds, n_samples: int) -> None:
        self.bounds, self.n_samples = bounds, n_samples

    def mechanisms(self, mu: float) -> tuple:
        n, p, radius = self.n_samples, self.bounds.n_features, self.bounds.mean_radius
        error = mean_summation_error(radius, n, p)
        more = {"summation_error": error, "magnitude": 2.0 * radius}
        moved = sensitivity.mean_sensitivity(radius, n)
        return calibrate_alike(
            ["mean"], moved, mu, (p,), lemma="private-center", **more
        )

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the mean of rows, in units of the box, where a mean can be."""
        bounded = walks.Writing(self.bounds.for_mean)
        mean = release("mean", walks.blocked_mean(rows, bounded))
        return self.bounds.project_mean(mean)


class Centered(Combination):
    """A statistic of rows about a private mean or a public point, or of pairs."""

    def __init__(self, bounds: RowBounds, n_samples: int, rest: Any) -> None:
        self.bounds, self.n_samples, self.rest = bounds, n_samples, rest
        self.order = None
        if isinstance(bounds.origin, Pairs):
            self.order = pair_order(n_samples, bounds.n_features)
        self.mean, parts, shares = None, {"rest": rest}, {"rest": 1.0}
        if isinstance(bounds.origin, PrivateMean):
            self.mean = Mean(bounds, n_samples)
            parts, shares = {"mean": self.mean, "rest": rest}, _SHARES
        super().__init__(parts, shares)

    def center(self, release: Any, rows: Any):
        """Release the mean; None without one, the order of the pairs with them."""
        return self.order if self.mean is None else self.mean.run(release, rows)

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the mean and the rest; return what the rest returns."""
        mean = self.center(release, rows)
        return self.rest.run(release, rows, mean, *given)

    def remarks(self) -> tuple[str, ...]:
        return self.bounds.remarks()
