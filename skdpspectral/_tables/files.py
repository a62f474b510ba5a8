"""Tables of numbers in files and foreign arrays, of which one slice is in memory."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._linalg.walks import row_blocks, rows_per_block
from .columns import as_array, read_quietly, refuse_masked

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


def check_real(dtype, of: str = "X", said: str = "X must contain real numbers") -> None:
    """Refuse dtypes that are not of real numbers."""
    kind = getattr(dtype, "kind", "O")
    if kind in "mM":
        raise ValueError(NO_DATES)
    if kind == "c":
        raise ValueError(NO_COMPLEX)
    if kind not in "fiub":
        raise ValueError(f"{of} has dtype {dtype}: {said}")


def common_type(dtypes: list) -> np.dtype:
    """Return the type of blocks that holds numbers of several types."""
    found = [np.dtype(getattr(d, "numpy_dtype", d)) for d in dtypes]
    kind = np.result_type(*found) if found else np.dtype(np.float64)
    return kind if kind in KEPT_DTYPES else np.dtype(np.float64)


class SlicedRows:
    """A numeric table of which one slice of rows is in memory at a time.

    Slices of `source` are converted to arrays and checked against `shape`.
    """

    ndim = 2

    def __init__(self, source, shape, dtype):
        self.shape, self.dtype, self._source = shape, dtype, source
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
        if block.shape != wanted:
            raise ValueError(
                f"{name} has shape {block.shape}, but X.shape {self.shape} implies "
                f"{wanted}"
            )
        if block.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} has dtype {block.dtype}: X must contain real numbers"
            )
        if block.dtype in KEPT_DTYPES:
            return block
        with np.errstate(over="ignore"):  # of longer floats: infinity is told later
            return block.astype(np.float64)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the rows at some places, all of which are passed in order."""
        order = np.argsort(places)
        sorted_, out = (
            places[order],
            np.empty((len(places), self.shape[1]), self.common_dtype),
        )
        for rows in row_blocks(self.shape[0], rows_per_block(self.shape[1])):
            block = self[rows]
            first, last = np.searchsorted(sorted_, [rows.start, rows.stop])
            out[order[first:last]] = block[sorted_[first:last] - rows.start]
        return out

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


class MappedRows(SlicedRows):
    """Another table's rows under a map, with one slice in memory at a time."""

    def __init__(self, source, row_map: Callable) -> None:
        super().__init__(source, source.shape, np.dtype(np.float64))
        self._row_map = row_map

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows, and map it."""
        return self._row_map(self._source[rows])


class Beside(SlicedRows):
    """Every `step`-th row of several tables, side by side."""

    def __init__(self, tables: list, step: int = 1) -> None:
        n_rows = -(-tables[0].shape[0] // step)
        width = sum(table.shape[1] for table in tables)
        super().__init__(None, (n_rows, width), np.dtype(np.float64))
        self._tables, self._step = tables, step

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows, of each table in turn."""
        start, stop, _ = rows.indices(self.shape[0])
        step, n_rows = self._step, self._tables[0].shape[0]
        source = slice(start * step, min(stop * step, n_rows))
        blocks = [table[source][::step] for table in self._tables]
        return np.column_stack(blocks).astype(np.float64, copy=False)


def rows_beside(tables: list, step: int = 1) -> SlicedRows:
    """Return every `step`-th row of tables side by side, all or none on a cluster."""
    first, *others = tables
    distant = hasattr(first, "beside")
    return first.beside(others, step) if distant else Beside(tables, step)


def map_table(source, row_map: Callable) -> SlicedRows:
    """Return a table's rows under a map; rows on a cluster are mapped there."""
    is_distant = hasattr(source, "mapped")
    return source.mapped(row_map) if is_distant else MappedRows(source, row_map)


# -- memory maps and foreign arrays ----------------------------------------------------


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
    base = X
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is None or X.size == 0:
        return None
    return SlicedRows(np.asarray(X), X.shape, X.dtype)


def _description(X):
    """Return shape and dtype of a foreign array; None for other types."""

    def parts():
        if any(hasattr(X, name) for name in ("iloc", "dtypes", "__dataframe__")):
            return None
        found = [getattr(X, name, None) for name in ("shape", "dtype", "__getitem__")]
        return None if any(p is None for p in found) else (tuple(found[0]), found[1])

    # As files do that were closed.
    found = read_quietly(parts, "X.shape or X.dtype could not be read")
    if found is None:
        return None
    shape, dtype = found
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        return None
    if len(shape) != 2:
        raise ValueError(f"Expected 2D array, got X of {len(shape)} dimensions instead")
    if not all(isinstance(size, Integral) and size >= 0 for size in shape):
        raise ValueError("X.shape must be two integers that are known in advance")
    check_real(dtype)
    return (int(shape[0]), int(shape[1])), dtype


# -- parquet ---------------------------------------------------------------------------

# Numbers of a batch: some megabytes. Files are decoded by pages, so that groups of rows
# may be far larger.
_BATCH_NUMBERS = 1 << 20


class _Group(NamedTuple):
    """A row group of a file."""

    n_rows: int
    batches: Callable[..., Iterator]


class Parquet:
    """One or several parquet files: a ``ParquetFile`` or a ``Dataset`` of pyarrow.

    Has the form of a table: `names`, `shape`, `dtypes` and `like`, without values.
    """

    is_read = False

    def __init__(self, source) -> None:
        self._source, self._is_file = source, hasattr(source, "iter_batches")
        self.schema = source.schema_arrow if self._is_file else source.schema
        self.names = list(self.schema.names)
        if getattr(source, "_scan_options", None):
            raise ValueError(
                "X must be a dataset without a filter: write the selected rows to "
                "separate files"
            )
        metadata = getattr(source, "metadata", None) if self._is_file else None
        n_rows = read_quietly(source.count_rows) if metadata is None else None
        n_rows = metadata.num_rows if n_rows is None else n_rows
        self.shape = (n_rows, len(self.names))
        self.dtypes = list(self.schema.types)
        self._groups: list[_Group] | None = None

    @property
    def like(self):
        """A table with the same columns and no row."""
        return self.schema.empty_table()

    @property
    def groups(self) -> list[_Group]:
        """Row groups in the order of their rows."""
        if self._groups is None:  # a cached property has a lock, which a fork may copy
            self._groups = self._find_groups()
        return self._groups

    def _find_groups(self) -> list[_Group]:
        if self._is_file:
            return list(map(self._group_of_file, range(self._source.num_row_groups)))
        found: list[_Group] = []
        for fragment in read_quietly(lambda: list(self._source.get_fragments())):
            if not hasattr(fragment, "row_groups"):
                raise ValueError(
                    "X must be a dataset of parquet files: the number of rows of other "
                    "datasets is not known in advance"
                )
            parts = read_quietly(fragment.split_by_row_group)
            found.extend(map(self._group_of_fragment, parts))
        return found

    def _group_of_file(self, number: int) -> _Group:
        n_rows = self._source.metadata.row_group(number).num_rows
        read = self._source.iter_batches
        return _Group(n_rows, lambda **how: read(row_groups=[number], **how))

    def _group_of_fragment(self, part) -> _Group:
        # Batches that are read ahead would be in memory together.
        how = {"schema": self.schema, "use_threads": False, "batch_readahead": 0}
        n_rows = part.row_groups[0].num_rows
        return _Group(n_rows, lambda **more: part.to_batches(**how, **more))

    def batches(self, group: int, names: list[str] | None = None) -> Iterator:
        """Yield batches of the rows of a group, of some columns or all."""
        width = max(len(self.names if names is None else names), 1)
        size, read = max(1, _BATCH_NUMBERS // width), self.groups[group].batches
        batches = iter(read_quietly(lambda: read(batch_size=size, columns=names)))
        while (batch := read_quietly(lambda: next(batches, None))) is not None:
            yield batch

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a batch of rows at a time, in their order."""
        names = [self.names[place] for place in places]
        for group in range(len(self.groups)):
            for batch in self.batches(group, list(dict.fromkeys(names))):
                yield [as_array(batch.column(name)) for name in names]

    def rows(self) -> ParquetRows:
        """Return all columns as rows of numbers."""
        return ParquetRows(self)


def parquet(X) -> Parquet | None:
    """Return an open parquet file or dataset as a table; None for other types."""
    is_file = hasattr(X, "iter_batches") and hasattr(X, "schema_arrow")
    is_dataset = hasattr(X, "get_fragments") and hasattr(X, "count_rows")
    return Parquet(X) if is_file or is_dataset else None


def opened(path):
    """Open the parquet files at a path."""
    try:
        from pyarrow import dataset
        from pyarrow import parquet as of_arrow
    except ImportError as error:
        raise ImportError(
            "X is a path: parquet files need pyarrow: pip install pyarrow"
        ) from error
    is_folder = Path(path).is_dir()
    said = f"X={os.fspath(path)!r} is a path at which no parquet file could be read"
    return read_quietly(
        lambda: (
            dataset.dataset(path, format="parquet")
            if is_folder
            else of_arrow.ParquetFile(path)
        ),
        said,
    )


class ParquetRows(SlicedRows):
    """Rows of parquet files, read batch by batch.

    Consecutive slices are read once. Others start again at the beginning of their row
    group: small groups are faster for pairs. `dtype` holds every column.
    """

    def __init__(self, source: Parquet) -> None:
        dtypes = []
        for field in source.schema:
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
        self._ends = list(accumulate(group.n_rows for group in source.groups))
        shape = (self._ends[-1] if self._ends else 0, source.shape[1])
        super().__init__(source, shape, common_type(dtypes))
        self.named = source.like
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
            first = self._ends[group - 1] if group else 0
            last = min(stop, self._ends[group])
            self._seek(group, start - first)
            here = start - first - self._start
            piece = self._batch[here : here + last - start]
            pieces.append(piece)
            start += len(piece)
        if len(pieces) == 1:
            return pieces[0]
        shape = (0, self.shape[1])
        return np.concatenate(pieces) if pieces else np.empty(shape, self.dtype)

    def _seek(self, group: int, place: int) -> None:
        """Read forward, or restart, until a batch contains a row of a group."""
        if group != self._group or place < self._start:
            self._group, self._start = group, 0
            self._batch = np.empty((0, self.shape[1]))
            self._batches = self._source.batches(group)
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
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        holes = any(column.null_count for column in batch.columns)
        kind = np.dtype(np.float64) if holes else self.dtype
        out = np.empty((batch.num_rows, len(columns)), kind)
        for j, column in enumerate(columns):
            out[:, j] = column
        return out
