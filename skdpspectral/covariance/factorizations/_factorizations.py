r"""Factorizations A = B C of workloads: C shapes the noise, its columns bound its cost.

A stream of rows x is released as :math:`C x + Z` with independent noise Z, from which
:math:`x + C^{-1} Z` and every weighted sum of it follow. A row moves :math:`C x` by at
most its own change times :math:`|C|`, the largest norm of a column of C. The scale of C
is arbitrary: here it is such that noise of single steps is not smaller than Z.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator

from ..._base.sklearn_compat import Interval
from ..._base.strategies import register
from ._buffers import Buffers, faded_buffers, prefix_buffers
from ._filters import Buffered, Convolution, Identity, Triangular
from ._optimal import optimal_matrix
from ._series import binomial_series, inverse_series, scale_to_unit, toeplitz_matrix
from ._workloads import Workload

# Norms are evaluated in float64: rounded up by more than any of them is off.
_ROUND_UP = 1.0 + 1e-9
_SMALLEST_BLOCK, _LARGEST_BLOCK = 32, 2048
# Dense matrices and their history are held in memory.
LARGEST_DENSE = 5000
# So are the columns of Toeplitz matrices, and the rows of noise that "sqrt" keeps.
LARGEST_BANDED = 10**7
# Errors of the noise stay below 2**-6 of a step of its grid, and 16 standard deviations
# of it below 2**51 steps, where float64 holds integers and their sums exactly.
_MOST_AMPLIFIED_STEPS = 2.0**39
_MOST_NOISE_STEPS = 2.0**47


class Factorization:
    """A matrix C: the norm of its columns, and the filter that applies its inverse.

    Attributes
    ----------
    name : str
        How it was made.
    max_steps : int or None
        Number of steps that `column_norm` holds for; None for any number.
    column_norm : float
        Upper bound on the largest 2-norm of a column over these steps.
    amplification : float
        How many times an error in :math:`C^{-1} Z`, relative to the terms that it is
        summed from, is larger in Z: 0 for identities, which make none, about 1 for
        recursions that fade, the largest row sum of :math:`|C| |C^{-1}|`, or a bound
        on it, for others.
    noise_gain : float
        Upper bound on the standard deviation of :math:`C^{-1} Z` at any step, in units
        of that of Z.
    """

    name = "trivial"
    max_steps: int | None = None
    column_norm = 1.0
    amplification = 0.0
    noise_gain = 1.0

    def check_precision(self, steps: float) -> None:
        """Refuse a matrix whose noise float64 can't hold on its grid.

        Parameters
        ----------
        steps : float
            Standard deviation of Z in steps of the grid.

        Raises
        ------
        ValueError
            If rounding errors, or the noise itself, are too large.
        """
        if not self.amplification * steps <= _MOST_AMPLIFIED_STEPS:
            raise ValueError(
                f'factorization="{self.name}" of this workload amplifies rounding '
                "errors until the noise is coarser than its grid, which would show the "
                'rows: take "trivial" or "blt", or a matrix whose inverse does not grow'
            )
        if not self.noise_gain * steps <= _MOST_NOISE_STEPS:
            raise ValueError(
                f'factorization="{self.name}" makes the noise of some steps '
                f"{self.noise_gain:.1e} times larger than float64 can hold beside that "
                'of others: take "trivial" or "blt", or a matrix whose diagonal is '
                "closer to the norms of its columns"
            )

    def filter(self, width: int):
        """Return a filter of rows of a width: Z in, :math:`C^{-1} Z` out."""
        return Identity(width)

    def matrix(self, n: int) -> np.ndarray:
        """Return C as an array of shape (n, n)."""
        return np.eye(n)

    def inverse_column(self, n: int) -> np.ndarray | None:
        """Return the first column of the inverse; None if it is not Toeplitz."""
        impulse = np.zeros((n, 1))
        impulse[0] = 1.0
        return run_filter(self.filter(1), impulse)[:, 0]


class Banded(Factorization):
    """A Toeplitz matrix given by the first column of its inverse.

    Parameters
    ----------
    name : str
        How it was made.
    inverse : ndarray of shape (m,)
        The column, which begins with 1; zero beyond.
    column : ndarray of shape (n,)
        First column of C over all steps, which begins with 1.
    """

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

    def matrix(self, n):
        """Return C as an array of shape (n, n)."""
        return toeplitz_matrix(self._column[:n])


class BufferedToeplitz(Factorization):
    """A buffered linear Toeplitz matrix.

    Parameters
    ----------
    buffers : Buffers
        Its parameters.
    n : int or None
        Number of steps; None for any number.
    """

    name = "blt"
    amplification = 1.0

    def __init__(self, buffers: Buffers, n: int | None):
        self.buffers, self.max_steps = buffers, n
        self.column_norm = _ROUND_UP * buffers.column_norm(n)
        self.noise_gain = _ROUND_UP * buffers.inverse_norm()

    def filter(self, width):
        """Return a filter in constant memory."""
        return Buffered(width, self.buffers.decay, self.buffers.weight)

    def matrix(self, n):
        """Return C as an array of shape (n, n)."""
        return toeplitz_matrix(self.buffers.column(n))


class Dense(Factorization):
    """Any lower-triangular matrix, divided by the largest norm of its columns.

    Parameters
    ----------
    name : str
        How it was made.
    matrix : ndarray of shape (n, n)
        C, of any scale, with a diagonal without zeros.
    """

    def __init__(self, name: str, matrix: np.ndarray):
        self.name, self.max_steps = name, len(matrix)
        matrix = scale_to_unit(np.array(matrix, dtype=np.float64))[0]
        self._matrix = matrix / np.linalg.norm(matrix, axis=0).max()
        norms = np.linalg.norm(self._matrix, axis=0)
        self.column_norm = _ROUND_UP * float(norms.max())
        self.amplification, self.noise_gain = _error_bounds(self._matrix)

    def filter(self, width):
        """Return a filter that keeps the shaped noise of all steps."""
        return Triangular(width, self._matrix)

    def matrix(self, n):
        """Return the leading block of C."""
        return self._matrix[:n, :n]

    def inverse_column(self, n):
        """Return None: the inverse is not Toeplitz."""
        return None


def _error_bounds(matrix: np.ndarray) -> tuple[float, float]:
    """Return the largest row sum of |C| |C^-1|, and the largest row norm of C^-1.

    They are infinite where they are beyond float64.
    """
    with np.errstate(all="ignore"):
        inverse = solve_triangular(matrix, np.eye(len(matrix)), lower=True)
        sums = np.abs(matrix) @ np.abs(inverse).sum(axis=1)
        norms = _ROUND_UP * np.linalg.norm(inverse, axis=1)
    sums_most, norms_most = (
        largest if np.isfinite(largest) else math.inf
        for largest in (float(sums.max()), float(norms.max()))
    )
    return sums_most, norms_most


NAMES = ("trivial", "sqrt", "bisr", "blt", "optimal")


@register
class BISR(BaseEstimator):
    """The banded inverse of the square root, as a choice of factorization.

    Parameters
    ----------
    bandwidth : int, default=64
        Width of the band, at least 1: the number of rows of noise that are kept.

    Examples
    --------
    >>> from skdpspectral import JMECovariance
    >>> from skdpspectral.covariance import BISR
    >>> JMECovariance(factorization=BISR()).set_params(factorization__bandwidth=16)
    JMECovariance(factorization=BISR(bandwidth=16))
    """

    _parameter_constraints: ClassVar[dict] = {
        "bandwidth": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, bandwidth: int = 64):
        self.bandwidth = bandwidth


def is_given(factorization) -> bool:
    """Whether a factorization is given as an array, not made of the workload."""
    return not isinstance(factorization, (str, BISR))


def needs_steps(workload: Workload, factorization) -> bool:
    """Whether a factorization must know the number of steps.

    Parameters
    ----------
    workload : Workload
        What is asked for.
    factorization : str, BISR or array
        The factorization.

    Returns
    -------
    bool
        False where its column norms are bounded for any number of steps and its
        filter needs constant memory, or where an array says the number.
    """
    if workload.max_steps is not None or is_given(factorization):
        return False
    fades = not workload.growing
    return isinstance(factorization, BISR) or not (
        factorization == "trivial" or (factorization == "blt" and fades)
    )


def factorize(
    workload: Workload, factorization="blt", n_steps: int | None = None
) -> Factorization:
    """Make the factorization of a workload's core.

    Parameters
    ----------
    workload : Workload
        What is asked for.
    factorization : {"trivial", "sqrt", "bisr", "blt", "optimal"}, BISR or array of \
            shape (n, n)
        "trivial": C = I. "sqrt": the square root of the core, Toeplitz. "bisr", or
        :class:`BISR`: its inverse cut to a band. "blt": buffered linear Toeplitz, in
        constant memory. "optimal": the least error, dense. An array is taken for C.
    n_steps : int or None, default=None
        Number of steps; None where :func:`needs_steps` says that there is no need.

    Returns
    -------
    Factorization
        The matrix C.

    Raises
    ------
    ValueError
        If the number of steps is missing or too large, or C is singular.

    Examples
    --------
    >>> from skdpspectral.covariance.factorizations import (
    ...     Prefix, factorize, workload_error
    ... )
    >>> [round(workload_error(Prefix(), factorize(Prefix(), name, 1000), 1000), 2)
    ...  for name in ("trivial", "sqrt", "blt")]
    [22.37, 3.1, 3.05]
    """
    n_steps = workload.max_steps if n_steps is None else n_steps
    if is_given(factorization):
        return Dense("array", check_triangular("factorization", factorization))
    banded = BISR() if factorization == "bisr" else factorization
    name = "bisr" if isinstance(banded, BISR) else factorization
    if n_steps is None and needs_steps(workload, name):
        raise ValueError(
            f'n_steps must be known for factorization="{name}" of {workload}'
        )
    if name == "trivial":
        return Factorization()
    if name == "blt":
        return BufferedToeplitz(_buffers(workload, n_steps), n_steps)
    if name in ("bisr", "sqrt") and n_steps > LARGEST_BANDED:
        raise ValueError(
            f'factorization="{name}" holds a number for each step: at most '
            f"{LARGEST_BANDED} steps; choose a smaller horizon, or take "
            '"blt", which needs constant memory'
        )
    if name == "bisr":
        band = _bisr_column(workload, min(int(banded.bandwidth), n_steps))
        return Banded(name, band, inverse_series(band, n_steps))
    if name == "sqrt":
        return _square_root(workload, n_steps)
    if name == "optimal":
        _check_dense(n_steps)
        return Dense(name, optimal_matrix(workload.core_matrix(n_steps)))
    known = ", ".join(map(repr, NAMES))
    raise ValueError(f"factorization must be an array or one of {known}, got {name!r}")


def _square_root(workload: Workload, n: int) -> Factorization:
    if not workload.toeplitz:
        raise ValueError(
            'factorization="sqrt" needs a workload whose weights depend on the age of '
            'row alone; take "optimal" for other arrays'
        )
    if not workload.column(1)[0] > 0.0:
        raise ValueError(
            'factorization="sqrt" needs a workload that counts the newest row: its '
            'diagonal must not be 0; take "trivial"'
        )
    return Banded("sqrt", workload.root(n, -0.5), workload.root(n))


def _bisr_column(workload: Workload, band: int) -> np.ndarray:
    if workload.name == "custom":
        return binomial_series(0.5, band)
    return workload.root(band, -0.5)


def _buffers(workload: Workload, n: int | None) -> Buffers:
    if workload.name == "exponential":
        return faded_buffers("exponential", float(workload.decay), n)
    if workload.name == "window":
        return faded_buffers("window", float(workload.length), n)
    return prefix_buffers(n)


def _check_dense(n: int) -> None:
    if n > LARGEST_DENSE:
        raise ValueError(
            f'factorization="optimal" is dense: at most {LARGEST_DENSE} steps; choose '
            'a smaller horizon, or take "blt" or "sqrt"'
        )


def check_triangular(name: str, matrix, *, singular: bool = False) -> np.ndarray:
    """Check a lower-triangular array of finite numbers.

    Parameters
    ----------
    name : str
        Of the argument, for errors.
    matrix : array-like of shape (n, n)
        The array.
    singular : bool, default=False
        Whether zeros on the diagonal are fine.

    Returns
    -------
    ndarray of shape (n, n)
        float64.
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
            f"{name} must be a square array, one row a step, got shape {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must hold finite numbers")
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


def run_filter(shaping, rows: np.ndarray) -> np.ndarray:
    """Return what a filter makes of all rows, block by block.

    Parameters
    ----------
    shaping : filter
        As :meth:`Factorization.filter` returns it.
    rows : ndarray of shape (n, width)
        Rows of Z.

    Returns
    -------
    ndarray of shape (n, width)
        Rows of :math:`C^{-1} Z`.
    """
    starts = range(0, len(rows), shaping.block)
    return np.concatenate([shaping.push(rows[s : s + shaping.block]) for s in starts])
