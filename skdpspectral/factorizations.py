r"""Workloads of streams and factorizations that shape their noise: pure arithmetic.

A stream of rows x is released as :math:`C x + Z` with independent noise Z, from which
:math:`x + C^{-1} Z` and every weighted sum of it follow. A row moves :math:`C x` by at
most its own change times :math:`|C|`, the largest norm of a column of C, whose scale is
such that noise of single steps is not smaller than Z. Power series are first columns of
lower-triangular Toeplitz matrices. That of a buffered linear one (McMahan, Upadhyay et
al. 2024) is a sum of q geometric series, :math:`1, \sum_i \omega_i, \sum_i \omega_i
\theta_i, \sum_i \omega_i \theta_i^2, \dots`, close to the root of a workload.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy.fft import irfft, rfft
from scipy.linalg import toeplitz
from scipy.signal import fftconvolve, lfilter
from scipy.special import expit
from sklearn.base import BaseEstimator

from ._base.sklearn_compat import Interval
from ._base.strategies import register


class RunningSums:
    """Sums of all rows so far; ``push`` gives the same for any batches of them."""

    def __init__(self, width: int):
        self._total = np.zeros(width)

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row, of shape (b, width), overwriting the rows."""
        rows[0] += self._total
        # Row after row, whatever the batch: never pairwise.
        sums = np.add.accumulate(rows, axis=0, out=rows)
        self._total = sums[-1].copy()
        return sums


class ExponentialSums:
    """Sums whose old rows fade by a factor per step."""

    def __init__(self, width: int, decay: float):
        self._decay = decay
        self._state = np.zeros((1, width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row."""
        sums, self._state = lfilter(
            [1.0], [1.0, -self._decay], rows, axis=0, zi=self._state
        )
        return sums


class WindowSums:
    """Sums of the last k rows: differences of running sums."""

    def __init__(self, width: int, length: int):
        self._length, self._running = length, RunningSums(width)
        # Running sums of the last k steps, oldest first.
        self._past = np.zeros((1, width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row."""
        known = np.concatenate([self._past, self._running.push(rows)])
        n_past, n_rows = len(self._past), len(rows)
        # The sum before the window of each new row; before the first row it is 0,
        # which is what the oldest known sum is until the window is full.
        before = np.arange(n_past, n_past + n_rows) - self._length
        sums = known[n_past:] - known[np.maximum(before, 0)]
        self._past = known[-min(self._length, len(known)) :].copy()
        return sums


# Products of shorter series are summed directly, to the last bit of each term.
_DIRECT_LENGTH = 4096


def multiply_series(first, second, n: int) -> np.ndarray:
    """First n coefficients of a product of two power series."""
    first, second = first[:n], second[:n]
    if n <= _DIRECT_LENGTH:
        return np.convolve(first, second)[:n]
    return fftconvolve(first, second)[:n]


def binomial_series(power: float, n: int, ratio: float = 1.0) -> np.ndarray:
    r"""Return n coefficients of :math:`(1 - \beta z)^p`, for `ratio` :math:`\beta`."""
    j = np.arange(1, n)
    factors = np.ones(n)
    factors[1:] = ratio * (j - 1 - power) / j
    return np.cumprod(factors)


# Counts beyond are not exact in float64.
MOST_STEPS = 2**53


class Workload:
    """Weights A[t, i] of rows i in the sum of step t; a core has weights by t - i."""

    name = "prefix"
    growing = True  # weights of old rows do not decay
    normalized = False  # divided by the sum of the core's weights

    def column(self, n: int) -> np.ndarray:
        """Return the first n weights of the core, starting with the newest row."""
        return np.ones(n)

    def root(self, n: int, power: float = 0.5) -> np.ndarray:
        """Return n coefficients of a power of the core, for 1/2 or -1/2."""
        return binomial_series(-power, n)

    def totals(self, steps) -> np.ndarray:
        """Return the sum of the core's weights at steps 1, 2, ..."""
        return np.asarray(steps, dtype=np.float64)

    def divisors(self, steps) -> np.ndarray:
        """Return the divisors of the core at steps 1, 2, ..."""
        return self.totals(steps) if self.normalized else np.ones(len(steps))

    def core_matrix(self, n: int) -> np.ndarray:
        """Return the core as a matrix of shape (n, n)."""
        return toeplitz(self.column(n), np.zeros(n))

    def matrix(self, n: int) -> np.ndarray:
        """Return the workload as a matrix of shape (n, n)."""
        return self.core_matrix(n) / self.divisors(np.arange(1, n + 1))[:, None]

    def sums(self, width: int):
        """Return an accumulator of weighted rows of a given width, step by step."""
        return RunningSums(width)


@register
class Prefix(BaseEstimator, Workload):
    """Sums of all rows so far."""

    _parameter_constraints: ClassVar[dict] = {}


@register
class Average(BaseEstimator, Workload):
    """Means of all rows so far."""

    _parameter_constraints: ClassVar[dict] = {}
    name = "average"
    normalized = True


@register
@dataclass(eq=False, repr=False)
class Exponential(BaseEstimator, Workload):
    r"""Sums with weights :math:`\beta^{t - i}`, which decay with age.

    Parameters
    ----------
    decay : float
        Factor per step, :math:`\beta` in (0, 1).

    Examples
    --------
    >>> from skdpspectral import JMECovariance
    >>> from skdpspectral.covariance import Exponential
    >>> JMECovariance(workload=Exponential(0.9)).set_params(workload__decay=0.99)
    JMECovariance(workload=Exponential(decay=0.99))
    """

    _parameter_constraints: ClassVar[dict] = {
        "decay": [Interval(Real, 0, 1, closed="neither")]
    }
    name = "exponential"
    growing = False

    decay: float

    def column(self, n):
        """Return the first n weights."""
        return float(self.decay) ** np.arange(n)

    def root(self, n, power=0.5):
        """Return n coefficients of a power of the core."""
        return binomial_series(-power, n, float(self.decay))

    def totals(self, steps):
        """Return the sums of weights at these steps."""
        steps, rate = np.asarray(steps, dtype=np.float64), float(self.decay)
        return np.expm1(steps * np.log(rate)) / (rate - 1.0)

    def sums(self, width):
        """Return an accumulator of rows of this width."""
        return ExponentialSums(width, float(self.decay))


@register
@dataclass(eq=False, repr=False)
class Window(BaseEstimator, Workload):
    """Means of the last k rows, or of all rows while there are fewer.

    Pass it to :class:`~skdpspectral.JMECovariance` as ``workload=Window(k)``.

    Parameters
    ----------
    length : int
        Number of rows k, from 1 to 2**53.
    """

    _parameter_constraints: ClassVar[dict] = {
        "length": [Interval(Integral, 1, MOST_STEPS, closed="both")]
    }
    name = "window"
    growing = False
    normalized = True

    length: int

    @property
    def _size(self) -> int:
        return int(self.length)

    def column(self, n):
        """Return the first n weights."""
        return (np.arange(n) < self._size).astype(np.float64)

    def root(self, n, power=0.5):
        """Return n coefficients of a power of the core."""
        ends = np.zeros(n)
        ends[:: self._size] = binomial_series(power, -(-n // self._size))
        return multiply_series(binomial_series(-power, n), ends, n)

    def totals(self, steps):
        """Return the sums of weights at these steps."""
        return np.minimum(np.asarray(steps, dtype=np.float64), self._size)

    def sums(self, width):
        """Return an accumulator of rows of this width."""
        return WindowSums(width, self._size)


@register
@dataclass(eq=False, repr=False)
class BISR(BaseEstimator):
    """Banded inverse of the square root; use ``factorization=BISR(bandwidth)``.

    Parameters
    ----------
    bandwidth : int, default=64
        Width of the band, at least 1. Twice as many rows of noise are kept in memory.
    """

    _parameter_constraints: ClassVar[dict] = {
        "bandwidth": [Interval(Integral, 1, None, closed="left")]
    }

    bandwidth: int = 64


# -- factorizations --------------------------------------------------------------------

# Rows of noise that are shaped together.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 32, 2048


class NoiseFilter:
    """Filter of rows of length `width`, in blocks of `block` rows; here of C = I."""

    block = _SMALLEST_BLOCK

    def __init__(self, width: int):
        self.width = width

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of :math:`C^{-1} Z`, in whole blocks but for the end."""
        if len(rows) <= self.block:
            return self._push_block(rows)
        starts = range(0, len(rows), self.block)
        return np.concatenate(
            [self._push_block(rows[s : s + self.block]) for s in starts]
        )

    def _push_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise, at most a block of them."""
        return rows


class Buffered(NoiseFilter):
    """Of buffers S by blocks of steps: W = Z - weight S, then S = decay S + W."""

    def __init__(self, width: int, decay: np.ndarray, weight: np.ndarray):
        self.width = width
        self._decay, self._weight = decay, weight
        self._state = np.zeros((len(decay), width))

    def _push_block(self, rows):
        n_rows, n_buffers = len(rows), len(self._state)
        step = _block_step(tuple(self._decay), tuple(self._weight), n_rows)
        moved = step @ np.concatenate([rows, self._state])
        self._state = moved[n_rows:]
        return moved[: len(moved) - n_buffers]


@functools.lru_cache(maxsize=256)
def _block_step(
    decays: tuple[float, ...], weights: tuple[float, ...], n_rows: int
) -> np.ndarray:
    """Return the matrix that maps (rows, buffers) to (shaped rows, buffers)."""
    n_buffers = len(decays)
    decay, weight = np.array(decays), np.array(weights)
    state = np.zeros((n_buffers, n_rows + n_buffers))
    state[:, n_rows:] = np.eye(n_buffers)
    out = np.empty((n_rows, n_rows + n_buffers))
    for t in range(n_rows):
        out[t] = -weight @ state
        out[t, t] += 1.0
        state = decay[:, None] * state + out[t]
    return np.concatenate([out, state])


class Convolution(NoiseFilter):
    """The filter of a Toeplitz inverse, given by its first column, zero beyond."""

    def __init__(self, width: int, column: np.ndarray, block: int):
        self.width, self.block = width, block
        n_parts = -(-len(column) // block)
        parts = np.zeros(n_parts * block)
        parts[: len(column)] = column
        # Part j of the column, over the double block that a transform spans.
        self._parts = rfft(parts.reshape(n_parts, block), 2 * block, axis=1)
        self._past: list[np.ndarray] = []
        self._tail = np.zeros((block, width))

    def _push_block(self, rows):
        newest = rfft(rows, 2 * self.block, axis=0)
        self._past = [newest, *self._past[: len(self._parts) - 1]]
        product = self._parts[0][:, None] * newest
        for part, past in zip(self._parts[1:], self._past[1:], strict=False):
            product += part[:, None] * past
        shaped = irfft(product, 2 * self.block, axis=0)
        out = shaped[: len(rows)] + self._tail[: len(rows)]
        self._tail = shaped[self.block :]
        return out


class Paired(NoiseFilter):
    """The filters of two parts of a row; the noise of the second is times `stretch`."""

    def __init__(
        self, first: NoiseFilter, second: NoiseFilter, *, stretch: float = 1.0
    ):
        self._parts, self._stretch = (first, second), stretch
        self.width = first.width + second.width
        # Blocks are powers of two: the larger is whole blocks of the smaller.
        self.block = max(first.block, second.block)

    def _push_block(self, rows):
        ends = self._parts[0].width
        sides = np.ascontiguousarray(rows[:, :ends]), rows[:, ends:].copy()
        shaped = [p.push(side) for p, side in zip(self._parts, sides, strict=True)]
        return np.concatenate([shaped[0], self._stretch * shaped[1]], axis=1)


# Of least error for prefix sums over 10**3, 10**4, ... steps, by a numerical search:
# logits of the decays, and logarithms of the weights.
_FIRST_POWER = 3
_LOGITS = [
    [-0.20188058, 1.7901906, 3.55837256, 5.87563274],
    [0.67717499, 3.15290089, 5.46878987, 8.12473924],
    [1.35181827, 4.32067715, 7.1929195, 10.31160903],
    [1.95493779, 5.42880463, 8.84524316, 12.45686882],
    [2.5232269, 6.50997387, 10.46264388, 14.57540229],
    [3.07203317, 7.57572557, 12.05900751, 16.67504528],
    [3.60866517, 8.63070845, 13.64052924, 18.76059613],
]
_LOG_WEIGHTS = [
    [-1.76004854, -1.77886759, -2.37426157, -2.70674129],
    [-1.27692326, -1.96166956, -3.04517291, -3.78961935],
    [-1.12036393, -2.27981249, -3.69189531, -4.82272571],
    [-1.10673853, -2.65184429, -4.3519698, -5.83280557],
    [-1.17553669, -3.05551238, -5.02916669, -6.83533853],
    [-1.29709621, -3.48181478, -5.72263249, -7.83667175],
    [-1.4542788, -3.92548491, -6.43007186, -8.83924404],
]
_TABLE = np.hstack([_LOGITS, _LOG_WEIGHTS])


# Norms are evaluated in float64: rounded up by more than any of them is off.
_ROUND_UP = 1.0 + 1e-9

# Errors of the noise stay below 2**-6 of a step of its grid, and 16 standard deviations
# of it below 2**51 steps, where float64 holds integers and their sums exactly.
_MOST_AMPLIFIED_STEPS = 2.0**39
_MOST_NOISE_STEPS = 2.0**47


class Factorization:
    """A matrix C: the norm of its columns, and the filter that applies its inverse."""

    name = "trivial"
    max_steps: int | None = None  # None: any number
    column_norm = 1.0  # upper bound for `max_steps` steps
    # How many times an error in C^-1 Z, relative to terms of its sum, is larger in Z:
    # about 1 for recursions that fade, bounded by row sums of |C| |C^-1| for others.
    amplification = 0.0
    noise_gain = 1.0  # bound on the deviation of C^-1 Z at any step, in that of Z

    def check_precision(self, steps: float) -> None:
        """Refuse noise that float64 can't hold; that of Z is given in grid steps."""
        precise = self.amplification * steps <= _MOST_AMPLIFIED_STEPS
        if not (precise and self.noise_gain * steps <= _MOST_NOISE_STEPS):
            raise ValueError(
                f'factorization="{self.name}" of this workload amplifies rounding '
                "errors until the noise is coarser than its grid, or larger than "
                'float64 can hold, which would reveal the rows: use "trivial" or "blt"'
            )

    def filter(self, width: int) -> NoiseFilter:
        """Return a filter of rows of a width: Z in, :math:`C^{-1} Z` out."""
        return NoiseFilter(width)

    def column(self, n: int) -> np.ndarray:
        """Return the first n entries of the first column of C."""
        return np.eye(1, n)[0]

    def matrix(self, n: int) -> np.ndarray:
        """Return C as an array of shape (n, n)."""
        return toeplitz(self.column(n), np.zeros(n))


class Banded(Factorization):
    """A Toeplitz matrix by the first columns, from 1 on, of its inverse and itself."""

    def __init__(self, name: str, inverse: np.ndarray, column: np.ndarray):
        self.name, self.max_steps = name, len(column)
        self._inverse, self._column = inverse, column
        self.column_norm = _ROUND_UP * float(np.linalg.norm(column))
        with np.errstate(over="ignore"):
            sums = [float(np.abs(part).sum()) for part in (column, inverse)]
            self.noise_gain = _ROUND_UP * float(np.linalg.norm(inverse))
        self.amplification = sums[0] * sums[1]

    def filter(self, width):
        """Return a filter by blocked fast Fourier transforms."""
        aim = 2 ** int(np.ceil(np.log2(max(1, len(self._inverse) / 16))))
        block = min(max(aim, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        return Convolution(width, self._inverse, block)

    def column(self, n):
        """Return the first n entries of the first column."""
        return self._column[:n]


class BufferedToeplitz(Factorization):
    """A matrix of buffers with decays in (0, 1) over n steps; None for any number."""

    name = "blt"
    amplification = 1.0

    def __init__(self, decay, weight, n: int | None):
        self.decay = np.asarray(decay, dtype=np.float64)
        self.weight = np.asarray(weight, dtype=np.float64)
        self.max_steps = n
        # |C|^2 = 1 + sum of w_i w_j (1 - (t_i t_j)^(n - 1)) / (1 - t_i t_j)
        products = np.outer(self.decay, self.decay)
        shares = 1.0 if n is None else -np.expm1((n - 1) * np.log(products))
        square = 1.0 + self.weight @ (shares / (1.0 - products)) @ self.weight
        self.column_norm = _ROUND_UP * math.sqrt(square)
        r, roots = self.inverse_parts()
        # The 2-norm of the first column of the inverse, over all steps.
        total = 1.0 + np.real(r @ (1.0 / (1.0 - np.outer(roots, roots))) @ r)
        self.noise_gain = _ROUND_UP * math.sqrt(max(float(total), 1.0))

    def filter(self, width):
        """Return a filter in constant memory."""
        return Buffered(width, self.decay, self.weight)

    def column(self, n):
        """Return the first n entries of the first column."""
        powers = self.decay[None, :] ** np.arange(n - 1)[:, None]
        return np.concatenate([[1.0], powers @ self.weight])

    def inverse_parts(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Return r, :math:`\phi` with :math:`(C^{-1})_j = -\sum r \phi^{j-1}`."""
        ones = np.ones(len(self.decay))
        matrix = np.diag(self.decay) - np.outer(ones, self.weight)
        roots, vectors = np.linalg.eig(matrix)
        shares = np.linalg.solve(vectors.astype(complex), ones.astype(complex))
        return (self.weight @ vectors) * shares, roots


def prefix_buffers(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return decays and weights for prefix sums over n steps, from the table."""
    place = math.log10(max(n, 10**_FIRST_POWER)) - _FIRST_POWER
    places = np.arange(len(_TABLE))
    row = np.array([np.interp(place, places, column) for column in _TABLE.T])
    return expit(row[:4]), np.exp(row[4:])


def best_buffered(workload: Workload, n: int | None) -> BufferedToeplitz:
    """Return four buffers for a workload over n steps, the best of some scaled ones."""
    if workload.growing:
        return BufferedToeplitz(*prefix_buffers(n), n)
    if isinstance(workload, Window):
        span = float(workload.length)
        shares = np.geomspace(0.05, 3.0, 25)
        ratios = [1.0 - share / span for share in shares if share < 0.95 * span]
    else:
        ratios = [float(workload.decay)]
        span = 1.0 / (1.0 - ratios[0])
    if not ratios:  # a window of one row
        return BufferedToeplitz([0.5], [0.0], n)
    steps = int(min(n or math.inf, max(64, math.ceil(20.0 * span)), 200_000))
    weights = workload.column(steps)
    falling = 1.0 if n is None else (steps - np.arange(steps)) / steps

    def error(found: BufferedToeplitz) -> float:
        """Return the error, of one step far out where there is no end."""
        r, roots = found.inverse_parts()
        powers = roots[None, :] ** np.arange(steps - 1)[:, None]
        inverse = np.concatenate([[1.0], -np.real(powers @ r)])
        response = multiply_series(weights, inverse, steps)
        return found.column_norm * math.sqrt(np.sum(falling * response**2))

    lengths = [10.0**power for power in (3, 3.5, 4, 5, 6) if power < 4 or span > 100]
    last = None if n is None else steps
    candidates = []
    for length in lengths:
        decay, weight = prefix_buffers(int(length))
        candidates += [BufferedToeplitz(q * decay, q * weight, last) for q in ratios]
    best = min(candidates, key=error)
    return BufferedToeplitz(best.decay, best.weight, n)


NAMES = ("trivial", "sqrt", "bisr", "blt")
# Columns of Toeplitz matrices, and rows of noise that "sqrt" keeps, are in memory.
_LARGEST_BANDED = 10**7


def needs_steps(workload: Workload, factorization) -> bool:
    """Whether norms or memory are not bounded for any number of steps."""
    endless = ["trivial"] if workload.growing else ["trivial", "blt"]
    return isinstance(factorization, BISR) or factorization not in endless


def factorize(
    workload: Workload, factorization="blt", n_steps: int | None = None
) -> Factorization:
    """Return the factorization of the core of a workload, for a number of steps."""
    name = "bisr" if isinstance(factorization, BISR) else factorization
    if not (isinstance(name, str) and name in NAMES):
        known = ", ".join(map(repr, NAMES))
        raise ValueError(f"factorization must be BISR or one of {known}, got {name!r}")
    if n_steps is None and needs_steps(workload, name):
        raise ValueError(
            f'n_steps must be known for factorization="{name}" of {workload}'
        )
    if name == "trivial":
        return Factorization()
    if name == "blt":
        return best_buffered(workload, n_steps)
    if n_steps > _LARGEST_BANDED:
        raise ValueError(
            f'factorization="{name}" stores a number for each step: at most '
            f'{_LARGEST_BANDED} steps; choose a smaller horizon, or use "blt", which '
            "needs constant memory"
        )
    if name == "bisr":
        banded = factorization if isinstance(factorization, BISR) else BISR()
        band = workload.root(min(int(banded.bandwidth), n_steps), -0.5)
        return Banded(name, band, lfilter([1.0], band, np.eye(1, n_steps)[0]))
    return Banded(name, workload.root(n_steps, -0.5), workload.root(n_steps))


class Pair(Factorization):
    """One matrix for the first entries of a row, and another for the rest."""

    def __init__(self, first: Factorization, second: Factorization, n_first: int):
        self._parts, self._n_first = (first, second), n_first
        self.name = f"{first.name} and {second.name}"
        known = [part.max_steps for part in self._parts if part.max_steps is not None]
        self.max_steps = min(known, default=None)
        self.column_norm = first.column_norm
        # A longer second has larger noise instead; for a shorter one, the rest must be
        # weighted, as noise of single steps must not be smaller than Z.
        self.ratio = max(first.column_norm / second.column_norm, 1.0)
        self.stretch = max(second.column_norm / first.column_norm, 1.0)
        self.amplification = max(first.amplification, second.amplification)
        self.noise_gain = max(first.noise_gain, self.stretch * second.noise_gain)

    def filter(self, width):
        """Return a filter of rows of this width."""
        sizes = self._n_first, width - self._n_first
        parts = [
            part.filter(size) for part, size in zip(self._parts, sizes, strict=True)
        ]
        return Paired(*parts, stretch=self.stretch)


class NoiseGain:
    """Variances of correlated noise at each step, for independent unit noise Z."""

    def __init__(self, workload: Workload, factorization: Factorization):
        self._filter = factorization.filter(1)
        self._response, self._total = workload.sums(1), 0.0
        self._ready, self._first = np.zeros((0, 1)), 1.0

    def push(self, n_steps: int) -> np.ndarray:
        """Return the variances of the noise in the core's sums at the next steps."""
        sums = self._response.push(self._impulse(n_steps))[:, 0] ** 2
        sums[0] += self._total
        np.add.accumulate(sums, out=sums)
        self._total = sums[-1]
        return sums

    def _impulse(self, count: int) -> np.ndarray:
        """Return the next entries of the first column of the inverse."""
        missing = count - len(self._ready)
        if missing > 0:
            block = self._filter.block
            rows = np.zeros((-(-missing // block) * block, 1))
            rows[0], self._first = self._first, 0.0
            self._ready = np.concatenate([self._ready, self._filter.push(rows)])
        out, self._ready = self._ready[:count].copy(), self._ready[count:]
        return out
