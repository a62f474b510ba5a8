"""One table for every form of rows: its form is public, its values are read later.

:meth:`Table.form` checks names, dtypes and shape, and reads no value. After the charge
``column(place)`` reads a column, and ``blocks(places)`` several, some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from .clusters import ClusterTable, cluster_table
from .columns import (
    as_array,
    column_at,
    column_names,
    dtypes_of,
    read_entries,
    read_quietly,
    refuse_same_names,
    select_columns,
)
from .files import Parquet, SlicedRows, parquet, sliced_rows
from .rows import (
    DeferredRead,
    check_features,
    deferred_rows,
    form_of,
    refuse_text,
    shape_of,
)

# Rows of a slice of which columns are read together.
_PART_ROWS = 1 << 18


class Table:
    """A table in memory: a frame, an array or lists.

    `names`, `shape` and `dtypes` are public; `like` has them and no values, or is a
    frame, of which scikit-learn reads the names alone. `is_read` is whether every
    reading gives the same rows.
    """

    is_read = True

    def __init__(self, X) -> None:
        self._X, self.names = X, column_names(X)
        refuse_same_names(self.names, "X")
        self.shape = form_of(X) if self.names is None else shape_of(X)
        self.like = X if self.names is not None else np.broadcast_to(0.0, self.shape)
        self.dtypes = dtypes_of(X)

    @staticmethod
    def form(X) -> Table | ClusterTable:
        """Check the form of a table, wherever its rows are."""
        if not isinstance(X, np.ndarray):
            distant = cluster_table(X)
            if distant is not None:
                refuse_same_names(distant.names, "X")
                return distant
            file = parquet(X)
            if file is not None:
                refuse_same_names(file.names, "X")
                return FileTable(file)
        slices = sliced_rows(X)
        return Table(X) if slices is None else SliceTable(slices)

    @cached_property
    def _source(self):
        """The table, with entries of their own types if it has no columns."""
        known = self.names is not None or isinstance(self._X, (list, tuple))
        known = known or hasattr(self._X, "dtype")  # of lists columns are read alone
        return self._X if known else read_entries(self._X, "X")

    def given(self, place: int):
        """Return a column in the table's own type, without an index."""
        column = read_quietly(lambda: column_at(self._source, place))
        return column.array if hasattr(column, "iloc") else column

    def column(self, place: int) -> np.ndarray:
        """Return a column as an array, whose entries are read one by one."""
        return as_array(self.given(place))

    def features(self, kept: list[int]) -> DeferredRead:
        """Check the form of some columns, which must be numbers, for a later reading.

        ``read()`` returns rows, and the columns of them that were asked for.
        """
        if self.names is not None:
            chosen = select_columns(self._X, self.names, kept)
            rows = deferred_rows(None, chosen)
            return DeferredRead(rows.shape, lambda: (rows.read(), slice(None)))
        refuse_text(self._X)
        return DeferredRead((self.shape[0], len(kept)), lambda: self._numbers(kept))

    def _numbers(self, kept: list[int]) -> tuple:
        whole = self._X if hasattr(self._X, "dtype") else read_entries(self._X, "X")
        if whole.dtype.kind == "O":  # each column has a type of its own
            return check_features(as_array(whole)[:, kept]), slice(None)
        rows = check_features(whole)
        first, last = kept[0], kept[-1]
        together = last - first + 1 == len(kept)  # a slice copies nothing
        return rows, slice(first, last + 1) if together else np.array(kept)

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, some rows at a time."""
        yield [self.column(place) for place in places]


class SliceTable(Table):
    """Numbers in a memory map or a foreign array, read by slices of rows."""

    is_read = False

    def __init__(self, rows: SlicedRows) -> None:
        self._rows, self.names, self.shape = rows, None, rows.shape
        self.like, self.dtypes = np.broadcast_to(0.0, rows.shape), [rows.dtype]

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        for start in range(0, self.shape[0], _PART_ROWS):
            rows = self._rows[start : start + _PART_ROWS]
            yield [rows[:, place].copy() for place in places]


class FileTable(Table):
    """Columns of parquet files, read batch by batch."""

    is_read = False

    def __init__(self, file: Parquet) -> None:
        self._file, self.names, self.shape = file, file.names, file.shape
        self.like = file.like
        self.dtypes = dtypes_of(self.like)

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        return self._file.blocks(places)
