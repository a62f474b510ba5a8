"""Readers of tables: column names, entries of lists, and rows in slices.

``numpy.asarray`` converts a list to one type for all entries, so that a text turns
numbers of other rows into texts, and a fraction turns large integers into floats. Here
each entry keeps its type. Memory maps, parquet files and foreign arrays are read slice
by slice.
"""

from __future__ import annotations

import contextlib
import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._linalg.walks import Writing
from .columns import read_quietly

# Bytes of a huge page, and bytes of a map that stay in memory once they were read.
_HUGE_PAGE = 1 << 21
_KEPT_BYTES = 1 << 25

# Bytes of a sample that is kept.
_SAMPLE_BYTES = 1 << 26

# Types of blocks that are handed on as they are; others become float64.
KEPT_DTYPES = {np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}

KEPT_DTYPES |= {np.dtype(np.float64), np.dtype(np.float32)}

NO_DATES = (
    "X must contain numbers, not dates or durations: turn them into numbers of a unit "
    "that you choose"
)

NO_COMPLEX = "Complex data not supported: X must contain real numbers"


class SlicedRows:
    """A numeric table of which one slice of rows is in memory at a time.

    Slices of `source` are converted to arrays and checked against `shape`. `pages`
    releases the memory of a memory map that was read.
    """

    ndim = 2

    def __init__(self, source, shape, dtype, pages=None):
        self.shape, self.dtype = shape, dtype
        self._source, self._pages = source, pages
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
        block = self._read(start, stop)
        wanted = (stop - start, self.shape[1])
        if block.shape != wanted:
            raise ValueError(
                f"X[{start}:{stop}] has shape {block.shape}, but X.shape {self.shape} "
                f"implies {wanted}"
            )
        if block.dtype.kind not in "fiub":
            raise ValueError(
                f"X[{start}:{stop}] has dtype {block.dtype}: X must contain real "
                "numbers"
            )
        if self._pages is not None:
            self._pages.note(block)
        if block.dtype in KEPT_DTYPES:
            return block
        with np.errstate(over="ignore"):  # of longer floats: infinity is told later
            return block.astype(np.float64)

    def read_into(self, out: np.ndarray, rows: slice) -> None:
        """Read a slice of rows into memory of its shape, of any dtype."""
        out[...] = self[rows]

    def sample(self, key, n_rows: int, read: Callable[[], Iterable]) -> Iterable:
        """Return rows from all over the table, which are requested several times."""
        size = n_rows * self.shape[1] * self.common_dtype.itemsize
        if self._pages is not None or size > _SAMPLE_BYTES:
            return read()
        if self._sample[0] != key:
            self._sample = key, list(read())
        return self._sample[1]

    def _read(self, start: int, stop: int) -> np.ndarray:
        try:
            block = self._source[start:stop]
            masked = isinstance(block, np.ma.MaskedArray) and bool(np.any(block.mask))
            block = None if masked else np.asarray(block)
        except MemoryError:
            raise
        except Exception as error:
            # Its own words may quote values.
            masked, block, reason = False, None, type(error).__name__
        if masked:
            raise ValueError(
                f"X[{start}:{stop}] has masked values: drop or fill such rows"
            )
        if block is None:
            raise ValueError(
                f"X[{start}:{stop}] could not be read as an array ({reason})"
            )
        return block


class MappedPages:
    """Pages of a shared or read-only memory map, released after they were read."""

    def __init__(self, mapping: mmap.mmap):
        self._mapping = mapping
        self._first_byte = np.frombuffer(mapping, np.uint8).ctypes.data
        self._start: int | None = None
        # Where a block would begin that follows the last one.
        self._next: int | None = None
        self._stop, self._touched = 0, 0

    def note(self, block: np.ndarray) -> None:
        """Note that a block is about to be read, and release earlier ones."""
        low, high = np.lib.array_utils.byte_bounds(block)
        # Blocks that follow each other share their last pages, which may be huge.
        around = mmap.PAGESIZE if low == self._next else _HUGE_PAGE
        touched = _touched_bytes(block, high - low, around)
        if self._touched and self._touched + touched > _KEPT_BYTES:
            self._give_back()
        self._start = low if self._start is None else min(self._start, low)
        self._stop = max(self._stop, high)
        self._touched += touched
        self._next = low + len(block) * block.strides[0]

    def _give_back(self) -> None:
        start = (self._start - self._first_byte) // mmap.PAGESIZE * mmap.PAGESIZE
        length = min(self._stop - self._first_byte, len(self._mapping)) - start
        with contextlib.suppress(OSError):  # of pages that are locked, or huge
            self._mapping.madvise(mmap.MADV_DONTNEED, start, length)
        self._start, self._stop, self._touched = None, 0, 0


def _touched_bytes(block: np.ndarray, extent: int, around: int) -> int:
    """Return the size of the pages that a block touches; columns may be far apart."""
    inner, outer = sorted(range(2), key=lambda axis: abs(block.strides[axis]))
    run = block.shape[inner] * abs(block.strides[inner]) + around
    return min(extent, block.shape[outer] * run)


def sliced_rows(X) -> SlicedRows | None:
    """Return memory maps and foreign arrays of numbers as slices; None for others."""
    if isinstance(X, np.ndarray):
        return _mapped_rows(X)
    if isinstance(X, (np.generic, list, tuple)) or sparse.issparse(X):
        return None
    described = _description(X)
    return None if described is None else SlicedRows(X, *described)


def _mapped_rows(X: np.ndarray) -> SlicedRows | None:
    if isinstance(X, np.ma.MaskedArray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return None
    mapping, droppable = _mapping_of(X)
    if mapping is None or X.size == 0:
        return None
    droppable = droppable and hasattr(mmap, "MADV_DONTNEED")
    pages = MappedPages(mapping) if droppable else None
    return SlicedRows(np.asarray(X), X.shape, X.dtype, pages)


def _mapping_of(X):
    """Return the memory map under an array, or None; and whether to release pages."""
    modes = set()
    while X is not None and not isinstance(X, mmap.mmap):
        if isinstance(X, np.memmap):
            modes.add(X.mode)
        X = X.obj if isinstance(X, memoryview) else getattr(X, "base", None)
    if X is None:
        return None, False
    if modes:
        return X, modes <= {"r", "r+", "w+"}
    return X, memoryview(X).readonly


def _description(X):
    """Return shape and dtype of a foreign array; None for other types."""
    try:
        tabular = any(hasattr(X, name) for name in ("iloc", "dtypes", "__dataframe__"))
        parts = [getattr(X, name, None) for name in ("shape", "dtype", "__getitem__")]
        if tabular or any(part is None for part in parts):
            return None
        shape = tuple(parts[0])
    except Exception as error:
        # As files do that were closed; the words may quote anything.
        shape, reason = None, type(error).__name__
    if shape is None:
        raise ValueError(f"X.shape or X.dtype could not be read ({reason})")
    try:
        dtype = np.dtype(parts[1])
    except TypeError:
        return None
    if len(shape) != 2:
        raise ValueError(f"Expected 2D array, got X of {len(shape)} dimensions instead")
    if not all(isinstance(size, Integral) and size >= 0 for size in shape):
        raise ValueError("X.shape must be two integers that are known in advance")
    if dtype.kind in "mM":
        raise ValueError(NO_DATES)
    if dtype.kind == "c":
        raise ValueError(NO_COMPLEX)
    if dtype.kind not in "fiub":
        raise ValueError(f"X has dtype {dtype}: X must contain real numbers")
    return (int(shape[0]), int(shape[1])), dtype


# Numbers of a batch: some megabytes. Files are decoded by pages, so that groups of rows
# may be far larger.
_BATCH_NUMBERS = 1 << 20

# The first pyarrow whose datasets read columns in pieces.
_FIRST_THAT_STREAMS = 19


class _Group(NamedTuple):
    """A row group of a parquet file, whose number of rows is in its footer."""

    n_rows: int
    batches: Callable[[], Iterator]


class ParquetRows(SlicedRows):
    """Rows of one or several parquet files, read batch by batch.

    Consecutive slices are read once. Others start again at the beginning of their row
    group: small groups are faster for pairs. `named` is a pyarrow table without rows
    with the same columns; `dtype` holds every column.
    """

    def __init__(self, groups: list[_Group], named: Any, dtype: np.dtype) -> None:
        self._ends = list(accumulate(group.n_rows for group in groups))
        shape = (self._ends[-1] if groups else 0, named.num_columns)
        super().__init__(None, shape, dtype)
        self._groups, self._kind, self.named = groups, dtype, named
        # What is being read: a group, its batches, and where the last one begins.
        self._group: int | None = None
        self._batches: Iterator = iter(())
        self._batch = np.empty((0, shape[1]))
        self._start = 0

    def __getstate__(self):
        raise TypeError("rows of a file cannot be copied: open the file again")

    def _read(self, start: int, stop: int) -> np.ndarray:
        """Read some rows of one group at a time."""
        pieces = []
        while start < stop:
            group = bisect_right(self._ends, start)
            first = self._ends[group] - self._groups[group].n_rows
            last = min(stop, self._ends[group])
            self._seek(group, start - first)
            here = start - first - self._start
            piece = self._batch[here : here + last - start]
            pieces.append(piece)
            start += len(piece)
        if len(pieces) == 1:
            return pieces[0]
        shape = (0, self.shape[1])
        return np.concatenate(pieces) if pieces else np.empty(shape, self._kind)

    def _seek(self, group: int, place: int) -> None:
        """Read forward, or restart, until a batch contains a row of a group."""
        if group != self._group or place < self._start:
            self._group, self._start = group, 0
            self._batch = np.empty((0, self.shape[1]))
            self._batches = iter(read_quietly(self._groups[group].batches))
        while place >= self._start + len(self._batch):
            found = read_quietly(lambda: next(self._batches, None))
            if found is None:
                self._group = None
                raise ValueError(
                    "X: a parquet file has changed since it was opened; open it again"
                )
            self._start += len(self._batch)
            self._batch = read_quietly(lambda found=found: _numbers(found, self._kind))


def _numbers(batch, dtype) -> np.ndarray:
    """Return a batch as an array; missing values become NaN."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    if any(column.null_count for column in batch.columns):
        dtype = np.float64
    out = np.empty((batch.num_rows, len(columns)), dtype)
    for j, column in enumerate(columns):
        out[:, j] = column
    return out


def parquet_rows(X) -> ParquetRows | None:
    """Return rows of an open parquet file or dataset of numbers; None otherwise."""
    if hasattr(X, "iter_batches") and hasattr(X, "schema_arrow"):
        return ParquetRows(_groups_of_file(X), *_form(X.schema_arrow))
    if hasattr(X, "get_fragments") and hasattr(X, "count_rows"):
        if getattr(X, "_scan_options", None):
            raise ValueError(
                "X must be a dataset without a filter: write the selected rows to "
                "separate files"
            )
        named = _form(X.schema)
        return ParquetRows(_groups_of_dataset(X), *named)
    return None


def parquet_shape(X) -> tuple[int, int] | None:
    """Return the shape of an open parquet file or dataset; None for other types."""
    if hasattr(X, "iter_batches") and hasattr(X, "schema_arrow"):
        return X.metadata.num_rows, len(X.schema_arrow.names)
    if hasattr(X, "get_fragments") and hasattr(X, "count_rows"):
        return read_quietly(X.count_rows), len(X.schema.names)
    return None


def _form(schema) -> tuple[Any, np.dtype]:
    """Return a table without rows, and the dtype that holds all of its columns."""
    dtypes = []
    for field in schema:
        try:
            dtype = np.dtype(field.type.to_pandas_dtype())
        except (NotImplementedError, TypeError):
            dtype = np.dtype(object)
        if dtype.kind in "mM":
            raise ValueError(NO_DATES)
        if dtype.kind not in "fiub":
            raise ValueError(
                f"X: column {field.name!r} has type {field.type}, but must contain "
                "real numbers: write files without this column"
            )
        dtypes.append(dtype)
    found = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    found = found if found in KEPT_DTYPES else np.dtype(np.float64)
    return schema.empty_table(), found


def _batch_rows(n_columns: int) -> int:
    return max(1, _BATCH_NUMBERS // max(n_columns, 1))


def _groups_of_file(file) -> list[_Group]:
    size = _batch_rows(len(file.schema_arrow.names))

    def group(number: int) -> _Group:
        return _Group(
            file.metadata.row_group(number).num_rows,
            lambda: file.iter_batches(batch_size=size, row_groups=[number]),
        )

    return [group(number) for number in range(file.num_row_groups)]


def _groups_of_dataset(dataset) -> list[_Group]:
    size, groups = _batch_rows(len(dataset.schema.names)), []
    for fragment in read_quietly(lambda: list(dataset.get_fragments())):
        if not hasattr(fragment, "row_groups"):
            raise ValueError(
                "X must be a dataset of parquet files: the number of rows of other "
                "datasets is not known in advance"
            )
        for part in read_quietly(fragment.split_by_row_group):
            groups.append(_group_of_fragment(part, dataset.schema, size))
    return groups


def _group_of_fragment(part, schema, size: int) -> _Group:
    # Batches that are read ahead would be in memory together.
    from pyarrow import __version__
    from pyarrow.dataset import ParquetFragmentScanOptions

    # Older ones fail to read several pages of a column by streams: a group of rows is
    # in memory as a whole there.
    streams = int(__version__.split(".")[0]) >= _FIRST_THAT_STREAMS
    options = ParquetFragmentScanOptions(use_buffered_stream=streams, pre_buffer=False)
    how = {"schema": schema, "batch_size": size, "use_threads": False}
    how |= {"batch_readahead": 0, "fragment_scan_options": options}
    return _Group(part.row_groups[0].num_rows, lambda: part.to_batches(**how))


class MappedRows(SlicedRows):
    """Another table's rows under a map, with one slice in memory at a time."""

    def __init__(self, source, row_map: Callable) -> None:
        super().__init__(source, source.shape, np.dtype(np.float64))
        self._row_map = row_map

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows, and map it."""
        return self._row_map(self._source[rows])

    def read_into(self, out: np.ndarray, rows: slice) -> None:
        """Map a slice of rows into float64 memory."""
        if isinstance(self._row_map, Writing):
            self._row_map.row_map(self._source[rows], out=out)
        else:
            super().read_into(out, rows)


def map_table(source, row_map: Callable) -> SlicedRows:
    """Return a table's rows under a map; rows on a cluster are mapped there."""
    is_distant = hasattr(source, "mapped")
    return source.mapped(row_map) if is_distant else MappedRows(source, row_map)
