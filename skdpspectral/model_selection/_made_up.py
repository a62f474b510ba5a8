"""Made-up rows and targets of a public form, on which a search is tried first.

Dtypes, names, shapes and parameters are read, all of which are public, and no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from .._base.privacy_report import DEFAULT_NAMES
from .._release.noise import public_order, public_start
from .._tables.columns import (
    NEVER,
    column_names,
    dtypes_of,
    frame_of_arrow,
    is_arrow,
    is_polars,
    kind_of,
    own_type,
    shape_of,
)
from ..accounting._ledger.planned_fits import estimators_within

N_MADE_UP = 240

# Of targets, beside names of columns.
CLASSES = object()

# Rows of a made-up user, and what other columns may contain.
_ROWS_OF_EACH, _WORDS = 6, ("a", "b", "c")


def made_up(estimator: Any, X: Any, y: Any, numbers: bool) -> tuple[Any, Any]:
    """Return rows and targets; objects are `numbers`, or else words."""
    known = public_values(estimator)
    targets = None if y is None else made_up_targets(y, known.get(CLASSES))
    return made_up_rows(X, known, numbers), targets


def public_values(estimator: Any) -> dict[Any, Sequence[Any]]:
    """Return public values of columns by name or position, and those of targets."""
    known: dict[Any, Sequence[Any]] = {}
    places = np.arange(N_MADE_UP)
    for part in estimators_within(estimator).values():
        if isinstance(found := getattr(part, "categories", None), dict):
            lists = {k: v for k, v in found.items() if not isinstance(v, str)}
            known |= {name: list(values) for name, values in lists.items()}
        for name in ("user_feature", "client_feature"):
            if getattr(part, name, None) is not None:
                known[getattr(part, name)] = (places // _ROWS_OF_EACH).tolist()
        if getattr(part, "item_feature", None) is not None:
            items = getattr(part, "items", None)
            items = 5 if items is None else items
            if isinstance(items, Integral):
                items = range(int(items))
            known[part.item_feature] = list(items)
        if getattr(part, "classes", None) is not None:
            known[CLASSES] = list(part.classes)
    return known


def made_up_rows(X: Any, known: dict, numbers: bool) -> Any:
    """Return rows of the form of X; objects are `numbers`, or else words.

    Columns have the values that are `known`. Columns of dtypes that nothing can be made
    of have words.
    """
    n_columns = shape_of(X)[1]
    if sparse.issparse(X):
        dense = [
            _whole(place) * (_whole(place + n_columns) > 2)
            for place in range(n_columns)
        ]
        return sparse.csr_matrix(np.stack(dense, axis=1).astype(X.dtype))
    names = column_names(X)
    if names is None:
        if hasattr(X, "shape") and not isinstance(X, np.ndarray):
            raise TypeError(
                "X must be an array, lists, a sparse matrix or a dataframe, got "
                f"{type(X).__name__}: convert it first"
            )
        dtype = X.dtype if isinstance(X, np.ndarray) else np.dtype(object)
        table = np.empty((N_MADE_UP, n_columns), dtype)
        for place in range(n_columns):
            given = known.get(place, known.get(place - n_columns))
            if given is None and place < len(DEFAULT_NAMES):
                given = known.get(DEFAULT_NAMES[place])
            table[:, place] = _values(dtype, given, numbers, place)
        return table if isinstance(X, np.ndarray) else table.tolist()
    frame = frame_of_arrow(X.slice(0, 0)) if is_arrow(X) else X
    columns = []
    for place, (name, dtype) in enumerate(zip(names, dtypes_of(frame), strict=True)):
        given = known.get(str(name), known.get(place, known.get(place - n_columns)))
        if given is None and str(dtype).startswith("Enum"):
            given = list(getattr(dtype, "categories", _WORDS))
        columns.append(_column(frame, dtype, _values(dtype, given, numbers, place)))
    return _frame(frame, columns)


def _frame(like: Any, columns: list[Any]) -> Any:
    """Return a frame of columns that are called as those of another."""
    if is_polars(like):
        return type(like)(dict(zip(like.columns, columns, strict=True)))
    import pandas as pd

    made = pd.concat(columns, axis=1)
    made.columns = like.columns
    return made


def _column(like: Any, dtype: Any, values: np.ndarray) -> Any:
    """Return values as a column of the library of `like`, or words."""
    try:
        return _cast(like, dtype, values)
    except Exception:  # of structs, lists and intervals, by each library's own words
        return _cast(like, None, _in_turn(_WORDS))


def _cast(like: Any, dtype: Any, values: np.ndarray) -> Any:
    entries = values.tolist() if values.dtype == object else values
    if is_polars(like):
        import polars as pl

        made = pl.Series(entries)
        return made if dtype is None else made.cast(dtype)
    import pandas as pd

    # Categories of a dtype may be values of the table.
    own = {"category": "category"}.get(str(dtype), dtype)
    return pd.Series(entries, dtype=own)


def _values(dtype: Any, given: Any, numbers: bool, place: int) -> np.ndarray:
    """Return values that fit a dtype: the given ones in turn, or any."""
    if given is not None:
        return _in_turn(given)
    kind = getattr(own_type(dtype), "name", str(own_type(dtype))).lower()
    if kind_of(dtype) == NEVER:
        return _in_turn(_WORDS)
    if "bool" in kind:
        return _whole(place) > 3
    if any(time in kind for time in ("date", "timestamp")):
        return np.datetime64("2020-01-01", "ns") + np.arange(N_MADE_UP)
    if any(time in kind for time in ("timedelta", "duration")):
        return np.arange(N_MADE_UP).astype("m8[ns]")
    if any(name in kind for name in ("float", "double", "decimal", "complex")):
        return 2.0 * public_start(place, (N_MADE_UP,))
    if "int" in kind and "interval" not in kind:
        return _whole(place)
    if numbers and kind in ("object", "none"):
        return _whole(place).astype(object)
    return _in_turn(_WORDS)[public_order(N_MADE_UP)]


def _whole(number: int) -> np.ndarray:
    """Return whole numbers from 1 to 5, by a public number."""
    uniform = public_start(abs(number), (N_MADE_UP,))
    return np.floor(2.5 * (uniform + 1.0)).astype(int) + 1


def _in_turn(values: Sequence[Any]) -> np.ndarray:
    """Return some values over and over, as objects that no dtype has changed."""
    found = np.empty(N_MADE_UP, dtype=object)
    found[:] = [values[place % len(values)] for place in range(N_MADE_UP)]
    return found


def made_up_targets(y: Any, classes: Sequence[Any] | None) -> Any:
    """Return targets: public classes in turn, or numbers from 1 to 5."""
    if classes is None:
        values = _whole(N_MADE_UP)
    else:
        values = _in_turn(classes)[public_order(N_MADE_UP)]
    if column_names(y) is not None:
        return _frame(y, [_column(y, dtype, values) for dtype in dtypes_of(y)])
    if is_polars(y) or type(y).__module__.startswith("pandas") or hasattr(y, "iloc"):
        return _column(y, y.dtype, values)
    shape = (N_MADE_UP, *shape_of(y, "y")[1:])
    made = np.broadcast_to(values.reshape(-1, *[1] * (len(shape) - 1)), shape)
    if isinstance(y, np.ndarray):
        return made.astype(str if y.dtype.kind == "U" else y.dtype)
    return made.tolist()
