"""Rows under a map that treats each row alone, made when they are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._linalg import DistantRows
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


def map_table(source, row_map: Callable) -> MappedRows | DistantRows:
    """Return a table's rows under a map, wherever they are.

    Parameters
    ----------
    source : ndarray, SlicedRows or DistantRows of shape (n_samples, n_features)
        The table.
    row_map : callable
        As of :class:`MappedRows`; of distant rows it goes where they are.
    """
    if isinstance(source, DistantRows):
        return source.mapped(row_map)
    return MappedRows(source, row_map)
