"""Ids of users and items: columns of tables, and codes from 0."""

from __future__ import annotations

import numbers

import numpy as np
from scipy import sparse

# From these on, neighbouring whole numbers are one and the same float.
_LARGEST_ID = {np.dtype(np.float32): 2.0**24, np.dtype(np.float64): 2.0**53}
# Kinds that numpy sorts fast: booleans, integers, floats, durations and times.
_SORTABLE = "biufmM"


def encode_ids(ids, name: str) -> tuple[np.ndarray, int]:
    """Number ids from 0 in the order of their first appearance.

    The order depends on which ids are equal alone, so that a table of numpy, pandas
    or polars gets the same codes.

    Parameters
    ----------
    ids : array-like of shape (n_rows,)
        Hashable ids. Two are one where they are equal: 1 and 1.0 are, 1 and "1" are
        not.
    name : str
        What errors call them.

    Returns
    -------
    codes : ndarray of shape (n_rows,), dtype intp
        From 0 to n_ids - 1.
    n_ids : int
        Number of distinct ids.

    Raises
    ------
    ValueError
        If there is not one id a row, or one is missing (None, NaN, NaT, NA).
    TypeError
        If an id is not hashable.
    """
    ids = _one_dimensional(ids, name)
    if ids.dtype.kind in _SORTABLE:
        return _encode_sortable(ids, name)
    return _encode_hashable(ids, name)


def read_column(X, feature, name: str):
    """Return the column of a table that a parameter names.

    Parameters
    ----------
    X : {array-like, sparse matrix, dataframe} of shape (n_rows, n_columns)
        A pandas, polars or other dataframe, or anything that makes a 2-D array.
    feature : int or str
        Position, negative ones from the end, or name of a column.
    name : str
        The parameter, for errors.

    Returns
    -------
    array-like of shape (n_rows,)
        The column, of the kind that the table keeps its columns in.

    Raises
    ------
    TypeError
        If `feature` is neither an integer nor a string.
    ValueError
        If X has no such column, several of the name, or is not two-dimensional.
    """
    check_feature(feature, name)
    columns = column_names(X)
    if columns is None:
        return _array_column(X, feature, name)
    position = position_of(feature, columns, name)
    # polars and pyarrow take a column by name, pandas by position.
    return X.iloc[:, position] if hasattr(X, "iloc") else X[columns[position]]


def check_feature(feature, name: str) -> None:
    """Refuse what is neither the position nor the name of a column."""
    is_position = isinstance(feature, numbers.Integral)
    if isinstance(feature, bool) or not (is_position or isinstance(feature, str)):
        raise TypeError(
            f"{name} must be the position (an int) or the name (a str) of a column, "
            f"got {feature!r}"
        )


def as_array(column) -> np.ndarray:
    """Return a column as numpy holds it best: strings of polars stay whole."""
    if type(column).__module__.startswith("polars"):
        # Of the buffer numpy would make fixed-width strings without trailing NULs.
        return column.to_numpy()
    return np.asarray(column)


def check_exact(ids: np.ndarray, name: str) -> None:
    """Refuse float ids that may stand for several at once."""
    largest = _LARGEST_ID.get(ids.dtype)
    if largest is not None and np.any(np.abs(ids) >= largest):
        owners = name.replace("_feature", "s")  # the argument beside the parameter
        raise ValueError(
            f"{name}: ids from {largest:g} on are not exact in {ids.dtype}, so that "
            f"several {owners} may have become one; use integers or strings, or pass "
            f"such ids by {owners}=..."
        )


def _one_dimensional(ids, name):
    if isinstance(ids, (list, tuple)):
        # numpy would turn [1, "1"] into two equal strings, and tuples into columns.
        ids = np.fromiter(ids, dtype=object, count=len(ids))
    ids = as_array(ids)
    if ids.ndim != 1:
        raise ValueError(f"{name} must hold one id a row, got an array of {ids.shape}")
    return ids


def _encode_sortable(ids, name):
    missing = np.isnan(ids) if ids.dtype.kind in "fmM" else False
    if np.any(missing):
        _refuse_missing(name)
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    appearance = np.empty(len(first), dtype=np.intp)
    appearance[np.argsort(first)] = np.arange(len(first))
    return appearance[codes.reshape(-1)], len(first)


def _encode_hashable(ids, name):
    table = {}
    try:
        numbered = (table.setdefault(key, len(table)) for key in ids.tolist())
        codes = np.fromiter(numbered, dtype=np.intp, count=len(ids))
    except TypeError:
        raise TypeError(
            f"{name} must hold hashable ids: each argument must be a string or a number"
        ) from None
    if any(_is_missing(key) for key in table):
        _refuse_missing(name)
    return codes, len(table)


def _is_missing(key):
    try:
        return key is None or bool(key != key)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor unequal
        return True


def _refuse_missing(name):
    raise ValueError(f"{name} must not hold missing ids: drop such rows first")


def column_names(X):
    """Return the column names of a dataframe, None for anything else."""
    columns = getattr(X, "column_names", None)  # pyarrow
    if columns is None:
        columns = getattr(X, "columns", None)
    return None if columns is None else list(columns)


def position_of(feature, columns, name):
    """Return where a column is that a parameter names."""
    if isinstance(feature, str):
        positions = [i for i, column in enumerate(columns) if column == feature]
        if len(positions) != 1:
            problem = "no column" if not positions else "several columns"
            raise ValueError(f"{name}={feature!r}, but X has {problem} of that name")
        return positions[0]
    return _in_range(feature, len(columns), name)


def _in_range(position, n_columns, name):
    if not -n_columns <= position < n_columns:
        raise ValueError(f"{name}={position!r}, but X has {n_columns} columns")
    return int(position)


def _array_column(X, feature, name):
    if isinstance(feature, str):
        raise ValueError(
            f"{name}={feature!r}, but X has no column names: name the position, or "
            'pass a dataframe, in a pipeline by set_output(transform="pandas")'
        )
    X = X.tocsc() if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns, got an array of {X.shape}")
    position = _in_range(feature, X.shape[1], name)
    if sparse.issparse(X):
        position %= X.shape[1]
        return X[:, [position]].toarray().ravel()
    return X[:, position]
