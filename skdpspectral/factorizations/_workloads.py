"""Workloads: weights of the rows in the sum of each step of a stream.

Accumulators sum rows that arrive in batches, with the same result for any batches:
``push(rows)`` returns the sums after each row, of shape (b, width). Their ``skip(n)``
counts the next n rows as zeros; windows start again after them.
Power series are first columns of lower-triangular Toeplitz matrices.
"""

from __future__ import annotations

import math
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

    def skip(self, n_rows: int) -> None:
        """Continue after missing rows."""


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

    def skip(self, n_rows: int) -> None:
        self._state = self._state * self._decay**n_rows


class WindowSums:
    """Sums of the last k rows: differences of running sums."""

    def __init__(self, width: int, length: int):
        self._width, self._length = width, length
        self._begin()

    def _begin(self) -> None:
        self._running = RunningSums(self._width)
        # Running sums of the last k steps, oldest first.
        self._past = np.zeros((1, self._width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        known = np.concatenate([self._past, self._running.push(rows)])
        n_past, n_rows = len(self._past), len(rows)
        # The sum before the window of each new row; before the first row it is 0,
        # which is what the oldest known sum is until the window is full.
        before = np.arange(n_past, n_past + n_rows) - self._length
        sums = known[n_past:] - known[np.maximum(before, 0)]
        self._past = known[-min(self._length, len(known)) :].copy()
        return sums

    def skip(self, n_rows: int) -> None:
        """Start again after missing rows."""
        self._begin()


class DenseSums:
    """Sums with the weights of a lower-triangular array; keeps all rows."""

    def __init__(self, width: int, weights: np.ndarray):
        self._weights = weights
        self._rows = np.zeros((len(weights), width))
        self._step = 0

    def push(self, rows: np.ndarray) -> np.ndarray:
        start, stop = self._step, self._step + len(rows)
        self._rows[start:stop] = rows
        sums = np.empty((len(rows), self._rows.shape[1]))
        for offset, step in enumerate(range(start, stop)):
            # One product a step, so that its bits do not depend on the batch.
            sums[offset] = self._weights[step, : step + 1] @ self._rows[: step + 1]
        self._step = stop
        return sums

    def skip(self, n_rows: int) -> None:
        self._step += n_rows


# Products of shorter series are summed directly, to the last bit of each term.
_DIRECT_LENGTH = 4096


def toeplitz_matrix(column) -> np.ndarray:
    """Return the lower-triangular Toeplitz matrix with a given first column."""
    column = np.asarray(column, dtype=np.float64)
    return toeplitz(column, np.zeros_like(column))


def scale_to_unit(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return an array scaled exactly to a largest modulus in [1, 2), and the exponent.

    The numbers must be finite, and not all zero: ``values == scaled * 2**exponent``.
    Values below 1e-301 stay below 1.
    """
    # Not beyond what a float can undo.
    exponent = max(int(np.frexp(np.abs(values).max())[1]) - 1, -1000)
    return np.ldexp(values, -exponent), exponent


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


def root_series(column) -> np.ndarray:
    """Return as many coefficients of the positive square root of a(z) as are given."""
    root = np.zeros(len(column))
    root[0] = np.sqrt(column[0])
    for j in range(1, len(column)):
        rest = np.dot(root[1:j], root[j - 1 : 0 : -1])
        root[j] = (column[j] - rest) / (2.0 * root[0])
    return root


def binomial_series(power: float, n: int, ratio: float = 1.0) -> np.ndarray:
    r"""Return n coefficients of :math:`(1 - \beta z)^p`, for `ratio` :math:`\beta`."""
    j = np.arange(1, n)
    factors = np.ones(n)
    factors[1:] = ratio * (j - 1 - power) / j
    return np.cumprod(factors)


def spread_series(column, stride: int, n: int) -> np.ndarray:
    """Coefficients of c(z^k) for a stride k."""
    out = np.zeros(n)
    out[::stride] = column[: len(out[::stride])]
    return out


# Squares of weights must not underflow beside those of other rows.
_LEAST_SHARE = 1e-60

# A sum that is smaller, beside that of absolute weights, is a difference.
_LEAST_SUM = 1e-6


def check_triangular(name: str, matrix, *, singular: bool = False) -> np.ndarray:
    """Return a lower-triangular float64 array of finite numbers, or raise an error.

    With `singular`, zeros on the diagonal are allowed.
    """
    try:
        matrix = np.asarray(matrix)
        if matrix.dtype.kind not in "iufO":
            raise TypeError
        matrix = matrix.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(
            f"{name} must be a square array with one row per step, got shape "
            f"{matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must contain finite numbers")
    if np.any(np.triu(matrix, 1)):
        raise ValueError(
            f"{name} must be lower-triangular: no step can depend on later rows"
        )
    diagonal = np.abs(np.diag(matrix))
    if not singular and diagonal.min() <= 1e-8 * np.abs(matrix).max():
        raise ValueError(
            f"{name} is singular, or nearly so: its diagonal must not have zeros"
        )
    return matrix


def check_workload_weights(
    weights, name: str = "workload", *, contrast: bool = False
) -> np.ndarray:
    """Return weights of shape (n, n) for a mean and a covariance, or raise an error.

    Row t holds the weights of rows 0..t. With `contrast`, weights of a step may add up
    to 0 or less: no mean is made of them.
    """
    weights = check_triangular(name, weights, singular=True)
    sizes = np.abs(weights)
    largest = sizes.max(axis=1)
    if not largest.min() > 0.0:
        raise ValueError(
            f"{name} must have at least one nonzero weight in each row: a mean and a "
            "covariance are computed with them"
        )
    if largest.min() < _LEAST_SHARE * largest.max():
        raise ValueError(
            f"{name} must have rows of similar scale: the largest weight of a row is "
            f"below {_LEAST_SHARE:g} times the largest weight of another row; rescale "
            "its rows"
        )
    if not contrast and contrasts(weights).any():
        raise ValueError(
            f"the weights of each row of {name} must have a positive sum, because a "
            "mean and a covariance are computed with them; for differences, also set "
            "second_workload of JointMoments, whose mean and covariance are released"
        )
    return weights


def contrasts(weights: np.ndarray) -> np.ndarray:
    """Return whether each row of weights adds up to 0 or less."""
    scaled = weights / np.abs(weights).max(axis=1, keepdims=True)
    return ~(scaled.sum(axis=1) > _LEAST_SUM * np.abs(scaled).sum(axis=1))


# Counts beyond are not exact in float64.
MOST_STEPS = 2**53


class Workload:
    """Weights A[t, i] of rows i in the sum of step t.

    Every workload is a *core* of sums, divided by public numbers. For example, an
    average is a prefix sum divided by t. Factorizations apply to the core. Workloads
    with few parameters are strategies, which scikit-learn can clone and configure.

    A workload ends after `max_steps`, unless this is None. In a `toeplitz` workload,
    the core's weights only depend on t - i. In a `growing` workload, the weights of old
    rows do not decay, so only the trivial factorization has bounded column norms for
    all lengths. In a `normalized` workload, the core is divided by the sum of its
    weights. A `signed` workload has a negative weight. In a `contrast`, the weights of
    some step sum to zero, so there is no mean.
    """

    name = "prefix"
    max_steps: int | None = None
    toeplitz = True
    growing = True
    normalized = False
    signed = False
    contrast = False

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

    def positive_totals(self, steps) -> np.ndarray:
        """Return the sum of the core's positive weights at steps 1, 2, ..."""
        return self.totals(steps)

    def fade(self, steps) -> np.ndarray:
        """Return the remaining share of a sum after so many steps without new rows."""
        return np.ones(len(steps))

    def core_matrix(self, n: int) -> np.ndarray:
        """Return the core as a matrix of shape (n, n)."""
        return toeplitz_matrix(self.column(n))

    def matrix(self, n: int) -> np.ndarray:
        """Return the workload as a matrix of shape (n, n)."""
        return self.core_matrix(n) / self.divisors(np.arange(1, n + 1))[:, None]

    def weights_at(self, step: int) -> np.ndarray:
        """Return the core's weights of rows 1..step at a step."""
        return self.column(step)[::-1]

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

    @property
    def _rate(self) -> float:
        return float(self.decay)

    def column(self, n):
        return self._rate ** np.arange(n)

    def root(self, n, power=0.5):
        return binomial_series(-power, n, self._rate)

    def totals(self, steps):
        steps = np.asarray(steps, dtype=np.float64)
        return np.expm1(steps * np.log(self._rate)) / (self._rate - 1.0)

    def fade(self, steps):
        return self._rate ** np.asarray(steps, dtype=np.float64)

    def sums(self, width):
        return ExponentialSums(width, self._rate)


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
        few = -(-n // self._size)
        ends = spread_series(binomial_series(power, few), self._size, n)
        return multiply_series(binomial_series(-power, n), ends, n)

    def totals(self, steps):
        return np.minimum(np.asarray(steps, dtype=np.float64), self._size)

    def sums(self, width):
        return WindowSums(width, self._size)


class Custom(Workload):
    """Weights given as a lower-triangular array; row t holds those of rows 0..t.

    The core is scaled by a power of two, so that no square of a weight that matters is
    beyond float64.
    """

    name = "custom"

    def __init__(self, weights):
        weights = np.asarray(weights, dtype=np.float64)
        self.weights, self._exponent = scale_to_unit(weights)
        self.max_steps = len(self.weights)
        self.signed = bool(np.any(self.weights < 0.0))
        self.contrast = self.signed and bool(contrasts(self.weights).any())
        same = toeplitz_matrix(self.weights[:, 0])
        self.toeplitz = bool(np.array_equal(self.weights, same))

    def column(self, n):
        """Return the first column, which says all of a Toeplitz matrix."""
        return self.weights[:n, 0]

    def root(self, n, power=0.5):
        """Return n coefficients of a power of a Toeplitz core over its diagonal."""
        column = self.column(n)
        with np.errstate(over="ignore", invalid="ignore"):
            root = root_series(column / column[0])
        if power > 0:
            return root
        return inverse_series(root)

    def divisors(self, steps):
        """Return what the weights were scaled by."""
        return np.full(len(steps), math.ldexp(1.0, -self._exponent))

    def totals(self, steps):
        return self.weights.sum(axis=1)[np.asarray(steps) - 1]

    def positive_totals(self, steps):
        return np.maximum(self.weights, 0.0).sum(axis=1)[np.asarray(steps) - 1]

    def core_matrix(self, n):
        return self.weights[:n, :n]

    def weights_at(self, step):
        return self.weights[step - 1, :step]

    def sums(self, width):
        return DenseSums(width, self.weights)

    def __repr__(self):
        return f"Custom(<{self.max_steps} steps>)"
