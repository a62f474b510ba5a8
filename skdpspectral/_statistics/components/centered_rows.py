"""Rows about their own mean, which no noise hides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ... import _linalg
from ..._tables.mapped_rows import map_table


def centered_rows(rows, row_map: Callable):
    """Return rows about their own mean, made block by block; **exact**, as rows are.

    The mean is taken off twice: what rounding left of it the first time is of the size
    of roundoffs of the rows' spread, and no longer of their place.

    Parameters
    ----------
    rows : array or DistantRows of shape (n, p)
        Dense, in memory, on disk or on a cluster.
    row_map : callable
        Block of rows -> float64 block of the same shape, which stands for it.
    """
    centering = Centering(row_map, ())
    for _ in range(2):
        total = _linalg.reduce_rows(rows, _linalg.RowWalk(centering), _column_sums)
        centering = Centering(row_map, (*centering.means, total / rows.shape[0]))
    return map_table(rows, centering)


@dataclass(frozen=True)
class Centering:
    """A map of rows, less several means, one after another.

    Parameters
    ----------
    row_map : callable
        The map.
    means : tuple of ndarray of shape (p,)
        What is taken off.
    """

    row_map: Callable
    means: tuple[np.ndarray, ...]

    def __call__(self, rows) -> np.ndarray:
        """Map a block of rows."""
        block = self.row_map(rows)
        for mean in self.means:
            block = block - mean
        return block


def _column_sums(blocks) -> np.ndarray:
    return np.sum([block.sum(axis=0) for block in blocks], axis=0)
