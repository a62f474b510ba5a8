"""Rows measured from their own mean, for models that know none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import _linalg


class CenteredRows:
    """Rows about their own mean, made block by block; **exact**, as rows are.

    The mean is taken off twice: what rounding left of it the first time is of the size
    of roundoffs of the rows' spread, and no longer of their place.

    Parameters
    ----------
    rows : array of shape (n, p)
        Dense, in memory or on disk.
    row_map : callable
        Block of rows -> float64 block of the same shape, which stands for it.
    """

    def __init__(self, rows, row_map: Callable):
        self._rows, self.shape, self._row_map = rows, rows.shape, row_map
        self._means: list[np.ndarray] = []
        for _ in range(2):
            self._means.append(self._mean())

    def __getitem__(self, part):
        block = self._row_map(self._rows[part])
        for mean in self._means:
            block = block - mean
        return block

    def _mean(self) -> np.ndarray:
        n_rows = _linalg.rows_per_block(self.shape[1])
        sums = [
            self[part].sum(axis=0) for part in _linalg.row_blocks(self.shape[0], n_rows)
        ]
        return np.sum(sums, axis=0) / self.shape[0]
