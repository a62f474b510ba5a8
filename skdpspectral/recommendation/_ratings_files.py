"""Ratings in parquet files, of which a few rows are in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .._tables.ids import as_array, read_quietly

# Rows of a file that are read together.
_BATCH_ROWS = 1 << 18


class ParquetRatings:
    """A ratings table in one parquet file or in several, read batch by batch.

    Parameters
    ----------
    source : object
        A ``pyarrow.parquet.ParquetFile`` or a ``pyarrow.dataset.Dataset``.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    shape : tuple (n_rows, n_columns)
        Its shape.
    """

    def __init__(self, source):
        self._source = source
        self._is_file = hasattr(source, "iter_batches")
        self._schema = source.schema_arrow if self._is_file else source.schema
        self.names = list(self._schema.names)
        n_rows = source.metadata.num_rows if self._is_file else source.count_rows()
        self.shape = (n_rows, len(self.names))

    def empty(self):
        """Return a table with the same columns and no row."""
        return self._schema.empty_table()

    def table(self):
        """Read all of it: a ``pyarrow.Table``."""
        source = self._source
        return read_quietly(source.read if self._is_file else source.to_table)

    def columns(self, names: list[str]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a batch of rows at a time, in their order."""
        how = {"columns": names, "batch_size": _BATCH_ROWS}
        if self._is_file:
            batches = self._source.iter_batches(**how)
        else:
            # Batches that are read ahead would be in memory together.
            how |= {"batch_readahead": 1, "fragment_readahead": 1}
            batches = self._source.to_batches(**how)
        while (batch := read_quietly(lambda: next(batches, None))) is not None:
            yield [as_array(batch.column(name)) for name in names]


def parquet_ratings(X) -> ParquetRatings | None:
    """Return what reads a parquet file, or None where X is none.

    Parameters
    ----------
    X : object
        A path of a file or of a directory of files, as a string or path; a
        ``pyarrow.parquet.ParquetFile``; or a ``pyarrow.dataset.Dataset``.

    Raises
    ------
    ImportError
        If X is a path, and pyarrow is not installed.
    ValueError
        If X is a path at which no parquet file can be read.
    """
    if isinstance(X, (str, os.PathLike)):
        X = _opened(X)
    is_file = hasattr(X, "iter_batches") and hasattr(X, "schema_arrow")
    is_dataset = hasattr(X, "to_batches") and hasattr(X, "count_rows")
    return ParquetRatings(X) if is_file or is_dataset else None


def _opened(path):
    try:
        from pyarrow import dataset, parquet
    except ImportError as error:
        raise ImportError(
            "X is a path: parquet files need pyarrow: pip install pyarrow"
        ) from error
    reason = None
    try:
        if Path(path).is_dir():
            return dataset.dataset(path, format="parquet")
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        reason = type(error).__name__
    raise ValueError(
        f"X={os.fspath(path)!r} is a path at which no parquet file could be read "
        f"({reason})"
    )
