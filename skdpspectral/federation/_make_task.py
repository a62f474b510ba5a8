"""A task from the parameters of an estimator, in units of the data."""

from __future__ import annotations

from types import SimpleNamespace

from .._statistics.bounded_moments import RowBounds
from .._statistics.components.mechanism import ComponentMechanism
from ..mechanisms import check_count, check_real, shown
from ._tasks import SpectralTask

_CENTERS = ("auto", "none", "private")


def make_task(
    n_components: int,
    n_features: int,
    *,
    bounds=None,
    clip_norm=None,
    center="auto",
    scale_by_bounds=False,
    center_clip_norm=None,
    aggregation="projector",
    start=True,
    n_rounds=0,
    projection_norm=None,
    mechanism="gaussian",
    signal_variance=None,
    noise_variance=None,
    norm_range=(1e-6, 1e6),
    calibration="exact",
    sensitivity_constant=None,
    model_covariance=False,
) -> SpectralTask:
    """Return a task from the parameters of an estimator.

    Parameters
    ----------
    n_components, n_features : int
        Shape of the components.
    bounds, clip_norm, center, scale_by_bounds, center_clip_norm
        As in :class:`~skdpspectral.DPPCA`.
    aggregation, start, n_rounds, model_covariance
        As in :class:`SpectralTask`.
    projection_norm : float or None, default=None
        Public length, **in units of the data** as all lengths here (of the scaled
        features with ``scale_by_bounds=True``), that projections are clipped to for a
        covariance within the components; None for none.
    mechanism, signal_variance, noise_variance, norm_range
        As in :class:`~skdpspectral.DPPCA`.
    calibration, sensitivity_constant
        As in :class:`~skdpspectral.DPPCA`.

    Returns
    -------
    SpectralTask
        For a server and all of its clients.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    """
    if center not in _CENTERS:
        raise ValueError(f"center must be one of {_CENTERS}, got {shown(center)}")
    rows = RowBounds(
        check_count("n_features", n_features),
        bounds=bounds,
        clip_norm=clip_norm,
        center=center,
        scale_by_bounds=scale_by_bounds,
        center_clip_norm=center_clip_norm,
    )
    n_components = check_count("n_components", n_components)
    if projection_norm is not None:
        projection_norm = check_real("projection_norm", projection_norm) / rows.unit
    covariance = model_covariance or projection_norm is not None
    release = "covariance" if covariance else "components"
    return SpectralTask(
        n_components,
        rows,
        aggregation,
        bool(start),
        n_rounds,
        projection_norm,
        ComponentMechanism.of_clients(
            SimpleNamespace(
                n_components=n_components,
                bounds=bounds,
                clip_norm=clip_norm,
                center=center,
                release=release,
                mechanism=mechanism,
                signal_variance=signal_variance,
                noise_variance=noise_variance,
                norm_range=norm_range,
                calibration=calibration,
                sensitivity_constant=sensitivity_constant,
            ),
            rows,
        ),
        bool(model_covariance),
    )
