"""Means, second moments and products of rows of bounded norm."""

from __future__ import annotations

import math

from ._arithmetic import summation_error


def _check_rows(n_samples: int) -> None:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")


def mean_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the mean of n rows in a ball, :math:`2 c / n`.

    Parameters
    ----------
    clip_norm : float
        Radius c of a ball that holds every row, about a public center.
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
    blocks_together: int | None = None,
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
    blocks_together : int or None, default=None
        As in :func:`summation_error`, whose K is written out here for None.

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
    summed = summation_error(bound, n_samples, block_rows, blocks_together)
    return summed + products + clip_norm**2 * defect
