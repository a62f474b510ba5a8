"""Private first and second moments of bounded rows: what to release, and how."""

from __future__ import annotations

import math

import numpy as np

from . import _spectral, sensitivity
from ._clipping import Box, clip_rows, normalize_rows
from .accounting import calibrate_gaussian, split_mu
from .mechanisms import Exact

# Share of mu**2 for a private mean.
_MEAN_SHARE = 0.15
# Weight of the second moment in a joint release of both moments (Lemma 3.5).
_JOINT_WEIGHT = 4.0
# Radii, in units of the box, whose squares float64 arithmetic can handle.
_SMALLEST, _LARGEST = 1e-60, 1e60
_SMALLEST_EXTENT = 1e-100


class RowBounds:
    """How one fit bounds its rows, from public parameters alone.

    Parameters
    ----------
    n_features : int
        Number of features.
    bounds, clip_norm, center, scale_by_bounds, center_clip_norm
        As in :class:`~skdpspectral.DPPCA`.

    Attributes
    ----------
    box : Box or None
        Public box of the features.
    box_radius : float
        Radius of the box in its own units; infinite without a box.
    joint : bool
        Whether mean and second moment are one release, of clipped rows.
    centred : bool
        Whether a private mean is subtracted.
    clip : float or None
        Bound of the rows of the second moment, in units of the box; None for unit
        rows.
    mean_radius : float
        Bound of the rows of the private mean, in units of the box.
    variance_unit : float
        Data units per unit of the rows of the second moment.
    """

    def __init__(
        self,
        n_features,
        *,
        bounds,
        clip_norm,
        center,
        scale_by_bounds,
        center_clip_norm,
    ):
        self.n_features = n_features
        # As Python floats: a float32 radius would round sensitivity and noise.
        clip_norm, center_clip_norm = map(_as_float, (clip_norm, center_clip_norm))
        self.box = make_box(bounds, n_features, scale_by_bounds)
        self.box_radius, unit = math.inf, 1.0
        if self.box is not None:
            self.box_radius = sensitivity.box_radius(self.box.half_widths)
            unit = 1.0 if scale_by_bounds else float(self.box.unit[0])
        if center == "auto":
            center = "none" if self.box is None else "private"
        self.centred = center == "private"
        self.joint = self.centred and clip_norm is not None
        self._check_centre(center_clip_norm)
        self.clip = (
            None if clip_norm is None else min(clip_norm / unit, self.box_radius)
        )
        self.mean_radius = min((center_clip_norm or math.inf) / unit, self.box_radius)
        self.variance_unit = 1.0 if self.clip is None else unit
        separate = self.centred and not self.joint
        for name, radius in (
            ("clip_norm", self.clip),
            ("center_clip_norm", self.mean_radius if separate else None),
        ):
            if radius is not None and not _SMALLEST <= radius <= _LARGEST:
                raise ValueError(
                    f"{name} is {radius:g} half-widths of the bounds, out of the range "
                    f"of float64 arithmetic; choose {name} of the order of the bounds"
                )

    def _check_centre(self, center_clip_norm) -> None:
        """Refuse a radius of the mean that is missing, or that nothing uses."""
        separate = self.centred and not self.joint
        if separate and self.box is None and center_clip_norm is None:
            raise ValueError(
                'center="private" needs public bounds, or a public radius '
                "center_clip_norm, or a clip_norm"
            )
        if center_clip_norm is not None and not separate:
            raise ValueError(
                "center_clip_norm is the radius of a private mean of unit rows: it "
                'has no use with center="none" or with a clip_norm; leave it None'
            )

    @property
    def second_radius(self) -> float:
        """Bound on the norm of the rows of the second moment."""
        return 1.0 if self.clip is None else self.clip

    def for_mean(self, block):
        """Rows of the separate private mean."""
        if self.box is None:
            return clip_rows(block, self.mean_radius)
        block = self.box.to_unit(block)
        return clip_rows(block, self.mean_radius, out=block)

    def for_second_moment(self, block, mean=None):
        """Rows of the second moment, about a released mean."""
        own = None
        if self.box is not None:
            block = own = self.box.to_unit(block)
        if mean is not None:
            block = own = np.subtract(block, mean, out=own, dtype=np.float64)
        if self.clip is None:
            return normalize_rows(block, out=own)
        return clip_rows(block, self.clip, out=own)

    def project_mean(self, mean):
        """Move a noisy mean to where a mean can be: public facts alone."""
        if self.box is not None:
            mean = np.clip(mean, -self.box.half_widths, self.box.half_widths)
        radius = self.clip if self.joint else self.mean_radius
        return clip_rows(mean[None], radius)[0]

    def to_data_units(self, mean):
        """Return a mean in units of the box as a point in units of the data."""
        mean = np.zeros(self.n_features) if mean is None else mean
        return mean if self.box is None else self.box.midpoint + self.box.unit * mean

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what a reader of the guarantee must know."""
        if self.centred:
            return ()
        what = "the origin" if self.box is None else "the midpoint of the bounds"
        return (f"Variance is measured about {what}; no mean was estimated.",)


def _as_float(radius) -> float | None:
    return None if radius is None else float(radius)


def _numbers(side) -> np.ndarray:
    """Return one side of the bounds as float64 numbers."""
    try:
        side = np.asarray(side)
        if side.dtype.kind in "iufO":
            return side.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("bounds must hold numbers, or arrays of numbers, within float64")


def make_box(bounds, n_features: int, per_feature: bool) -> Box | None:
    """Return the public box, or an error that names bounds."""
    if bounds is None:
        if per_feature:
            raise ValueError("scale_by_bounds=True needs bounds=(low, high)")
        return None
    size = "one number" if getattr(bounds, "ndim", 1) == 0 else len(bounds)
    if size != 2:
        raise ValueError(f"bounds must be a pair (low, high), got {size}")
    low, high = map(_numbers, bounds)
    for name, side in (("low", low), ("high", high)):
        if side.shape not in ((), (n_features,)):
            raise ValueError(
                f"bounds: {name} has shape {side.shape}; give a number or one value "
                f"for each of the {n_features} features"
            )
        if not np.isfinite(side).all():
            raise ValueError(f"bounds: {name} must be finite; give public limits")
    with np.errstate(over="ignore"):
        extent = high - low
    if np.any(extent < 0):
        raise ValueError("bounds are reversed: low must be at most high everywhere")
    if not np.isfinite(extent).all():
        raise ValueError("bounds: high - low overflows; choose closer bounds")
    if not np.any(extent > 0):
        raise ValueError("bounds leave no feature any extent: low equals high")
    if np.any((extent > 0) & (extent < _SMALLEST_EXTENT)):
        raise ValueError(
            "bounds must have an extent high - low of 0, or of "
            f"{_SMALLEST_EXTENT:g} or more, in every feature; choose a smaller unit"
        )
    return Box(low, high, n_features, per_feature=per_feature)


def plan_moments(rows: RowBounds, n_samples: int, mu: float) -> tuple:
    """Plan the release of mean and second moment at a total cost of mu.

    Parameters
    ----------
    rows : RowBounds
        How rows are bounded.
    n_samples : int
        Public number of rows.
    mu : float
        Total cost; infinite for releases without noise.

    Returns
    -------
    tuple of Mechanism
        In the order in which :func:`release_moments` releases them.
    """
    n_features = rows.n_features
    square = (n_features, n_features)
    if rows.joint:
        size = n_features + n_features * (n_features + 1) // 2
        return (_joint_mechanism(rows, n_samples, mu, size),)
    if not math.isfinite(mu):
        second = Exact("second_moment", square, symmetric=True)
        return (Exact("mean", (n_features,)), second) if rows.centred else (second,)
    shares = (_MEAN_SHARE, 1.0 - _MEAN_SHARE) if rows.centred else (1.0,)
    *mean_mu, second_mu = split_mu(mu, shares)
    radius = rows.second_radius
    second = calibrate_gaussian(
        "second_moment",
        sensitivity.second_moment_sensitivity(radius, n_samples),
        second_mu,
        square,
        symmetric=True,
        summation_error=_summation_error(radius**2, n_samples),
        magnitude=2.0 * radius**2,
    )
    if not rows.centred:
        return (second,)
    mean = calibrate_gaussian(
        "mean",
        sensitivity.mean_sensitivity(rows.mean_radius, n_samples),
        mean_mu[0],
        (n_features,),
        summation_error=_summation_error(rows.mean_radius, n_samples),
        magnitude=2.0 * rows.mean_radius,
    )
    return (mean, second)


def _joint_mechanism(rows: RowBounds, n_samples: int, mu: float, size: int):
    """One release of mean and weighted second moment of clipped rows (Lemma 3.5)."""
    if not math.isfinite(mu):
        return Exact("moments", (size,))
    norm = math.hypot(rows.clip, math.sqrt(_JOINT_WEIGHT) * rows.clip)
    return calibrate_gaussian(
        "moments",
        sensitivity.joint_moments_sensitivity(
            rows.clip, n_samples, _JOINT_WEIGHT, rows.n_features
        ),
        mu,
        (size,),
        summation_error=_summation_error(norm, n_samples),
        magnitude=2.0 * norm,
    )


def _summation_error(bound: float, n_samples: int) -> float:
    return sensitivity.summation_error(bound, n_samples, _spectral.BLOCK_ROWS)


def release_moments(release, rows: RowBounds, X):
    """Release what :func:`plan_moments` planned.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    rows : RowBounds
        How rows are bounded.
    X : array of shape (n, p)
        The rows.

    Returns
    -------
    mean : ndarray of shape (p,) or None
        Released mean in units of the box.
    moment : ndarray of shape (p, p)
        Released second moment about it, symmetric.
    """
    if rows.joint:
        return _joint_moments(release, rows, X)
    mean = None
    if rows.centred:
        mean = release("mean", _spectral.blocked_mean(X, rows.for_mean))
        mean = rows.project_mean(mean)
    moment = _spectral.blocked_second_moment(
        X, lambda block: rows.for_second_moment(block, mean)
    )
    return mean, release("second_moment", moment, overwrite=True)


def _joint_moments(release, rows: RowBounds, X):
    """Return released mean and covariance of rows clipped about the midpoint."""
    weight = math.sqrt(_JOINT_WEIGHT) / rows.clip
    packed = _spectral.pack_moments(
        _spectral.blocked_mean(X, rows.for_second_moment),
        _spectral.blocked_second_moment(X, rows.for_second_moment),
        weight,
    )
    packed = release("moments", packed)
    mean, second = _spectral.unpack_moments(packed, rows.n_features, weight)
    covariance = second - np.outer(mean, mean)
    # The outer product of a noisy mean exceeds that of the mean by its variance.
    noise_std = getattr(release.plan["moments"], "noise_std", 0.0)
    covariance[np.diag_indices_from(covariance)] += noise_std**2
    return rows.project_mean(mean), covariance
