"""Workloads: weights of the rows in the sum of each step of a stream.

Accumulators sum rows that arrive in batches, with the same result for any batches:
``push(rows)`` returns the sums after each row, of shape (b, width).
Power series are first columns of lower-triangular Toeplitz matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import fftconvolve, lfilter
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval
from .._base.strategies import register


class RunningSums:
    """Sums of all rows so far."""

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


def toeplitz_matrix(column) -> np.ndarray:
    """Return the lower-triangular Toeplitz matrix with a given first column."""
    column = np.asarray(column, dtype=np.float64)
    return toeplitz(column, np.zeros_like(column))


def multiply_series(first, second, n: int) -> np.ndarray:
    """First n coefficients of a product of two power series."""
    first, second = first[:n], second[:n]
    if n <= _DIRECT_LENGTH:
        return np.convolve(first, second)[:n]
    return fftconvolve(first, second)[:n]


def inverse_series(column, n: int | None = None) -> np.ndarray:
    """Return n coefficients of 1 / c(z), by default as many as c has; c(0) is not 0."""
    impulse = np.zeros(len(column) if n is None else n)
    impulse[0] = 1.0
    return lfilter([1.0], column, impulse)


def binomial_series(power: float, n: int, ratio: float = 1.0) -> np.ndarray:
    r"""Return n coefficients of :math:`(1 - \beta z)^p`, for `ratio` :math:`\beta`."""
    j = np.arange(1, n)
    factors = np.ones(n)
    factors[1:] = ratio * (j - 1 - power) / j
    return np.cumprod(factors)


# Counts beyond are not exact in float64.
MOST_STEPS = 2**53


class Workload:
    """Weights A[t, i] of rows i in the sum of step t.

    Every workload is a *core*, whose weights only depend on t - i and which is
    factorized, divided by public numbers: if `normalized`, by the sum of its weights.
    If `growing`, weights of old rows do not decay, and only the trivial factorization
    has bounded column norms for all lengths.
    """

    name = "prefix"
    growing = True
    normalized = False

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
        return toeplitz_matrix(self.column(n))

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
        return float(self.decay) ** np.arange(n)

    def root(self, n, power=0.5):
        return binomial_series(-power, n, float(self.decay))

    def totals(self, steps):
        steps, rate = np.asarray(steps, dtype=np.float64), float(self.decay)
        return np.expm1(steps * np.log(rate)) / (rate - 1.0)

    def sums(self, width):
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
        return (np.arange(n) < self._size).astype(np.float64)

    def root(self, n, power=0.5):
        ends = np.zeros(n)
        ends[:: self._size] = binomial_series(power, -(-n // self._size))
        return multiply_series(binomial_series(-power, n), ends, n)

    def totals(self, steps):
        return np.minimum(np.asarray(steps, dtype=np.float64), self._size)

    def sums(self, width):
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
