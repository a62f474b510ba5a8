r"""Curves of one step of a Poisson-sampled Gaussian mechanism, in closed form.

For a unit that joins or leaves, the pair is
:math:`P = (1 - q) N(0, \sigma^2) + q N(1, \sigma^2)` and :math:`Q = N(0, \sigma^2)`.
For one that is replaced, Q is :math:`(1 - q) N(0, \sigma^2) + q N(-1, \sigma^2)`
(:ref:`lemma-sampled-replacement`): each is the mirror image of the other.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp

Array: TypeAlias = npt.NDArray[np.float64]

# Beyond so many standard deviations there is no mass that counts.
_REACH = 12.0
# Points of a quadrature to a standard deviation, or to the width of the strip in which
# the integrand has no singularity: errors fall like exp(-2 pi**2 * _FINENESS).
_FINENESS = 4.0
_MOST_POINTS = 2**22
# Normal tails beyond are below 1e-17.
_LAST = 8.5
# More than rounding errors of logarithms of sums.
_ROUNDING = 1e-12


def removed_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(P \| Q)` of one step, for a unit that leaves.

    Parameters
    ----------
    q : float
        Sampling probability.
    sigma : float
        Noise multiplier.
    losses : array-like of float
        Values of e, of any sign.

    Returns
    -------
    ndarray
        The hockey-stick divergence at each.
    """
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, losses)
    rest, here = _logs(q)
    above = np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(1.0 / sigma - x))
    below = losses + log_ndtr(-x)
    found = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return np.asarray(found, dtype=np.float64)


def joined_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(Q \| P)` of one step, for a unit that joins.

    Parameters are those of :func:`removed_deltas`.
    """
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, -losses)
    rest, here = _logs(q)
    below = np.logaddexp(rest + log_ndtr(x), here + log_ndtr(x - 1.0 / sigma))
    with np.errstate(invalid="ignore"):  # both are -inf where nothing is left
        less = np.minimum(losses + below - log_ndtr(x), 0.0)
    found = np.exp(log_ndtr(x)) * -np.expm1(np.where(x > -np.inf, less, 0.0))
    return np.asarray(found, dtype=np.float64)


def _logs(q: float) -> tuple[float, float]:
    """Return the logarithms of 1 - q and of q."""
    return (math.log1p(-q) if q < 1.0 else -math.inf), math.log(q)


def _joined_outcome(q: float, sigma: float, losses: Array) -> Array:
    r"""Return :math:`x / \sigma` where the loss to :math:`N(0, \sigma^2)` is one."""
    rest, here = _logs(q)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = losses + np.log(-np.expm1(np.minimum(rest - losses, 0.0)))
    return np.asarray(sigma * (grown - here) + 0.5 / sigma, dtype=np.float64)


def outcome(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return the outcomes x whose losses :math:`\ln (dP / dQ)(x)` are given.

    With :math:`b = q\,e^{-1 / (2 \sigma^2)}` the outcome is
    :math:`\sigma^2 (e / 2 + \operatorname{arsinh}(\tfrac{1 - q}{b} \sinh(e / 2)))`.
    """
    half = 0.5 * np.asarray(losses, dtype=np.float64)
    if q == 1.0:
        return sigma * sigma * half
    shift = math.log((1.0 - q) / q) + 0.5 / (sigma * sigma)
    size = np.abs(half)
    with np.errstate(divide="ignore", over="ignore"):
        log_sine = np.where(
            size > 1.0, size + np.log1p(-np.exp(-2.0 * size)), np.log(2 * np.sinh(size))
        )
        log_sine += shift - math.log(2.0)
        # arsinh(e**y) = y + ln(1 + sqrt(1 + e**-2y))
        inverse = np.where(
            log_sine > 0.0,
            log_sine + np.log1p(np.sqrt(1.0 + np.exp(-2.0 * np.abs(log_sine)))),
            np.arcsinh(np.exp(np.minimum(log_sine, 0.0))),
        )
    return sigma * sigma * (half + np.copysign(inverse, half))


def replaced_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`\delta(e) = P(x, \infty) - e^e Q(x, \infty)` of one step.

    Parameters
    ----------
    q : float
        Sampling probability.
    sigma : float
        Noise multiplier.
    losses : array-like of float
        Values of e, of any sign.

    Returns
    -------
    ndarray
        The hockey-stick divergence at each.
    """
    losses = np.asarray(losses, dtype=np.float64)
    x = outcome(q, sigma, losses) / sigma
    one = 1.0 / sigma
    rest, here = _logs(q)
    above = np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(one - x))
    below = losses + np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(-one - x))
    found = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return np.asarray(found, dtype=np.float64)


def replaced_divergences(q: float, sigma: float, orders: npt.ArrayLike) -> Array:
    r"""Return the Renyi divergences of one step, by quadrature.

    The trapezoidal rule converges exponentially: the integrand is analytic in a strip
    of half the width :math:`\pi \sigma^2`.
    """
    found = []
    for order in np.asarray(orders, dtype=np.float64).tolist():
        step = min(sigma, math.pi * sigma * sigma) / (math.pi * _FINENESS)
        low, high = -1.0 - _REACH * sigma, order + _REACH * sigma
        if (high - low) / step > _MOST_POINTS:
            found.append(math.inf)
            continue
        x = np.arange(low, high + step, step)
        square = sigma * sigma
        rest, here = _logs(q)
        log_p = np.logaddexp(rest, here + (x - 0.5) / square)
        log_q = np.logaddexp(rest, here - (x + 0.5) / square)
        log_0 = -0.5 * x * x / square
        total = logsumexp(order * log_p + (1.0 - order) * log_q + log_0)
        total += math.log(step / (sigma * math.sqrt(2.0 * math.pi)))
        found.append((max(total, 0.0) + _ROUNDING) / (order - 1.0))
    return np.array(found)


def reach(q: float, sigma: float, replaced: bool) -> float:
    """Return a loss beyond which one step has no mass that counts."""
    x = 1.0 + _LAST * sigma
    square = sigma * sigma
    rest, here = _logs(q)
    top = np.logaddexp(rest, here + (x - 0.5) / square)
    if not replaced:
        return float(max(top, -rest if q < 1.0 else top))
    return float(top - np.logaddexp(rest, here - (x + 0.5) / square))
