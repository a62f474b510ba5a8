"""Columns that are added to predictions: no features, and taken off the targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._tables.ids import check_feature, column_names, position_of
from .._tables.rows import table_shape
from .._tables.users import UserTable, read_users

_LARGEST = np.finfo(float).max


def find_offset(model, X, n_features: int) -> int | None:
    """Return the place of the offsets among columns that hold no users, or None.

    Parameters
    ----------
    model : LRSRegressor
        With parameters `user_feature` and `offset_feature`.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Of which the names of columns are read, and their number.
    n_features : int
        Columns that hold no users.

    Raises
    ------
    ValueError, TypeError
        Naming `offset_feature`.
    """
    feature = model.offset_feature
    if feature is None:
        return None
    check_feature(feature, "offset_feature")
    names = column_names(X)
    if names is None:
        if isinstance(feature, str):
            raise ValueError(
                f"offset_feature={feature!r}, but X has no column names: name the "
                "position, or pass a dataframe, in a pipeline by "
                'set_output(transform="pandas")'
            )
        names = range(table_shape(X)[1])
    n_columns = len(names)
    place = position_of(feature, list(names), "offset_feature") % n_columns
    if n_features < 2:
        raise ValueError(
            "X must have features beside offset_feature, but has n_features = "
            f"{n_columns}: Found array with 0 feature(s) apart from offsets and ids, "
            "while a minimum of 1 is required"
        )
    if model.user_feature is None:
        return place
    user = position_of(model.user_feature, list(names), "user_feature") % n_columns
    if user == place:
        raise ValueError("offset_feature and user_feature name the same column")
    return place - (place > user)


def without_offset(table: UserTable, place: int | None) -> tuple[UserTable, np.ndarray]:
    """Take the offsets out of a table.

    Parameters
    ----------
    table : UserTable
        Rows.
    place : int or None
        Of the offsets among the features; None for no offsets.

    Returns
    -------
    table : UserTable
        Without the offsets.
    offsets : ndarray of shape (n_rows,)
        The offsets; zeros where there are none.
    """
    if place is None:
        return table, np.zeros(len(table.X))
    columns = np.arange(table.X.shape[1])[table.columns]
    offsets = np.asarray(table.X[:, columns[place]], dtype=np.float64)
    return replace(table, columns=np.delete(columns, place)), offsets


def rest_of(y: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """What offsets leave of the targets, row by row; finite."""
    with np.errstate(all="ignore"):  # an overflow would tell of somebody's target
        return np.clip(y - offsets, -_LARGEST, _LARGEST)


def read_like_fit(model, X, users) -> tuple[UserTable, np.ndarray]:
    """Read rows for a fitted model.

    Parameters
    ----------
    model : LRSRegressor
        Fitted.
    X, users
        As for its methods.

    Returns
    -------
    table : UserTable
        With the features of fit.
    offsets : ndarray of shape (n_rows,)
        The offsets.

    Raises
    ------
    ValueError, TypeError
        Naming what is wrong.
    """
    table = read_users(model, X, users, model.user_feature, reset=False)
    place = find_offset(model, X, table.n_features)
    table, offsets = without_offset(table, place)
    if table.n_features != len(model.scale_):
        raise ValueError(
            f"X has {table.n_features} features beside users and offsets, and fit had "
            f"{len(model.scale_)}: user_feature or offset_feature were changed since"
        )
    return table, offsets
