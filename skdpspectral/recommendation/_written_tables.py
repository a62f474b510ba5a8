"""Tables that are written: embeddings in the place of items, columns side by side."""

from __future__ import annotations

import itertools

import numpy as np

from .._tables.ids import _is_missing, as_array, check_feature, position_of
from ._ratings_tables import find_columns, refuse_same_names

# Integers up to here are exact in float64.
_LARGEST = 2**53


def kept_columns(model, names, n_columns: int) -> list[int]:
    """Return positions of the further columns that are written.

    Parameters
    ----------
    model : DPItemEmbedding
        With parameters `user_feature`, `item_feature` and `remainder`.
    names : sequence of str or None
        Names of the columns, if they have any.
    n_columns : int
        Number of columns.

    Raises
    ------
    ValueError, TypeError
        Naming `remainder`.
    """
    used = find_columns(model, names, n_columns)
    if isinstance(model.remainder, str):
        kept = range(n_columns) if model.remainder == "passthrough" else ()
        return [j for j in kept if j not in used]
    known = list(range(n_columns) if names is None else names)
    asked = np.asarray(model.remainder, dtype=object)
    if asked.ndim != 1:
        raise ValueError(
            'remainder must be "drop", "passthrough" or a list of names or positions '
            "of columns"
        )
    places = []
    for feature in asked.tolist():
        check_feature(feature, "remainder")
        if names is None and isinstance(feature, str):
            raise ValueError(
                f"remainder={feature!r}, but X has no column names: name the "
                "position, or pass a dataframe"
            )
        places.append(position_of(feature, known, "remainder") % n_columns)
    if set(used) & set(places):
        raise ValueError("remainder must name neither users nor items")
    if len(set(places)) < len(places):
        raise ValueError("remainder must name columns once each")
    return places


def users_first(columns, user: int, item: int, embedded: list, kept) -> list:
    """Put the users' column in front, so that a regressor finds it at position 0.

    Parameters
    ----------
    columns : iterable
        Columns, or their names.
    user, item : int
        Positions of users and items.
    embedded : list
        What stands in the place of items.
    kept : collection of int
        Positions of further columns that are written.

    Returns
    -------
    list
        All columns that are written, in order.
    """
    rest = [
        embedded if j == item else [column]
        for j, column in enumerate(columns)
        if j == item or j in kept
    ]
    return [columns[user], *itertools.chain(*rest)]


def embedded_names(
    stem: str, first: tuple[str, ...], public: list[str], n_public: int, n_embedded: int
) -> list[str]:
    """Names of what stands in the place of items.

    Parameters
    ----------
    stem : str
        Name of the column of items.
    first : tuple of str
        What comes first.
    public : list of str
        Names of public features; empty if they have none.
    n_public, n_embedded : int
        Numbers of public features and of private components.

    Returns
    -------
    list of str
        Names, of the public features their own.
    """
    public = public or [f"{stem}_feature{j}" for j in range(n_public)]
    begin = [f"{stem}_{name}" for name in first]
    return [*begin, *public, *(f"{stem}_embedding{j}" for j in range(n_embedded))]


def join_columns(columns: list, names: list, kind: str, like):
    """Put columns of different types side by side.

    Parameters
    ----------
    columns : list of array-like of shape (n_rows,)
        The columns.
    names : list of str
        Their names.
    kind : {"default", "pandas", "polars"}
        What to make; dataframes keep each column's dtype.
    like : object
        The table whose index a pandas dataframe takes over.

    Returns
    -------
    ndarray or dataframe of shape (n_rows, n_columns)
        The table; an array of objects if some column holds anything but numbers that
        float64 holds exactly.

    Raises
    ------
    ValueError
        If columns of a dataframe would have the same name.
    """
    if kind != "default":
        refuse_same_names(names, "transform")
    if kind == "pandas":
        import pandas as pd

        index = like.index if hasattr(like, "iloc") else None
        columns = map(_whole, columns)
        return pd.DataFrame(dict(zip(names, columns, strict=True)), index=index)
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(dict(zip(names, map(_plain, columns), strict=True)))
    columns = [as_array(column) for column in columns]
    if all(_fits_float64(column) for column in columns):
        return np.column_stack([np.asarray(c, dtype=np.float64) for c in columns])
    out = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = column
    return out


def _fits_float64(column: np.ndarray) -> bool:
    """Whether no two ids of a column become one as floats."""
    if column.dtype.kind in "iu":
        return bool((column <= _LARGEST).all() and (column >= -_LARGEST).all())
    return column.dtype.kind in "bf"


def _is_polars(column) -> bool:
    return type(column).__module__.startswith("polars")


def _whole(column):
    """Pandas would take strings of polars without their trailing NULs."""
    return as_array(column) if _is_polars(column) else column


def _plain(column):
    """Polars wants its own columns, lists of objects and None, or other arrays."""
    if _is_polars(column):
        return column
    column = np.asarray(column)
    if column.dtype.kind != "O":
        return column
    return [None if _is_missing(value) else value for value in column.tolist()]
