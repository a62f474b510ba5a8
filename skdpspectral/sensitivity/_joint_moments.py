"""First and second moments that are released together."""

from __future__ import annotations

import math

# Below this weight of the second moment, releasing it costs nothing beside the
# mean (Lemma 3.5 of Kalinin, Upadhyay and Lampert 2025).
FREE_WEIGHT = 0.5
FREE_WEIGHT_1D = (11.0 + 5.0 * math.sqrt(5.0)) / 8.0


def _check_rows(n_samples: int) -> None:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")


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
