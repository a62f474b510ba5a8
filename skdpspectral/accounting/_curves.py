r"""Privacy curves of steps on Poisson samples, and sums of privacy losses.

For a unit that joins or leaves, the pair is
:math:`P = (1 - q) N(0, \sigma^2) + q N(1, \sigma^2)` and :math:`Q = N(0, \sigma^2)`.
For one that is replaced, Q is :math:`(1 - q) N(0, \sigma^2) + q N(-1, \sigma^2)`
(:ref:`lemma-sampled-replacement`): each is the mirror image of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import log_ndtr

from ..mechanisms import SubsampledGaussian
from ..mechanisms._planned_releases import Curve

Array: TypeAlias = npt.NDArray[np.float64]

# Mechanisms, each with how often it is composed.
Counted: TypeAlias = tuple[tuple[Curve, int], ...]

# Normal tails beyond are below 1e-17.
_LAST = 8.5


def leaving_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(P \| Q)` of one step, for a unit that leaves.

    It is the hockey-stick divergence at losses e of any sign, given the sampling
    probability q and the noise multiplier sigma.
    """
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, losses)
    return _difference(_log_tail(x, q, 1.0 / sigma), losses + log_ndtr(-x))


def joining_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(Q \| P)` of one step, for a unit that joins."""
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, -losses)
    return _difference(log_ndtr(x), losses + _log_tail(-x, q, -1.0 / sigma))


def replaced_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(P \| Q)` of one step, for a unit that is replaced."""
    losses = np.asarray(losses, dtype=np.float64)
    x, one = outcome(q, sigma, losses) / sigma, 1.0 / sigma
    return _difference(_log_tail(x, q, one), losses + _log_tail(x, q, -one))


def _log_tail(x: Array, q: float, center: float) -> Array:
    """Return the log probability above x of noise, which has a center with odds q."""
    rest, here = _logs(q)
    logs = np.logaddexp(rest + log_ndtr(-x), here + log_ndtr(center - x))
    return np.asarray(logs)


def _difference(above: Array, below: Array) -> Array:
    """Return exp(above) - exp(below), at least 0; 0 where nothing is left."""
    with np.errstate(invalid="ignore"):  # both are -inf there
        less = np.minimum(below - above, 0.0)
    return np.asarray(np.exp(above) * -np.expm1(np.where(above > -np.inf, less, 0.0)))


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


def largest_loss(curve: SubsampledGaussian) -> float:
    """Return a loss beyond which one step has negligible mass."""
    q, sigma = curve.sampling_probability, curve.noise_multiplier
    x = 1.0 + _LAST * sigma
    square = sigma * sigma
    rest, here = _logs(q)
    top = np.logaddexp(rest, here + (x - 0.5) / square)
    if not curve.replaced:
        return float(max(top, -rest if q < 1.0 else top))
    return float(top - np.logaddexp(rest, here - (x + 0.5) / square))


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
        if epsilon >= self.step * (self.first + len(self.masses)):
            return self.infinite
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


Parts: TypeAlias = Sequence[tuple[LossDistribution, int]]


def composed(parts: Parts, cut: float) -> LossDistribution | None:
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
    return LossDistribution(parts[0][0].step, low, sums, _without_limit(parts) + cut)


def _without_limit(parts: Parts) -> float:
    """Return the probability that any of the losses is without limit."""
    finite = sum(times * float(np.log1p(-part.infinite)) for part, times in parts)
    return -math.expm1(finite)


def _window(parts: Parts, cut: float) -> tuple[int, int]:
    """Return losses, in steps, that a sum is below or above with less than a chance."""
    low = sum(times * part.first for part, times in parts)
    high = sum(times * int(part.places[-1]) for part, times in parts)
    above, below = _chernoff(parts, cut, 1.0), _chernoff(parts, cut, -1.0)
    if math.isfinite(above):
        high = min(high, math.ceil(above))
    if math.isfinite(below):
        low = max(low, math.floor(-below))
    return low, max(low, high)


def _chernoff(parts: Parts, chance: float, side: float) -> float:
    """Return Chernoff's bound on a sum, in steps; infinite if none.

    A sum, times `side`, exceeds it with probability `chance` at most.
    """
    logs = [(p.places, np.log(np.abs(p.masses)), times) for p, times in parts]
    variance = sum(times * _variance(part) for part, times in parts)
    least, nats = math.inf, -math.log(chance)
    if not variance > 0.0:
        return math.inf
    for exponent in (math.sqrt(2.0 * nats / variance) * _EXPONENTS).tolist():
        moment = sum(
            n * _log_sum(side * exponent * x + masses) for x, masses, n in logs
        )
        bound = (moment + nats) / exponent
        if bound > least:  # it falls up to the best exponent, and rises beyond
            break
        if math.isfinite(bound):
            least = bound
    return least


def _variance(part: LossDistribution) -> float:
    mean = float(part.masses @ part.places)
    return float(part.masses @ (part.places - mean) ** 2)


def _log_sum(logs: Array) -> float:
    most = float(np.max(logs))
    return most + math.log(float(np.sum(np.exp(logs - most))))
