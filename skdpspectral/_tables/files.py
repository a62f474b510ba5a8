"""Tables of numbers in files and foreign arrays, of which one slice is in memory."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, repeat
from numbers import Integral

import numpy as np
from scipy import sparse

from .._linalg.walks import row_blocks, rows_per_block
from .columns import as_array, read_quietly, refusal_of, refuse_masked

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
    """A numeric table of which one slice of rows is in memory at a time.

    Slices of `source` are converted to arrays and checked against `shape`. `like` is a
    table without rows that has the feature names.
    """

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
        super().__init__(None, shape)
        self._make = make

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Make a slice of rows."""
        return self._make(rows)


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


# -- memory maps and foreign arrays ----------------------------------------------------


def sliced_rows(X) -> SlicedRows | None:
    """Return memory maps and foreign arrays of numbers as slices; None for others."""
    if isinstance(X, np.ndarray):
        return _mapped_rows(X)
    if isinstance(X, (np.generic, list, tuple)) or sparse.issparse(X):
        return None
    # Files that were closed raise errors of their own.
    said = "X.shape or X.dtype could not be read"
    shape, dtype = read_quietly(lambda: _shape_and_dtype(X), said)
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


def _shape_and_dtype(X) -> tuple:
    if any(hasattr(X, name) for name in ("iloc", "dtypes", "__dataframe__")):
        return None, None
    return getattr(X, "shape", None), getattr(X, "dtype", None)


def _mapped_rows(X: np.ndarray) -> SlicedRows | None:
    if isinstance(X, np.ma.MaskedArray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return None
    base = X
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is None or X.size == 0:
        return None
    return SlicedRows(np.asarray(X), X.shape, X.dtype)


# -- parquet ---------------------------------------------------------------------------

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
    is_file = hasattr(X, "iter_batches") and hasattr(X, "schema_arrow")
    is_dataset = hasattr(X, "get_fragments") and hasattr(X, "count_rows")
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
