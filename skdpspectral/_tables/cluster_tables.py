"""Dask arrays and dataframes as tables of parts, of which no part is read here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .cluster_rows import ClusterRows, PartError, told_apart
from .ids import as_array
from .masks import refuse_masked
from .sliced_rows import KEPT_DTYPES, NO_COMPLEX, NO_DATES


def cluster_rows(X) -> ClusterRows | None:
    """Return rows of a dask array or dataframe; None where X is none.

    Of a dataframe the rows of its parts are counted on the cluster.

    Raises
    ------
    ValueError
        Naming X, if it is one, and no table of real numbers of known shape.
    """
    table = cluster_table(X)
    return None if table is None else table.rows()


def cluster_table(X) -> ClusterTable | None:
    """Return a dask array or dataframe as a table of parts; None where X is none."""
    if is_cluster_array(X):
        return _table_of_array(X)
    frame = sys.modules.get("dask.dataframe")
    if frame is not None and isinstance(X, frame.DataFrame):
        return _table_of_frame(X)
    return None


def brought_here(X):
    """Return a table or column of a cluster as one in memory; others as they are."""
    return told_apart(X.compute) if is_on_cluster(X) else X


def is_on_cluster(X) -> bool:
    """Whether X is an array, dataframe or series of dask."""
    frame = sys.modules.get("dask.dataframe")
    kinds = () if frame is None else (frame.DataFrame, frame.Series)
    return is_cluster_array(X) or isinstance(X, kinds)


def is_cluster_array(X) -> bool:
    """Whether X is a dask array; dask is not imported for the answer."""
    array = sys.modules.get("dask.array")
    return array is not None and isinstance(X, array.Array)


@dataclass(frozen=True)
class ClusterTable:
    """Parts of a table on a cluster: arrays, or frames of pandas.

    Parameters
    ----------
    parts : list of dask.delayed.Delayed
        The parts, in the order of the rows.
    sizes : list of int
        Their numbers of rows.
    dtypes : list of dtype
        Types of the columns.
    names : list or None
        Names of the columns.
    stand_in : object
        A table without values that has these names and this number of columns.
    source : dask.array.Array or None
        The same, where it is an array.
    """

    parts: list
    sizes: list[int]
    dtypes: list
    names: list | None
    stand_in: Any
    source: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Its shape, public."""
        return sum(self.sizes), len(self.dtypes)

    def rows(self, columns: list[int] | None = None) -> ClusterRows:
        """Return some columns as rows of numbers; None for all of them."""
        chosen = range(len(self.dtypes)) if columns is None else columns
        for j in chosen:
            name = "X" if self.names is None else f"X[{self.names[j]!r}]"
            _check_kind(self.dtypes[j], name)
        dtype = common_type([self.dtypes[j] for j in chosen])
        whole = columns is None and self.source is not None
        parts = self.parts if whole else self.apply(numbers_of, columns, dtype)
        size, named = len(chosen), None if self.names is None else self.stand_in
        source = self.source
        if source is None and columns is None:
            source = _array_of_parts(parts, self.sizes, size, dtype)
        return ClusterRows(parts, self.sizes, size, dtype, source, named)

    def apply(self, function: Callable, *arguments: Any) -> list:
        """Return tasks that apply a pure function to every part."""
        from dask import delayed

        task = delayed(function, pure=True)
        return [task(part, *arguments) for part in self.parts]


def common_type(dtypes: list) -> np.dtype:
    """Return the type that holds numbers of several types, as blocks have it."""
    found = np.result_type(*[getattr(d, "numpy_dtype", d) for d in dtypes])
    return found if found in KEPT_DTYPES else np.dtype(np.float64)


def _table_of_array(X) -> ClusterTable:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got X of {X.ndim} dimensions instead")
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            "X.shape must be two whole numbers that are known beforehand: call "
            "X.compute_chunk_sizes() first"
        )
    _check_kind(X.dtype, "X")
    if not isinstance(X._meta, np.ndarray) or isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(
            f"X is a dask array of {type(X._meta).__name__}: its parts must be "
            "arrays of numpy; map_blocks can make them so"
        )
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    parts, sizes = whole.to_delayed().ravel().tolist(), list(map(int, X.chunks[0]))
    stand_in = np.broadcast_to(0.0, X.shape)
    return ClusterTable(parts, sizes, [X.dtype] * X.shape[1], None, stand_in, X)


def _check_kind(dtype, of: str) -> None:
    kind = getattr(dtype, "kind", "O")
    if kind in "mM":
        raise ValueError(NO_DATES)
    if kind == "c":
        raise ValueError(NO_COMPLEX)
    if kind not in "fiub":
        raise ValueError(f"{of} has dtype {dtype}: X must hold real numbers")


def _table_of_frame(X) -> ClusterTable:
    from dask import compute, delayed

    if not len(X.columns):
        raise ValueError(
            "Found array with 0 feature(s) (shape=(n_samples, 0)) while a minimum of "
            "1 is required for X."
        )
    names = list(X.columns)
    check = delayed(in_own_words(partial(_check_names, names=names)), pure=True)
    parts = list(map(check, X.to_delayed()))
    # Asked for of the very parts: files that are read anew might be cut otherwise.
    sizes = told_apart(lambda: compute(*map(delayed(len, pure=True), parts)))
    return ClusterTable(parts, list(sizes), list(X.dtypes), names, X._meta)


def _check_names(part, names: list):
    """Return a part; columns in another order would be taken for each other."""
    if not hasattr(part, "columns") or list(part.columns) != names:
        raise ValueError(
            "X: a part has other columns than its collection says, or in another order"
        )
    return part


def _array_of_parts(parts, sizes, n_features: int, dtype):
    from dask import array

    blocks = [
        array.from_delayed(part, (size, n_features), dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return array.concatenate(blocks)


def numbers_of(part, columns, dtype) -> np.ndarray:
    """Return some columns of a part as numbers; None for all of them."""
    if isinstance(part, np.ndarray):
        return part if columns is None else part[:, columns]
    part = part if columns is None else part.iloc[:, columns]
    if _own_type(part) != dtype or part.isna().to_numpy().any():
        # As of a missing whole number: found with others that are not finite.
        return part.to_numpy(np.float64, na_value=np.nan)
    return part.to_numpy(dtype)


def _own_type(part) -> np.dtype:
    """Type that holds the columns of a part, which need not be the collection's."""
    kinds = {getattr(dtype, "kind", "O") for dtype in part.dtypes}
    if kinds & set("mMc"):
        raise PartError(NO_DATES if kinds & set("mM") else NO_COMPLEX)
    return np.dtype(np.float64) if "O" in kinds else common_type(list(part.dtypes))


def column_of(part, place: int) -> np.ndarray:
    """Return a column of a part as an array, of the type that it has there."""
    if isinstance(part, np.ndarray):
        return part[:, place]
    return as_array(part.iloc[:, place])


def column_beside(column, table: ClusterTable, name: str) -> list:
    """Return tasks for the parts of a column that is given beside a table.

    Parameters
    ----------
    column : dask array or series, or array-like, of shape (n_rows,)
        The column. One that is in memory travels to the workers.
    table : ClusterTable
        The table.
    name : str
        What errors call it.

    Raises
    ------
    ValueError
        Naming it, if it has not one entry a row, or a series has other parts.
    """
    from dask import compute, delayed

    wrong = ValueError(f"X and {name} have inconsistent numbers of samples")
    array = delayed(in_own_words(partial(_plain_column, name=name)), pure=True)
    if is_cluster_array(column):
        if column.ndim != 1 or column.shape[0] != table.shape[0]:
            raise wrong
        parts = column.rechunk((tuple(table.sizes),)).to_delayed().tolist()
        return list(map(array, parts))
    if hasattr(column, "to_delayed"):
        if getattr(column, "ndim", 1) != 1:
            raise ValueError(f"{name} must be one column, got a dataframe")
        parts = list(column.to_delayed())
        sizes = told_apart(lambda: compute(*map(delayed(len, pure=True), parts)))
        if list(sizes) != table.sizes:
            raise ValueError(
                f"{name} must have parts of as many rows as those of X: make both of "
                "one dataframe"
            )
        return list(map(array, parts))
    values = as_array(column)
    if values.shape != (table.shape[0],):
        raise wrong
    stops = np.cumsum(table.sizes)
    return [
        delayed(values[stop - size : stop], traverse=False)
        for size, stop in zip(table.sizes, stops, strict=True)
    ]


def _plain_column(part, name: str) -> np.ndarray:
    """Return a part of a column; numpy would join what lies under masks unseen."""
    refuse_masked(part, name)
    return np.asarray(part)


def check_as_long(name: str, ids, *columns) -> None:
    """Refuse columns of a part that have not one entry an id."""
    if any(len(column) != len(ids) for column in columns):
        raise ValueError(
            f"X, {name} or y: a part has another number of rows than the same part of "
            "the others"
        )


def in_own_words(function: Callable) -> Callable:
    """Return a check of a part whose errors, which quote no value, reach the client."""
    return _InOwnWords(function)


class _InOwnWords:
    def __init__(self, function: Callable) -> None:
        self._function = function

    def __call__(self, *arguments, **named):
        try:
            return self._function(*arguments, **named)
        except (ValueError, TypeError) as error:
            said = str(error)
        raise PartError(said)
