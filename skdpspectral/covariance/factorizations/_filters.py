r"""Filters that shape noise: rows of C^{-1} Z from rows of Z, in constant blocks.

Each filter has a ``block``, and works on so many rows at a time: fed with any number of
whole blocks (the last time before a reset perhaps a part of one) it returns the same.
"""

from __future__ import annotations

import abc
import functools

import numpy as np
from scipy.fft import irfft, rfft
from scipy.linalg import solve_triangular

_SMALL_BLOCK = 32


class Filter(abc.ABC):
    """Shapes rows, block by block.

    Attributes
    ----------
    block : int
        Rows that it works on at a time.
    width : int
        Length of a row.
    """

    block: int
    width: int

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise.

        Parameters
        ----------
        rows : ndarray of shape (b, width)
            Rows of Z: whole blocks, before the end of them all.

        Returns
        -------
        ndarray of shape (b, width)
            Rows of :math:`C^{-1} Z`.
        """
        if len(rows) <= self.block:
            return self._push_block(rows)
        starts = range(0, len(rows), self.block)
        return np.concatenate(
            [self._push_block(rows[s : s + self.block]) for s in starts]
        )

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget the past."""

    @abc.abstractmethod
    def _push_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the next rows of the shaped noise, at most a block of them."""


class Identity(Filter):
    """The filter of C = I.

    Parameters
    ----------
    width : int
        Length of a row.
    """

    block = _SMALL_BLOCK

    def __init__(self, width: int):
        self.width = width

    def reset(self):
        """Forget the past."""

    def _push_block(self, rows):
        return rows


class Buffered(Filter):
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

    def reset(self):
        """Forget the past."""
        self._state = np.zeros((len(self._decay), self.width))

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


class Convolution(Filter):
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

    def reset(self):
        """Forget the past."""
        self._past: list[np.ndarray] = []
        self._tail = np.zeros((self.block, self.width))

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


class Triangular(Filter):
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

    def reset(self):
        """Forget the past."""
        self._shaped = np.zeros((0, self.width))

    def _push_block(self, rows):
        start, stop = len(self._shaped), len(self._shaped) + len(rows)
        known = rows - self._matrix[start:stop, :start] @ self._shaped
        out = solve_triangular(self._matrix[start:stop, start:stop], known, lower=True)
        self._shaped = np.concatenate([self._shaped, out])
        return out


class Paired(Filter):
    """The filters of two parts of a row, side by side.

    Parameters
    ----------
    first, second : Filter
        Of the first entries, and of the rest.
    stretch : float, default=1.0
        How much larger the noise of the rest is than its filter makes it.
    """

    def __init__(self, first: Filter, second: Filter, *, stretch: float = 1.0):
        self._parts, self._stretch = (first, second), stretch
        self.width = first.width + second.width
        # Blocks are powers of two: the larger is whole blocks of the smaller.
        self.block = max(first.block, second.block)

    def reset(self):
        """Forget the past."""
        for part in self._parts:
            part.reset()

    def _push_block(self, rows):
        ends = self._parts[0].width
        sides = np.ascontiguousarray(rows[:, :ends]), rows[:, ends:].copy()
        shaped = [p.push(side) for p, side in zip(self._parts, sides, strict=True)]
        return np.concatenate([shaped[0], self._stretch * shaped[1]], axis=1)
