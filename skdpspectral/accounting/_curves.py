r"""Renyi divergences of mechanisms, and what they say of :math:`(\epsilon, \delta)`.

Those of one step of a Poisson-sampled Gaussian mechanism are in closed form.

For a unit that joins or leaves, the pair is
:math:`P = (1 - q) N(0, \sigma^2) + q N(1, \sigma^2)` and :math:`Q = N(0, \sigma^2)`.
For one that is replaced, Q is :math:`(1 - q) N(0, \sigma^2) + q N(-1, \sigma^2)`
(:ref:`lemma-sampled-replacement`): each is the mirror image of the other.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import log_ndtr, logsumexp

from ..mechanisms import ApproximateDP
from ..mechanisms._planned_releases import Curve

# Beyond so many standard deviations there is no mass that counts.
_REACH = 12.0

# Points of a quadrature to a standard deviation, or to the width of the strip in which
# the integrand has no singularity: errors fall like exp(-2 pi**2 * _FINENESS).
_FINENESS = 4.0
_MOST_POINTS = 2**16

# Normal tails beyond are below 1e-17.
_LAST = 8.5

# More than rounding errors of logarithms of sums.
_ROUNDING = 1e-12


def leaving_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(P \| Q)` of one step, for a unit that leaves.

    It is the hockey-stick divergence at losses e of any sign, given the sampling
    probability q and the noise multiplier sigma.
    """
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, losses)
    rest, here = _logs(q)
    above = np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(1.0 / sigma - x))
    below = losses + log_ndtr(-x)
    found = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return np.asarray(found, dtype=np.float64)


def joining_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(Q \| P)` of one step, for a unit that joins.

    Parameters are those of :func:`leaving_deltas`.
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
    r"""Return :math:`x / \sigma` at given losses to :math:`N(0, \sigma^2)`."""
    rest, here = _logs(q)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = losses + np.log(-np.expm1(np.minimum(rest - losses, 0.0)))
    return np.asarray(sigma * (grown - here) + 0.5 / sigma, dtype=np.float64)


def outcome(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return the outcomes x with the losses :math:`\ln (dP / dQ)(x)`.

    With :math:`b = q\,e^{-1 / (2 \sigma^2)}` the outcome is :math:`\sigma^2 (e / 2 +
    \operatorname{arsinh}(\tfrac{1 - q}{b} \sinh(e / 2)))`.
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

    For a unit that is replaced; parameters are those of :func:`leaving_deltas`.
    """
    losses = np.asarray(losses, dtype=np.float64)
    x = outcome(q, sigma, losses) / sigma
    one = 1.0 / sigma
    rest, here = _logs(q)
    above = np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(one - x))
    below = losses + np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(-one - x))
    found = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return np.asarray(found, dtype=np.float64)


def sampled_divergences(
    q: float, sigma: float, orders: npt.ArrayLike, replaced: bool
) -> Array:
    r"""Return the Renyi divergences of one step at orders above 1, by quadrature.

    The trapezoidal rule converges exponentially: the integrand is analytic in a strip
    of half the width :math:`\pi \sigma^2`. Those of P from Q are the larger ones
    [MTZ19]_. A divergence is infinite where the integral has too many points.

    References
    ----------
    .. [MTZ19] I. Mironov, K. Talwar and L. Zhang (2019). Renyi differential privacy of
       the sampled Gaussian mechanism. *arXiv:1908.10530*, theorem 5.
    """
    found = []
    square = sigma * sigma
    rest, here = _logs(q)
    for order in np.asarray(orders, dtype=np.float64).tolist():
        step = min(sigma, math.pi * square) / (math.pi * _FINENESS)
        # The integrand is made of normal densities around 0, the order and, of two
        # steps that are both sampled, twice the order.
        top = 2.0 * order if replaced else order
        low, high = -1.0 - _REACH * sigma, top + _REACH * sigma
        if (high - low) / step > _MOST_POINTS:
            found.append(math.inf)
            continue
        x = np.arange(low, high + step, step)
        logs = order * np.logaddexp(rest, here + (x - 0.5) / square)
        if replaced:
            logs += (1.0 - order) * np.logaddexp(rest, here - (x + 0.5) / square)
        total = logsumexp(logs - 0.5 * x * x / square)
        total += math.log(step / (sigma * math.sqrt(2.0 * math.pi)))
        found.append((max(total, 0.0) + _ROUNDING) / (order - 1.0))
    return np.array(found)


def largest_loss(q: float, sigma: float, replaced: bool) -> float:
    """Return a loss beyond which one step has negligible mass."""
    x = 1.0 + _LAST * sigma
    square = sigma * sigma
    rest, here = _logs(q)
    top = np.logaddexp(rest, here + (x - 0.5) / square)
    if not replaced:
        return float(max(top, -rest if q < 1.0 else top))
    return float(top - np.logaddexp(rest, here - (x + 0.5) / square))


# Mechanisms, each with how often it is composed.
Counted: TypeAlias = tuple[tuple[Curve, int], ...]

# Above so many kinds, parameters are rounded to where a mechanism costs more: to powers
# of 1 + one of these, the first that leaves few kinds.
MOST_KINDS, _FEW = 64, 24
_STEPS = tuple(4.0**k for k in range(-6, 3))


@functools.lru_cache(maxsize=8)
def coarsen_kinds(curves: Counted) -> Counted:
    """Return few kinds that dominate the given ones, which are kept if few.

    Otherwise pairs lose their delta, which the caller adds. More kinds remain if no
    rounding helps.
    """
    found = curves
    for step in _STEPS if len(curves) > MOST_KINDS else ():
        counted: Counter[Curve] = Counter()
        for curve, times in curves:
            rounded, steps = _round_up_cost(curve, math.log1p(step))
            counted[rounded] += times * steps
        found = tuple(counted.items())
        if len(found) <= _FEW:
            break
    return found


def _up(x: float, step: float) -> float:
    """Return the smallest power of exp(step) that is at least `x`."""
    if x <= 0.0:
        return x
    power = math.exp(step * math.ceil(math.log(x) / step))
    return power if power >= x else power * math.exp(step)


def _round_up_cost(curve: Curve, step: float) -> tuple[Curve, int]:
    """Return a mechanism of at least this cost, and its count in place of this one."""
    if isinstance(curve, ApproximateDP):
        return replace(curve, epsilon=_up(curve.epsilon, step), delta=0.0), 1
    rate = min(_up(curve.sampling_probability, step), 1.0)
    noise = 1.0 / _up(1.0 / curve.noise_multiplier, step)
    noise = min(noise, curve.noise_multiplier)
    rounded = replace(curve, sampling_probability=rate, noise_multiplier=noise, steps=1)
    return rounded, curve.steps


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
    """Return bounds on Renyi divergences of a mechanism that is not Gaussian.

    There is one per order above 1; for a pair they fail with probability delta.
    """
    points = np.asarray(orders, dtype=np.float64)
    if isinstance(mechanism, ApproximateDP):
        return randomized_response_divergences(mechanism.epsilon, points)
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
    r"""Return Renyi divergences of randomized response, the largest of any pair.

    Every :math:`(\epsilon, 0)`-indistinguishable pair is its post-processing.
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
    found = steps * sampled_divergences(probability, noise_multiplier, orders, replaced)
    return tuple((found * (1.0 + _MARGIN)).tolist())


# -- conversion ------------------------------------------------------------------------


def log_peaks(orders: Array) -> Array:
    r"""Return the log maximum of :math:`(1 - e^{-y}) e^{-(\alpha - 1) y}` over y."""
    return (orders - 1.0) * np.log1p(-1.0 / orders) - np.log(orders)


def renyi_delta(
    orders: npt.ArrayLike, curve: npt.ArrayLike, epsilon: npt.ArrayLike
) -> Array:
    r"""Return the delta, at most 1, that Renyi divergences give at each epsilon.

    .. math:: \delta(\epsilon) \le \min_\alpha \frac{1}{\alpha}
        \Bigl(1 - \frac{1}{\alpha}\Bigr)^{\alpha - 1}
        e^{(\alpha - 1) (D_\alpha - \epsilon)}

    `curve` bounds the divergence of each order from above, of neighbors in either
    order; epsilons may have any sign.

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
    """Return the smallest epsilon, at least 0, that Renyi divergences give.

    Infinite if no order gives one. Parameters are those of :func:`renyi_delta`.
    """
    points, values = np.asarray(orders, float), np.asarray(curve, float)
    epsilons = values + (log_peaks(points) - math.log(delta)) / (points - 1.0)
    least = float(np.min(epsilons))
    return max(least, 0.0) * (1.0 + _MARGIN)


def composed_divergences(mu: float, curves: Counted, orders: npt.ArrayLike) -> Array:
    """Return divergences of Gaussians of total cost `mu` and of counted curves."""
    total = gaussian_divergences(mu, orders)
    for mechanism, times in curves:
        total = total + times * divergences(mechanism, orders)
    return total


# Longer transforms are not made.
_MOST_GRID_POINTS = 2**23

# Exponents of Chernoff bounds, over the one that is best for a normal distribution.
# That of rare and large losses is far below it.
_EXPONENTS = np.exp2(np.arange(4, -61, -1) / 2.0)


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Probabilities of losses, whose curve bounds that of a mechanism.

    `first` is the least loss, in multiples of `step`, `masses` are the probabilities of
    each from there on, and `infinite` is that of a loss without limit.
    """

    step: float
    first: int
    masses: Array
    infinite: float

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """Losses, in steps."""
        return np.arange(self.first, self.first + len(self.masses))

    def delta(self, epsilon: float) -> float:
        """Return the delta at an epsilon of at least 0."""
        start = max(math.floor(epsilon / self.step) - self.first, 0)
        above = self.step * self.places[start:] - epsilon
        beyond = -np.expm1(-np.maximum(above, 0.0))
        return float(np.maximum(self.masses[start:], 0.0) @ beyond) + self.infinite

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon, at least 0, at which delta is no larger."""
        if delta < self.infinite:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        # Of losses, in steps, the curve is above delta at one and not at the other.
        low, high = 0, self.first + len(self.masses) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.delta(self.step * middle) <= delta:
                high = middle
            else:
                low = middle
        # Between them it is linear in the exponential of epsilon.
        start = max(high - self.first, 0)
        masses = np.maximum(self.masses[start:], 0.0)
        other = masses @ np.exp(self.step * (high - self.places[start:]))
        left = float(np.sum(masses)) + self.infinite - delta
        return max(self.step * high + math.log(left / other), self.step * low)


def connect_dots(
    points: npt.ArrayLike, excess: npt.ArrayLike, step: float
) -> LossDistribution:
    r"""Connect the dots of a curve, linearly in :math:`e^\epsilon`.

    That is the curve of the least distribution on the grid that is above a convex one
    [DGKKM22]_. `points` are increasing losses in steps, of any sign. `excess` is the
    curve at each less :math:`(1 - e^\epsilon)_+`, of which small numbers keep their
    digits; beyond the last point the curve is constant.
    """
    places, excess = np.asarray(points), np.asarray(excess, dtype=np.float64)
    losses, offsets = step * places, places - places[0]
    curve = excess + np.maximum(-np.expm1(losses), 0.0)
    # Where 1 - exp(epsilon) is linear, it has no part in a probability.
    below = losses[1:] <= 0.0
    falls, widths = np.where(below, np.diff(excess), np.diff(curve)), np.diff(losses)
    masses = np.zeros(offsets[-1] + 1)
    masses[offsets[1:]] = falls / np.expm1(-widths)
    masses[offsets[:-1]] += falls / np.expm1(widths)
    if np.any(below):
        masses[0] -= excess[0]
        turn = np.count_nonzero(below)
        masses[offsets[turn]] += math.exp(losses[turn])
    else:
        masses[0] += 1.0 - curve[0]
    return LossDistribution(step, int(places[0]), masses, float(curve[-1]))


def composed(
    parts: Sequence[tuple[LossDistribution, int]], cut: float
) -> LossDistribution | None:
    """Return the distribution of a sum of independent losses; None if it is too large.

    `parts` are distributions on one grid, and how often each is there. `cut` is the
    probability of sums that are left out, and counted as without limit.
    """
    low, high = _window(parts, cut)
    length = fft.next_fast_len(high - low + 1, real=True)
    if length > _MOST_GRID_POINTS:
        return None
    # A sum above the window would be taken for one that is smaller: it counts as one
    # without limit. One below is taken for one that is larger.
    product: npt.NDArray[np.complex128] = np.ones(length // 2 + 1, dtype=np.complex128)
    for part, times in parts:
        folded = np.bincount(part.places % length, part.masses, minlength=length)
        product *= fft.rfft(folded) ** times
    sums = np.roll(fft.irfft(product, length), -(low % length))
    finite = sum(times * float(np.log1p(-part.infinite)) for part, times in parts)
    return LossDistribution(parts[0][0].step, low, sums, -math.expm1(finite) + cut)


def _window(
    parts: Sequence[tuple[LossDistribution, int]], cut: float
) -> tuple[int, int]:
    """Return losses, in steps, that a sum is below or above with less than a chance.

    The bounds are those of Chernoff.
    """
    low = sum(times * part.first for part, times in parts)
    high = sum(times * int(part.places[-1]) for part, times in parts)
    logs = [(p.places, np.log(np.abs(p.masses)), times) for p, times in parts]
    variance = sum(times * _variance(part) for part, times in parts)
    if not variance > 0.0:
        return low, high
    nats = -math.log(cut)
    for side in (1.0, -1.0):
        least = math.inf
        for exponent in (math.sqrt(2.0 * nats / variance) * _EXPONENTS).tolist():
            moment = sum(
                n * _log_sum(side * exponent * x + masses) for x, masses, n in logs
            )
            bound = (moment + nats) / exponent
            if bound > least:  # it falls up to the best exponent, and rises beyond
                break
            least = bound if math.isfinite(bound) else least
        if math.isfinite(least) and side > 0.0:
            high = min(high, math.ceil(least))
        elif math.isfinite(least):
            low = max(low, math.floor(-least))
    return low, max(low, high)


def _variance(part: LossDistribution) -> float:
    mean = float(part.masses @ part.places)
    return float(part.masses @ (part.places - mean) ** 2)


def _log_sum(logs: Array) -> float:
    most = float(np.max(logs))
    return most + math.log(float(np.sum(np.exp(logs - most))))
