"""The exact privacy curve of the Gaussian mechanism, and its inverses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from ..mechanisms import (
    CorrelatedGaussian,
    Exact,
    ExponentialMechanism,
    Gaussian,
    Mechanism,
    check_real,
)

# float64 normals stop near 12 sigma: a smaller delta would be a claim about
# tails that are never drawn.
MIN_DELTA = 1e-15
_SQRT2 = math.sqrt(2.0)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

# Calibrations stop this far short of the budget, so that the rounding errors of
# composing a few releases never push their sum over it.
_SLACK = 2.0**-40

# Inverses aim this far below delta, more than the curve's own rounding error.
_LOG_MARGIN = 1e-13

# Beyond these, float64 cannot tell neighboring costs apart, and no one is protected.
_LARGEST_EPSILON = 1e9
_LARGEST_MU = 1e5


def _at_least_zero(name: str, value: object) -> float:
    number = value if type(value) is float else check_real(name, value)
    if not number >= 0.0:
        raise ValueError(f"{name} must be at least 0, got {number}")
    return number


def check_delta(value: object, name: str = "delta") -> float:
    """Return a delta as a float, or an error that says why it must not be smaller."""
    number = value if type(value) is float else check_real(name, value)
    if MIN_DELTA <= number < 1.0:
        return number
    why = ""
    if number < MIN_DELTA:
        why = (
            ": Gaussian noise requires a positive delta, and float64 noise cannot "
            f"guarantee one below {MIN_DELTA:g}; choose one well below 1 / n_samples"
        )
    raise ValueError(f"{name} must be in [{MIN_DELTA:g}, 1), got {number:g}{why}")


def _erfcx_slope(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """-erfcx'(x) = 2/sqrt(pi) - 2 x erfcx(x) > 0, by its series where it cancels."""
    inverse = 1.0 / np.maximum(x, 1.0) ** 2
    series = inverse * (1 - 1.5 * inverse * (1 - 2.5 * inverse * (1 - 3.5 * inverse)))
    near = np.minimum(x, 50.0)  # and never infinite
    direct = 2.0 / math.sqrt(math.pi) - 2.0 * near * erfcx(near)
    return np.where(x > 50.0, series / math.sqrt(math.pi), direct)


def _erfcx_drop(low: float, step: float) -> float:
    """erfcx(low) - erfcx(low + step) for low > -20; a short step is integrated."""
    if step > 0.25:
        return float(erfcx(low) - erfcx(low + step))
    half = 0.5 * step
    slope = _erfcx_slope(low + half * (1.0 + _NODES))
    return float(half * np.dot(_WEIGHTS, slope))


def _log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Logarithm of :func:`gaussian_delta`, for mu > 0."""
    near = (epsilon / mu - 0.5 * mu) / _SQRT2
    if near < -20.0:
        # delta is within 1e-170 of Phi(-sqrt2 near): log_ndtr has all digits.
        return float(log_ndtr(-_SQRT2 * near))
    drop = _erfcx_drop(near, mu / _SQRT2)
    if drop <= 0.0:
        return -math.inf
    return math.log(0.5 * drop) - near**2


def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""Exact privacy curve :math:`\delta(\epsilon)` of a mu-GDP Gaussian mechanism.

    .. math:: \delta(\epsilon) = \Phi(\mu/2 - \epsilon/\mu)
        - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu)

    Parameters
    ----------
    mu : float
        Sensitivity divided by the noise standard deviation, at least 0.
    epsilon : float
        Privacy parameter, at least 0.

    Returns
    -------
    float
        The smallest delta at this epsilon.

    References
    ----------
    Balle and Wang (2018), theorem 8; Dong, Roth and Su (2022), corollary 2.13.

    Examples
    --------
    >>> from skdpspectral.accounting import gaussian_delta
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    mu, epsilon = _at_least_zero("mu", mu), _at_least_zero("epsilon", epsilon)
    if mu == 0.0 or epsilon == math.inf:
        return 1.0 if mu == math.inf else 0.0
    if mu == math.inf:
        return 1.0
    return min(1.0, math.exp(_log_gaussian_delta(mu, epsilon)))


def _bracket_root(excess: Callable[[float], float], high: float) -> tuple[float, float]:
    """Return a tight bracket (a, b) of an increasing function's root, from `high`."""
    while excess(high) < 0.0:
        high *= 2.0
    low = high
    while excess(low) > 0.0:
        low *= 0.5
    root = float(brentq(excess, low, high, xtol=1e-300, rtol=1e-14))
    a = b = root
    step = 2.0**-50
    while excess(a) > 0.0:
        a, step = a * (1.0 - step), 2.0 * step
    step = 2.0**-50
    while excess(b) < 0.0:
        b, step = b * (1.0 + step), 2.0 * step
    return a, b


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu of a Gaussian mechanism that is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Privacy parameter in [0, 1e9]. Infinity returns infinity.
    delta : float
        Privacy parameter in [1e-15, 1).

    Returns
    -------
    float
        mu, rounded so that ``gaussian_delta(mu, epsilon) <= delta``.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skdpspectral.accounting import gaussian_mu
    >>> round(gaussian_mu(1.0, 1e-6), 6)
    0.236704
    """
    return _solve_mu(_at_least_zero("epsilon", epsilon), check_delta(delta))


@lru_cache(maxsize=1024)
def _solve_mu(epsilon: float, delta: float) -> float:
    if epsilon == math.inf:
        return math.inf
    if epsilon > _LARGEST_EPSILON:
        raise ValueError(
            f"epsilon must be at most {_LARGEST_EPSILON:g}, or infinite for no "
            f"privacy, got {epsilon}"
        )
    log_delta = math.log(delta) - _LOG_MARGIN

    def excess(mu: float) -> float:
        return _log_gaussian_delta(mu, epsilon) - log_delta

    # At mu = sqrt(2 epsilon), delta is about 1/2 or less; doubling finds the top.
    return _bracket_root(excess, math.sqrt(2.0 * epsilon) + 1.0)[0]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon of a mu-GDP Gaussian mechanism at a given delta.

    Parameters
    ----------
    mu : float
        Cost of the mechanism, at least 0. Values above 1e5 return infinity.
    delta : float
        Privacy parameter in [1e-15, 1).

    Returns
    -------
    float
        epsilon, rounded so that ``gaussian_delta(mu, epsilon) <= delta``; 0 if the
        total variation distance is already below delta.

    Examples
    --------
    >>> from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
    >>> round(gaussian_epsilon(2**0.5 * gaussian_mu(1.0, 1e-6), 1e-6), 3)
    1.455
    """
    return _solve_epsilon(_at_least_zero("mu", mu), check_delta(delta))


@lru_cache(maxsize=1024)
def _solve_epsilon(mu: float, delta: float) -> float:
    if mu > _LARGEST_MU:
        return math.inf
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    log_delta = math.log(delta) - _LOG_MARGIN

    def excess(epsilon: float) -> float:
        return log_delta - _log_gaussian_delta(mu, epsilon)

    return _bracket_root(excess, mu)[1]


def calibrate_gaussian(
    name: str,
    sensitivity: float,
    mu: float,
    shape: tuple[int, ...],
    *,
    symmetric: bool = False,
    summation_error: float = 0.0,
    magnitude: float = 1.0,
    correlation: dict[str, Any] | None = None,
    lemma: str = "",
) -> Gaussian:
    """Gaussian mechanism, or one of a stream, with the least noise of at most `mu`."""
    if type(mu) is not float or type(sensitivity) is not float:
        mu, sensitivity = check_real("mu", mu), check_real("sensitivity", sensitivity)
    for argument, value in (("mu", mu), ("sensitivity", sensitivity)):
        if not 0.0 < value < math.inf:
            raise ValueError(f"{argument} must be positive and finite, got {value}")
    allowed = mu * (1.0 - _SLACK)
    make: Callable[..., Gaussian] = functools.partial(Gaussian, lemma=lemma)
    column_norm = 1.0
    if correlation is not None:
        make = functools.partial(CorrelatedGaussian, **correlation, lemma=lemma)
        column_norm = correlation["column_norm"]
    noise_std = column_norm * (sensitivity + 2.0 * summation_error) / allowed
    for _ in range(200):
        if noise_std == math.inf:
            break
        mechanism = make(
            name, sensitivity, noise_std, shape, symmetric, summation_error, magnitude
        )
        if mechanism.mu <= allowed:
            return mechanism
        needed = mechanism.charged_sensitivity / allowed
        noise_std = max(needed, noise_std * (1.0 + 2.0**-50))
    raise ValueError(
        f"the budget of {name!r} (mu = {mu:g}) is too small for {shape} numbers in "
        "float64 arithmetic; raise epsilon or delta"
    )


def calibrate_alike(
    names: Sequence[str],
    sensitivity: float,
    mu: float,
    shape: tuple[int, ...],
    **more: Any,
) -> tuple[Mechanism, ...]:
    """Mechanisms of equal releases at a total cost of `mu`; exact if it is infinite."""
    if not math.isfinite(mu):
        symmetric = more.get("symmetric", False)
        return tuple(Exact(name, shape, symmetric=symmetric) for name in names)
    each = mu * math.sqrt(1.0 / len(names))
    first = calibrate_gaussian(names[0], sensitivity, each, shape, **more)
    return first.repeated(names)


# Rounding that an exponential mechanism is charged with, by far, and a cost far above
# that of any.
_CHOICE_ROUNDING, _MOST_CHOICE_MU = 2.0**-46, 40.0


def calibrate_exponential(
    name: str, mu: float, n_options: int, sensitivity: float = 1.0, *, lemma: str = ""
) -> ExponentialMechanism:
    """Exponential mechanism that costs at most `mu`: lemma exponential-choice."""
    half = 0.5 * (check_real("mu", mu) - _CHOICE_ROUNDING)
    if not 0.0 < half < 0.5 * _MOST_CHOICE_MU:
        raise ValueError(f"mu must be positive and below {_MOST_CHOICE_MU}, got {mu}")
    epsilon = 2.0 * float(log_ndtr(half) - log_ndtr(-half)) * (1.0 - _SLACK)
    return ExponentialMechanism(name, epsilon, n_options, sensitivity, lemma=lemma)
