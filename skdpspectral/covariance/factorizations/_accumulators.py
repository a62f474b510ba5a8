"""Weighted sums of rows that arrive in batches, the same for any batching.

Each accumulator has ``skip(n)``: the next n rows are not to be had, and count as zeros;
sums over windows begin anew after them.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter


class RunningSums:
    """Sums of all rows so far.

    Parameters
    ----------
    width : int
        Length of a row.
    """

    def __init__(self, width: int):
        self._total = np.zeros(width)

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row, of shape (b, width).

        Parameters
        ----------
        rows : ndarray of shape (b, width)
            The next rows, in order; overwritten.
        """
        rows[0] += self._total
        # Row after row, whatever the batch: never pairwise.
        sums = np.add.accumulate(rows, axis=0, out=rows)
        self._total = sums[-1].copy()
        return sums

    def skip(self, n_rows: int) -> None:
        """Go on after rows that are not to be had."""


class ExponentialSums:
    """Sums whose old rows fade by a factor a step.

    Parameters
    ----------
    width : int
        Length of a row.
    decay : float
        The factor.
    """

    def __init__(self, width: int, decay: float):
        self._decay = decay
        self._state = np.zeros((1, width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row, of shape (b, width)."""
        sums, self._state = lfilter(
            [1.0], [1.0, -self._decay], rows, axis=0, zi=self._state
        )
        return sums

    def skip(self, n_rows: int) -> None:
        """Go on after rows that are not to be had."""
        self._state = self._state * self._decay**n_rows


class WindowSums:
    """Sums of the last k rows: differences of running sums.

    Parameters
    ----------
    width : int
        Length of a row.
    length : int
        Number of rows k.
    """

    def __init__(self, width: int, length: int):
        self._width, self._length = width, length
        self._begin()

    def _begin(self) -> None:
        self._running = RunningSums(self._width)
        # Running sums of the last k steps, oldest first.
        self._past = np.zeros((1, self._width))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row, of shape (b, width)."""
        known = np.concatenate([self._past, self._running.push(rows)])
        n_past, n_rows = len(self._past), len(rows)
        # The sum before the window of each new row; before the first row it is 0,
        # which is what the oldest known sum is until the window is full.
        before = np.arange(n_past, n_past + n_rows) - self._length
        sums = known[n_past:] - known[np.maximum(before, 0)]
        self._past = known[-min(self._length, len(known)) :].copy()
        return sums

    def skip(self, n_rows: int) -> None:
        """Begin anew after rows that are not to be had."""
        self._begin()


class DenseSums:
    """Sums with weights of an array; keeps all rows.

    Parameters
    ----------
    width : int
        Length of a row.
    weights : ndarray of shape (n, n)
        Lower-triangular.
    """

    def __init__(self, width: int, weights: np.ndarray):
        self._weights = weights
        self._rows = np.zeros((len(weights), width))
        self._step = 0

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the sums after each row, of shape (b, width)."""
        start, stop = self._step, self._step + len(rows)
        self._rows[start:stop] = rows
        sums = np.empty((len(rows), self._rows.shape[1]))
        for offset, step in enumerate(range(start, stop)):
            # One product a step, so that its bits do not depend on the batch.
            sums[offset] = self._weights[step, : step + 1] @ self._rows[: step + 1]
        self._step = stop
        return sums

    def skip(self, n_rows: int) -> None:
        """Go on after rows that are not to be had."""
        self._step += n_rows
