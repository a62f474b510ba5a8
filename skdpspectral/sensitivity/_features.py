"""Means of what each feature of a row contributes on its own: places and scales."""

from __future__ import annotations

import math

from ._joint_moments import free_moment_weight, joint_moments_sensitivity


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def difference_counts_sensitivity(n_features: int) -> float:
    r"""Sensitivity of counts of differences, one histogram a feature.

    Each pair of rows has, in each feature, a total weight of at most 1, none of it
    negative, on the bins of that feature's histogram.

    Parameters
    ----------
    n_features : int
        Number of features p.

    Returns
    -------
    float
        l2-sensitivity :math:`2 \sqrt{2 p}` of the sum over pairs under replace-one,
        where each row is in two pairs; attained.

    Examples
    --------
    >>> from skdpspectral.sensitivity import difference_counts_sensitivity
    >>> difference_counts_sensitivity(50)
    20.0
    """
    _check_counts(n_features=n_features)
    return 2.0 * math.sqrt(2.0 * n_features)


def phase_sensitivity(n_features: int, n_periods: int) -> float:
    r"""Sensitivity of sums of phases on circles, :math:`2 \sqrt{p L}`.

    Parameters
    ----------
    n_features : int
        Number of features p.
    n_periods : int
        Circles L that each feature is wound around; a phase is a point of the plane
        at most 1 from the origin.

    Returns
    -------
    float
        l2-sensitivity of the sum over rows under replace-one; attained for one circle.
    """
    _check_counts(n_features=n_features, n_periods=n_periods)
    return 2.0 * math.sqrt(n_features * n_periods)


def feature_moments_sensitivity(n_samples: int, n_features: int) -> float:
    r"""Sensitivity of means with weighted squares of features in [-1, 1].

    The released numbers are :math:`\bar z_j` and :math:`\sqrt\nu\,\overline{z_j^2}`
    for each feature, with :math:`\nu` of :func:`free_moment_weight` for one feature.

    Parameters
    ----------
    n_samples : int
        Public number of rows n.
    n_features : int
        Number of features p.

    Returns
    -------
    float
        l2-sensitivity :math:`2 \sqrt p / n` under replace-one, attained: the squares
        cost nothing beside the means.
    """
    _check_counts(n_features=n_features)
    one = joint_moments_sensitivity(1.0, n_samples, free_moment_weight(1), 1)
    return math.sqrt(n_features) * one
