r"""Renyi divergences of mechanisms, and what they say of :math:`(\epsilon, \delta)`.

The curve of a private selection is in ``_selection.py``, as
``renyi_curve(selection, orders)``.
"""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..mechanisms import ApproximateDP, PrivateSelection
from ..mechanisms._curves import Curve
from ._coarse import Counted
from ._extra import dp_accounting
from ._sampled_losses import replaced_divergences

Array: TypeAlias = npt.NDArray[np.float64]

# Orders above 1 at which curves are looked at: a step of 4.4 % in (order - 1) leaves
# less than .03 % of epsilon on the table.
ORDERS: Array = 1.0 + np.exp2(np.arange(-6.0, 13.0, 1.0 / 16.0))
ORDERS.flags.writeable = False
# More than the rounding errors of a curve and of its conversion.
_MARGIN = 2.0**-40


def gaussian_divergences(mu: float, orders: npt.ArrayLike) -> Array:
    r"""Return Renyi divergences :math:`\alpha \mu^2 / 2` of a Gaussian mechanism."""
    return np.asarray(np.multiply(orders, 0.5 * mu * mu), dtype=np.float64)


def divergences(mechanism: Curve, orders: npt.ArrayLike) -> Array:
    r"""Return bounds on the Renyi divergences of a mechanism that is no Gaussian.

    Parameters
    ----------
    mechanism : SubsampledGaussian, PrivateSelection or ApproximateDP
        Of the last one, those that hold but for a probability of its delta.
    orders : array-like of float
        Orders, each above 1; of subsampled mechanisms best whole numbers, for which
        there is a finite sum.

    Returns
    -------
    ndarray
        One bound an order.
    """
    points = np.asarray(orders, dtype=np.float64)
    if isinstance(mechanism, ApproximateDP):
        return randomized_response_divergences(mechanism.epsilon, points)
    if isinstance(mechanism, PrivateSelection):
        from ._selection import renyi_curve

        return renyi_curve(mechanism, points)
    return np.array(
        _subsampled_divergences(
            mechanism.sampling_probability,
            mechanism.noise_multiplier,
            mechanism.steps,
            tuple(points.tolist()),
            mechanism.replaced,
        )
    )


def randomized_response_divergences(epsilon: float, orders: Array) -> Array:
    r"""Return the Renyi divergences of randomized response, the worst of all.

    Every pair that is :math:`(\epsilon, 0)`-indistinguishable is made of it.
    """
    less = orders - 1.0
    log_yes = -math.log1p(math.exp(-epsilon))  # p = e^epsilon / (1 + e^epsilon)
    log_no = log_yes - epsilon
    logs = np.logaddexp(log_yes + less * epsilon, log_no - less * epsilon)
    return np.maximum(logs / less, 0.0) * (1.0 + _MARGIN)


@functools.lru_cache(maxsize=1024)
def _subsampled_divergences(
    probability: float,
    noise_multiplier: float,
    steps: int,
    orders: tuple[float, ...],
    replaced: bool,
) -> tuple[float, ...]:
    if replaced:
        found = steps * replaced_divergences(probability, noise_multiplier, orders)
        return tuple((found * (1.0 + _MARGIN)).tolist())
    lib = dp_accounting()
    accountant = lib.rdp.RdpAccountant(
        orders, lib.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    event = lib.GaussianDpEvent(noise_multiplier)
    with np.errstate(all="ignore"):
        accountant.compose(lib.PoissonSampledDpEvent(probability, event), steps)
    return tuple(float(value) for value in accountant.rdp)


# -- conversion ------------------------------------------------------------------------


def log_peaks(orders: Array) -> Array:
    r"""Logarithm of the largest :math:`(1 - e^{-y}) e^{-(\alpha - 1) y}` over y."""
    return (orders - 1.0) * np.log1p(-1.0 / orders) - np.log(orders)


def renyi_delta(
    orders: npt.ArrayLike, curve: npt.ArrayLike, epsilon: npt.ArrayLike
) -> Array:
    r"""Return the delta at each epsilon that Renyi divergences allow for.

    .. math:: \delta(\epsilon) \le \min_\alpha \frac{1}{\alpha}
        \Bigl(1 - \frac{1}{\alpha}\Bigr)^{\alpha - 1}
        e^{(\alpha - 1) (D_\alpha - \epsilon)}

    Parameters
    ----------
    orders, curve : array-like of float
        Orders above 1, and an upper bound on the divergence of each, of neighbors in
        either order.
    epsilon : array-like of float
        Of any sign.

    Returns
    -------
    ndarray
        Of the shape of `epsilon`, at most 1.

    References
    ----------
    Canonne, Kamath and Steinke (2020), The discrete Gaussian for differential privacy,
    proposition 12.
    """
    points, values = np.asarray(orders, float), np.asarray(curve, float)
    epsilons = np.asarray(epsilon, dtype=float)[..., np.newaxis]
    exponents = (points - 1.0) * (values - np.abs(epsilons)) + log_peaks(points)
    least = np.exp(np.minimum(np.min(exponents, axis=-1), 0.0)) * (1.0 + _MARGIN)
    below = epsilons[..., 0] < 0.0
    # H(P, Q) at -e is 1 - exp(-e) + exp(-e) H(Q, P) at e.
    factor = np.where(below, np.exp(-np.abs(epsilons[..., 0])), 1.0)
    deltas: Array = np.minimum(1.0 - factor + factor * least, 1.0)
    return deltas


def renyi_epsilon(orders: npt.ArrayLike, curve: npt.ArrayLike, delta: float) -> float:
    """Return the smallest epsilon, at least 0, that Renyi divergences allow for.

    Parameters
    ----------
    orders, curve : array-like of float
        As of :func:`renyi_delta`.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The bound; infinite if no order gives one.
    """
    points, values = np.asarray(orders, float), np.asarray(curve, float)
    epsilons = values + (log_peaks(points) - math.log(delta)) / (points - 1.0)
    least = float(np.min(epsilons))
    return max(least, 0.0) * (1.0 + _MARGIN)


def composed_divergences(mu: float, curves: Counted, orders: npt.ArrayLike) -> Array:
    """Return the divergences of Gaussians of a total `mu` and of counted curves.

    Equal mechanisms may stand there more than once: each counts.
    """
    total = gaussian_divergences(mu, orders)
    for mechanism, times in curves:
        total = total + times * divergences(mechanism, orders)
    return total
