"""Codes and lookups of user and item ids, and columns by name.

Numbers that may stand for several ids at once are refused.
"""

from __future__ import annotations

import datetime
import numbers
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .readers import (
    column_names,
    column_of_lists,
    objects,
    objects_of_lists,
    read_quietly,
    refuse_masked,
    shape_of_lists,
)

# The unit in which times and durations are compared.
_UNIT = "[ns]"

# Kinds that numpy sorts fast: booleans, integers, floats, durations and times.
_SORTABLE = "biufmM"
_NUMPY_TIMES = (np.datetime64, np.timedelta64)
_TIMES = (*_NUMPY_TIMES, datetime.date, datetime.timedelta)

# A table of consecutive numbers has at most so many entries an id, and so many.
_ENTRIES_AN_ID, _ENTRIES = 4, 1 << 16


def encode_ids(ids, name: str) -> tuple[np.ndarray, int]:
    """Return codes of ids, from 0 by first appearance, and the number of distinct ids.

    Equal ids share a code: 1 and 1.0 are equal, 1 and "1" are not. Tables of numpy,
    pandas or polars get the same codes. Missing ids (None, NaN, NaT, NA), texts or
    bytes that end in NUL, and unhashable ids are refused.
    """
    return encode_array(id_array(ids, name), name)


def encode_array(ids: np.ndarray, name: str) -> tuple[np.ndarray, int]:
    """Apply :func:`encode_ids` to the result of :func:`id_array`."""
    codes, first = codes_and_rows(ids, name)
    return codes, len(first)


def codes_and_rows(ids: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of the ids of an :func:`id_array`, and the first row of each."""
    if ids.dtype.kind in _SORTABLE:
        return _encode_sortable(ids, name)
    codes, n_ids = _encode_hashable(ids, name)
    return codes, _first_rows(codes, n_ids)


def joined_ids(parts, name: str) -> np.ndarray:
    """Join ids of several parts, each from :func:`id_array`.

    Times or durations in some parts only are refused: as numbers, they could equal ids.
    """
    some = [part for part in parts if len(part)] or list(parts)[:1]
    kinds = {part.dtype for part in some}
    if len(kinds) > 1:
        if any(kind.kind in "mM" for kind in kinds):
            raise ValueError(
                f"{name} contains times in some parts of the table, and other ids in "
                "others: convert them to one type"
            )
        # No type of numbers need hold all of them exactly.
        some = [part.astype(object) for part in some]
    return np.concatenate(some)


def check_ids(ids: np.ndarray, name: str) -> None:
    """Refuse what :func:`encode_array` refuses, without encoding."""
    if ids.dtype.kind in _SORTABLE:
        _check_present(ids, name)
    else:
        _encode_hashable(ids, name)


def is_dense(ids: np.ndarray, low: int, high: int) -> bool:
    """Return whether a lookup table from `low` to `high` pays off for so many ids."""
    few = high - low <= _ENTRIES_AN_ID * len(ids) + _ENTRIES
    return ids.dtype.kind in "iu" and few


def places_from(ids: np.ndarray, low: int) -> np.ndarray:
    """Return whole numbers minus the lowest one."""
    if ids.dtype == np.uint64:
        return (ids - np.uint64(low)).astype(np.intp)
    return ids.astype(np.int64) - low


def read_column(X, feature, name: str):
    """Return the column of a table that a parameter names, in the table's own type.

    X is a dataframe of any library, or a 2-D array-like. `feature` is a position,
    possibly negative, or a name; `name` is the parameter, for errors.
    """
    check_feature(feature, name)
    columns = column_names(X)
    if columns is None:
        return _array_column(X, feature, name)
    position = position_of(feature, columns, name)
    # polars and pyarrow take a column by name, pandas by position.
    return X.iloc[:, position] if hasattr(X, "iloc") else X[columns[position]]


def check_feature(feature, name: str) -> None:
    """Refuse values that are neither a position nor a name of a column."""
    is_position = isinstance(feature, numbers.Integral)
    if isinstance(feature, bool) or not (is_position or isinstance(feature, str)):
        raise TypeError(
            f"{name} must be the position (an int) or the name (a str) of a column, "
            f"got {feature!r}"
        )


def as_array(column, name: str = "a column") -> np.ndarray:
    """Convert a column to an array; keep strings of polars, refuse masked entries."""
    refuse_masked(column, name)
    return _as_array(column)


def _as_array(column) -> np.ndarray:
    if type(column).__module__.startswith("polars"):
        # Of the buffer numpy would make fixed-width strings without trailing NULs.
        return read_quietly(column.to_numpy)
    if isinstance(column, (list, tuple)):
        return read_quietly(lambda: objects_of_lists(column))
    return read_quietly(lambda: np.asarray(column))


def id_array(ids, name: str) -> np.ndarray:
    """Return ids as an array: numbers, times and durations in ns, or objects."""
    refuse_masked(ids, name)
    ids = _as_array(list_as_objects(ids))
    if ids.ndim != 1:
        shown = f"an array of shape {ids.shape}" if ids.ndim else "a single value"
        raise ValueError(f"{name} must be a list or 1D array of ids, got {shown}")
    if ids.dtype == object:
        ids = _times_of_objects(ids, name)
    if ids.dtype.kind in "mM":
        return _in_nanoseconds(ids, name)
    return ids.astype(object) if ids.dtype.kind in "SUT" else ids


def list_as_objects(ids):
    """Return a list of ids as an object array; other values unchanged."""
    if not isinstance(ids, (list, tuple)):
        return ids
    return objects(ids)


@dataclass(frozen=True)
class Time:
    """A time or duration among ids of other kinds; it equals no number."""

    kind: str
    nanoseconds: int


def _times_of_objects(ids: np.ndarray, name: str) -> np.ndarray:
    """Convert zoneless times and durations among objects to nanoseconds, one by one."""
    if not any(issubclass(kind, _TIMES) for kind in set(map(type, ids.tolist()))):
        return ids
    keys = list(map(_numpy_time, ids.tolist()))
    types = {key.dtype for key in keys if isinstance(key, _NUMPY_TIMES)}
    exact: dict = {}
    for dtype in types:
        rows = [i for i, key in enumerate(keys) if getattr(key, "dtype", None) == dtype]
        values = _in_nanoseconds(np.array([keys[i] for i in rows]), name)
        exact.update(zip(rows, values, strict=True))
    if len(exact) == len(keys) and len({dtype.kind for dtype in types}) == 1:
        return np.array([exact[i] for i in range(len(keys))])
    found = objects(keys)
    for i, value in exact.items():
        found[i] = _time_of(value)
    return found


def _time_of(value):
    """Return a numpy time in ns as a `Time`, which equals no number; NaT unchanged."""
    if np.isnat(value):
        return value
    return Time(value.dtype.kind, int(value.astype(np.int64)))


def ids_as_objects(ids: np.ndarray) -> np.ndarray:
    """Convert an :func:`id_array` to objects, as for ids of mixed kinds."""
    if ids.dtype.kind in "mM":  # astype would make integers
        return objects(list(map(_time_of, ids)))
    return ids.astype(object)


def _numpy_time(key):
    """Return a zoneless time, or a duration, as a numpy scalar; others unchanged."""
    # Instants with a zone are equal where they are the same, in any zone.
    if not isinstance(key, _TIMES) or getattr(key, "tzinfo", None) is not None:
        return key
    if isinstance(key, _NUMPY_TIMES):
        return key
    is_duration = isinstance(key, datetime.timedelta)
    # Times of pandas have nanoseconds.
    method = getattr(key, "to_timedelta64" if is_duration else "to_datetime64", None)
    if method is not None:
        return method()
    return np.timedelta64(key) if is_duration else np.datetime64(key)


def words_of_instant(time: datetime.datetime) -> str:
    """Return the same text for all times with a zone that denote one instant."""
    time = time.astimezone(datetime.timezone.utc)
    nanoseconds = 1000 * time.microsecond + getattr(time, "nanosecond", 0)
    return f"instant {time:%Y-%m-%dT%H:%M:%S} {nanoseconds}"


def _in_nanoseconds(ids: np.ndarray, name: str) -> np.ndarray:
    kind = f"{ids.dtype.kind}8{_UNIT}"
    if np.datetime_data(ids.dtype)[0] == "generic":
        return ids.astype(kind)  # NaT alone: missing
    out = ids.astype(kind)
    if not np.array_equal(out.astype(ids.dtype), ids, equal_nan=True):
        raise ValueError(
            f"{name}: times must be whole nanoseconds between 1678 and 2262; turn "
            "others into strings"
        )
    return out


def id_kinds(ids: np.ndarray) -> frozenset:
    """Return the kinds of ids: 1 and 1.0 are numbers, "1" is a string."""
    if ids.dtype.kind in "biuf":
        return frozenset({"numbers"})
    if ids.dtype.kind in "mM":
        return frozenset({"times" if ids.dtype.kind == "M" else "durations"})
    return frozenset(_kind(cls) for cls in set(map(type, ids.tolist())))


def check_kinds(kinds: frozenset, name: str) -> None:
    """Refuse ids of several kinds, as returned by :func:`id_kinds`."""
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must contain ids of one kind, got {', '.join(sorted(kinds))}: 1 "
            "and '1' are different ids; convert them to one type"
        )


def _kind(cls: type) -> str:
    bases = (
        ("strings", str),
        ("ids of type bytes", bytes),
        ("numbers", (numbers.Number, np.bool_)),
        ("times or durations", Time),
        ("times with a zone", datetime.datetime),
    )
    for kind, base in bases:
        if issubclass(cls, base):
            return kind
    return f"ids of type {cls.__name__}"


def _check_present(ids: np.ndarray, name: str) -> None:
    if ids.dtype.kind in "fmM" and np.any(np.isnan(ids)):
        _refuse_missing(name)


def _first_rows(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return the first row of each code, or the number of rows if it does not occur."""
    first = np.full(n_codes, len(codes), dtype=np.intp)
    np.minimum.at(first, codes, np.arange(len(codes)))
    return first


def _encode_sortable(ids, name):
    _check_present(ids, name)
    whole = ids.dtype.kind in "iu" and len(ids)
    low, high = (int(ids.min()), int(ids.max())) if whole else (0, 0)
    if whole and is_dense(ids, low, high):
        # Without a sort: numbers that lie close together are places in a table.
        places = places_from(ids, low)
        first = _first_rows(places, high - low + 1)
    else:
        _, first, places = np.unique(ids, return_index=True, return_inverse=True)
        places = places.reshape(-1)
    order = np.argsort(first)[: np.count_nonzero(first < len(ids))]
    appearance = np.empty(len(first), dtype=np.intp)
    appearance[order] = np.arange(len(order))
    return appearance[places], first[order]


def _encode_hashable(ids, name):
    table = {}
    try:
        numbered = (table.setdefault(key, len(table)) for key in ids.tolist())
        codes = np.fromiter(numbered, dtype=np.intp, count=len(ids))
        missing = any(_is_missing(key) for key in table)
    except (MemoryError, Warning):
        raise
    except Exception:  # of foreign objects: their words may quote ids
        table = None
    if table is None:
        raise TypeError(
            f"{name} must contain hashable ids: each argument must be a string or a "
            "number"
        )
    if missing:
        _refuse_missing(name)
    if any(_ends_in_nul(key) for key in table):
        raise ValueError(
            f"{name} must not contain ids that end in a NUL character: numpy's arrays "
            "of fixed width drop it, so that two ids become one; strip it from all of "
            "them, or write such ids as numbers or in hexadecimal"
        )
    return codes, len(table)


def _ends_in_nul(key) -> bool:
    if isinstance(key, str):
        return str.endswith(key, "\0")
    return isinstance(key, bytes) and bytes.endswith(key, b"\0")


def _is_missing(key):
    try:
        return key is None or bool(key != key)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor unequal
        return True


def _refuse_missing(name):
    raise ValueError(f"{name} must not contain missing ids: drop such rows first")


def position_of(feature, columns, name):
    """Return the position of the column that a parameter names."""
    if isinstance(feature, str):
        positions = [i for i, column in enumerate(columns) if column == feature]
        if not positions:
            # As ColumnTransformer and FeatureUnion write it: remainder__user_id.
            behind = [str(column).endswith(f"__{feature}") for column in columns]
            positions = [i for i, ends in enumerate(behind) if ends]
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
            f"{name}={feature!r}, but X has no column names: pass its position, or "
            'pass a dataframe (in a pipeline, use set_output(transform="pandas"))'
        )
    if sparse.issparse(X):
        X = X.tocsc()
    elif not isinstance(X, (list, tuple)):
        X = np.asarray(X)
    shape = shape_of_lists(X) if isinstance(X, (list, tuple)) else X.shape
    if len(shape) != 2:
        raise ValueError(f"X must have rows and columns, got an array of {shape}")
    position = _in_range(feature, shape[1], name)
    if sparse.issparse(X):
        position %= shape[1]
        return X[:, [position]].toarray().ravel()
    if isinstance(X, (list, tuple)):
        return column_of_lists(X, position)
    return X[:, position]


# Numbers that may stand for several whole ones.
_INEXACT = (float, complex, np.inexact)


def check_exact(ids, name: str) -> None:
    """Refuse numbers that cannot be ids, or that may stand for several ids.

    Only the dtype is read and, of floats, whether each is whole and small enough to be
    exact. A table is refused because of a row whose id is invalid by itself, never
    because of how ids compare. No id is quoted.
    """
    refuse_masked(ids, name)
    ids = objects(ids) if isinstance(ids, (list, tuple)) else np.asarray(ids)
    check_exact_array(ids, name)


def check_exact_array(ids: np.ndarray, name: str) -> None:
    """Apply :func:`check_exact` to an array without a mask."""
    owners = name.replace("_feature", "s")  # the argument beside the parameter
    if ids.dtype == np.float16:
        raise ValueError(
            f"{name}: float16 cannot hold every whole number beyond 2048 exactly, so "
            f"several {owners} may have become one; use integers or strings"
        )
    if ids.dtype == object:
        keys = ids.ravel().tolist()
        for kind in set(map(type, keys)):
            if issubclass(kind, _INEXACT):
                alike = np.array([key for key in keys if type(key) is kind])
                _check_float(alike, name, owners)
    elif ids.dtype.kind in "fc":
        _check_float(ids, name, owners)


def _check_float(ids: np.ndarray, name: str, owners: str) -> None:
    if ids.dtype.kind == "c":
        raise ValueError(f"{name}: complex numbers cannot be ids; use integers or text")
    # From here on, neighboring whole numbers are one and the same float.
    # Of longer floats, Python hashes the nearest of 64 bits.
    largest = 2.0 ** min(np.finfo(ids.dtype).nmant + 1, 53)
    if np.any(np.abs(ids) >= largest):
        raise ValueError(
            f"{name}: ids of {largest:g} or more are not exact in {ids.dtype}, so "
            f"several {owners} may have become one; use integers or strings, or pass "
            f"such ids as {owners}=..."
        )
    # NaN is no id either, but a missing one, of which others tell.
    if np.any((ids != np.trunc(ids)) & (ids == ids)):
        raise ValueError(
            f"{name}: numbers that are not whole, such as NaN, cannot be ids. If "
            "earlier steps moved or scaled columns, name the column of ids: keep "
            'names with set_output(transform="pandas"), and leave that column '
            "unchanged"
        )


# Codes of users are held in so many bits.
_MOST_IDS = 2**32


def _is_exact(ids: np.ndarray, numbers: np.ndarray) -> bool:
    """Return whether converting a list of ids to an array lost nothing."""
    if numbers.dtype.kind in "biu":
        return True
    return numbers.dtype.kind == "f" and all(isinstance(k, float) for k in ids.tolist())


def _same_signs(keys: np.ndarray, ids: np.ndarray):
    return True if ids.dtype.kind in "mM" else (keys < 0) == (ids < 0)


class IdIndex:
    """Distinct ids and their codes, in the order of first appearance.

    `codes` has the code of each row's id. Missing or inexact ids, and ids of several
    kinds, are refused: lookups rely on one kind, and refuse others whoever is in the
    index.
    """

    def __init__(self, ids, name: str):
        ids = id_array(ids, name)
        self._name = name
        self.codes, first = codes_and_rows(ids, name)
        check_exact_array(ids, name)
        self._kinds = id_kinds(ids)
        check_kinds(self._kinds, name)
        if len(first) > _MOST_IDS:
            raise ValueError(f"{name} must contain at most 2**32 different ids")
        self._keys = ids[first]
        self._build()

    def __len__(self) -> int:
        return len(self._keys)

    def _build(self) -> None:
        self._table = self._order = None
        if self._keys.dtype.kind in _SORTABLE:
            self._order = np.argsort(self._keys, kind="stable")
        else:
            self._table = self._make_table()

    def _make_table(self) -> dict:
        return {key: code for code, key in enumerate(self._keys.tolist())}

    @property
    def ids(self) -> np.ndarray:
        """Distinct ids, in the order of their codes."""
        return self._keys

    @property
    def first(self):
        """Id that appeared first."""
        # Of times in ns, tolist makes integers.
        return self._keys[0] if self._table is None else self._keys.tolist()[0]

    def without_codes(self) -> IdIndex:
        """Drop the codes of the rows that the index was built from."""
        self.codes = None
        return self

    def find(self, ids, name: str) -> np.ndarray:
        """Return codes of ids, -1 for unknown ones; refuse ids of another kind."""
        ids = id_array(ids, name)
        check_ids(ids, name)
        if not len(ids):
            return np.empty(0, dtype=np.intp)
        unseen = id_kinds(ids) - self._kinds
        if unseen:
            known = (
                "in fit it contained"
                if name == self._name
                else f"{self._name} contains"
            )
            raise ValueError(
                f"{name} contains {', '.join(sorted(unseen))}, but {known} "
                f"{', '.join(sorted(self._kinds))}: 1 and '1' are different ids; "
                "convert one to the type of the other"
            )
        if self._keys.dtype.kind in "mM":  # of one kind and unit, as the ids are
            return self._find_sorted(ids)
        if self._table is None:
            numbers = ids if ids.dtype != object else np.asarray(ids.tolist())
            if ids.dtype != object or _is_exact(ids, numbers):
                return self._find_sorted(numbers)
        # As Python's numbers, which compare exactly whatever their types.
        table = self._make_table() if self._table is None else self._table
        return np.array([table.get(key, -1) for key in ids.tolist()], dtype=np.intp)

    def _find_sorted(self, ids: np.ndarray) -> np.ndarray:
        """Look up numbers of any dtype that the dtype of the keys holds exactly."""
        with np.errstate(all="ignore"):
            keys = ids.astype(self._keys.dtype)
            # The signs tell where unsigned integers wrapped around.
            exact = (keys.astype(ids.dtype) == ids) & _same_signs(keys, ids)
        code = self._codes_of(keys)
        return np.where(exact & (self._keys[code] == keys), code, -1)

    def _codes_of(self, keys: np.ndarray) -> np.ndarray:
        """Return codes of keys in the index, and arbitrary codes of other keys."""
        low, high = self._keys[self._order[[0, -1]]]
        if not (keys.dtype.kind in "iu" and is_dense(keys, int(low), int(high))):
            place = np.searchsorted(self._keys, keys, sorter=self._order)
            return self._order[np.minimum(place, len(self._order) - 1)]
        table = np.zeros(int(high) - int(low) + 1, dtype=np.intp)
        table[places_from(self._keys, int(low))] = np.arange(len(self._keys))
        # Those outside are taken for the lowest: no difference overflows.
        inside = (keys >= low) & (keys <= high)
        return table[places_from(np.where(inside, keys, low), int(low))]

    def joined(self, ids) -> IdIndex:
        """Return an index with additional ids, of the same kind and not yet in it."""
        added = id_array(ids, self._name)
        keys = self._keys
        if added.dtype != keys.dtype:  # one type might not hold both exactly
            added, keys = added.astype(object), keys.astype(object)
        new = object.__new__(IdIndex)
        new._name, new.codes = self._name, None
        new._kinds = self._kinds
        new._keys = np.concatenate([keys, added])
        new._build()
        return new


# Names that an error shows.
_SHOWN = 5


def check_feature_names(names, n_features: int) -> tuple[str, ...] | None:
    """Return declared feature names as strings; raise if they are invalid."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError("feature_names must be a sequence of strings, or None")
    names = list(names)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("feature_names must be strings")
    names = tuple(str(name) for name in names)
    _refuse_twice("feature_names", names)
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must have n_features={n_features} names, got {len(names)}"
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise ValueError("feature_names must be valid Unicode") from None
    return names


def in_declared_order(X, names: Sequence[str] | None, beside=()):
    """Return a table with its features in the declared order, without reading values.

    `names` is None if columns are identified by position. `beside` maps parameters to
    columns of X that are no features, and keep their positions. A dataframe labeled 0,
    1, ... counts as unnamed. X itself is returned if nothing moves. It is an error if
    names are declared and X has others or none, or the other way round.
    """
    labels = column_names(X)
    if labels == list(range(len(labels or ()))):
        labels = None
    if names is None and labels is None:
        return X
    if names is None:
        raise ValueError(
            "X has column names, but the task has no feature_names. Make the task with "
            "feature_names, or pass an array with its columns in the agreed order."
        )
    if labels is None:
        raise ValueError(
            "the task has feature_names, but X has no column names. Pass a dataframe "
            f"with these columns: {first_names(names)}."
        )
    others = {position_of(feature, labels, name) for name, feature in beside}
    own = {label: j for j, label in enumerate(labels) if j not in others}
    _refuse_twice("columns of X", labels)
    declared = set(names)
    for problem, listed in (
        ("has no columns", [name for name in names if name not in own]),
        ("has unexpected columns", [label for label in own if label not in declared]),
    ):
        if listed:
            raise ValueError(
                f"X {problem} {first_names(listed)}. Its columns must be the "
                "feature_names of the task, in any order."
            )
    order = list(range(len(labels)))
    for place, name in zip(own.values(), names, strict=True):
        order[place] = own[name]
    return X if order == sorted(order) else select_columns(X, labels, order)


def select_columns(X, labels: list, positions: list[int]):
    """Return some columns of a dataframe, in the given order."""
    if hasattr(X, "iloc"):
        return X.iloc[:, positions]
    return X.select([labels[j] for j in positions])


def _refuse_twice(name: str, labels: Iterable) -> None:
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"{name} must differ, got {twice[0]!r} twice")


def first_names(names: Sequence) -> str:
    """Return a few names as text, for an error."""
    more = ", ..." if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more
