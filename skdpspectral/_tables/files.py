"""Tables of numbers in files, foreign arrays and dask, read by slices or by parts."""

from __future__ import annotations

import copy
import mmap
import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, repeat
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from .._linalg.walks import (
    Kernel,
    PairOrder,
    PairWalk,
    PoolWalk,
    add_sums,
    quietly,
    row_blocks,
    rows_per_block,
    sum_blocks,
)
from .columns import as_array, column_at, read_quietly, refusal_of, refuse_masked

# Rows of a slice of which columns are read together.
_PART_ROWS = 1 << 18

# Bytes of a sample that is kept.
_SAMPLE_BYTES = 1 << 26

# Types of blocks that are handed on as they are; others become float64.
KEPT_DTYPES = {np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}
KEPT_DTYPES |= {np.dtype(np.float64), np.dtype(np.float32)}


def common_type(dtypes: Iterable, names: Iterable | None = None) -> np.dtype:
    """Return the type of blocks that holds numbers of several types; refuse others."""
    found = []
    for dtype, name in zip(dtypes, names or repeat(None), strict=False):
        own = getattr(dtype, "numpy_dtype", dtype)
        if getattr(own, "kind", "O") not in "fiub":
            said = refusal_of(dtype, name) or f"X has type {dtype} in column {name!r}"
            raise ValueError(f"{said}: rows in blocks must contain real numbers")
        found.append(np.dtype(own))
    kind = np.result_type(*found) if found else np.dtype(np.float64)
    return kind if kind in KEPT_DTYPES else np.dtype(np.float64)


class SlicedRows:
    """Numbers of which one slice is in memory at a time; `like` has the names."""

    ndim, names = 2, None

    def __init__(self, source, shape, dtype=np.float64, like=None):
        self.shape, self.dtype, self._source = shape, np.dtype(dtype), source
        self.like = np.broadcast_to(0.0, shape) if like is None else like
        self.dtypes = [self.dtype]
        self._sample: tuple = (None, [])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def common_dtype(self) -> np.dtype:
        """Dtype that holds any slice: a foreign source may return several dtypes."""
        kept = isinstance(self._source, np.ndarray) and self.dtype in KEPT_DTYPES
        return self.dtype if kept else np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows, of any real dtype."""
        start, stop, _ = rows.indices(self.shape[0])
        block, name = self._read(start, stop), f"X[{start}:{stop}]"
        wanted = (stop - start, self.shape[1])
        if block.shape != wanted or block.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} has shape {block.shape} and dtype {block.dtype}: X.shape "
                f"{self.shape} implies {wanted}, and X must contain real numbers"
            )
        if block.dtype in KEPT_DTYPES:
            return block
        with np.errstate(over="ignore"):  # of longer floats: infinity is told later
            return block.astype(np.float64)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the rows at some places, all of which are passed in order."""
        order = np.argsort(places)
        sorted_ = places[order]
        out = np.empty((len(places), self.shape[1]), self.common_dtype)
        for rows in row_blocks(self.shape[0], rows_per_block(self.shape[1])):
            block = self[rows]
            first, last = np.searchsorted(sorted_, [rows.start, rows.stop])
            out[order[first:last]] = block[sorted_[first:last] - rows.start]
        return out

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, some rows at a time."""
        for rows in row_blocks(self.shape[0], _PART_ROWS):
            block = self[rows]
            yield [block[:, place].copy() for place in places]

    def sample(self, key, n_rows: int, read: Callable[[], Iterable]) -> Iterable:
        """Return rows from all over the table, which are requested several times."""
        size = n_rows * self.shape[1] * self.common_dtype.itemsize
        if size > _SAMPLE_BYTES:
            return read()
        if self._sample[0] != key:
            self._sample = key, list(read())
        return self._sample[1]

    def _read(self, start: int, stop: int) -> np.ndarray:
        name = f"X[{start}:{stop}]"
        said = f"{name} could not be read as an array"
        block = read_quietly(lambda: self._source[start:stop], said)
        refuse_masked(block, name)
        return read_quietly(lambda: np.asarray(block), said)


class MadeRows(SlicedRows):
    """Rows that are made of other rows, with one slice in memory at a time."""

    def __init__(self, shape: tuple[int, int], make: Callable) -> None:
        super().__init__(make, shape)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._source(rows)


def map_table(source, row_map: Callable) -> SlicedRows:
    """Return a table's rows under a map; rows on a cluster are mapped there."""
    if hasattr(source, "mapped"):
        return source.mapped(row_map)
    return MadeRows(source.shape, lambda rows: row_map(source[rows]))


def rows_beside(tables: list) -> SlicedRows:
    """Return the rows of tables side by side, all or none on a cluster."""
    first, *others = tables
    if hasattr(first, "beside"):
        return first.beside(others)

    def make(rows: slice) -> np.ndarray:
        blocks = [table[rows] for table in tables]
        return np.column_stack(blocks).astype(np.float64, copy=False)

    width = sum(table.shape[1] for table in tables)
    return MadeRows((first.shape[0], width), make)


def sliced_rows(X) -> SlicedRows | None:
    """Return memory maps and foreign arrays of numbers as slices; None for others."""
    if isinstance(X, np.ndarray):
        return _mapped_rows(X)
    if isinstance(X, (np.generic, list, tuple)) or sparse.issparse(X):
        return None
    if any(hasattr(X, name) for name in ("iloc", "dtypes", "__dataframe__")):
        return None
    # Files that were closed raise errors of their own.
    shape, dtype = read_quietly(
        lambda: (getattr(X, "shape", None), getattr(X, "dtype", None)),
        "X.shape or X.dtype could not be read",
    )
    if shape is None or dtype is None or not hasattr(X, "__getitem__"):
        return None
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        return None
    if len(shape) != 2:
        raise ValueError(f"Expected 2D array, got X of {len(shape)} dimensions instead")
    if not all(isinstance(size, Integral) and int(size) >= 0 for size in shape):
        raise ValueError("X.shape must be two integers that are known in advance")
    common_type([dtype])
    return SlicedRows(X, (int(shape[0]), int(shape[1])), dtype)


def _mapped_rows(X: np.ndarray) -> SlicedRows | None:
    if isinstance(X, np.ma.MaskedArray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return None
    base = X
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is None or X.size == 0:
        return None
    return SlicedRows(np.asarray(X), X.shape, X.dtype)


_AS_DATASET = "pass pyarrow.dataset.dataset(path), of a file or of a folder of files"

# Numbers of a batch: some megabytes. Files are decoded by pages, so that groups of rows
# may be far larger.
_BATCH_NUMBERS = 1 << 20


class Parquet:
    """A dataset of parquet files as a table without values: names, shape and dtypes."""

    def __init__(self, source) -> None:
        if hasattr(source, "iter_batches"):
            raise TypeError(f"X is an open ParquetFile: {_AS_DATASET}")
        if getattr(source, "_scan_options", None):
            raise ValueError(
                "X must be a dataset without a filter: write the selected rows to "
                "separate files"
            )
        self._source, self.like = source, source.schema.empty_table()
        self.names, self.dtypes = list(source.schema.names), list(source.schema.types)
        self.shape = read_quietly(source.count_rows), len(self.names)

    def groups(self) -> list:
        """Return row groups, in order: a fragment of the dataset for each."""
        found = []
        for fragment in read_quietly(lambda: list(self._source.get_fragments())):
            if not hasattr(fragment, "row_groups"):
                raise ValueError(
                    "X must be a dataset of parquet files: the number of rows of other "
                    "datasets is not known in advance"
                )
            found += read_quietly(fragment.split_by_row_group)
        return found

    def batches(self, group, names: list[str] | None = None) -> Iterator:
        """Yield batches of the rows of a group, of some columns or all."""
        size = max(1, _BATCH_NUMBERS // max(len(names or self.names), 1))
        # Batches that are read ahead would be in memory together.
        how = {"schema": self._source.schema, "use_threads": False}
        how |= {"batch_readahead": 0, "batch_size": size, "columns": names}
        batches = iter(read_quietly(lambda: group.to_batches(**how)))
        while (batch := read_quietly(lambda: next(batches, None))) is not None:
            yield batch

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a batch of rows at a time, in their order."""
        names = [self.names[place] for place in places]
        for group in self.groups():
            for batch in self.batches(group, list(dict.fromkeys(names))):
                yield [as_array(batch.column(name)) for name in names]

    def rows(self) -> ParquetRows:
        """Return all columns as rows of numbers."""
        return ParquetRows(self)


def parquet(X) -> Parquet | None:
    """Return a dataset of parquet files as a table; None for other types."""
    is_file = hasattr(type(X), "iter_batches") and hasattr(type(X), "schema_arrow")
    is_dataset = hasattr(type(X), "get_fragments") and hasattr(type(X), "count_rows")
    return Parquet(X) if is_file or is_dataset else None


def opened(path):
    """Open the parquet file, or the folder of files, at a path."""
    try:
        from pyarrow.dataset import dataset
    except ImportError as error:
        raise ImportError(
            "X is a path: parquet files need pyarrow: pip install pyarrow"
        ) from error
    said = f"X={os.fspath(path)!r} is a path at which no parquet file could be read"
    return read_quietly(lambda: dataset(path, format="parquet"), said)


class ParquetRows(SlicedRows):
    """Rows of parquet files; a slice before the last one reads its group again."""

    def __init__(self, source: Parquet) -> None:
        dtype = common_type(map(_type_of_numpy, source.dtypes), source.names)
        self._groups = source.groups()
        sizes = (group.row_groups[0].num_rows for group in self._groups)
        self._ends = list(accumulate(sizes))
        shape = (self._ends[-1] if self._ends else 0, source.shape[1])
        super().__init__(source, shape, dtype, source.like)
        # What is being read: a group, its batches, and where the last one begins.
        self._group: int | None = None
        self._batches: Iterator = iter(())
        self._batch = np.empty((0, shape[1]))
        self._start = 0

    def __getstate__(self):
        raise TypeError("rows of a file cannot be copied: open the file again")

    def _read(self, start: int, stop: int) -> np.ndarray:
        """Read some rows of one group at a time."""
        pieces = [np.empty((0, self.shape[1]), self.dtype)]
        while start < stop:
            group = bisect_right(self._ends, start)
            first = self._ends[group - 1] if group else 0
            self._seek(group, start - first)
            here = start - first - self._start
            last = min(stop, self._ends[group])
            pieces.append(self._batch[here : here + last - start])
            start += len(pieces[-1])
        return pieces[1] if len(pieces) == 2 else np.concatenate(pieces)

    def _seek(self, group: int, place: int) -> None:
        """Read forward, or restart, until a batch contains a row of a group."""
        if group != self._group or place < self._start:
            self._group, self._start = group, 0
            self._batch = np.empty((0, self.shape[1]))
            self._batches = self._source.batches(self._groups[group])
        while place >= self._start + len(self._batch):
            found = next(self._batches, None)
            if found is None:
                self._group = None
                raise ValueError(
                    "X: a parquet file has changed since it was opened; open it again"
                )
            self._start += len(self._batch)
            self._batch = read_quietly(lambda found=found: self._numbers(found))

    def _numbers(self, batch) -> np.ndarray:
        """Return a batch as an array; missing values become NaN."""
        holes = any(column.null_count for column in batch.columns)
        kind = np.dtype(np.float64) if holes else self.dtype
        out = np.empty((batch.num_rows, batch.num_columns), kind)
        for j, column in enumerate(batch.columns):
            out[:, j] = column.to_numpy(zero_copy_only=False)
        return out


def _type_of_numpy(dtype):
    """Return the type of numpy for numbers of pyarrow; other types unchanged."""
    try:
        found = np.dtype(dtype.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return dtype
    return found if found.kind in "fiub" else dtype


# -- dask: reduced to sums on the cluster that keeps the rows --------------------------
#
# Walks and kernels are sent to the cluster: public functions, and numbers that are
# public, released, or computed there (the exact mean of rows). No noise is drawn there.
# Tasks do not write to their arguments: one that runs again returns the same sum.

# Sums that one task adds up.
_TOGETHER = 8


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
    return run_on_cluster(task(list)(list(map(task(len), parts))).compute)


def check_column(column, n_rows: int, name: str) -> None:
    """Refuse a dask collection that is not one column of as many rows as X."""
    if column.ndim != 1:
        raise ValueError(f"{name} must be one column, got {column.ndim} dimensions")
    known = hasattr(column, "chunks")
    if sum(column.chunks[0] if known else _lengths(column.to_delayed())) != n_rows:
        raise ValueError(f"X and {name} have inconsistent numbers of samples")


def cluster_table(X) -> ClusterTable:
    """Return a dask array or dataframe as a table of parts."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got X of {X.ndim} dimensions instead")
    if hasattr(X, "columns"):
        names, check = list(X.columns), task(_check_names)
        parts = [check(part, names) for part in X.to_delayed()]
        # Asked for of the very parts: files that are read anew might be cut otherwise.
        return ClusterTable(parts, _lengths(parts), list(X.dtypes), names, X._meta)
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
    """Parts of a table on a cluster, tasks for arrays or frames of pandas, in order."""

    parts: list
    sizes: list[int]
    dtypes: list
    names: list | None
    like: Any

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), len(self.dtypes)

    def rows(self) -> ClusterRows:
        """Return all columns as rows of numbers."""
        dtype = common_type(self.dtypes, self.names)
        parts = [task(_numbers_of)(part, dtype) for part in self.parts]
        like = None if self.names is None else self.like
        return ClusterRows(parts, self.sizes, len(self.dtypes), dtype, like)

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a part of the rows at a time."""
        read = task(_columns_of)
        for part in self.parts:
            yield run_on_cluster(read(part, places).compute)


def _numbers_of(part, dtype) -> np.ndarray:
    """Return a part as numbers."""
    if isinstance(part, np.ndarray):
        return part
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


class ClusterRows(SlicedRows):
    """Rows whose parts lie on a cluster, as tasks for arrays, and are reduced there."""

    def __init__(
        self, parts: list, sizes: list[int], n_features: int, dtype=float, like=None
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
        apply, given = task(_applied), (walk, kernel, self._row_map)
        if isinstance(walk, (PairWalk, PoolWalk)):
            job = Sent(partial(_sums_of_pool, *given)).task()
            pools = self._pools(walk.order, walk.n_pools)
            return _added_on_cluster([apply(job, pool) for pool in pools])
        job = Sent(partial(_sums_of_part, *given, self.shape[1])).task()
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
    return sum_blocks(kernel, walk.blocks_of_a_pool(rows, np.arange(len(pool))))


def _some(part, shape: tuple, rows) -> np.ndarray:
    # A copy: the part itself need not be kept. A column has one dimension.
    return np.asarray(part).reshape(shape)[rows].astype(np.float64)


def _then(first: Callable, second: Callable, block):
    return second(first(block))


def _parts_beside(parts: tuple) -> np.ndarray:
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in parts])


def _joined(pieces: list) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
