"""Made-up rows and targets in the containers and dtypes of a user's own.

Fits and scores are tried on them before a search is charged, and steps without noise
before a pipeline is. Dtypes, names, shapes and parameters are read, all of which are
public, and no value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from .._release.noise import public_order, public_start
from .._tables.columns import (
    column_names,
    dtypes_of,
    is_never_number,
    own_type,
    refuse_nullable_integers,
)
from .._tables.table import deferred_rows, shape_of
from ..accounting._ledger.planned_fits import (
    Composition,
    Step,
    composition_of,
    estimators_within,
    is_estimator,
    is_private,
    parts_of,
)

N_MADE_UP = 240

# Columns of ratings; where they are only numbered, users are first, items second.
DEFAULT_NAMES = ("user_id", "item_id")

# Of targets, beside names of columns.
CLASSES = object()

# Rows of a made-up user, and what other columns may contain.
_ROWS_OF_EACH, _WORDS = 6, ("a", "b", "c")


def takes_numbers(estimator: Any) -> bool:
    """Return whether rows are finite numbers, with ids, for what reads them first."""
    kind = composition_of(estimator)
    parts = [part for _, part in parts_of(estimator) if is_estimator(part)]
    if kind is Composition.PIPELINE:
        rows = getattr(estimator, "user_feature", None) is None  # ids may be text
        return rows and (not parts or takes_numbers(parts[0]))
    if kind in (Composition.UNION, Composition.COLUMNS):  # which may leave out others
        return kind is Composition.UNION and all(map(takes_numbers, parts))
    if isinstance(estimator, FunctionTransformer) and not estimator.validate:
        return False
    tags = get_tags(estimator).input_tags
    other = tags.allow_nan or tags.categorical or tags.string
    return tags.two_d_array and not other


def check_form_of_others(steps: Iterable[Step]) -> None:
    """Refuse rows whose form a step without noise does not accept."""
    for step in steps:
        one = step.estimator
        plain = is_estimator(one) and not is_private(one)
        function = getattr(one, "func", None) is not None
        reads = plain and step.kind is None and (function or takes_numbers(one))
        if not reads or not step.rows:
            continue
        with naming(step.path):
            refuse_nullable_integers(step.rows.X)
            if step.rows.own:
                some = get_tags(one).input_tags.sparse or function
                deferred_rows(None, step.rows.X, accept_sparse=some, in_blocks=True)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Prefix errors with the step that caused them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"step {path!r}: {error}") from error


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
        if not isinstance(X, (np.ndarray, list, tuple)):
            raise NotImplementedError
        dtype = X.dtype if isinstance(X, np.ndarray) else np.dtype(object)
        table = np.empty((N_MADE_UP, n_columns), dtype)
        for place in range(n_columns):
            given = known.get(place, known.get(place - n_columns))
            if given is None and place < len(DEFAULT_NAMES):
                given = known.get(DEFAULT_NAMES[place])
            table[:, place] = _values(dtype, given, numbers, place)
        return table if isinstance(X, np.ndarray) else table.tolist()
    columns = []
    for place, (name, dtype) in enumerate(zip(names, dtypes_of(X), strict=True)):
        given = known.get(str(name), known.get(place, known.get(place - n_columns)))
        if given is None and str(dtype).startswith("Enum"):
            given = list(getattr(dtype, "categories", _WORDS))
        columns.append(_column(X, dtype, _values(dtype, given, numbers, place)))
    if hasattr(X, "iloc"):
        import pandas as pd

        made = pd.concat(columns, axis=1)
        made.columns = X.columns
        return made
    if type(X).__module__.startswith("polars"):
        return type(X)(dict(zip(names, columns, strict=True)))
    return type(X).from_arrays(columns, names=list(names))


def _column(like: Any, dtype: Any, values: np.ndarray) -> Any:
    """Return values as a column of the library of `like`, or words."""
    try:
        return _cast(like, dtype, values)
    except Exception:  # of structs, lists and intervals, by each library's own words
        return _cast(like, None, _in_turn(_WORDS))


def _cast(like: Any, dtype: Any, values: np.ndarray) -> Any:
    library = type(like).__module__.partition(".")[0]
    entries = values.tolist() if values.dtype == object else values
    if library == "pandas" or hasattr(like, "iloc"):  # subclasses are of others
        import pandas as pd

        # Categories of a dtype may be values of the table.
        own = {"category": "category"}.get(str(dtype), dtype)
        return pd.Series(entries, dtype=own)
    if library == "polars":
        import polars as pl

        made = pl.Series(entries)
        return made if dtype is None else made.cast(dtype)
    if library == "pyarrow":
        import pyarrow as pa

        made = pa.array(entries)
        return made if dtype is None else made.cast(dtype)
    raise NotImplementedError


def _values(dtype: Any, given: Any, numbers: bool, place: int) -> np.ndarray:
    """Return values that fit a dtype: the given ones in turn, or any."""
    if given is not None:
        return _in_turn(given)
    kind = getattr(own_type(dtype), "name", str(own_type(dtype))).lower()
    if is_never_number(dtype):
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
    shape = (N_MADE_UP, *shape_of(y, "y")[1:])
    if isinstance(y, (list, tuple, range)):
        return np.broadcast_to(
            values.reshape(-1, *[1] * len(shape[1:])), shape
        ).tolist()
    if isinstance(y, np.ndarray):
        dtype = str if y.dtype.kind == "U" else y.dtype
        made = np.stack([values.tolist()] * int(np.prod(shape[1:])), axis=1)
        return made.astype(dtype).reshape(shape)
    if len(shape) > 1:
        columns = (_column(y, dtype, values) for dtype in dtypes_of(y))
        return type(y)(dict(zip(column_names(y), columns, strict=True)))
    column = _column(y, y.dtype if hasattr(y, "dtype") else y.type, values)
    if type(y).__module__.startswith("pandas") and not hasattr(y, "iloc"):
        import pandas as pd

        return pd.Index(column) if isinstance(y, pd.Index) else column.array
    return column
