r"""Composition of mechanisms of any kind, and conversion between relations.

What is no Gaussian is composed by distributions of its privacy loss, which dominate
each entry, and every rounding goes up. A step on a Poisson sample has the pair
:math:`P = (1 - q) N(0, \sigma^2) + q N(1, \sigma^2)` and :math:`Q = N(0, \sigma^2)`,
or, if a unit is replaced, its own mirror image (:ref:`lemma-sampled-replacement`).

A mechanism *costs mu but for a failure* d if its hockey-stick divergences are at most
:math:`d + (1 - d)\, H_\alpha(N(\mu, 1) \| N(0, 1))`: squares of mu and failures add up
(:ref:`lemma-box-filter`), and :func:`least_mu` is the least mu (:ref:`lemma-least-mu`).
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import log_ndtr, ndtri, ndtri_exp

from ..mechanisms import (
    ApproximateDP,
    Neighbors,
    SampledGaussian,
    SubsampledGaussian,
    check_real,
)
from ..mechanisms._plan import Curve
from ._gaussian import _SLACK, MIN_DELTA, gaussian_delta, gaussian_epsilon, gaussian_mu

Array: TypeAlias = npt.NDArray[np.float64]

# Mechanisms, each with how often it is composed.
Counted: TypeAlias = tuple[tuple[Curve, int], ...]

# Normal tails beyond are below 1e-17.
_LAST = 8.5


def leaving_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(P \| Q)` of one step at losses e: a unit leaves."""
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, losses)
    return _difference(_log_tail(x, q, 1.0 / sigma), losses + log_ndtr(-x))


def joining_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(Q \| P)` of one step at losses e: a unit joins."""
    losses = np.asarray(losses, dtype=np.float64)
    x = _joined_outcome(q, sigma, -losses)
    return _difference(log_ndtr(x), losses + _log_tail(-x, q, -1.0 / sigma))


def replaced_deltas(q: float, sigma: float, losses: npt.ArrayLike) -> Array:
    r"""Return :math:`H_{e^e}(P \| Q)` of one step at losses e: one is replaced."""
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
    r"""Return the outcomes x with the losses :math:`\ln (dP / dQ)(x)`."""
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
    """Masses of losses from `first` steps on, and the mass of infinite ones."""

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
    r"""Connect the dots of a curve, linearly in :math:`e^\epsilon` [DGKKM22]_."""
    # `excess` is the curve less (1 - e^epsilon)_+, of which small numbers keep digits.
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
    """Return the law of a sum of losses, but for tails of `cut`; None if too large."""
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
    """Bound, in steps, what a sum times `side` exceeds with this chance at most."""
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


# -- totals of any kind ----------------------------------------------------------------

# Steps of the grid of losses to a standard deviation of what is composed.
_FINENESS = 16.0
_MOST_POINTS = 2.0**21

# Points up to the largest loss of a step: more than these resolve it no better.
_FAR_POINTS = 2.0**17

# Losses beyond this many standard deviations have no mass that counts.
_REACH = 12.0

# Losses beyond are no privacy, and their exponentials overflow.
_MOST_DEVIATION = 1000.0

# Probability that is counted as a loss without limit: what tails of one composition are
# cut off, and what rounding errors of a Fourier transform may hide, for each power that
# it is raised to: a relative error of 2**-53 of a transform is n times that of its n-th
# power, and tails hold some 40 standard deviations of such errors.
_CUT = 1e-15
TRANSFORM = 1e-15

# Relative errors of masses on a fine grid, over many compositions, stay below this.
RELATIVE = 1e-5

# Kinds of mechanisms whose distributions are held at the same time.
_AT_ONCE = 64


@functools.lru_cache(maxsize=256)
def composed_epsilon(mu: float, curves: Counted, delta: float) -> float:
    """Bound the epsilon of Gaussians of total cost `mu` and of all other mechanisms."""
    if mu == math.inf or not delta > 0.0:
        return math.inf
    left = delta * (1.0 - RELATIVE) - TRANSFORM * _count_distributions(curves)
    losses = composed_losses(mu, curves)
    bound = max((way.epsilon(left) for way in losses), default=math.inf)
    return min(_by_formulas(mu, curves, delta), bound)


def is_within(mu: float, curves: Counted, epsilon: float, delta: float) -> bool:
    """Return whether the total is known to be (epsilon, delta)-private."""
    if not mu < math.inf:
        return False
    # Loss distributions take long, and are only computed where they are needed.
    quick = _by_formulas(mu, curves, delta) <= epsilon
    return quick or composed_epsilon(mu, curves, delta) <= epsilon


def _by_formulas(mu: float, curves: Counted, delta: float) -> float:
    """Bound epsilon by sums, and by steps on all units."""
    left, alone = delta - certain_failure(curves), math.inf
    if MIN_DELTA <= left < 1.0:
        squares = math.fsum(n * _cost_alone(curve) ** 2 for curve, n in curves)
        alone = gaussian_epsilon(math.sqrt(mu * mu + squares), left)
    return min(_added_up(mu, curves, delta), alone)


def _added_up(mu: float, curves: Counted, delta: float) -> float:
    """Return the sum of epsilons of pairs whose deltas add up to at most `delta`."""
    pairs = pairs_of(curves)
    if mu or pairs is None:
        return math.inf
    if sum(n * Fraction(pair.delta) for pair, n in pairs) > delta:
        return math.inf
    epsilon = sum(n * Fraction(pair.epsilon) for pair, n in pairs)
    if epsilon > sys.float_info.max:
        return math.inf
    nearest = float(epsilon)
    return nearest if nearest >= epsilon else math.nextafter(nearest, math.inf)


def pairs_of(curves: Counted) -> tuple[tuple[ApproximateDP, int], ...] | None:
    """Return mechanisms that all are (epsilon, delta) pairs, with counts; else None."""
    found = tuple((c, n) for c, n in curves if isinstance(c, ApproximateDP))
    return found if len(found) == len(curves) else None


def certain_failure(curves: Counted) -> float:
    """Return the sum of the deltas of (epsilon, delta) pairs."""
    return math.fsum(n * c.delta for c, n in curves if isinstance(c, ApproximateDP))


# -- distributions of losses -----------------------------------------------------------


@functools.lru_cache(maxsize=8)
def composed_losses(mu: float, curves: Counted) -> tuple[LossDistribution, ...]:
    """Return total loss distributions of each order of neighbors; () if too large."""
    step = _grid(mu, curves)
    if step is None:
        return ()
    found: list[LossDistribution] = []
    # Bounds on tails overflow on their way, whatever a caller has asked of numpy.
    with np.errstate(all="ignore"):
        parts = _parts(mu, curves, step)
        while some := list(itertools.islice(parts, _AT_ONCE)):
            some += [(tuple(found), 1)] if found else []
            of_each = [
                [(part[way % len(part)], n) for part, n in some]
                for way in range(max(len(part) for part, _ in some))
            ]
            made = [composed(own, _CUT) for own in of_each]
            if None in made:
                return ()
            found = [way for way in made if way is not None]
    return tuple(found)


def _count_distributions(curves: Counted) -> float:
    """Return the number of composed distributions: a Gaussian, others, and sums."""
    return 1.0 + sum(n * c.steps for c, n in curves) + len(curves) // _AT_ONCE


def _deviation(curve: Curve) -> float:
    """Return about the standard deviation of a mechanism's, or one step's, loss."""
    if isinstance(curve, ApproximateDP):
        return curve.epsilon
    one = 1.0 / curve.noise_multiplier
    square = math.expm1(min(one * one, 50.0))
    spread = min(one, curve.sampling_probability * math.sqrt(square))
    return 2.0 * spread if curve.replaced else spread


def _grid(mu: float, curves: Counted) -> float | None:
    """Return the spacing of losses: a power of two, from public numbers."""
    variance, count = mu * mu, _count_distributions(curves)
    for curve, times in curves:
        deviation = min(_deviation(curve), _MOST_DEVIATION)
        variance += times * curve.steps * deviation**2
    deviation = math.sqrt(variance)
    if deviation >= _MOST_DEVIATION:
        return None
    span = 2.0 * (variance + _REACH * deviation) + 1.0
    if deviation == 0.0:
        return 2.0**-10
    wanted = deviation / (_FINENESS * math.sqrt(count))
    sampled = (c for c, _ in curves if isinstance(c, SubsampledGaussian))
    far = max(map(largest_loss, sampled), default=0.0)
    wanted = max(wanted, min(far / _FAR_POINTS, deviation / 16.0))
    step = math.ldexp(0.5, math.frexp(max(wanted, span / _MOST_POINTS))[1])
    return step if step <= deviation / 16.0 else None


def _parts(
    mu: float, curves: Counted, step: float
) -> Iterator[tuple[tuple[LossDistribution, ...], int]]:
    """Yield the losses of one mechanism of each kind, in one or two orders."""
    if mu > 0.0:  # a Gaussian: a step on all units, of which one is replaced
        yield _sampled_step(SubsampledGaussian("", 1.0, 2.0 / mu, 1, True), step), 1
    for curve, times in curves:
        if isinstance(curve, ApproximateDP):
            yield (_pair_losses(curve, step),), times
        else:
            yield _sampled_step(curve, step), times * curve.steps


def _sampled_step(
    curve: SubsampledGaussian, step: float
) -> tuple[LossDistribution, ...]:
    """Return the losses of one step on a sample."""
    q, sigma = curve.sampling_probability, curve.noise_multiplier
    # Rare losses may be far beyond such a grid: they count as ones without limit.
    far = largest_loss(curve) / step
    last = math.ceil(min(far, _MOST_POINTS / 2.0))
    losses = step * np.arange(last + 1)
    # The same in both directions for a unit that is replaced.
    ways = (replaced_deltas,) if curve.replaced else (leaving_deltas, joining_deltas)
    found = [way(q, sigma, losses) for way in ways]
    # H(P, Q) at -e is 1 - exp(-e) + exp(-e) H(Q, P) at e.
    below = [(np.exp(-losses) * other)[:0:-1] for other in reversed(found)]
    points = np.arange(-last, last + 1)
    return tuple(
        connect_dots(points, np.concatenate(both), step)
        for both in zip(below, found, strict=True)
    )


def _pair_losses(pair: ApproximateDP, step: float) -> LossDistribution:
    """Return losses of randomized response that fails with probability delta."""
    # Its curve is the largest, and linear in exp(epsilon) between the grid points next
    # to its two losses.
    around = [side * pair.epsilon / step for side in (-1.0, 1.0)]
    points = sorted({f(x) for x in around for f in (math.floor, math.ceil)})
    log_odds = step * np.array(points)
    yes = 1.0 / (1.0 + math.exp(-pair.epsilon))
    inside = -yes * np.expm1(np.minimum(log_odds - pair.epsilon, 0.0))
    below = -np.expm1(np.minimum(log_odds, 0.0))
    curve = np.maximum(np.maximum(inside, below), 0.0)
    curve[-1] = 0.0  # at or above epsilon
    curve = pair.delta + (1.0 - pair.delta) * curve
    return connect_dots(points, curve - np.maximum(below, 0.0), step)


class Total(NamedTuple):
    """A composed cost, the `failure` of a model, and the use of a ledger's box."""

    mu: float
    failure: float = 0.0
    curves: Counted = ()
    box: tuple[Fraction | float, ...] = (Fraction(0), Fraction(0), Fraction(0))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at this delta."""
        least = gaussian_epsilon(self.mu, delta)  # refuses a delta out of range
        if not self.failure and not self.curves:
            return least
        mu, lost, pure = self._by_box
        left, found = float((Fraction(delta) - lost) / (1 - lost)), math.inf
        if left >= MIN_DELTA:
            found = (pure + gaussian_epsilon(mu, left)) * _UP
        left = delta - self.failure
        if left < MIN_DELTA:
            return found
        if self.curves:
            return min(found, composed_epsilon(self.mu, self.curves, left))
        return min(found, gaussian_epsilon(self.mu, left))

    @property
    def distance(self) -> float | None:
        """Total variation that Gaussian mechanisms have at most; None with others."""
        if self.curves:
            return None
        mu, lost, pure = self._by_box
        by_box = float(lost + (1 - lost) * Fraction(gaussian_delta(mu, 0.0))) * _UP
        least = gaussian_delta(self.mu, 0.0) + self.failure
        return min(1.0, least, by_box if pure == 0.0 else 1.0)

    @property
    def _by_box(self) -> tuple[float, Fraction, float]:
        """Mu, failures and pure epsilon of all; losses on a grid may cost more."""
        mu2, lost, pure = self.box
        if self.mu == math.inf or math.inf in self.box or not any(self.box):
            return math.inf, Fraction(0), 0.0  # or a ledger without a budget
        return math.sqrt(mu2), Fraction(lost), float(pure)

    @property
    def additive(self) -> float:
        """Sum of all terms that are subtracted from delta."""
        return self.failure + certain_failure(self.curves)


def split_mu(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Split a cost by positive shares of ``mu**2`` that sum to 1."""
    if min(shares) <= 0.0 or abs(math.fsum(shares) - 1.0) > 1e-12:
        raise ValueError(f"shares must be positive and sum to 1, got {shares}")
    return tuple(mu * math.sqrt(share) for share in shares)


# Relative width at which the search for a noise multiplier ends.
_CLOSE = 2.0**-10


def calibrate_sampled(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    steps: int,
    neighbors: Neighbors | str,
    *,
    mu: float = 0.0,
) -> float:
    """Least noise multiplier of steps on Poisson samples, beside Gaussians of `mu`."""
    # A multiple of the largest norm of what one unit adds, also if it is replaced.
    replaced = Neighbors(neighbors) is Neighbors.REPLACE_ONE
    epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
    limit = gaussian_mu(epsilon, delta)  # refuses what is out of range
    curve = SubsampledGaussian("", sampling_probability, 1.0, steps, replaced)
    if not 0.0 <= mu < limit:
        raise ValueError(f"mu must be at least 0 and below {limit:.6g}, got {mu}")
    left = math.sqrt((limit - mu) * (limit + mu))
    high = (2.0 if replaced else 1.0) * math.sqrt(steps) / left
    if sampling_probability == 1.0:
        return high * (1.0 + _SLACK)
    return _calibrated(epsilon, delta, curve, high, mu)


@functools.lru_cache(maxsize=256)
def _calibrated(
    epsilon: float, delta: float, curve: SubsampledGaussian, high: float, mu: float
) -> float:
    """Return a sufficient multiplier close to an insufficient one; `high` suffices."""

    def excess(sigma: float) -> float:
        """Decrease in sigma; positive for insufficient multipliers."""
        counted = ((replace(curve, noise_multiplier=sigma), 1),)
        spent = composed_epsilon(mu, counted, delta)
        return math.log(spent / epsilon) if spent > 0.0 else -math.inf

    low, at_low = high, -math.inf
    while at_low <= 0.0:
        high, at_high = low, at_low
        low /= 1.5 if at_low > -2.0 else 4.0
        at_low = excess(low)
    while high > low * (1.0 + _CLOSE):
        # Just below the root by interpolation, and away from both ends.
        width, share = math.log(high / low), 0.5
        if math.isfinite(at_high):
            share = at_low / (at_low - at_high) + 0.25 * _CLOSE / width
        edge = min(0.5, 0.3 * _CLOSE / width)
        middle = low * math.exp(width * min(max(share, edge), 1.0 - edge))
        found = excess(middle)
        if found > 0.0:
            low, at_low = middle, found
        else:
            high, at_high = middle, found
    # What suffices without sampling has no room for rounding errors of its sum.
    return high if math.isfinite(at_high) else high * (1.0 + _SLACK)


def sampled_gaussian(
    name: str,
    sensitivity: float,
    noise_multiplier: float,
    shape: tuple[int, ...],
    **further: Any,
) -> SampledGaussian:
    """Return a mechanism whose noise is this multiple of its charged sensitivity."""
    summed = 2.0 * further.get("summation_error", 0.0)
    noise_std = noise_multiplier * (sensitivity + summed)
    for _ in range(200):
        if not noise_std < math.inf:  # the grid's own share outgrows the noise
            break
        mechanism = SampledGaussian(name, sensitivity, noise_std, shape, **further)
        if mechanism.noise_multiplier >= noise_multiplier:
            return mechanism
        needed = noise_multiplier * mechanism.charged_sensitivity
        noise_std = max(needed, noise_std * (1.0 + 2.0**-50))
    raise ValueError(
        f"the budget of {name!r} (noise_multiplier = {noise_multiplier:g}) is too "
        f"small for {shape} numbers in float64 arithmetic; raise epsilon or delta, or "
        "lower the noise_multiplier"
    )


# More than the relative rounding errors of sums of as many masses as a grid may have,
# and of the normal distribution's inverse.
_SUMS = 1e-9
# More than the rounding of a few operations.
_UP = 1.0 + 2.0**-50
_SMALL_EPSILON = 1e-4

# Above such costs a relative error of a probability is a large one of its complement.
_LARGE_MU = 4.0
_MOST_PARTS = 64


def least_mu(mu: float, curves: Counted, failure: float) -> float:
    """Bound the least mu of Gaussians of `mu` and `curves` together, at a failure."""
    if not curves or mu == math.inf:
        return mu
    each = (math.sqrt(n) * _cost_alone(curve) for curve, n in curves)
    alone = math.inf if certain_failure(curves) > failure else math.hypot(mu, *each)
    bounds, parts = [alone], 1
    while parts <= _MOST_PARTS and (parts == 1 or min(bounds) > _LARGE_MU):
        # Parts of a fit cost as the whole does; their failures add up.
        share = tuple(
            (replace(c, steps=math.ceil(c.steps / parts)), times)
            if isinstance(c, SubsampledGaussian)
            else (c, times)
            for c, times in curves
        )
        of_part = _by_losses(mu / math.sqrt(parts), share, failure / parts)
        bounds.append(math.sqrt(parts) * of_part)
        if any(curve.steps <= parts for curve, _ in curves):
            break
        parts *= 2
    return min(bounds)


def pure_mu(epsilon: float) -> float:
    r"""Return :math:`2 \Phi^{-1}(e^\epsilon / (1 + e^\epsilon))`, a cost in mu."""
    # The quantile of a small epsilon has lost its digits: its tangent at 0 is above it.
    if epsilon < _SMALL_EPSILON:
        return math.sqrt(0.5 * math.pi) * epsilon * (1.0 + _SUMS)
    return -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1.0 + _SUMS)


def _cost_alone(curve: Curve) -> float:
    """Return the cost of a pair apart from its delta, or of unsampled steps."""
    if isinstance(curve, ApproximateDP):
        return pure_mu(curve.epsilon)
    distance = 2.0 if curve.replaced else 1.0
    return distance * math.sqrt(curve.steps) / curve.noise_multiplier


def _by_losses(mu: float, curves: Counted, failure: float) -> float:
    """Return the least mu by loss distributions, for either order of neighbors."""
    ways = composed_losses(mu, curves) if failure > 0.0 else ()
    errors = TRANSFORM * _count_distributions(curves)
    return max((_of_losses(way, failure, errors) for way in ways), default=math.inf)


def _of_losses(losses: LossDistribution, failure: float, errors: float) -> float:
    """Return the least mu of a loss distribution, for alpha of at least 1."""
    # Its curve is piecewise linear, (1 + r)(a - alpha b) + errors, with the
    # probabilities a and b of a loss that is no smaller.
    start = max(1 - losses.first, 0)
    masses = np.maximum(losses.masses[start:], 0.0)
    values = losses.step * losses.places[start:]
    above = np.cumsum(masses[::-1])[::-1] + losses.infinite
    below = np.cumsum((masses * np.exp(-values))[::-1])[::-1]
    above = above * (1.0 + RELATIVE) * (1.0 + _SUMS) + errors
    below = below * (1.0 + RELATIVE) * (1.0 - _SUMS)
    if losses.infinite * (1.0 + RELATIVE) + errors > failure:
        return math.inf
    counts = above > failure
    yes = (above[counts] - failure) / (1.0 - failure)
    no = below[counts] / (1.0 - failure)
    # A line that is above 1 where alpha is 0 is below the curve only where it is 0.
    with np.errstate(divide="ignore"):
        found = np.where(yes < 1.0, ndtri(np.minimum(yes, 1.0)), math.inf)
        found = np.where(no < 1.0, found - ndtri(np.minimum(no, 1.0)), -math.inf)
    return max(float(np.max(found, initial=0.0)) * (1.0 + _SUMS), 0.0)
