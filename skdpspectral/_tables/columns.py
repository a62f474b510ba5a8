"""Columns of frames, arrays and lists: names, dtypes, and entries read one by one.

``numpy.asarray`` converts a list to one type for all entries, so that a text turns
numbers of other rows into texts, and a fraction turns large integers into floats. So do
libraries of frames where a value is missing. Here each entry keeps its type.

Every id is converted by itself, and refused by itself if it is neither a whole number
nor text. Numbers become int64, so that 1, 1.0 and True are one id in any table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

_LISTS = (list, tuple)


def column_names(X):
    """Return the column names of a dataframe; None for other types."""
    # Of the type: columns of pandas are attributes, too.
    name = "column_names" if hasattr(type(X), "column_names") else "columns"  # pyarrow
    columns = getattr(X, name, None)
    return None if columns is None else list(columns)


def dtypes_of(X) -> list:
    """Return the dtypes of the columns, or of the whole table; empty for lists."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return [X.dtype]
    if type(X).__module__ == "pyarrow.lib":  # tables and columns, and no files
        return list(X.schema.types) if hasattr(X, "schema") else [X.type]
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None:
        return [getattr(X, "dtype", None)]
    return list(dtypes) if hasattr(dtypes, "__iter__") else [dtypes]


# Kinds of dtypes. A day is a date without a time; objects may be anything.
NUMBER, COMPLEX, DURATION, DATE, DAY = "number", "complex", "duration", "date", "day"
TIME, TEXT, BYTES, OBJECTS, NEVER = "time", "text", "bytes", "objects", "never"
_KINDS_OF_NUMPY = {
    **dict.fromkeys("biuf", NUMBER),
    **dict.fromkeys("SUT", TEXT),
    **{"c": COMPLEX, "m": DURATION, "M": DATE, "O": OBJECTS, "V": NEVER},
}

# Beginnings of other dtypes in lower case: of pandas, polars and pyarrow. Those of
# lists, structs and intervals contain no number.
_KINDS = {
    NUMBER: r"(sparse\[)?(u?int\d|float|double|half|bool|decimal)",
    DURATION: "timedelta|duration",
    DATE: "datetime|timestamp",
    DAY: "date",
    TIME: "time",
    TEXT: r"((large_)?string|utf8|str|categorical)(_view)?\b",
    BYTES: r"(large_|fixed_size_)?binary(_view)?\b",
    NEVER: "interval|period|(large_|fixed_size_)?list|array|struct|map|null|object",
}


def kind_of(dtype) -> str | None:
    """Return the kind of the values of a dtype, or of its categories; else None."""
    own = own_type(dtype)
    if isinstance(own, np.dtype):
        kind = _KINDS_OF_NUMPY[own.kind]
        if kind == OBJECTS and own is not dtype:  # categories, which a type declares
            return TEXT if all(isinstance(c, str) for c in dtype.categories) else kind
        return kind
    name = str(own).lower().removeprefix("dictionary<values=")
    return next((kind for kind, start in _KINDS.items() if re.match(start, name)), None)


def own_type(dtype):
    """Return a dtype; for categories, that of the categories."""
    categories = getattr(dtype, "categories", None)
    return dtype if categories is None else getattr(categories, "dtype", dtype)


# Kinds of dates, times and durations; and of text: objects may be anything.
DATES, TEXTS = (DURATION, DATE, DAY, TIME), (TEXT, BYTES)

# What to do about columns of text.
CONVERT_TEXT = "convert text to numbers first, for example with DPTableVectorizer"
_REFUSED = {
    **dict.fromkeys(
        DATES,
        "must contain numbers, not dates or durations: turn them into numbers of a "
        "unit that you choose",
    ),
    **dict.fromkeys(TEXTS, f"has dtype {{}}; {CONVERT_TEXT}"),
    COMPLEX: "must contain real numbers: Complex data not supported",
    NEVER: "must contain numbers: columns of lists, structs, intervals, periods or of "
    "the types null and Object cannot be converted to numbers",
}


def refusal_of(dtype, name=None) -> str | None:
    """Return why a column of X is not converted to numbers; None if it may be."""
    column = "" if name is None else f" in column {name!r}"
    said = _REFUSED.get(kind_of(dtype))
    return said and "X " + said.format(f"{dtype}{column}")


def refuse_kinds(dtypes: list, labels: list | None, skip: int | None = None) -> None:
    """Refuse dtypes that are not converted to numbers; a frame's column may be left."""
    for place, dtype in enumerate(dtypes):
        if place != skip or labels is None:
            said = refusal_of(dtype, labels and labels[place])
            if said is not None:
                raise ValueError(said)


def refuse_nullable_integers(X) -> None:
    """Refuse integers that become floats of some precision if any is missing."""
    for dtype in dtypes_of(X):
        name = str(own_type(dtype)).lower().removeprefix("dictionary<values=")
        if not isinstance(dtype, np.dtype) and re.match(r"u?int\d|bool", name):
            raise ValueError(
                f"X has columns of dtype {dtype}, which become floats of another "
                "precision if any value is missing; convert them to float64 first"
            )


def is_sparse(X) -> bool:
    """Return whether a table is a sparse matrix, or a frame of sparse columns."""
    if not hasattr(X, "iloc"):
        return sparse.issparse(X)
    # scikit-learn makes a matrix of such a frame of pandas.
    dtypes = dtypes_of(X)
    return bool(dtypes) and all(str(dtype).startswith("Sparse[") for dtype in dtypes)


def is_arrow(X) -> bool:
    """Return whether X is a pyarrow table in memory."""
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "to_pandas")


def frame_of_arrow(X):
    """Convert a pyarrow table to pandas with dtypes that do not depend on values."""
    import pandas as pd

    return X.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)


def is_polars(X) -> bool:
    """Return whether X is a frame or a column of polars."""
    return type(X).__module__.startswith("polars")


def is_on_cluster(X) -> bool:
    """Return whether X is an array, dataframe or series of dask, which is imported."""
    array, frame = map(sys.modules.get, ("dask.array", "dask.dataframe"))
    return (array is not None and isinstance(X, array.Array)) or (
        frame is not None and isinstance(X, (frame.DataFrame, frame.Series))
    )


def refuse_on_cluster(X, estimator: str, name: str = "X") -> None:
    """Refuse dask collections, for an estimator whose rows must be in memory."""
    if is_on_cluster(X):
        raise TypeError(
            f"{estimator} does not take dask collections as {name}: pass "
            f"{name}.compute()"
        )


def refuse_same_names(names, where: str) -> None:
    """Refuse duplicate column names."""
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"{where} has several columns with the same name: rename them")


def check_feature(feature, name: str) -> None:
    """Refuse values that are neither a position nor a name of a column."""
    if isinstance(feature, bool) or not isinstance(feature, (Integral, str)):
        raise TypeError(
            f"{name} must be the position (an int) or the name (a str) of a column, "
            f"got {feature!r}"
        )


def position_of(feature, columns, name) -> int:
    """Return the position of the column that a parameter names."""
    if not isinstance(feature, str):
        if not -len(columns) <= feature < len(columns):
            raise ValueError(f"{name}={feature!r}, but X has {len(columns)} columns")
        return int(feature)
    positions = [i for i, column in enumerate(columns) if column == feature]
    if not positions:
        # As ColumnTransformer and FeatureUnion write it: remainder__user_id.
        behind = [str(column).endswith(f"__{feature}") for column in columns]
        positions = [i for i, ends in enumerate(behind) if ends]
    if len(positions) != 1:
        problem = "no column" if not positions else "several columns"
        raise ValueError(f"{name}={feature!r}, but X has {problem} of that name")
    return positions[0]


def place_of(X, feature, name: str) -> int:
    """Return the position, from 0, of the column of X that a parameter names."""
    check_feature(feature, name)
    names = column_names(X)
    if names is None and isinstance(feature, str):
        raise ValueError(
            f"{name}={feature!r}, but X has no column names: pass its position, or "
            'pass a dataframe (in a pipeline, use set_output(transform="pandas"))'
        )
    if names is None:
        shape = shape_of(X)
        if len(shape) != 2:
            raise ValueError(f"X must have rows and columns, got an array of {shape}")
        names = range(shape[1])
    return position_of(feature, names, name) % len(names)


def shape_of(X, name: str = "X") -> tuple[int, ...]:
    """Return the shape of an array-like after conversion to an array."""
    lists = isinstance(X, _LISTS)
    if any(isinstance(v, np.ma.MaskedArray) and v.ndim for v in (X if lists else [X])):
        raise ValueError(
            f"{name} is a masked array: pass an array without a mask, for example "
            f"{name}.filled(value) with a public value"
        )
    if lists:
        return objects_of_lists(X, name).shape
    return read_quietly(
        lambda: _own_shape(X), f"{name} could not be turned into an array"
    )


def _own_shape(X) -> tuple[int, ...]:
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(s, Integral) for s in shape):
        return tuple(int(size) for size in shape)
    if is_on_cluster(X):  # whose array would read all values
        return (len(X), *map(int, shape[1:]))
    return np.asarray(X).shape


def n_rows_in_memory(X) -> int:
    """Return the number of rows of a table; refuse files and other readers."""
    shape = shape_of(X)
    if not shape:
        raise TypeError(f"X must be a table in memory, got {type(X).__name__}")
    return shape[0]


def column_at(X, place: int):
    """Return a column in the table's own type; of a lazy array no other is read."""
    if isinstance(X, _LISTS):
        return objects([row[place] for row in X])
    if sparse.issparse(X):
        return X.tocsc()[:, [place]].toarray().ravel()
    if hasattr(X, "iloc"):
        return X.iloc[:, place]
    names = column_names(X)  # by which polars and pyarrow take a column
    return X[:, place] if names is None else X[names[place]]


def with_columns(X):
    """Return a table of which columns can be taken, with entries of their own types."""
    known = isinstance(X, _LISTS) or hasattr(X, "dtype")
    return X if known or column_names(X) is not None else read_entries(X, "X")


def read_column(X, feature, name: str):
    """Return the column of a table that a parameter names, in the table's own type."""
    place = place_of(X, feature, name)
    return column_at(with_columns(X), place)


def select_columns(X, labels: list, positions: list[int]):
    """Return some columns of a dataframe, in the given order."""
    if hasattr(X, "iloc"):
        return X.iloc[:, positions]
    return X.select([labels[j] for j in positions])


def column_apart(X, feature, name: str) -> tuple[Any, Any]:
    """Return a table without the column that a parameter names, and that column."""
    return apart_at(X, place_of(X, feature, name))


def apart_at(X, place: int) -> tuple[Any, Any]:
    """Return a table without the column at a place, and that column."""
    if isinstance(X, _LISTS):
        return [[*row[:place], *row[place + 1 :]] for row in X], column_at(X, place)
    names, n_columns = column_names(X), np.shape(X)[1]
    kept = [j for j in range(n_columns) if j != place]
    column = column_at(X, place)
    if names is not None:
        return select_columns(X, names, kept), column
    # A slice copies nothing, and leaves a memory map in its file.
    ends = {0: slice(1, None), n_columns - 1: slice(None, -1)}
    return X[:, ends.get(place, kept)], column


def as_array(column, name: str = "a column") -> np.ndarray:
    """Convert a column to an array; keep strings of polars, refuse masked entries."""
    refuse_masked(column, name)
    if isinstance(column, _LISTS):
        return read_quietly(lambda: objects_of_lists(column))
    # Of the buffer of polars numpy would make fixed-width strings without NULs.
    return read_quietly(
        column.to_numpy if is_polars(column) else lambda: np.asarray(column)
    )


def refuse_masked(values, name: str) -> None:
    """Refuse masked entries, of lists too: numpy uses the values under a mask."""
    if isinstance(values, _LISTS):
        for part in values:
            refuse_masked(part, name)
    elif isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values: drop or fill such rows first")


def as_numbers(values, kinds: str = "iufO") -> np.ndarray | None:
    """Return a parameter, or an array, as float64 numbers; None if they are not."""
    try:
        found = np.asarray(values)
        return found.astype(np.float64) if found.dtype.kind in kinds else None
    except (TypeError, ValueError, OverflowError):  # whose words may quote values
        return None


class PartError(ValueError):
    """A part differs from what its collection declares; quotes no value."""


def read_quietly(
    read, said="a column could not be read as an array", types=(), passed=(Warning,)
):
    """Call foreign code; of its errors only the type is told, and kept for `types`."""
    try:
        return read()
    except (MemoryError, PartError, *passed):
        raise
    except Exception as error:
        kind = TypeError if isinstance(error, types) else ValueError
        reason = type(error).__name__  # its own words may quote values
    # Not in the handler: the context of an error has the words, too.
    raise kind(f"{said} ({reason})")


def read_entries(values, name: str) -> np.ndarray:
    """Return values as an array in which no entry depends on others."""
    refuse_masked(values, name)
    if isinstance(values, np.ndarray):
        return values
    return read_quietly(lambda: _entries(values))


def _entries(values) -> np.ndarray:
    if isinstance(values, _LISTS):
        return objects_of_lists(values)
    if hasattr(values, "to_pylist"):  # pyarrow: integers with a null become floats
        return objects(values.to_pylist())
    if is_polars(values) and hasattr(values, "to_list"):
        is_float = values.dtype.is_float()
        return values.to_numpy() if is_float else objects(values.to_list())
    dtype = getattr(values, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):
        # So do categories and nullable columns of pandas.
        values = values.astype(object)
    return np.asarray(values)


def objects_of_lists(X, name: str = "X") -> np.ndarray:
    """Return a list of entries, or of rows, as an object array; none is converted."""
    rows = list(map(_listed, X))
    try:
        found = np.array(rows, dtype=object)
    except ValueError:  # of rows that contain further lists
        found = None
    if found is None or (
        found.ndim == 1 and rows and all(isinstance(row, _LISTS) for row in rows)
    ):
        raise ValueError(
            f"{name} has an inhomogeneous shape: all of its rows must have the same "
            "length"
        )
    return found


def _listed(row):
    # Of times in an array numpy would make integers.
    return list(row) if isinstance(row, np.ndarray) and row.ndim else row


def objects(entries) -> np.ndarray:
    """Return entries as an object array; none is unpacked or converted."""
    return np.fromiter(entries, dtype=object, count=len(entries))


def check_feature_names(names, n_features: int) -> tuple[str, ...] | None:
    """Return declared feature names as strings; raise if they are invalid."""
    if names is None:
        return None
    strings = isinstance(names, Iterable) and not isinstance(names, str)
    names = list(names) if strings else [None]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("feature_names must be a sequence of strings, or None")
    if len(set(names)) < len(names):
        raise ValueError("feature_names must differ: one is given twice")
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must have n_features={n_features} names, got {len(names)}"
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise ValueError("feature_names must be valid Unicode") from None
    return tuple(map(str, names))


def in_declared_order(X, names: Sequence[str] | None, beside=()):
    """Return features in the declared order, without reading values."""
    labels = column_names(X)
    if labels == list(range(len(labels or ()))):  # which are no names
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
    refuse_same_names(labels, "X")
    # Columns of parameters are no features, and keep their positions.
    others = {position_of(feature, labels, name) for name, feature in beside}
    own = {label: j for j, label in enumerate(labels) if j not in others}
    missing = [name for name in names if name not in own]
    if missing or len(own) > len(names):
        problem = "no columns" if missing else "unexpected columns"
        listed = missing or [label for label in own if label not in names]
        raise ValueError(
            f"X has {problem} {first_names(listed)}. Its columns must be the "
            "feature_names of the task, in any order."
        )
    order = list(range(len(labels)))
    for place, name in zip(own.values(), names, strict=True):
        order[place] = own[name]
    return X if order == sorted(order) else select_columns(X, labels, order)


def first_names(names: Sequence) -> str:
    """Return a few names as text, for an error."""
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")


# -- ids of users, clients and items: integers of 64 bits, or text ---------------------

# Codes of users are held in so many bits.
_MOST_IDS = 2**32

_MISSING = "{} must not contain missing ids, NaN or infinity: drop such rows first"
_CONVERT = "convert others to text, for example with astype(str)"


def id_array(ids, name: str) -> np.ndarray:
    """Return a column of ids as int64, or as texts in an object array."""
    refuse_masked(ids, name)
    ids = objects(ids) if isinstance(ids, (list, tuple)) else as_array(ids, name)
    if ids.ndim != 1:
        shown = f"an array of shape {ids.shape}" if ids.ndim else "a single value"
        raise ValueError(f"{name} must be a list or 1D array of ids, got {shown}")
    if ids.dtype.kind in "OUT":
        ids = _of_objects(ids.astype(object), name)
        if ids.dtype == object:
            return ids
    check_id_type(ids, 0, name)
    if ids.dtype.kind == "f":
        _check_floats(ids, name)
    elif ids.dtype.kind == "u" and ids.itemsize == 8 and np.any(ids >= 2**63):
        _refuse_large(name)
    return ids.astype(np.int64, copy=False)


def check_id_type(X, place: int, name: str) -> None:
    """Refuse ids of a dtype that has neither numbers nor text, without reading them."""
    dtypes = dtypes_of(X)
    dtype = own_type(dtypes[place if len(dtypes) > 1 else 0])
    other = isinstance(dtype, np.dtype) and dtype.kind not in "biufOUT"
    other = other or kind_of(dtype) in (*DATES, NEVER)
    if other or "binary" in str(dtype).lower():
        raise TypeError(
            f"{name} must contain integers or text, got ids of dtype {dtype}: each "
            f"argument must be a string or a number; {_CONVERT}"
        )


def _of_objects(ids: np.ndarray, name: str) -> np.ndarray:
    """Return texts as they are, and numbers as an array of one type."""
    keys = ids.tolist()
    types = set(map(type, keys))
    kinds = set(map(_kind, types))
    floats = {cls for cls in types if issubclass(cls, (float, np.floating))}
    if "missing" in kinds or any(key != key for key in keys if type(key) in floats):
        raise ValueError(_MISSING.format(name))
    if "others" in kinds:
        raise TypeError(
            f"{name} must contain integers or text: each argument must be a string or "
            f"a number; {_CONVERT}"
        )
    check_one_kind(kinds, name)
    if kinds == {"strings"}:
        if any(str.endswith(key, "\0") for key in set(keys)):
            raise ValueError(
                f"{name} must not contain ids that end in a NUL character: numpy's "
                "arrays of fixed width drop it, so that two ids become one; strip it "
                "from all of them, or write such ids as numbers or in hexadecimal"
            )
        return ids
    if floats:  # all of them become floats, which are exact or refused
        found = np.asarray(keys)
        return found if found.dtype.kind == "f" else _refuse_large(name)
    if any(not -(2**63) <= key < 2**63 for key in keys):
        _refuse_large(name)
    return np.fromiter(map(int, keys), dtype=np.int64, count=len(keys))


def _kind(cls: type) -> str:
    if issubclass(cls, str):
        return "strings"
    if issubclass(cls, (Integral, np.bool_, float, np.floating)):
        return "numbers"
    is_missing = cls is type(None) or cls.__name__ in ("NAType", "NaTType")
    return "missing" if is_missing else "others"


def _check_floats(ids: np.ndarray, name: str) -> None:
    """Refuse floats that are not whole, or that may stand for several numbers."""
    if not np.isfinite(ids).all():
        raise ValueError(_MISSING.format(name))
    # From here on, neighboring whole numbers are one and the same float.
    largest = 2.0 ** min(np.finfo(ids.dtype).nmant + 1, 53)
    owners = name.replace("_feature", "s")  # the argument beside the parameter
    if np.any(np.abs(ids) >= largest):
        raise ValueError(
            f"{name}: ids of {largest:g} or more are not exact in {ids.dtype}, so "
            f"several {owners} may have become one; use integers or strings, or pass "
            f"such ids as {owners}=..."
        )
    if np.any(ids != np.trunc(ids)):
        raise ValueError(
            f"{name}: NaN and numbers that are not whole cannot be ids. If earlier "
            "steps moved or scaled columns, name the column of ids: keep names with "
            'set_output(transform="pandas"), and leave that column unchanged'
        )


def _refuse_large(name: str) -> NoReturn:
    raise ValueError(f"{name} must contain integers of 64 bits or text; {_CONVERT}")


def kinds_of(ids: np.ndarray) -> set[str]:
    """Return the kind of an :func:`id_array`; none if it is empty."""
    if not len(ids):
        return set()
    return {"strings" if ids.dtype == object else "numbers"}


def check_one_kind(kinds: Iterable[str], name: str) -> None:
    """Refuse ids of several kinds: lookups would tell which ones occur."""
    kinds = sorted(kinds)
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must contain ids of one kind, got {', '.join(kinds)}: 1 and '1' "
            "are different ids; convert them to one type"
        )


def joined_ids(parts: Iterable[np.ndarray], name: str) -> np.ndarray:
    """Join the ids of several parts, each from :func:`id_array`."""
    parts = list(parts)
    check_one_kind(set().union(*map(kinds_of, parts)), name)
    return np.concatenate([part for part in parts if len(part)] or parts[:1])


def encode_ids(ids, name: str) -> tuple[np.ndarray, int]:
    """Return codes of ids, from 0 by first appearance, and how many are distinct."""
    codes, first = codes_and_rows(id_array(ids, name))
    return codes, len(first)


def codes_and_rows(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of the ids of an :func:`id_array`, and the first row of each."""
    if ids.dtype == object:
        table: dict[str, int] = {}
        found = (table.setdefault(key, len(table)) for key in ids.tolist())
        codes = np.fromiter(found, dtype=np.intp, count=len(ids))
        return codes, _first_rows(codes, len(table))
    low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    if high - low <= 4 * len(ids) + (1 << 16):
        # Without a sort: numbers that lie close together are places in a table.
        places = ids - low
        first = _first_rows(places, high - low + 1)
    else:
        _, first, places = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)[: np.count_nonzero(first < len(ids))]
    appearance = np.empty(len(first), dtype=np.intp)
    appearance[order] = np.arange(len(order))
    return appearance[places], first[order]


def _first_rows(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return the first row of each code, or the number of rows if it does not occur."""
    first = np.full(n_codes, len(codes), dtype=np.intp)
    np.minimum.at(first, codes, np.arange(len(codes)))
    return first


class IdIndex:
    """Distinct ids of one kind, and the codes of rows, by first appearance."""

    def __init__(self, ids, name: str):
        ids = id_array(ids, name)
        self.codes, first = codes_and_rows(ids)
        if len(first) > _MOST_IDS:
            raise ValueError(f"{name} must contain at most 2**32 different ids")
        self.ids, self._name = ids[first], name
        self._table = self._order = None
        if ids.dtype == object:
            self._table = {key: code for code, key in enumerate(self.ids.tolist())}
        else:
            self._order = np.argsort(self.ids, kind="stable")

    def __len__(self) -> int:
        return len(self.ids)

    def without_codes(self) -> IdIndex:
        """Drop the codes of the rows that the index was built from."""
        self.codes = None
        return self

    def joined(self, ids) -> IdIndex:
        """Return an index with additional ids, of the same kind."""
        both = joined_ids([self.ids, id_array(ids, self._name)], self._name)
        return IdIndex(both, self._name).without_codes()

    def find(self, ids, name: str) -> np.ndarray:
        """Return codes of ids, -1 for unknown ones; refuse ids of another kind."""
        ids = id_array(ids, name)
        if not len(ids) or not len(self):
            return np.full(len(ids), -1, dtype=np.intp)
        if ids.dtype != self.ids.dtype:
            before = "in fit it contained" if name == self._name else ""
            raise ValueError(
                f"{name} contains {kinds_of(ids).pop()}, but "
                f"{before or f'{self._name} contains'} {kinds_of(self.ids).pop()}: 1 "
                "and '1' are different ids; convert one to the type of the other"
            )
        if self._table is not None:
            found = (self._table.get(key, -1) for key in ids.tolist())
            return np.fromiter(found, dtype=np.intp, count=len(ids))
        place = np.searchsorted(self.ids, ids, sorter=self._order)
        code = self._order[np.minimum(place, len(self) - 1)]
        return np.where(self.ids[code] == ids, code, -1)


class UserRows:
    """The users of all rows, by the id of each: their number alone is public."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids, self.n_rows = ids, len(ids)
        codes, first = codes_and_rows(ids)
        self._counts = np.bincount(codes, minlength=len(first))
        # Those of each user, one after another.
        self._grouped = np.argsort(codes, kind="stable")

    def __len__(self) -> int:
        return len(self._counts)

    def rows(self, chosen: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return a row of each chosen user: the one at a share in [0, 1) of its own."""
        own = self._counts[chosen]
        wanted = np.minimum((shares * own).astype(np.intp), own - 1)
        first = np.cumsum(self._counts) - self._counts
        return self._grouped[first[chosen] + wanted]


class UserDraw:
    """Users in a secret order, each of whom shows a row at random whenever asked."""

    def __init__(self, users: UserRows, coins: Any) -> None:
        self._users, self._coins = users, coins
        self._order = coins.secret_order(len(users))

    def rows(self, places: Any = slice(None)) -> np.ndarray:
        """Return a row of each of the users at some places, by default of all."""
        chosen = self._order[places]
        return self._users.rows(chosen, self._coins.shares(len(chosen)))
