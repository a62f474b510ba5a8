r"""Factorizations A = B C of workloads: C shapes the noise, its columns bound its cost.

A stream of rows x is released as :math:`C x + Z` with independent noise Z, from which
:math:`x + C^{-1} Z` and every weighted sum of it follow. A row moves :math:`C x` by at
most its own change times :math:`|C|`, the largest norm of a column of C. The scale of C
is arbitrary: here it is such that noise of single steps is not smaller than Z.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from ._buffers import Buffers
from ._filters import Buffered, Convolution, Filter, Identity, Paired, Triangular
from ._series import scale_to_unit, toeplitz_matrix

# Norms are evaluated in float64: rounded up by more than any of them is off.
_ROUND_UP = 1.0 + 1e-9
_SMALLEST_BLOCK, _LARGEST_BLOCK = 32, 2048
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
    toeplitz : bool
        Whether the inverse is Toeplitz, and its first column says all of it.
    """

    name = "trivial"
    max_steps: int | None = None
    column_norm = 1.0
    amplification = 0.0
    noise_gain = 1.0
    toeplitz = True

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

    def filter(self, width: int) -> Filter:
        """Return a filter of rows of a width: Z in, :math:`C^{-1} Z` out."""
        return Identity(width)

    def matrix(self, n: int) -> np.ndarray:
        """Return C as an array of shape (n, n)."""
        return np.eye(n)

    def inverse_column(self, n: int) -> np.ndarray | None:
        """Return the first column of the inverse; None if it is not Toeplitz."""
        impulse = np.zeros((n, 1))
        impulse[0] = 1.0
        return self.filter(1).push(impulse)[:, 0]


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

    toeplitz = False

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


class Pair(Factorization):
    r"""One matrix for the first entries of a row, and another for the rest.

    The second is made to have columns of norm :math:`|C_1|`. A row then moves
    :math:`(C_1 x, C_2 y)` by at most :math:`|C_1|` times the change of :math:`(x, y)`,
    and rounding errors of either part move it by no more than those of one matrix. If
    its columns are longer, its noise is larger instead, by `stretch`; if they are
    shorter, the rest is to be weighed by `ratio`, as noise of single steps is not to
    be smaller than Z.

    Parameters
    ----------
    first, second : Factorization
        The matrices, made for the same number of steps.
    n_first : int
        Number of the first entries.

    Attributes
    ----------
    ratio, stretch : float
        :math:`|C_1| / |C_2|` and :math:`|C_2| / |C_1|`, or 1 if that is larger.
    """

    toeplitz = False

    def __init__(self, first: Factorization, second: Factorization, n_first: int):
        self._parts, self._n_first = (first, second), n_first
        self.name = f"{first.name} and {second.name}"
        known = [part.max_steps for part in self._parts if part.max_steps is not None]
        self.max_steps = min(known, default=None)
        self.column_norm = first.column_norm
        self.ratio = max(first.column_norm / second.column_norm, 1.0)
        self.stretch = max(second.column_norm / first.column_norm, 1.0)
        self.amplification = max(first.amplification, second.amplification)
        self.noise_gain = max(first.noise_gain, self.stretch * second.noise_gain)

    def filter(self, width):
        """Return a filter that shapes both parts, each by its own."""
        sizes = self._n_first, width - self._n_first
        parts = [
            part.filter(size) for part, size in zip(self._parts, sizes, strict=True)
        ]
        return Paired(*parts, stretch=self.stretch)

    def matrix(self, n):
        """Refuse: there are two."""
        raise TypeError("a pair of matrices is no matrix")

    def inverse_column(self, n):
        """Return None: there is not one inverse."""
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
