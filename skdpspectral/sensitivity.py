r"""Why a release is private: one function a lemma, public bounds to a float.

Every function takes public numbers only and returns the largest change, over
neighbouring data sets, of a statistic. The proofs are in the theory part of the
documentation, whose index ties each lemma to its function and its test.
"""

from __future__ import annotations

import math

import numpy as np

from ._spiked_sensitivity import (  # noqa: F401 - lemmas of a model, told apart
    paper_moment_sensitivity,
    paper_projector_sensitivity,
    spiked_moment_sensitivity,
    spiked_projector_sensitivity,
)
from .mechanisms import Neighbours

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


def second_moment_ratio(n_features: int) -> float:
    r"""Squared diameter of the outer products of rows in the unit ball.

    Parameters
    ----------
    n_features : int
        Dimension d of the rows.

    Returns
    -------
    float
        The supremum of :math:`\|xx' - yy'\|_F^2`, and of that of the diagonals: 1 for
        one feature, where :math:`x^2` is in [0, 1], and 2 for more.
    """
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features}")
    return 1.0 if n_features == 1 else 2.0


def power_product_sensitivity(
    clip_norm: float, n_samples: int, n_columns: int
) -> float:
    r"""Sensitivity of the second moment times orthonormal columns.

    :math:`\|(xx' - yy') Q\|_F \le \sqrt2 c^2` for :math:`\|Q\|_2 \le 1`, and at most
    the spectral norm :math:`c^2` for a single column.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every row.
    n_samples : int
        Public number of rows n.
    n_columns : int
        Columns k of Q, of which the spectral norm is at most 1.

    Returns
    -------
    float
        Frobenius-sensitivity of :math:`\frac1n \sum x x' Q` under replace-one:
        :math:`c^2 / n` for one column, :math:`\sqrt2 c^2 / n` for more.

    Examples
    --------
    >>> from skdpspectral.sensitivity import power_product_sensitivity
    >>> power_product_sensitivity(1.0, 100, 1)
    0.01
    """
    _check_rows(n_samples)
    if n_columns < 1:
        raise ValueError(f"n_columns must be at least 1, got {n_columns}")
    factor = 1.0 if n_columns == 1 else math.sqrt(2.0)
    return factor * clip_norm**2 / n_samples


def power_product_error(
    clip_norm: float,
    n_samples: int,
    block_rows: int,
    n_features: int,
    n_columns: int,
    defect: float,
) -> float:
    r"""Largest error of a computed second moment times computed columns.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every row.
    n_samples, block_rows : int
        As in :func:`summation_error`.
    n_features, n_columns : int
        Shape of Q.
    defect : float
        Bound on :math:`\|Q'Q - I\|_F`, itself computed from the columns in use.

    Returns
    -------
    float
        :math:`\gamma c^2 \sqrt{k} (1 + d) + c^2 d` with
        :math:`\gamma = (b + \lceil n/b \rceil + 16 + 2 p) 2^{-52}` and d the defect
        plus :math:`p k 2^{-52}`: a bound on the distance to S Q for some orthonormal Q.
    """
    defect = defect + n_features * n_columns * 2.0**-52
    bound = clip_norm**2 * math.sqrt(n_columns) * (1.0 + defect)
    products = 2.0 * n_features * 2.0**-52 * bound
    summed = summation_error(bound, n_samples, block_rows)
    return summed + products + clip_norm**2 * defect


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


def free_moment_weight(n_features: int) -> float:
    r"""Largest weight at which the second moment costs nothing beside the mean.

    Parameters
    ----------
    n_features : int
        Dimension d of the rows.

    Returns
    -------
    float
        The largest :math:`\nu` with :math:`r_d(\nu) = 4`, as in
        :func:`joint_moment_ratio`.
    """
    return FREE_WEIGHT_1D if n_features == 1 else FREE_WEIGHT


def free_trace_weight(n_features: int) -> float:
    r"""Largest free weight of the trace, where the rest has the weight 1/2.

    The supremum of :math:`\|x - y\|^2 + \frac12 \|\Delta_0\|_F^2 + \nu_0 t^2` over
    the unit ball is 4, with :math:`\Delta = xx' - yy'`, its component :math:`t` along
    :math:`I / \sqrt d` and the rest :math:`\Delta_0`.

    Parameters
    ----------
    n_features : int
        Dimension d of the rows.

    Returns
    -------
    float
        :math:`\nu_0 = d \nu_1 - (d - 1) / 2`, with :math:`\nu_1` the free weight in
        one dimension.
    """
    return n_features * FREE_WEIGHT_1D - 0.5 * (n_features - 1)


def separate_moments_ratio(nu: float) -> float:
    r"""Squared sensitivity of both moments if each moves as far as it alone can.

    Parameters
    ----------
    nu : float
        Weight of the second moment, at least 0.

    Returns
    -------
    float
        :math:`4 + 2 \nu`, at least :math:`r_d(\nu)`: what two releases cost that are
        composed.
    """
    return 4.0 + 2.0 * nu


def concatenated_moments_ratio(nu: float) -> float:
    r"""Squared sensitivity of both moments as one vector of bounded norm.

    Parameters
    ----------
    nu : float
        Weight of the second moment, at least 0.

    Returns
    -------
    float
        :math:`4 (1 + \nu)`, at least :math:`r_d(\nu)`: the squared diameter of the
        ball that holds :math:`(x, \sqrt\nu\, xx')`.
    """
    return 4.0 * (1.0 + nu)


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


# How far one unit moves a sum of vectors of unit norm.
_SUM_FACTORS = {Neighbours.ADD_REMOVE_ONE: 1.0, Neighbours.REPLACE_ONE: 2.0}


def sum_sensitivity(clip_norm: float, neighbours: Neighbours | str) -> float:
    r"""Sensitivity of a sum over units of one clipped vector each, c or 2 c.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every unit's vector; positive and finite.
    neighbours : Neighbours or str
        ``"add-remove-one"`` (a unit joins or leaves, their number is private) or
        ``"replace-one"`` (the data of a unit change, the number of units is public).

    Returns
    -------
    float
        l2-sensitivity: :math:`c` under add-remove-one, :math:`2 c` under
        replace-one.

    Raises
    ------
    ValueError
        If the bound is not positive and finite, or for any other relation.

    Notes
    -----
    A unit's vector may be any function of this unit's own data, of public numbers
    and of earlier releases. It must be the same, to the last bit, whoever else is in
    the data.

    Examples
    --------
    >>> from skdpspectral.sensitivity import sum_sensitivity
    >>> sum_sensitivity(1.0, "add-remove-one"), sum_sensitivity(0.5, "replace-one")
    (1.0, 1.0)
    """
    if not 0.0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm must be positive and finite, got {clip_norm}")
    factor = _SUM_FACTORS.get(Neighbours(neighbours))
    if factor is None:
        known = " or ".join(repr(relation.value) for relation in _SUM_FACTORS)
        raise ValueError(f"neighbours must be {known}, got {neighbours!r}")
    return factor * clip_norm


def vote_sensitivity(n_votes: int, neighbours: Neighbours | str) -> float:
    r"""Sensitivity of a vector of counts of votes of plus or minus one half.

    Parameters
    ----------
    n_votes : int
        Votes v that each unit casts at once, at least 1.
    neighbours : Neighbours or str
        As in :func:`sum_sensitivity`.

    Returns
    -------
    float
        :math:`\sqrt v / 2` under add-remove-one, :math:`\sqrt v` under replace-one.
    """
    if n_votes < 1:
        raise ValueError(f"n_votes must be at least 1, got {n_votes}")
    return sum_sensitivity(0.5 * math.sqrt(n_votes), neighbours)


def projector_sum_sensitivity(neighbours: Neighbours | str) -> float:
    r"""Sensitivity of a sum over units of one s s' each, with s of unit norm or zero.

    Parameters
    ----------
    neighbours : Neighbours or str
        As in :func:`sum_sensitivity`.

    Returns
    -------
    float
        Frobenius-sensitivity: 1 under add-remove-one, :math:`\sqrt2` under
        replace-one, for :math:`\|ss' - tt'\|_F^2 = 2 - 2 \langle s, t\rangle^2`.
    """
    factor = sum_sensitivity(1.0, neighbours)
    return math.sqrt(2.0) if factor == 2.0 else factor


def cross_moment_sensitivity(
    clip_norm: float, other_clip_norm: float, n_samples: int
) -> float:
    r"""Sensitivity of the mean of b a' for two clipped images of a row.

    Parameters
    ----------
    clip_norm, other_clip_norm : float
        Bounds :math:`c_1, c_2` on the norms of a and b.
    n_samples : int
        Public number of rows n.

    Returns
    -------
    float
        Frobenius-sensitivity :math:`2 c_1 c_2 / n` under replace-one, attained.
    """
    _check_rows(n_samples)
    return 2.0 * clip_norm * other_clip_norm / n_samples
