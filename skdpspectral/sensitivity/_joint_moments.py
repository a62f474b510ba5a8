"""First and second moments that are released together: of rows and of gradients."""

from __future__ import annotations

import math

from ..mechanisms import Neighbors
from ._moments import check_rows
from ._users import sum_sensitivity

# Below this weight of the second moment, releasing it costs nothing beside the
# mean (Lemma 3.5 of Kalinin, Upadhyay and Lampert 2025).
FREE_WEIGHT = 0.5
FREE_WEIGHT_1D = (11.0 + 5.0 * math.sqrt(5.0)) / 8.0


def second_moment_ratio(n_features: int) -> float:
    r"""Squared diameter of the outer products of rows in the unit ball.

    The supremum of :math:`\|xx' - yy'\|_F^2`, and of that of the diagonals: 1 for one
    feature, where :math:`x^2` is in [0, 1], and 2 for more.
    """
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features}")
    return 1.0 if n_features == 1 else 2.0


def joint_moment_ratio(nu: float, n_features: int) -> float:
    r"""Squared joint sensitivity :math:`r_d(\nu)` of mean and second moment.

    At least 4: the supremum of :math:`\|x-y\|^2 + \nu \|xx' - yy'\|_F^2` over the unit
    ball in d = `n_features` dimensions, for a weight `nu` of the second moment.

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
    :math:`S = \frac1n \sum x x'` of rows of norm at most c = `clip_norm`. It is
    :math:`c \sqrt{r_d(\nu)} / n` under replace-one, for a public number n of rows.
    """
    check_rows(n_samples)
    return clip_norm * math.sqrt(joint_moment_ratio(nu, n_features)) / n_samples


def free_moment_weight(n_features: int) -> float:
    r"""Largest weight at which the second moment costs nothing beside the mean.

    The largest :math:`\nu` with :math:`r_d(\nu) = 4`, as in :func:`joint_moment_ratio`.
    """
    return FREE_WEIGHT_1D if n_features == 1 else FREE_WEIGHT


def free_trace_weight(n_features: int) -> float:
    r"""Largest free weight of the trace, where the rest has the weight 1/2.

    The supremum of :math:`\|x - y\|^2 + \frac12 \|\Delta_0\|_F^2 + \nu_0 t^2` over
    the unit ball is 4, with :math:`\Delta = xx' - yy'`, its component :math:`t` along
    :math:`I / \sqrt d` and the rest :math:`\Delta_0`. Returned is
    :math:`\nu_0 = d \nu_1 - (d - 1) / 2`, with :math:`\nu_1` the free weight in one
    dimension.
    """
    return n_features * FREE_WEIGHT_1D - 0.5 * (n_features - 1)


def separate_moments_ratio(nu: float) -> float:
    r"""Squared sensitivity of both moments if each moves as far as it alone can.

    :math:`4 + 2 \nu`, at least :math:`r_d(\nu)`: what two releases cost that are
    composed.
    """
    return 4.0 + 2.0 * nu


def concatenated_moments_ratio(nu: float) -> float:
    r"""Squared sensitivity of both moments as one vector of bounded norm.

    :math:`4 (1 + \nu)`, at least :math:`r_d(\nu)`: the squared diameter of the ball
    that holds :math:`(x, \sqrt\nu\, xx')`.
    """
    return 4.0 * (1.0 + nu)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def difference_counts_sensitivity(n_features: int) -> float:
    r"""Sensitivity of counts of differences, one histogram a feature.

    Each pair of rows has, in each feature, a total weight of at most 1, none of it
    negative, on the bins of that feature's histogram. The l2-sensitivity of the sum
    over pairs is :math:`2 \sqrt{2 p}` under replace-one, where each row is in two
    pairs; attained.

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

    Each of p features is wound around L = `n_periods` circles; a phase is a point of
    the plane at most 1 from the origin. Under replace-one; attained for one circle.
    """
    _check_counts(n_features=n_features, n_periods=n_periods)
    return 2.0 * math.sqrt(n_features * n_periods)


def feature_moments_sensitivity(n_samples: int, n_features: int) -> float:
    r"""Sensitivity of means with weighted squares of features in [-1, 1].

    The released numbers are :math:`\bar z_j` and :math:`\sqrt\nu\,\overline{z_j^2}` for
    each of p features, with :math:`\nu` of :func:`free_moment_weight` for one feature.
    The l2-sensitivity is :math:`2 \sqrt p / n` under replace-one, attained: the squares
    cost nothing beside the means.
    """
    _check_counts(n_features=n_features)
    one = joint_moments_sensitivity(1.0, n_samples, free_moment_weight(1), 1)
    return math.sqrt(n_features) * one


def gradient_norm(clip_norm: float, nu: float) -> float:
    r"""Largest norm of a clipped gradient beside its weighted squares.

    :math:`c \sqrt{1 + \nu}`, the norm of :math:`(g, \sqrt\nu\, g \circ g / c)` where g
    has one entry.
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
    over the examples of one batch. Its expected size m = `batch_size` is public,
    whatever a batch holds. Under replace-one it is :math:`c \sqrt{r_d(\nu)} / m`, where
    squares are free up to ``free_moment_weight``. It is :math:`c \sqrt{1 + \nu} / m`
    under add-remove-one and zero-out-one, where an example's gradient appears or
    vanishes.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Lemma 3.5 and Algorithm 2, which squares a sum
    instead and has no such bound.
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
    c)`, with :math:`s_i \le 1` the largest factor at which its norm is at most c. It is
    c / m where an example's gradient appears or vanishes. Under replace-one it is less
    than 2 c / m, as no square is negative: :math:`2 c x / m` with :math:`x^2 = 2 / (1 +
    \sqrt{1 + 4 u})` at :math:`u = \nu / d \le 3/4`, and :math:`c \sqrt{2 + 1 / (2 u)} /
    m` beyond.
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
    gradients over m, clipped to the norm c once more. It is :math:`D \sqrt{1 + 4 \nu}`,
    with D the smaller one of 2 c and of what one example moves the mean, c / m or 2 c /
    m.

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
