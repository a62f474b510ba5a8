"""Workloads: which weighted sums of the past a stream asks for at every step."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ..._base.sklearn_compat import Interval
from ..._base.strategies import register
from ._accumulators import DenseSums, ExponentialSums, RunningSums, WindowSums
from ._arrays import contrasts
from ._series import (
    binomial_series,
    inverse_series,
    multiply_series,
    root_series,
    scale_to_unit,
    spread_series,
    toeplitz_matrix,
)

# Counts beyond are not exact in float64.
MOST_STEPS = 2**53


class Workload:
    """Weights A[t, i] of rows i in what is asked for at step t.

    Every workload is a *core* of sums, divided by public numbers: an average is a
    prefix sum over t. Factorizations are of the core. Those that have a few numbers,
    or none, are strategies: scikit-learn clones them, and sets their parameters.

    Attributes
    ----------
    name : str
        "prefix", "average", "exponential", "window" or "custom".
    max_steps : int or None
        Number of steps after which it ends; None if it does not.
    toeplitz : bool
        Whether the core's weights depend on t - i alone.
    growing : bool
        Whether weights of old rows do not fade, so that no factorization but the
        trivial one has column norms that are bounded for all lengths.
    normalized : bool
        Whether it is of means: the core is divided by the sum of its weights.
    signed : bool
        Whether some weight is below 0.
    contrast : bool
        Whether the weights of some step add up to nothing, so that there is no mean.
    """

    name = "prefix"
    max_steps: int | None = None
    toeplitz = True
    growing = True
    normalized = False
    signed = False
    contrast = False

    def column(self, n: int) -> np.ndarray:
        """Return the first n weights of the core, of the newest row first."""
        return np.ones(n)

    def root(self, n: int, power: float = 0.5) -> np.ndarray:
        """Return n coefficients of a power of the core, for 1/2 or -1/2."""
        return binomial_series(-power, n)

    def totals(self, steps) -> np.ndarray:
        """Return the sum of the core's weights at steps 1, 2, ..."""
        return np.asarray(steps, dtype=np.float64)

    def divisors(self, steps) -> np.ndarray:
        """Return what the core is divided by at steps 1, 2, ..."""
        return self.totals(steps) if self.normalized else np.ones(len(steps))

    def positive_totals(self, steps) -> np.ndarray:
        """Return the sum of the core's weights above 0 at steps 1, 2, ..."""
        return self.totals(steps)

    def fade(self, steps) -> np.ndarray:
        """Return what is left of a sum after so many steps without new rows."""
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
        """Return an accumulator that weighs rows of a width, step by step."""
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
class Exponential(BaseEstimator, Workload):
    r"""Sums with weights :math:`\beta^{t - i}`: old rows fade.

    Parameters
    ----------
    decay : float
        Factor a step, :math:`\beta` in (0, 1).

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

    def __init__(self, decay: float):
        self.decay = decay

    @property
    def _rate(self) -> float:
        return float(self.decay)

    def column(self, n):
        """Return powers of the decay."""
        return self._rate ** np.arange(n)

    def root(self, n, power=0.5):
        """Return n coefficients of a power of the core."""
        return binomial_series(-power, n, self._rate)

    def totals(self, steps):
        """Return sums of powers of the decay."""
        steps = np.asarray(steps, dtype=np.float64)
        return np.expm1(steps * np.log(self._rate)) / (self._rate - 1.0)

    def fade(self, steps):
        """Return powers of the decay."""
        return self._rate ** np.asarray(steps, dtype=np.float64)

    def sums(self, width):
        """Return an accumulator."""
        return ExponentialSums(width, self._rate)


@register
class Window(BaseEstimator, Workload):
    """Means of the last k rows, or of all rows while there are fewer.

    Parameters
    ----------
    length : int
        Number of rows k, from 1 to 2**53.

    Examples
    --------
    >>> from skdpspectral import JMECovariance
    >>> from skdpspectral.covariance import Window
    >>> JMECovariance(workload=Window(50)).set_params(workload__length=100)
    JMECovariance(workload=Window(length=100))
    """

    _parameter_constraints: ClassVar[dict] = {
        "length": [Interval(Integral, 1, MOST_STEPS, closed="both")]
    }
    name = "window"
    growing = False
    normalized = True

    def __init__(self, length: int):
        self.length = length

    @property
    def _size(self) -> int:
        return int(self.length)

    def column(self, n):
        """Return ones for the last k rows."""
        return (np.arange(n) < self._size).astype(np.float64)

    def root(self, n, power=0.5):
        """Return n coefficients of a power of the core."""
        few = -(-n // self._size)
        ends = spread_series(binomial_series(power, few), self._size, n)
        return multiply_series(binomial_series(-power, n), ends, n)

    def totals(self, steps):
        """Return the number of rows in the window."""
        return np.minimum(np.asarray(steps, dtype=np.float64), self._size)

    def sums(self, width):
        """Return an accumulator."""
        return WindowSums(width, self._size)


class Custom(Workload):
    """Weights given as a lower-triangular array.

    The core is scaled by a power of two, so that no square of a weight that matters
    is beyond float64.

    Parameters
    ----------
    weights : array-like of shape (n, n)
        Row t holds the weights of rows 0..t.
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
        """Return the sums of the rows of weights."""
        return self.weights.sum(axis=1)[np.asarray(steps) - 1]

    def positive_totals(self, steps):
        """Return the sums of the weights above 0 of the rows."""
        return np.maximum(self.weights, 0.0).sum(axis=1)[np.asarray(steps) - 1]

    def core_matrix(self, n):
        """Return the leading block of the weights."""
        return self.weights[:n, :n]

    def weights_at(self, step):
        """Return a row of weights."""
        return self.weights[step - 1, :step]

    def sums(self, width):
        """Return an accumulator."""
        return DenseSums(width, self.weights)

    def __repr__(self):
        return f"Custom(<{self.max_steps} steps>)"
