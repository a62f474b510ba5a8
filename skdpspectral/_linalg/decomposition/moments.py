"""First and second moments of rows, summed block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy import sparse

from ..threads import blas_threads

# Rows a block: small enough for the cache, large enough for the BLAS.
BLOCK_ROWS = 2048
# Numbers a block of wide rows: memory stays far below that of the data.
_BLOCK_NUMBERS = 1 << 23
# Columns of a sparse product that are made dense together.
_DENSE_COLUMNS = 256
# Of more features than this, a block's product is made so many columns at a time, of
# the lower triangle alone: it never leaves the cache, and there is no second matrix.
_PANELED_FEATURES, _PANEL = 2048, 256


def rows_per_block(n_features: int) -> int:
    """Rows a block: `BLOCK_ROWS`, fewer where rows are wide."""
    return max(1, min(BLOCK_ROWS, _BLOCK_NUMBERS // n_features))


def row_blocks(n_rows: int, block_rows: int = BLOCK_ROWS) -> list[slice]:
    """Return slices that cover rows 0..n_rows in order."""
    starts = range(0, n_rows, block_rows)
    return [slice(start, min(start + block_rows, n_rows)) for start in starts]


class SecondMoment:
    """Sum of outer products of rows: a monoid that blocks are added to.

    Each block is summed on its own and then added to the total, so that the
    rounding error grows with rows a block plus number of blocks.

    Parameters
    ----------
    n_features : int
        Length of a row.

    Attributes
    ----------
    total : ndarray of shape (n_features, n_features)
        The sum, Fortran-ordered; its lower triangle counts.
    n_rows : int
        Number of rows in it.
    """

    def __init__(self, n_features: int):
        self.total = np.zeros((n_features, n_features), order="F")
        self.n_rows = 0

    def update(self, rows: np.ndarray) -> SecondMoment:
        """Add rows of shape (b, n_features), float64, or sparse."""
        if sparse.issparse(rows):
            return self._update_sparse(rows)
        rows = np.ascontiguousarray(rows)
        if rows.shape[1] > _PANELED_FEATURES:
            self._add_panels(rows)
        else:
            # A symmetric rank-k update, like scipy's but with other threads let run.
            block = (rows.T @ rows).T
            if self.n_rows == 0:
                self.total = block
            else:
                self.total += block
        self.n_rows += len(rows)
        return self

    def _add_panels(self, rows: np.ndarray) -> None:
        """Add rows to the lower triangle, each panel of columns on its own.

        Every entry is the product's sum over the rows first, and added to the total
        then, as of narrower rows.
        """
        columns, width = self.total.T, rows.shape[1]
        room = np.empty(_PANEL * width)
        for start in range(0, width, _PANEL):
            stop = min(start + _PANEL, width)
            shape = (stop - start, width - start)
            panel = room[: shape[0] * shape[1]].reshape(shape)
            np.matmul(rows[:, start:stop].T, rows[:, start:], out=panel)
            columns[start:stop, start:] += panel

    def _update_sparse(self, rows) -> SecondMoment:
        """Add sparse rows; of their product, few columns are dense at a time."""
        product = (rows.T @ rows).tocsc()
        for start in range(0, product.shape[1], _DENSE_COLUMNS):
            columns = slice(start, start + _DENSE_COLUMNS)
            self.total[:, columns] += product[:, columns].toarray()
        self.n_rows += rows.shape[0]
        return self

    def merge(self, other: SecondMoment) -> SecondMoment:
        """Add another sum."""
        self.total += other.total
        self.n_rows += other.n_rows
        return self

    def mean(self) -> np.ndarray:
        """Return the mean outer product, of which the lower triangle counts."""
        return self.total / max(self.n_rows, 1)


RowMap = Callable[[np.ndarray], np.ndarray]


def blocked_mean(X, row_map: RowMap, block_rows: int | None = None) -> np.ndarray:
    """Mean of mapped rows.

    Parameters
    ----------
    X : array of shape (n, p)
        Rows, sliced block by block.
    row_map : callable
        Block of rows -> float64 block of the same shape.
    block_rows : int or None, default=None
        Rows a block; None for :func:`rows_per_block`.

    Returns
    -------
    ndarray of shape (p,)
        The mean.
    """
    total = np.zeros(X.shape[1])
    block_rows = block_rows or rows_per_block(X.shape[1])
    for rows in row_blocks(X.shape[0], block_rows):
        total += row_map(X[rows]).sum(axis=0)
    return total / X.shape[0]


def blocked_second_moment(
    X, row_map: RowMap, block_rows: int | None = None
) -> np.ndarray:
    """Mean outer product of mapped rows, of which the lower triangle counts.

    Parameters
    ----------
    X : array or sparse CSR matrix of shape (n, p)
        Rows, sliced block by block.
    row_map : callable
        Block of rows -> float64 block of the same shape.
    block_rows : int or None, default=None
        Rows a block; None for :func:`rows_per_block`.

    Returns
    -------
    ndarray of shape (p, p)
        Fortran-ordered.
    """
    moment = SecondMoment(X.shape[1])
    block_rows = block_rows or rows_per_block(X.shape[1])
    with blas_threads(X.shape[1]):
        for rows in row_blocks(X.shape[0], block_rows):
            moment.update(row_map(X[rows]))
    moment.total /= moment.n_rows
    return moment.total


def second_moment_of_blocks(blocks: Iterable, n_features: int) -> np.ndarray:
    """Mean outer product of rows that come in blocks; the lower triangle counts.

    Parameters
    ----------
    blocks : iterable of ndarray or sparse CSR matrix of shape (b, p)
        Float64, at least one; each is summed before the next is asked for.
    n_features : int
        Length of a row p.

    Returns
    -------
    ndarray of shape (p, p)
        Fortran-ordered.
    """
    moment = SecondMoment(n_features)
    with blas_threads(n_features):
        for block in blocks:
            moment.update(block)
    moment.total /= moment.n_rows
    return moment.total


def layered_moments(
    blocks: Iterable, n_features: int, n_layers: int
) -> list[SecondMoment]:
    """Sums of outer products of several parts of the same rows, in one pass.

    Parameters
    ----------
    blocks : iterable of lists of ndarray or sparse CSR matrix of shape (b, p)
        Float64: for each block as many parts as there are layers.
    n_features : int
        Length of a row p.
    n_layers : int
        Number of parts.

    Returns
    -------
    list of SecondMoment
        One for each part.
    """
    layers = [SecondMoment(n_features) for _ in range(n_layers)]
    with blas_threads(n_features):
        for parts in blocks:
            for layer, part in zip(layers, parts, strict=True):
                layer.update(part)
    return layers
