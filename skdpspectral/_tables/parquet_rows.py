"""Rows of parquet files, of which one batch is in memory at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from .ids import read_quietly
from .sliced_rows import KEPT_DTYPES, NO_DATES, SlicedRows

# Numbers of a batch: some megabytes. Files are decoded by pages, so that groups of rows
# may be far larger.
_BATCH_NUMBERS = 1 << 20
# The first pyarrow whose datasets read columns in pieces.
_FIRST_THAT_STREAMS = 19


class _Group(NamedTuple):
    """Rows of a file that are stored together.

    Parameters
    ----------
    n_rows : int
        Their number, by the file's own footer.
    batches : callable
        Reads them from the first one on: an iterator of ``pyarrow.RecordBatch``.
    """

    n_rows: int
    batches: Callable[[], Iterator]


class ParquetRows(SlicedRows):
    """Rows of one parquet file, or of several, read batch by batch.

    Slices that follow each other are read once. Others begin anew with the group of
    rows that they lie in: where rows of all over a table are read together, as for
    pairs, groups of few rows cost less.

    Parameters
    ----------
    groups : list of _Group
        All groups of rows, in their order.
    named : pyarrow.Table
        A table without rows, of the same columns.
    dtype : dtype
        Type that holds every column.
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
        raise TypeError("rows of a file are not copied: open the file again")

    def _read(self, start: int, stop: int) -> np.ndarray:
        """Read some rows, all of one group at a time."""
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
        """Read on, or anew, until a batch holds a row of a group."""
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
    """Return a batch as an array; what is missing is not a number."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    if any(column.null_count for column in batch.columns):
        dtype = np.float64
    out = np.empty((batch.num_rows, len(columns)), dtype)
    for j, column in enumerate(columns):
        out[:, j] = column
    return out


def parquet_rows(X) -> ParquetRows | None:
    """Return rows of an open parquet file or dataset; None where X is none.

    Parameters
    ----------
    X : object
        A ``pyarrow.parquet.ParquetFile``, or a ``pyarrow.dataset.Dataset`` of parquet
        files.

    Raises
    ------
    ValueError
        Naming X, if it is one, and a column of it holds no numbers, or its files are
        no parquet files.
    """
    if hasattr(X, "iter_batches") and hasattr(X, "schema_arrow"):
        return ParquetRows(_groups_of_file(X), *_form(X.schema_arrow))
    if hasattr(X, "get_fragments") and hasattr(X, "count_rows"):
        if getattr(X, "_scan_options", None):
            raise ValueError(
                "X must be a dataset without a filter: write the rows that count to "
                "files of their own"
            )
        named = _form(X.schema)
        return ParquetRows(_groups_of_dataset(X), *named)
    return None


def parquet_shape(X) -> tuple[int, int] | None:
    """Return the shape of an open parquet file or dataset; None where X is none."""
    if hasattr(X, "iter_batches") and hasattr(X, "schema_arrow"):
        return X.metadata.num_rows, len(X.schema_arrow.names)
    if hasattr(X, "get_fragments") and hasattr(X, "count_rows"):
        return read_quietly(X.count_rows), len(X.schema.names)
    return None


def _form(schema) -> tuple[Any, np.dtype]:
    """Return a table without rows, and the type that holds all of its columns."""
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
                f"X: column {field.name!r} has type {field.type}, and must hold real "
                "numbers: write files without it"
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
                "X must be a dataset of parquet files: of others the number of rows "
                "is not known beforehand"
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
