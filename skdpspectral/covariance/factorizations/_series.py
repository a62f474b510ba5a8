"""Power series as lower-triangular Toeplitz matrices: first columns in, columns out."""

from __future__ import annotations

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import fftconvolve, lfilter

# Products of shorter series are summed directly, to the last bit of each term.
_DIRECT_LENGTH = 4096


def toeplitz_matrix(column) -> np.ndarray:
    """Lower-triangular Toeplitz matrix with a given first column.

    Parameters
    ----------
    column : array-like of shape (n,)
        The first column.

    Returns
    -------
    ndarray of shape (n, n)
        The matrix.
    """
    column = np.asarray(column, dtype=np.float64)
    return toeplitz(column, np.zeros_like(column))


def scale_to_unit(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Scale an array by a power of two, exactly, so that its largest modulus is near 1.

    Parameters
    ----------
    values : ndarray
        Finite numbers, not all of them zero.

    Returns
    -------
    scaled : ndarray
        With a largest modulus in [1, 2), or less where it was below 1e-301.
    exponent : int
        ``values`` are ``scaled * 2**exponent``.
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
    """Coefficients of 1 / c(z).

    Parameters
    ----------
    column : ndarray of shape (m,)
        Coefficients of c, the first of them not zero; zero beyond.
    n : int or None, default=None
        How many; None for as many as are given.

    Returns
    -------
    ndarray of shape (n,)
        Coefficients of the inverse.
    """
    impulse = np.zeros(len(column) if n is None else n)
    impulse[0] = 1.0
    return lfilter([1.0], column, impulse)


def root_series(column) -> np.ndarray:
    """Coefficients of the square root of a(z), as many as are given.

    Parameters
    ----------
    column : ndarray of shape (n,)
        Coefficients of a, the first of them positive.

    Returns
    -------
    ndarray of shape (n,)
        Coefficients of the root with a positive first coefficient.
    """
    root = np.zeros(len(column))
    root[0] = np.sqrt(column[0])
    for j in range(1, len(column)):
        rest = np.dot(root[1:j], root[j - 1 : 0 : -1])
        root[j] = (column[j] - rest) / (2.0 * root[0])
    return root


def binomial_series(power: float, n: int, ratio: float = 1.0) -> np.ndarray:
    r"""First n coefficients of :math:`(1 - \beta z)^p`.

    Parameters
    ----------
    power : float
        The exponent p.
    n : int
        Number of coefficients.
    ratio : float, default=1.0
        The number :math:`\beta` in (0, 1].

    Returns
    -------
    ndarray of shape (n,)
        :math:`\binom{p}{j} (-\beta)^j`.
    """
    j = np.arange(1, n)
    factors = np.ones(n)
    factors[1:] = ratio * (j - 1 - power) / j
    return np.cumprod(factors)


def spread_series(column, stride: int, n: int) -> np.ndarray:
    """Coefficients of c(z^k) for a stride k."""
    out = np.zeros(n)
    out[::stride] = column[: len(out[::stride])]
    return out
