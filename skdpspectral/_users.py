"""Tables whose rows belong to users: ids apart from features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from ._ids import (
    as_array,
    check_exact,
    column_names,
    position_of,
    read_column,
    refuse_masked,
)
from ._rows import check_features, check_rows


@dataclass(frozen=True)
class UserTable:
    """Rows of features, and the users that they belong to.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        float64 or float32 numbers; the very array that was passed, if possible.
    columns : slice or ndarray of int
        Columns of `X` that are features.
    users : array-like of shape (n_rows,) or None
        Ids; None where none were given.
    """

    X: np.ndarray
    columns: slice | np.ndarray
    users: object

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.X[:1, self.columns].shape[1]

    def features(self, rows=slice(None)) -> np.ndarray:
        """Features of some rows."""
        return self.X[rows][:, self.columns]


class Names(NamedTuple):
    """What errors call the ids that are given beside X, or as a column of it."""

    ids: str = "users"
    feature: str = "user_feature"


USERS = Names()
CLIENTS = Names("clients", "client_feature")


def read_users(
    estimator, X, users, user_feature, *, reset: bool, names: Names = USERS
) -> UserTable:
    """Check a table, and take the users apart from the features.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`, of all columns, with `reset`;
        is compared otherwise.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Rows; all columns but that of the users must be finite numbers.
    users : array-like of shape (n_rows,) or None
        Ids beside X.
    user_feature : int, str or None
        Column of ids in X.
    reset : bool
        Whether this is a fit.
    names : Names, default=USERS
        What the parameters `users` and `user_feature` are called.

    Returns
    -------
    UserTable
        Features and ids.

    Raises
    ------
    ValueError, TypeError
        Naming X, users or user_feature, and quoting no value.
    """
    if user_feature is None:
        X = check_rows(estimator, X, reset=reset)
        return UserTable(X, slice(None), _check_length(users, len(X), names.ids))
    if users is not None:
        raise ValueError(
            f"{names.ids} must be None where {names.feature} names a column of X: ids "
            "are given twice"
        )
    columns = column_names(X)
    if columns is not None:
        return _split_frame(estimator, X, columns, user_feature, reset, names.feature)
    return _split_array(estimator, X, user_feature, reset, names.feature)


def _check_length(users, n_rows: int, name: str):
    if users is None:
        return None
    try:
        n_users = -1 if isinstance(users, (str, bytes)) else len(users)
    except TypeError:
        n_users = -1
    if n_users < 0:
        raise ValueError(f"{name} must be an array of one id a row of X")
    if n_users != n_rows:
        raise ValueError(f"{name} must hold as many ids as X has rows")
    refuse_masked(users, name)
    if hasattr(users, "__array__"):
        check_exact(as_array(users), name)
    return users


def _split_frame(estimator, X, names, user_feature, reset, parameter) -> UserTable:
    position = position_of(user_feature, names, parameter) % len(names)
    users = as_array(read_column(X, position, parameter))
    check_exact(users, parameter)
    kept = [i for i in range(len(names)) if i != position]
    _need_features(kept, names, parameter)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    rest = X.iloc[:, kept] if hasattr(X, "iloc") else X.select([names[i] for i in kept])
    return UserTable(check_features(rest), slice(None), users)


def _split_array(estimator, X, user_feature, reset, parameter) -> UserTable:
    if not sparse.issparse(X):
        X = _as_table(X)
    if getattr(X, "dtype", np.dtype(float)).kind != "O":
        X = check_rows(estimator, X, reset=reset)
        users = read_column(X, user_feature, parameter)
        check_exact(users, parameter)
        columns = _other_columns(int(user_feature) % X.shape[1], X.shape[1], parameter)
        return UserTable(X, columns, users)
    users = read_column(X, user_feature, parameter)
    check_exact(users, parameter)
    position = int(user_feature) % X.shape[1]
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    rest = np.delete(X, position, axis=1)
    _need_features(range(rest.shape[1]), range(X.shape[1]), parameter)
    return UserTable(check_features(rest), slice(None), users)


def _as_table(X):
    """Turn lists of rows into an array that keeps strings and numbers apart."""
    if hasattr(X, "dtype"):
        return X
    try:
        table = np.asarray(X)
        return np.asarray(X, dtype=object) if table.dtype.kind in "SU" else table
    except (TypeError, ValueError):
        return X  # check_rows says what is wrong


def _need_features(kept, names, parameter: str) -> None:
    if not len(kept):
        raise ValueError(
            f"X must have features beside {parameter}, but has n_features = "
            f"{len(names)}: Found array with 0 feature(s) apart from the ids, while "
            "a minimum of 1 is required"
        )


def _other_columns(position: int, n_columns: int, parameter: str):
    """All columns but one: a slice where that is possible, to copy nothing."""
    _need_features(range(n_columns - 1), range(n_columns), parameter)
    if position == 0:
        return slice(1, None)
    if position == n_columns - 1:
        return slice(None, -1)
    return np.delete(np.arange(n_columns), position)
