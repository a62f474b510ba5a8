"""A task from the parameters of an estimator, in units of the data."""

from __future__ import annotations

from .._statistics.components.design import design_components
from .._statistics.components.mechanism import ComponentMechanism
from ..mechanisms._numbers import check_count, check_real
from ._tasks import SpectralTask


def make_task(
    n_components: int,
    n_features: int,
    *,
    bounds=None,
    clip_norm=None,
    center="auto",
    scale=None,
    aggregation="projector",
    start=True,
    n_rounds=0,
    projection_norm=None,
    mechanism="gaussian",
    model_covariance=False,
) -> SpectralTask:
    """Return a task from the parameters of an estimator.

    Parameters
    ----------
    n_components, n_features : int
        Shape of the components.
    bounds, clip_norm, center, scale, mechanism
        As in :class:`~skdpspectral.DPPCA`.
    aggregation, start, n_rounds, model_covariance
        As in :class:`SpectralTask`.
    projection_norm : float or None, default=None
        Public length, **in units of the data** as all lengths here (of the scaled
        features with ``scale="bounds"``), that projections are clipped to for a
        covariance within the components; None for none.

    Returns
    -------
    SpectralTask
        For a server and all of its clients.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    """
    n_components = check_count("n_components", n_components)
    n_features = check_count("n_features", n_features)
    covariance = bool(model_covariance) or projection_norm is not None
    rows, chosen = design_components(
        mechanism,
        n_components,
        n_features,
        covariance,
        projection_norm,
        bounds=bounds,
        clip_norm=clip_norm,
        center=center,
        scale=scale,
    )
    if projection_norm is not None:
        projection_norm = check_real("projection_norm", projection_norm) / rows.unit
    if chosen.name == "gaussian":
        # Nothing is searched for, and a variance is for the result alone.
        chosen = ComponentMechanism()
    return SpectralTask(
        n_components,
        rows,
        aggregation,
        bool(start),
        n_rounds,
        projection_norm,
        chosen,
        bool(model_covariance),
    )
