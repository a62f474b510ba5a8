"""Means, second moments and products of rows and of pairs; and rounding errors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def check_rows(n_samples: int) -> None:
    """Refuse a number of rows below 1."""
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")


def box_radius(half_widths: npt.ArrayLike) -> float:
    r"""Radius of the smallest ball about a box's midpoint that holds the box.

    :math:`\|h\|_2` of half of the box's extent along each feature, rounded up.
    """
    half_widths = np.asarray(half_widths, dtype=np.float64)
    largest = float(np.max(np.abs(half_widths)))
    if largest == 0.0:
        return 0.0
    rounding = 1.0 + (half_widths.size + 8) * 2.0**-53
    return largest * float(np.linalg.norm(half_widths / largest)) * rounding


def summation_error(
    bound: float, n_samples: int, block_rows: int, blocks_together: int | None = None
) -> float:
    r"""Largest error of a mean over n rows that is summed in blocks of b rows.

    It is :math:`\gamma B` for a public bound B on the norm of the mean of the absolute
    contributions, with :math:`\gamma = (b + K + 16) 2^{-52}` for :math:`K = \lceil n/b
    \rceil` blocks. A block is summed in any order, then blocks are added one after
    another. If c = `blocks_together` blocks are added so before their sums are, a
    larger K is replaced by :math:`c + \lceil K/c \rceil`. The sixteen further units
    cover the rounding of products, of the division by n, and the slack of
    :func:`skdpspectral._tables.clipping.clip_rows`.
    """
    check_rows(n_samples)
    rows = min(block_rows, n_samples)
    blocks = math.ceil(n_samples / rows)
    if blocks_together is not None and blocks > blocks_together:
        blocks = blocks_together + math.ceil(blocks / blocks_together)
    return bound * (rows + blocks + 16) * 2.0**-52


def mean_sensitivity(clip_norm: float, n_samples: int) -> float:
    """Sensitivity of the mean of n rows in a ball, :math:`2 c / n` under replace-one.

    The ball of radius c holds every row, about a public center.
    """
    check_rows(n_samples)
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
    check_rows(n_samples)
    return math.sqrt(2.0) * clip_norm**2 / n_samples


def cross_moment_sensitivity(
    clip_norm: float, other_clip_norm: float, n_samples: int
) -> float:
    """Sensitivity of the mean of b a' for two clipped images of a row.

    :math:`2 c_1 c_2 / n` in Frobenius norm under replace-one, attained; the norms of a
    and b are at most :math:`c_1` and :math:`c_2`.
    """
    check_rows(n_samples)
    return 2.0 * clip_norm * other_clip_norm / n_samples


def power_product_sensitivity(
    clip_norm: float, n_samples: int, n_columns: int
) -> float:
    r"""Sensitivity of the second moment times k orthonormal columns Q.

    Of :math:`\frac1n \sum x x' Q` in Frobenius norm under replace-one: :math:`c^2 / n`
    for one column, :math:`\sqrt2 c^2 / n` for more. For :math:`\|Q\|_2 \le 1`,
    :math:`\|(xx' - yy') Q\|_F \le \sqrt2 c^2`, and a single column has at most the
    spectral norm :math:`c^2`.

    Examples
    --------
    >>> from skdpspectral.sensitivity import power_product_sensitivity
    >>> power_product_sensitivity(1.0, 100, 1)
    0.01
    """
    check_rows(n_samples)
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

    With :math:`\gamma = (b + \lceil n/b \rceil + 16 + 2 p) 2^{-52}` (K of
    :func:`summation_error` for `blocks_together`) and d the `defect` plus :math:`p k
    2^{-52}`, it is :math:`\gamma c^2 \sqrt{k} (1 + d) + c^2 d`: a bound on the distance
    to S Q for some orthonormal Q. The defect bounds :math:`\|Q'Q - I\|_F` for the p x k
    columns in use, and is computed from them.
    """
    defect = defect + n_features * n_columns * 2.0**-52
    bound = clip_norm**2 * math.sqrt(n_columns) * (1.0 + defect)
    products = 2.0 * n_features * 2.0**-52 * bound
    summed = summation_error(bound, n_samples, block_rows, blocks_together)
    return summed + products + clip_norm**2 * defect


def pair_mean_sensitivity(change: float, n_samples: int) -> float:
    r"""Sensitivity of a mean over pairs of rows, :math:`2 \Delta / n`.

    Under replace-one, in l2-norm: replacing one of its two rows moves a pair's
    contribution by at most `change`. Each of n public rows is in the same number of
    pairs, whatever that is. Which rows are paired may depend on public numbers, on the
    number of rows and on coins; never on values, such as those that rows are sorted by.

    Examples
    --------
    >>> from skdpspectral.sensitivity import pair_mean_sensitivity
    >>> pair_mean_sensitivity(1.0, 100)
    0.02
    """
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2 for pairs, got {n_samples}")
    if not 0.0 < change < math.inf:
        raise ValueError(f"change must be positive and finite, got {change}")
    return 2.0 * change / n_samples


def pair_moment_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the second moment of bounded differences.

    :math:`2 \sqrt2\, c^2 / n` in Frobenius norm under replace-one, attained for two
    features or more. The norm c bounds what each pair contributes the square of: 1 for
    differences of unit norm, c for :math:`(x_i - x_j) / \sqrt2` clipped at c. Each row
    is in the same number of pairs.

    Examples
    --------
    >>> from skdpspectral.sensitivity import (
    ...     pair_moment_sensitivity, second_moment_sensitivity
    ... )
    >>> twice = 2 * second_moment_sensitivity(1.0, 1000)
    >>> pair_moment_sensitivity(1.0, 1000) == twice
    True
    """
    return pair_mean_sensitivity(math.sqrt(2.0) * clip_norm**2, n_samples)
