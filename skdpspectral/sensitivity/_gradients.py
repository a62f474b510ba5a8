"""Sums of clipped gradients, and of what is made of their squares."""

from __future__ import annotations

import math

from ..mechanisms import Neighbors
from ._joint_moments import joint_moment_ratio
from ._users import sum_sensitivity


def gradient_norm(clip_norm: float, nu: float) -> float:
    r"""Largest norm of a clipped gradient beside its weighted squares.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of a gradient g.
    nu : float
        Weight of the squares, at least 0.

    Returns
    -------
    float
        :math:`c \sqrt{1 + \nu}`, the norm of
        :math:`(g, \sqrt\nu\, g \circ g / c)` where g has one entry.
    """
    if nu < 0.0:
        raise ValueError(f"nu must be at least 0, got {nu}")
    return sum_sensitivity(clip_norm, Neighbors.ADD_REMOVE_ONE) * math.sqrt(1.0 + nu)


def gradient_moments_sensitivity(
    clip_norm: float,
    batch_size: float,
    nu: float,
    n_parameters: int,
    neighbors: Neighbors | str,
) -> float:
    r"""Sensitivity of clipped gradients and their squares over an expected batch.

    The released vector is :math:`\frac1m \sum_i (g_i, \sqrt\nu\, g_i \circ g_i / c)`
    over the examples of one batch, m its expected size.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every gradient.
    batch_size : float
        What the sums are divided by: public, whatever a batch holds.
    nu : float
        Weight of the squares, at least 0.
    n_parameters : int
        Entries of a gradient.
    neighbors : Neighbors or str
        ``"replace-one"``, or ``"add-remove-one"`` and ``"zero-out-one"``, under which
        an example's gradient appears or vanishes.

    Returns
    -------
    float
        :math:`c \sqrt{r_d(\nu)} / m` under replace-one, where squares are free up to
        ``free_moment_weight``; :math:`c \sqrt{1 + \nu} / m` otherwise.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Lemma 3.5 and Algorithm 2, which squares a
    sum instead and has no such bound.
    """
    if not batch_size > 0.0:
        raise ValueError(f"batch_size must be positive, got {batch_size}")
    length = gradient_norm(clip_norm, nu)
    if Neighbors(neighbors) is Neighbors.REPLACE_ONE:
        length = clip_norm * math.sqrt(joint_moment_ratio(nu, n_parameters))
    return length / batch_size


def clipped_moments_sensitivity(
    clip_norm: float,
    batch_size: float,
    nu: float,
    n_parameters: int,
    neighbors: Neighbors | str,
) -> float:
    r"""Sensitivity of gradients that are clipped together with their squares.

    The released vector is :math:`\frac1m \sum_i s_i (g_i, \sqrt\nu\, g_i \circ g_i /
    c)`, with :math:`s_i \le 1` the largest factor at which its norm is at most c.

    Parameters
    ----------
    clip_norm, batch_size, nu, n_parameters, neighbors
        As of :func:`gradient_moments_sensitivity`.

    Returns
    -------
    float
        c / m, where an example's gradient appears or vanishes. Under replace-one less
        than 2 c / m, as no square is negative: :math:`2 c x / m` with :math:`x^2 = 2 /
        (1 + \sqrt{1 + 4 u})` at :math:`u = \nu / d \le 3/4`, and :math:`c \sqrt{2 + 1
        / (2 u)} / m` beyond.
    """
    if nu < 0.0 or not batch_size > 0.0 or n_parameters < 1:
        raise ValueError(
            "nu >= 0, batch_size > 0 and n_parameters >= 1 needed: "
            f"{nu}, {batch_size}, {n_parameters}"
        )
    length = 1.0
    if Neighbors(neighbors) is Neighbors.REPLACE_ONE:
        u = nu / n_parameters
        square = 8.0 / (1.0 + math.sqrt(1.0 + 4.0 * u))
        length = math.sqrt(square if u <= 0.75 else 2.0 + 0.5 / u)
    return length * clip_norm / batch_size


def squared_batch_sensitivity(
    clip_norm: float, batch_size: float, nu: float, neighbors: Neighbors | str
) -> float:
    r"""Sensitivity of a clipped mean gradient u and of its weighted squares.

    The released vector is :math:`(u, \sqrt\nu\, u \circ u / c)`, with u the sum of
    gradients over m, clipped to the norm c once more.

    Parameters
    ----------
    clip_norm, batch_size, nu, neighbors
        As of :func:`gradient_moments_sensitivity`.

    Returns
    -------
    float
        :math:`D \sqrt{1 + 4 \nu}`, with D the smaller one of 2 c and of what one
        example moves the mean, c / m or 2 c / m.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Algorithm 2, with the norm of what is squared
    bounded by a second clipping.
    """
    if nu < 0.0 or not batch_size > 0.0:
        raise ValueError(f"nu >= 0 and batch_size > 0 needed: {nu}, {batch_size}")
    replaced = Neighbors(neighbors) is Neighbors.REPLACE_ONE
    moved = (2.0 if replaced else 1.0) * clip_norm / batch_size
    return min(moved, 2.0 * clip_norm) * math.sqrt(1.0 + 4.0 * nu)
