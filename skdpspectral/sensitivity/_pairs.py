"""Means over pairs of rows, which are chosen without looking at the rows."""

from __future__ import annotations

import math


def pair_mean_sensitivity(change: float, n_samples: int) -> float:
    r"""Sensitivity of a mean over pairs of rows, :math:`2 \Delta / n`.

    Parameters
    ----------
    change : float
        Bound :math:`\Delta` on how far one pair's contribution moves when one of its
        two rows is replaced; positive and finite.
    n_samples : int
        Public number of rows n, of which each is in the same number of pairs.

    Returns
    -------
    float
        l2-sensitivity under replace-one, whatever the number of pairs a row is.

    Raises
    ------
    ValueError
        If there are fewer than two rows, or the change is not positive and finite.

    Notes
    -----
    Which rows are paired may depend on public numbers, on the number of rows and on
    coins; never on values, such as those that rows are sorted by.

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

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of what each pair contributes the square of: 1 for
        differences of unit norm, c for :math:`(x_i - x_j) / \sqrt2` clipped at c.
    n_samples : int
        Public number of rows n, of which each is in the same number of pairs.

    Returns
    -------
    float
        Frobenius-sensitivity :math:`2 \sqrt2\, c^2 / n` under replace-one, attained
        for two features or more.

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
