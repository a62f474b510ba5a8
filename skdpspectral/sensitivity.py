r"""Why a release is private: one function a lemma, public bounds to a float.

Every function takes public numbers only and returns the largest change, over
neighbouring data sets, of a statistic. The proofs are in the theory part of the
documentation, whose index ties each lemma to its function and its test.
"""

from __future__ import annotations

import math

import numpy as np

# Below this weight of the second moment, releasing it costs nothing beside the
# mean (Lemma 3.5 of Kalinin, Upadhyay and Lampert 2025).
FREE_WEIGHT = 0.5
FREE_WEIGHT_1D = (11.0 + 5.0 * math.sqrt(5.0)) / 8.0


def _check_rows(n_samples: int) -> None:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")


def mean_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the mean of n rows in a ball, :math:`2 c / n`.

    Parameters
    ----------
    clip_norm : float
        Radius c of a ball that holds every row, about a public centre.
    n_samples : int
        Public number of rows n.

    Returns
    -------
    float
        l2-sensitivity under replace-one.
    """
    _check_rows(n_samples)
    return 2.0 * clip_norm / n_samples


def second_moment_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the second moment of clipped rows, :math:`\sqrt2 c^2 / n`.

    For :math:`\|x\|, \|y\| \le c`,
    :math:`\|xx' - yy'\|_F^2 = \|x\|^4 + \|y\|^4 - 2 \langle x, y\rangle^2 \le 2 c^4`.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every row.
    n_samples : int
        Public number of rows n.

    Returns
    -------
    float
        Frobenius-sensitivity of :math:`\frac1n \sum x x'` under replace-one.
    """
    _check_rows(n_samples)
    return math.sqrt(2.0) * clip_norm**2 / n_samples


def joint_moment_ratio(nu: float, n_features: int) -> float:
    r"""Squared joint sensitivity :math:`r_d(\nu)` of mean and second moment.

    The supremum of :math:`\|x-y\|^2 + \nu \|xx' - yy'\|_F^2` over the unit ball.

    Parameters
    ----------
    nu : float
        Weight of the second moment, at least 0.
    n_features : int
        Dimension d of the rows.

    Returns
    -------
    float
        :math:`r_d(\nu)`, at least 4.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Lemma 3.5.
    """
    if nu < 0 or n_features < 1:
        raise ValueError(f"nu >= 0 and n_features >= 1 needed: {nu}, {n_features}")
    if n_features == 1:
        if nu <= FREE_WEIGHT_1D:
            return 4.0
        tau = math.sqrt(1.0 - 2.0 / nu)
        return (3.0 - tau) ** 2 * (nu * tau + 1.0 + nu) / 8.0
    if nu <= FREE_WEIGHT:
        return 4.0
    return 2.0 + 2.0 * nu + 0.5 / nu


def joint_moments_sensitivity(
    clip_norm: float, n_samples: int, nu: float, n_features: int
) -> float:
    r"""Sensitivity of the mean with the weighted second moment, on one scale.

    The released vector is :math:`(\bar x, \sqrt\nu\, S / c)` with
    :math:`S = \frac1n \sum x x'`.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every row.
    n_samples : int
        Public number of rows n.
    nu : float
        Weight of the second moment.
    n_features : int
        Dimension d.

    Returns
    -------
    float
        :math:`c \sqrt{r_d(\nu)} / n` under replace-one.
    """
    _check_rows(n_samples)
    return clip_norm * math.sqrt(joint_moment_ratio(nu, n_features)) / n_samples


def box_radius(half_widths) -> float:
    r"""Radius of the smallest ball about a box's midpoint that holds the box.

    Parameters
    ----------
    half_widths : array-like of shape (n_features,)
        Half of the box's extent along each feature.

    Returns
    -------
    float
        :math:`\|h\|_2`, rounded up.
    """
    half_widths = np.asarray(half_widths, dtype=np.float64)
    largest = float(np.max(np.abs(half_widths)))
    if largest == 0.0:
        return 0.0
    rounding = 1.0 + (half_widths.size + 8) * 2.0**-53
    return largest * float(np.linalg.norm(half_widths / largest)) * rounding


def summation_error(bound: float, n_samples: int, block_rows: int) -> float:
    r"""Largest error of a mean over n rows that is summed in blocks of b rows.

    Parameters
    ----------
    bound : float
        Public bound on the norm of the mean of the absolute contributions.
    n_samples : int
        Number of rows n.
    block_rows : int
        Rows a block b: summed in any order, then added one block after another.

    Returns
    -------
    float
        :math:`\gamma B` with :math:`\gamma = (b + \lceil n/b \rceil + 16) 2^{-52}`.

    Notes
    -----
    The sixteen further units cover the rounding of products, of the division by n,
    and the slack of :func:`skdpspectral._clipping.clip_rows`.
    """
    _check_rows(n_samples)
    rows = min(block_rows, n_samples)
    return bound * (rows + math.ceil(n_samples / rows) + 16) * 2.0**-52
