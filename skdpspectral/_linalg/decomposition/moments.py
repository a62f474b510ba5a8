"""First and second moments of rows, summed block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from scipy import sparse

from ..threads import blas_threads
from ..walks import RowWalk, reduce_rows

# Columns of a sparse product that are made dense together.
_DENSE_COLUMNS = 256
# Of more features than this, a block's product is made so many columns at a time, of
# the lower triangle alone: it never leaves the cache, and there is no second matrix.
_PANELED_FEATURES, _PANEL = 2048, 256


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


def sum_of_rows(blocks: Iterable, n_features: int) -> np.ndarray:
    """Sum of rows that come in blocks of shape (b, n_features)."""
    total = np.zeros(n_features)
    for block in blocks:
        total += block.sum(axis=0)
    return total


def sum_of_outer_products(blocks: Iterable, n_features: int) -> np.ndarray:
    """Sum of outer products of rows that come in blocks; the lower triangle counts.

    Parameters
    ----------
    blocks : iterable of ndarray or sparse CSR matrix of shape (b, p)
        Float64; each is summed before the next is asked for.
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
    return moment.total


def sums_of_layers(
    blocks: Iterable, n_features: int, n_layers: int
) -> tuple[np.ndarray, ...]:
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
    tuple of ndarray of shape (p, p)
        One for each part; lower triangles count.
    """
    layers = [SecondMoment(n_features) for _ in range(n_layers)]
    with blas_threads(n_features):
        for parts in blocks:
            for layer, part in zip(layers, parts, strict=True):
                layer.update(part)
    return tuple(layer.total for layer in layers)


def blocked_mean(X, row_map: RowMap, block_rows: int | None = None) -> np.ndarray:
    """Mean of mapped rows.

    Parameters
    ----------
    X : array or DistantRows of shape (n, p)
        Rows, walked block by block.
    row_map : callable
        Block of rows -> float64 block of the same shape.
    block_rows : int or None, default=None
        Rows a block; None for :func:`rows_per_block`.

    Returns
    -------
    ndarray of shape (p,)
        The mean.
    """
    kernel = partial(sum_of_rows, n_features=X.shape[1])
    return reduce_rows(X, RowWalk(row_map, block_rows), kernel) / X.shape[0]


def blocked_second_moment(
    X, row_map: RowMap, block_rows: int | None = None
) -> np.ndarray:
    """Mean outer product of mapped rows, of which the lower triangle counts.

    Parameters
    ----------
    X : array, sparse CSR matrix or DistantRows of shape (n, p)
        Rows, walked block by block.
    row_map : callable
        Block of rows -> float64 block of the same shape.
    block_rows : int or None, default=None
        Rows a block; None for :func:`rows_per_block`.

    Returns
    -------
    ndarray of shape (p, p)
        Fortran-ordered.
    """
    kernel = partial(sum_of_outer_products, n_features=X.shape[1])
    total = reduce_rows(X, RowWalk(row_map, block_rows), kernel)
    total /= X.shape[0]
    return total
