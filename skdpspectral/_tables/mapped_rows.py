"""Rows under a map that treats each row alone, made when they are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .sliced_rows import SlicedRows


class MappedRows(SlicedRows):
    """Another table's rows under a map, of which one slice is in memory at a time.

    Parameters
    ----------
    source : ndarray or SlicedRows of shape (n_samples, n_features)
        The table.
    row_map : callable
        Block of rows -> float64 block of rows of the same shape, row by row.
    """

    def __init__(self, source, row_map: Callable) -> None:
        super().__init__(source, source.shape, np.dtype(np.float64))
        self._row_map = row_map

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows, and map it."""
        return self._row_map(self._source[rows])
