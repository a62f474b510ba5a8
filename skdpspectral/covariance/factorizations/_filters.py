r"""Filters that shape noise: rows of C^{-1} Z from rows of Z, in constant blocks.

Each filter has a ``block``: it is fed that many rows at a time (the last time before
a reset perhaps fewer), so that what it returns does not depend on how a stream is cut
into batches.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.fft import irfft, rfft
from scipy.linalg import solve_triangular

_SMALL_BLOCK = 32


class Identity:
    """The filter of C = I.

    Parameters
    ----------
    width : int
        Length of a row.
    """

    block = _SMALL_BLOCK

    def __init__(self, width: int):
        self.width = width

    def reset(self) -> None:
        """Forget the past."""

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise."""
        return rows


class Buffered:
    r"""The filter of a buffered linear Toeplitz matrix.

    :math:`W_t = Z_t - \omega \cdot S`, :math:`S \leftarrow \theta S + W_t`, with a
    block of steps written as one matrix product.

    Parameters
    ----------
    width : int
        Length of a row.
    decay, weight : ndarray of shape (q,)
        The numbers :math:`\theta` and :math:`\omega`.
    """

    block = _SMALL_BLOCK

    def __init__(self, width: int, decay: np.ndarray, weight: np.ndarray):
        self.width = width
        self._decay, self._weight = decay, weight
        self.reset()

    def reset(self) -> None:
        """Forget the past."""
        self._state = np.zeros((len(self._decay), self.width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise."""
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


class Convolution:
    """The filter of a Toeplitz inverse, given by its first column.

    The past is kept as transforms of blocks, one for each block of the column: as
    many numbers as the column has rows of noise, twice.

    Parameters
    ----------
    width : int
        Length of a row.
    column : ndarray of shape (m,)
        Coefficients of the inverse; those beyond are zero.
    block : int
        Rows that are fed at a time.
    """

    def __init__(self, width: int, column: np.ndarray, block: int):
        self.width, self.block = width, block
        n_parts = -(-len(column) // block)
        parts = np.zeros(n_parts * block)
        parts[: len(column)] = column
        # Part j of the column, over the double block that a transform spans.
        self._parts = rfft(parts.reshape(n_parts, block), 2 * block, axis=1)
        self.reset()

    def reset(self) -> None:
        """Forget the past."""
        self._past: list[np.ndarray] = []
        self._tail = np.zeros((self.block, self.width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise."""
        newest = rfft(rows, 2 * self.block, axis=0)
        self._past = [newest, *self._past[: len(self._parts) - 1]]
        product = self._parts[0][:, None] * newest
        for part, past in zip(self._parts[1:], self._past[1:], strict=False):
            product += part[:, None] * past
        shaped = irfft(product, 2 * self.block, axis=0)
        out = shaped[: len(rows)] + self._tail[: len(rows)]
        self._tail = shaped[self.block :]
        return out


class Triangular:
    """The filter of any lower-triangular matrix, by forward substitution.

    Parameters
    ----------
    width : int
        Length of a row.
    matrix : ndarray of shape (n, n)
        The matrix C.
    """

    block = _SMALL_BLOCK

    def __init__(self, width: int, matrix: np.ndarray):
        self.width = width
        self._matrix = matrix
        self.reset()

    def reset(self) -> None:
        """Forget the past."""
        self._shaped = np.zeros((0, self.width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise."""
        start, stop = len(self._shaped), len(self._shaped) + len(rows)
        known = rows - self._matrix[start:stop, :start] @ self._shaped
        out = solve_triangular(self._matrix[start:stop, start:stop], known, lower=True)
        self._shaped = np.concatenate([self._shaped, out])
        return out
