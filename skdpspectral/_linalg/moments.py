"""Sums of rows and of their outer products, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from scipy import sparse

from .walks import RowWalk, blas_threads, reduce_rows

# Columns of a sparse product that are made dense together.
_DENSE_COLUMNS = 256

# Of more features than this, a block's product is made so many columns at a time, of
# the lower triangle alone: it never leaves the cache, and there is no second matrix.
_PANELED_FEATURES, _PANEL = 2048, 256

# Rows of a layer from which their product costs more than to add it to a sum.
_TOGETHER = 512


class OuterProductSum:
    """Sum of outer products of rows, in Fortran order; only its lower triangle counts.

    Each block is summed on its own and then added to `total`, so that the rounding
    error grows with rows per block plus number of blocks.
    """

    def __init__(self, n_features: int):
        self.total = np.zeros((n_features, n_features), order="F")
        self.n_rows = 0

    def update(self, rows: np.ndarray) -> OuterProductSum:
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
        """Add rows to the lower triangle, panel by panel."""
        columns, width = self.total.T, rows.shape[1]
        room = np.empty(_PANEL * width)
        for start in range(0, width, _PANEL):
            stop = min(start + _PANEL, width)
            shape = (stop - start, width - start)
            panel = room[: shape[0] * shape[1]].reshape(shape)
            np.matmul(rows[:, start:stop].T, rows[:, start:], out=panel)
            columns[start:stop, start:] += panel

    def _update_sparse(self, rows) -> OuterProductSum:
        """Add sparse rows, with few columns of their product dense at a time."""
        product = (rows.T @ rows).tocsc()
        for start in range(0, product.shape[1], _DENSE_COLUMNS):
            columns = slice(start, start + _DENSE_COLUMNS)
            self.total[:, columns] += product[:, columns].toarray()
        self.n_rows += rows.shape[0]
        return self


RowMap = Callable[[np.ndarray], np.ndarray]


def sum_of_rows(blocks: Iterable, n_features: int) -> np.ndarray:
    """Return the sum of rows over blocks of shape (b, n_features)."""
    total = np.zeros(n_features)
    for block in blocks:
        total += block.sum(axis=0)
    return total


def sum_of_outer_products(blocks: Iterable, n_features: int) -> np.ndarray:
    """Return the sum of outer products of dense or sparse rows; lower triangle."""
    moment = OuterProductSum(n_features)
    with blas_threads(n_features):
        for block in blocks:
            moment.update(block)
    return moment.total


def sums_of_layers(
    blocks: Iterable, n_features: int, n_layers: int
) -> tuple[np.ndarray, ...]:
    """Return sums of outer products of `n_layers` parts of rows; lower triangles.

    Short parts of several blocks are summed as one, of no more rows than a block has.
    """
    layers = [OuterProductSum(n_features) for _ in range(n_layers)]
    waiting: list[list[np.ndarray]] = [[] for _ in layers]
    with blas_threads(n_features):
        for parts in blocks:
            most = min(parts[0].shape[0], _TOGETHER)
            for layer, part, others in zip(layers, parts, waiting, strict=True):
                if others and sum(map(len, others)) + part.shape[0] > most:
                    layer.update(np.concatenate(others))
                    others.clear()
                if sparse.issparse(part) or 0 < most <= len(part):
                    layer.update(part)
                elif len(part):
                    others.append(part.copy())  # the next block takes its memory
        for layer, others in zip(layers, waiting, strict=True):
            if others:
                layer.update(np.concatenate(others))
    return tuple(layer.total for layer in layers)


def blocked_mean(X, row_map: RowMap, block_rows: int | None = None) -> np.ndarray:
    """Return the mean of mapped rows, (p,); see :func:`blocked_product`."""
    kernel = partial(sum_of_rows, n_features=X.shape[1])
    return reduce_rows(X, RowWalk(row_map, block_rows), kernel) / X.shape[0]


def blocked_second_moment(
    X, row_map: RowMap, block_rows: int | None = None
) -> np.ndarray:
    """Return the mean outer product of mapped rows; lower triangle, Fortran order."""
    kernel = partial(sum_of_outer_products, n_features=X.shape[1])
    total = reduce_rows(X, RowWalk(row_map, block_rows), kernel)
    total /= X.shape[0]
    return total


def row_squares(rows) -> np.ndarray:
    """Return squared lengths of dense or sparse rows, which may overflow."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.vecdot(rows, rows)
