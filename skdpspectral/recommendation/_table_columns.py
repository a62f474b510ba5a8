"""Columns of ratings tables: reading any form, and output columns.

Catalogs of items and the parameters of a table are public.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import warnings
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import murmurhash3_32
from sklearn.utils.validation import validate_data

from .._tables.clusters import brought_here
from .._tables.columns import (
    as_array,
    as_numbers,
    check_feature,
    is_text,
    position_of,
    refuse_masked,
    refuse_same_names,
    select_columns,
)
from .._tables.files import opened, parquet
from .._tables.ids import IdIndex, check_id_type, id_array
from .._tables.table import Table, refuse_malformed

# Buckets of items where there is no catalog.
N_BUCKETS = 512


def read_catalog(items) -> IdIndex | range:
    """Return an index of the items that are given, or numbers of buckets."""
    if items is None:
        return range(N_BUCKETS)
    if isinstance(items, Integral):
        return range(int(items))
    if isinstance(items, (Set, Mapping)):
        raise TypeError("items must be ordered: pass a list, such as sorted(items)")
    index = IdIndex(items, "items")
    if not len(index):
        raise ValueError("items must contain at least one id")
    if len(index) != len(index.codes):
        raise ValueError("items must not contain duplicate ids")
    return index.without_codes()


def catalog_of_data(ids) -> IdIndex:
    """Return an index of the data's items, which is private."""
    return IdIndex(ids, "item_feature").without_codes()


def item_codes(catalog: IdIndex | range, ids) -> np.ndarray:
    """Codes of items, -1 for those that the catalog does not hold.

    The code of a row depends on its own id and the catalog alone, whatever other ids
    the table holds.
    """
    if isinstance(catalog, IdIndex):
        return catalog.find(ids, "item_feature")
    index = IdIndex(ids, "item_feature")
    buckets = [_hashed(key) % len(catalog) for key in index.ids.tolist()]
    return np.array(buckets, dtype=np.intp)[index.codes]


def index_of(items: np.ndarray) -> IdIndex:
    """Index distinct ids."""
    return IdIndex(items, "items").without_codes()


def _hashed(key: int | str) -> int:
    """Hash an id consistently over processes."""
    text = f"string:{key}" if isinstance(key, str) else f"number:{hash(key)}"
    return murmurhash3_32(text.encode("utf-8", "surrogatepass"), positive=True)


# A quarter of the range of ratings is at least this: ratings are divided by it.
_NARROWEST = 2.0**-1022


def read_range(rating_range) -> tuple[float, float]:
    """Return the public range of ratings."""
    low = high = math.nan
    if np.ndim(rating_range) == 1 and all(map(_is_real, rating_range)):
        with contextlib.suppress(ValueError, OverflowError):
            low, high = (float(value) for value in rating_range)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            "rating_range must be a pair (low, high) of finite numbers, low < high"
        )
    if 0.25 * high - 0.25 * low < _NARROWEST:
        raise ValueError(
            "rating_range is too narrow to distinguish ratings in float64; rescale the "
            "ratings to larger units"
        )
    return low, high


def units(rating_range) -> tuple[float, float]:
    """Return the midpoint of the range of ratings, and a quarter of its width."""
    low, high = read_range(rating_range)
    return 0.5 * low + 0.5 * high, 0.25 * high - 0.25 * low


def public_features(item_features, n_items: int) -> np.ndarray:
    """Return public features of the items: (n_items, n_item_features)."""
    if item_features is None:
        return np.zeros((n_items, 0))
    refuse_masked(item_features, "item_features")
    features = as_numbers(item_features, "biufO")
    if features is None or features.ndim != 2 or len(features) != n_items:
        raise ValueError(
            "item_features must contain numbers, of shape (n_items, n_item_features) "
            f"with n_items = {n_items} as in items; encode text as numbers, for "
            "example with pandas.get_dummies"
        )
    if not np.isfinite(features).all():
        raise ValueError("item_features must be finite; fill in what is missing")
    return features


def refuse_another_order(item_features, items) -> None:
    """Refuse a dataframe of features whose index has the items, but not as `items`."""
    if not hasattr(item_features, "iloc") or items is None or np.ndim(items) != 1:
        return
    labels, given = list(item_features.index), list(items)
    with contextlib.suppress(TypeError):  # of labels without a hash
        common = labels != list(range(len(labels))) and set(labels) & set(given)
        if labels != given and common:
            raise ValueError(
                "item_features has an index of item ids that differ from items, or are "
                "in a different order; pass items=item_features.index, or "
                "item_features.to_numpy() if its rows follow items"
            )


def _is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def open_path(X):
    """Return the parquet files at a path, opened; other tables unchanged."""
    return opened(X) if isinstance(X, (str, os.PathLike)) else X


# Names of LensKit; where columns are only numbered, users are first, items second.
_DEFAULTS = {"user_feature": ("user_id", 0), "item_feature": ("item_id", 1)}


@dataclass(frozen=True)
class RatingsTable:
    """A ratings table in memory, and the positions of its users and items."""

    table: Table
    user: int
    item: int

    @property
    def users(self) -> np.ndarray:
        return id_array(self.table.column(self.user), "user_feature")

    @property
    def items(self) -> np.ndarray:
        return id_array(self.table.column(self.item), "item_feature")

    def column_of_users(self):
        """Return the column of users as it was given."""
        column = self.table.given(self.user)
        check_finite([as_array(column)])
        return column


def read_ratings(estimator, X) -> RatingsTable:
    """Read a table for a fitted estimator, without a charge, into this process."""
    X = brought_here(X)
    if sparse.issparse(X):
        check_matrix(estimator, X, reset=False)
        return RatingsTable(Table(np.column_stack(entries_of(X)[:2])), 0, 1)
    X = open_path(X)
    file = parquet(X)
    table = Table(X if file is None else file.table())
    return RatingsTable(table, *compared_columns(estimator, table, reset=False))


def _refuse_another_kind(items, dtypes: list, item: int) -> None:
    """Refuse items of a text dtype if the ids of the catalog are numbers."""
    catalog = read_catalog(items)
    dtype = dtypes[item if len(dtypes) > 1 else 0] if dtypes else None
    if isinstance(catalog, IdIndex) and dtype is not None and is_text(dtype):
        catalog.find(["0"], "item_feature")


def check_matrix(estimator, X, *, reset: bool) -> None:
    """Check the form of a matrix of ratings: users are rows, items columns."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(
            "X must contain real numbers in rows and columns if it is sparse"
        )
    refuse_malformed(X)
    check_sizes(X.shape[0], 2)
    if not X.shape[1]:
        raise ValueError("X must have a column for each item, and has 0 feature(s)")
    if X.format == "bsr":
        # One user's entries would decide which zeros of others are stored.
        raise ValueError(
            "X must not be a sparse matrix in blocks, whose padding cannot be "
            "distinguished from ratings of 0: pass X.tocsr() after eliminate_zeros()"
        )
    if not reset and estimator.n_features_in_ != 2:
        raise ValueError(
            f"X has 2 features, as the entries of a sparse matrix do, but "
            f"{type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input: pass a table"
        )
    _compare_with_catalog(estimator, X.shape, reset)
    if reset:
        validate_data(estimator, np.empty((1, 2)), reset=True, skip_check_array=True)


def _compare_with_catalog(estimator, shape: tuple[int, int], reset: bool) -> None:
    """Refuse a matrix whose columns are not the items of the catalog."""
    items = estimator.items
    if not reset:
        items = None if estimator.hashed_ else estimator.items_
    catalog, n_columns = read_catalog(items), shape[1]
    if isinstance(catalog, range):
        return
    ids = catalog.ids
    if ids.dtype != object and np.array_equal(np.sort(ids), np.arange(n_columns)):
        return
    remedy = f"items=range({n_columns}) for these columns"
    if len(ids) == shape[0] != n_columns:
        remedy = f"X.T if the rows of X are the items, with items=range({len(ids)})"
    raise ValueError(
        f"X is a sparse matrix with {n_columns} columns, which are the items 0 to "
        f"{n_columns - 1}, but items contains {len(ids)} ids that differ: pass {remedy}"
    )


def _refuse_wide(estimator, n_columns: int) -> None:
    """Refuse a table without names that has one column per item of the catalog."""
    n_items = 0 if isinstance(estimator.items, Integral) else np.size(estimator.items)
    by_default = all(getattr(estimator, k) == v for k, (v, _) in _DEFAULTS.items())
    if by_default and n_columns == n_items > 3:
        raise ValueError(
            f"X has {n_columns} columns, as many as items: pass a matrix of users x "
            "items as scipy.sparse.csr_array(X); if X is a table of ratings, set "
            "user_feature and item_feature"
        )


def entries_of(X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, columns and values of a matrix's entries: users first."""
    entries = X.tocsr(copy=True)
    entries.sum_duplicates()
    entries = entries.tocoo()
    check_sizes(len(entries.data), 2)
    check_finite([entries.data])
    users, items = entries.row.astype(np.int64), entries.col.astype(np.int64)
    return users, items, entries.data.astype(np.float64)


def compared_columns(estimator, table, *, reset: bool) -> tuple[int, int]:
    """Find users and items, and note the columns of a fit or compare others to them."""
    names, like, shape = table.names, table.like, table.shape
    by_name = names is not None and all(isinstance(name, str) for name in names)
    by_name = by_name and hasattr(estimator, "rating_feature")
    by_name = by_name and not are_numbered(names)
    if by_name:
        check_sizes(*shape)
        found = find_columns(estimator, names, len(names))
        like = select_columns(like, names, list(found))
    elif reset:
        _refuse_wide(estimator, shape[1])
    validate_data(estimator, like, reset=reset, skip_check_array=True)
    check_sizes(*shape)
    found = find_columns(estimator, names, shape[1])
    for place, name in zip(found, ("user_feature", "item_feature"), strict=True):
        check_id_type(table, place, name)
    if reset:
        if names is not None:
            _warn_of_places(estimator, names)
        _refuse_another_kind(estimator.items, table.dtypes, found[1])
    return found


def check_sizes(n_rows: int, n_columns: int) -> None:
    if n_columns < 2:
        raise ValueError(
            f"X must have a column of users and one of items, but has n_features = "
            f"{n_columns} (1 feature(s) where a minimum of 2 is required)"
        )
    if not n_rows:
        raise ValueError("X: Found array with 0 sample(s); a minimum of 1 is required")


def check_finite(columns: list) -> None:
    for column in columns:
        if column.dtype.kind in "fc" and not np.isfinite(column).all():
            raise ValueError(
                "Input X contains NaN or infinity in a column of users, items or "
                "ratings: drop such rows"
            )


def find_columns(estimator, names, n_columns: int) -> tuple[int, int]:
    """Return the positions of users and items."""
    user, item = (_find_column(estimator, name, names, n_columns) for name in _DEFAULTS)
    if user == item:
        raise ValueError(
            "user_feature and item_feature name the same column; name two columns"
        )
    return user, item


def _warn_of_places(estimator, names) -> None:
    """State which columns are users and items, unless names tell."""
    guessed = [
        parameter
        for parameter, (default, _) in _DEFAULTS.items()
        if getattr(estimator, parameter) == default
    ]
    if guessed and are_numbered(names):
        warnings.warn(
            "X has no columns user_id and item_id: the first is used for users and "
            f"the second for items; name {' and '.join(guessed)}, because the "
            "guarantee protects users",
            UserWarning,
            stacklevel=4,
        )


def are_numbered(names) -> bool:
    """Return whether column names are only numbers, or a stem with numbers."""
    if all(isinstance(name, Integral) for name in names):
        return True
    parts = [re.fullmatch(r"(.*?)(\d+)", str(name), re.DOTALL) for name in names]
    if not all(parts) or len({part[1] for part in parts}) > 1:
        return False
    numbers = [int(part[2]) for part in parts]
    return all(after == before + 1 for before, after in pairwise(numbers))


def _find_column(estimator, parameter: str, names, n_columns: int) -> int:
    """Return the position of the column that a parameter names."""
    feature = getattr(estimator, parameter)
    check_feature(feature, parameter)
    default, position = _DEFAULTS[parameter]
    if names is None:
        if isinstance(feature, str) and feature != default:
            raise ValueError(
                f"{parameter}={feature!r}, but X has no column names: pass its "
                "position, or pass a dataframe"
            )
        feature = position if isinstance(feature, str) else feature
        names = range(n_columns)
    elif feature == default and default not in names and are_numbered(names):
        feature = position
    try:
        return position_of(feature, list(names), parameter) % n_columns
    except ValueError as error:
        said = str(error)
    raise ValueError(f"{said}. Set user_feature and item_feature to the column names")


# Integers up to here are exact in float64.
_LARGEST = 2**53


def joined_columns(users, numbers: np.ndarray, names: list, kind: str, like):
    """Put numbers beside a column of users, which keeps its type."""
    if kind == "pandas":
        refuse_same_names(names, "transform")
        import pandas as pd

        index = like.index if hasattr(like, "iloc") else None
        out = pd.DataFrame(numbers, columns=names[1:], index=index)
        # Pandas would take strings of polars without their trailing NULs.
        users = as_array(users) if _is_polars(users) else users
        out.insert(0, names[0], users)
        return out
    if kind == "polars":
        refuse_same_names(names, "transform")
        import polars as pl

        columns = [_plain(users), *numbers.T]
        return pl.DataFrame(dict(zip(names, columns, strict=True)))
    users = as_array(users)
    if _fits_float64(users, isinstance(like, (list, tuple))):
        return np.column_stack([users.astype(np.float64), numbers])
    return np.column_stack([users.astype(object), numbers.astype(object)])


def _fits_float64(column: np.ndarray, of_lists: bool) -> bool:
    """Return whether a column's ids stay distinct as floats."""
    if column.dtype.kind in "iu":
        return bool((column <= _LARGEST).all() and (column >= -_LARGEST).all())
    if column.dtype == object:
        return of_lists and all(map(_is_exact, column.tolist()))
    return column.dtype.kind in "bf"


def _is_exact(entry) -> bool:
    """Return whether a list's entry is a number that float64 holds exactly."""
    if isinstance(entry, Integral):
        return abs(int(entry)) <= _LARGEST
    return isinstance(entry, (float, np.float32, np.float16, np.bool_))


def _is_polars(column) -> bool:
    return type(column).__module__.startswith("polars")


def _plain(column):
    """Polars wants its own columns, lists of objects and None, or other arrays."""
    if _is_polars(column):
        return column
    column = np.asarray(column)
    if column.dtype.kind != "O":
        return column
    return [None if _is_missing(value) else value for value in column.tolist()]


def _is_missing(value) -> bool:
    named = type(value).__name__ in ("NoneType", "NAType", "NaTType")
    return named or (isinstance(value, (float, np.generic)) and value != value)
