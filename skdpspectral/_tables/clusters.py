"""Tables of dask, reduced to sums on the cluster that keeps them.

Each part of the rows is reduced where it lies, sums are added up in a tree, and one sum
is returned. Walks and kernels are sent to the cluster: public functions, and numbers
that are public, released, or computed there (the exact mean of rows). No noise is drawn
there. Tasks do not write to their arguments, so that a task that runs again after a
worker was lost returns the same sum, and each part counts once.
"""

from __future__ import annotations

import copy
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from .._linalg.walks import Kernel, add_sums, quietly, sum_blocks
from .columns import as_array, column_at, is_on_cluster
from .files import SlicedRows, common_type, map_table
from .pairs import PairOrder, PairWalk, PoolWalk, scrambled

# Sums that one task adds up.
_TOGETHER = 8


# -- tasks -----------------------------------------------------------------------------


def task(function: Callable) -> Callable:
    """Return a function that makes tasks of a pure function."""
    from dask import delayed

    return delayed(function, pure=True)


class PartError(ValueError):
    """A part differs from what its collection declares; quotes no value."""


class Sent:
    """A function that is sent to the workers once, and not with every task."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def task(self):
        """Return a task with a name of its own: none is taken for another."""
        from dask import delayed

        return delayed(self, name=f"skdpspectral-{uuid.uuid4()}")


# A warning of a worker would reveal something about values.
@quietly
def _applied(sent: Sent, *arguments: Any) -> Any:
    return sent.function(*arguments)


def run_on_cluster(run: Callable) -> Any:
    """Run tasks; an error becomes a ValueError that quotes no value."""
    try:
        return run()
    except MemoryError:
        raise
    except PartError as error:
        said = str(error)
    except Exception as error:
        said = (
            f"X could not be read on its cluster ({type(error).__name__}); the "
            "workers' logs say where"
        )
    raise ValueError(said)


def _added_on_cluster(sums: list) -> Any:
    """Return the sum of the results of tasks, added in a tree, in order."""
    together = task(add_sums)
    while len(sums) > 1:
        starts = range(0, len(sums), _TOGETHER)
        sums = [together(sums[start : start + _TOGETHER]) for start in starts]
    return run_on_cluster(sums[0].compute)


def _lengths(parts: list) -> list[int]:
    from dask import compute

    return list(run_on_cluster(lambda: compute(*map(task(len), parts))))


# -- collections of dask ---------------------------------------------------------------


def check_column(column, n_rows: int, name: str) -> None:
    """Refuse a dask collection that is not one column of as many rows as X."""
    if column.ndim != 1:
        raise ValueError(f"{name} must be one column, got {column.ndim} dimensions")
    known = hasattr(column, "chunks")
    if sum(column.chunks[0] if known else _lengths(column.to_delayed())) != n_rows:
        raise ValueError(f"X and {name} have inconsistent numbers of samples")


def cluster_table(X) -> ClusterTable | None:
    """Return a dask array or dataframe as a table of parts; None for other types."""
    if not is_on_cluster(X):
        return None
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got X of {X.ndim} dimensions instead")
    return _table_of_frame(X) if hasattr(X, "columns") else _table_of_array(X)


def _table_of_array(X) -> ClusterTable:
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            "X.shape must be two integers that are known in advance: call "
            "X.compute_chunk_sizes() first"
        )
    common_type([X.dtype])
    if not isinstance(X._meta, np.ndarray) or isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(
            f"X is a dask array of {type(X._meta).__name__}: its parts must be numpy "
            "arrays; convert them with map_blocks"
        )
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    parts, sizes = whole.to_delayed().ravel().tolist(), list(map(int, X.chunks[0]))
    like = np.broadcast_to(0.0, X.shape)
    return ClusterTable(parts, sizes, [X.dtype] * X.shape[1], None, like)


def _table_of_frame(X) -> ClusterTable:
    names, check = list(X.columns), task(_check_names)
    parts = [check(part, names) for part in X.to_delayed()]
    # Asked for of the very parts: files that are read anew might be cut otherwise.
    return ClusterTable(parts, _lengths(parts), list(X.dtypes), names, X._meta)


def _check_names(part, names: list):
    """Return a part; raise if its columns are in another order."""
    if not hasattr(part, "columns") or list(part.columns) != names:
        raise PartError(
            "X: a part has different columns from its collection, or has them in "
            "another order"
        )
    return part


@dataclass(frozen=True)
class ClusterTable:
    """Parts of a table on a cluster: arrays, or frames of pandas.

    `parts` are tasks in the order of the rows, and `sizes` their numbers of rows;
    `dtypes` and `names` are those of the columns. `like` is a table without values
    that has these columns.
    """

    parts: list
    sizes: list[int]
    dtypes: list
    names: list | None
    like: Any

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), len(self.dtypes)

    def rows(self, columns: list[int] | None = None) -> ClusterRows:
        """Return some columns as numeric rows; None selects all."""
        chosen = range(len(self.dtypes)) if columns is None else columns
        names = self.names and [self.names[j] for j in chosen]
        dtype = common_type([self.dtypes[j] for j in chosen], names)
        read = task(_numbers_of)
        parts = [read(part, columns, dtype) for part in self.parts]
        like = None if self.names is None else self.like
        return ClusterRows(parts, self.sizes, len(chosen), dtype, like)

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a part of the rows at a time."""
        read = task(_columns_of)
        for part in self.parts:
            yield run_on_cluster(read(part, places).compute)


def _numbers_of(part, columns, dtype) -> np.ndarray:
    """Return some columns of a part as numbers; None selects all."""
    if isinstance(part, np.ndarray):
        return part if columns is None else part[:, columns]
    part = part if columns is None else part.iloc[:, columns]
    # The part's own type counts, whatever the collection declares.
    kinds = {getattr(dtype, "kind", "O") for dtype in part.dtypes}
    if kinds & set("mMc"):
        raise PartError("X must contain real numbers, not dates or durations")
    own = np.dtype(np.float64) if "O" in kinds else common_type(part.dtypes)
    if own != dtype or part.isna().to_numpy().any():
        # As of a missing whole number: found with others that are not finite.
        return part.to_numpy(np.float64, na_value=np.nan)
    return part.to_numpy(dtype)


def _columns_of(part, places: list[int]) -> list[np.ndarray]:
    return [as_array(column_at(part, place)) for place in places]


# -- rows ------------------------------------------------------------------------------


class ClusterRows(SlicedRows):
    """Rows whose parts lie on a cluster, and are reduced there.

    `parts` are tasks for arrays of shape (n_rows, n_features), in order; `sizes` are
    their numbers of rows. `like` is a table without rows that has the feature names.
    """

    def __init__(
        self,
        parts: list,
        sizes: list[int],
        n_features: int,
        dtype: Any = np.float64,
        like: Any = None,
    ) -> None:
        super().__init__(None, (sum(sizes), n_features), dtype, like)
        # Of parts without rows nothing is asked.
        self._parts = [p for p, size in zip(parts, sizes, strict=True) if size]
        self._sizes = [size for size in sizes if size]
        self._ends = list(accumulate(self._sizes))
        self._row_map: Callable | None = None
        self._samples: dict[tuple[PairOrder, int], list] = {}

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows into this process, for a transform."""
        start, stop, _ = rows.indices(self.shape[0])
        pieces = task(_joined)(self._cuts(slice(start, stop)))
        block = run_on_cluster(pieces.compute)
        return block if self._row_map is None else self._row_map(block)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Read the rows at some places, which every part takes from its own."""
        order, take = np.argsort(places), task(_some)
        ends = np.searchsorted(places[order], [0, *self._ends])
        pieces = []
        for k, (part, size) in enumerate(zip(self._parts, self._sizes, strict=True)):
            own = places[order[ends[k] : ends[k + 1]]] - (self._ends[k] - size)
            pieces.append(take(part, (size, self.shape[1]), own))
        found = run_on_cluster(task(_joined)(pieces).compute)
        out = np.empty_like(found)
        out[order] = found
        return out

    def mapped(self, row_map: Callable) -> ClusterRows:
        """Return the rows under a row-wise map."""
        other, first = copy.copy(self), self._row_map
        other._row_map = row_map if first is None else partial(_then, first, row_map)
        return other

    def cut(self, values: np.ndarray) -> ClusterRows:
        """Return other columns of the same rows, which are sent to the cluster."""
        from dask import delayed

        pieces = np.split(values, self._ends[:-1])
        parts = [delayed(piece, traverse=False) for piece in pieces]
        return ClusterRows(parts, self._sizes, values.shape[1])

    def beside(self, others: list[ClusterRows]) -> ClusterRows:
        """Return the rows of this table and others, side by side."""
        tables, join = [self, *others], task(_parts_beside)
        several = zip(*(table._parts for table in tables), strict=True)
        parts = [join(each) for each in several]
        width = sum(table.shape[1] for table in tables)
        return ClusterRows(parts, self._sizes, width)

    def reduce(self, walk: Any, kernel: Kernel) -> Any:
        """Return the result of a kernel on all blocks of a walk."""
        apply = task(_applied)
        if isinstance(walk, (PairWalk, PoolWalk)):
            job = Sent(partial(_sums_of_pool, walk, kernel, self._row_map)).task()
            pools = self._pools(walk.order, walk.n_pools)
            return _added_on_cluster([apply(job, pool) for pool in pools])
        width = self.shape[1]
        job = Sent(partial(_sums_of_part, walk, kernel, self._row_map, width)).task()
        parts = zip(self._parts, self._sizes, strict=True)
        return _added_on_cluster([apply(job, part, size) for part, size in parts])

    def _pools(self, order: PairOrder, n_pools: int | None) -> list:
        """Return tasks that gather the rows of the first pools on workers."""
        from dask import persist

        key, gather = (order, n_pools), task(_joined)
        if n_pools is not None and key in self._samples:
            return self._samples[key]
        pools = [
            gather([piece for read in reads for piece in self._cuts(read)])
            for reads in order.reads_of_pools(n_pools)
        ]
        if n_pools is not None:  # of a sample, which is requested several times
            pools = list(run_on_cluster(lambda: persist(*pools)))
            self._samples[key] = pools
        return pools

    def _cuts(self, rows: slice) -> list:
        """Return tasks for the pieces of parts that contain some rows."""
        take, pieces, start = task(_some), [], rows.start
        while start < rows.stop:
            k = bisect_right(self._ends, start)
            stop, first = min(rows.stop, self._ends[k]), self._ends[k] - self._sizes[k]
            own = slice(start - first, stop - first)
            pieces.append(take(self._parts[k], (self._sizes[k], self.shape[1]), own))
            start = stop
        return pieces


def _sums_of_part(walk, kernel: Kernel, row_map, n_features: int, part, n_rows: int):
    shape = (n_rows, n_features)
    if getattr(part, "shape", None) != shape:
        raise PartError(
            "X: a part has a different shape from the one that its collection states; "
            "call X.compute_chunk_sizes() first"
        )
    rows = SlicedRows(part, shape)  # whose slices are checked when they are read
    rows = rows if row_map is None else map_table(rows, row_map)
    return sum_blocks(kernel, walk.blocks(rows))


def _sums_of_pool(walk, kernel: Kernel, row_map, pool):
    rows = pool if row_map is None else row_map(pool)
    return sum_blocks(kernel, walk.blocks_of_a_pool(rows, scrambled(len(pool))))


def _some(part, shape: tuple, rows) -> np.ndarray:
    # A copy: the part itself need not be kept. A column has one dimension.
    return np.asarray(part).reshape(shape)[rows].astype(np.float64)


def _then(first: Callable, second: Callable, block):
    return second(first(block))


def _parts_beside(parts: tuple) -> np.ndarray:
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in parts])


def _joined(pieces: list) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
