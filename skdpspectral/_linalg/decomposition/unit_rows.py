"""Second and fourth moments of Gaussian rows that are scaled to unit norm."""

from __future__ import annotations

import numpy as np

# Nodes of the quadrature on a logarithmic scale, and its half-width.
_NODES, _REACH = 400, 25.0


def unit_row_moments(along: float, across: float, rank: int, degrees: int):
    r"""Moments of :math:`z = x / \|x\|` for x with two different variances.

    From :math:`q^{-k} = \int t^{k-1} e^{-tq} dt / (k-1)!` for :math:`q = \|x\|^2`,
    whose Laplace transform is a product.

    Parameters
    ----------
    along, across : float
        Variances in the first and in the other directions.
    rank, degrees : int
        Numbers of such directions.

    Returns
    -------
    gap : float
        :math:`E z_1^2 - E z_2^2`, of one direction of either kind.
    cross : float
        :math:`E z_1^2 z_2^2`.
    """
    total = rank * along + degrees * across
    t = np.exp(np.linspace(-_REACH, _REACH, _NODES)) / total
    weight = t * 2.0 * _REACH / (_NODES - 1)
    log_transform = -0.5 * (
        rank * np.log1p(2.0 * along * t) + degrees * np.log1p(2.0 * across * t)
    )
    transform = np.exp(log_transform) * weight
    first, second = along / (1.0 + 2.0 * along * t), across / (1.0 + 2.0 * across * t)
    gap = np.sum(transform * (first - second))
    cross = np.sum(transform * t * first * second)
    return float(gap), float(cross)
