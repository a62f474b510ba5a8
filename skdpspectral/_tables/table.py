"""One table for every form of rows: its form is public, its values are read later.

:meth:`Table.form` checks names, dtypes and shape, and reads no value. After the charge
``column(place)`` reads a column, and ``blocks(places)`` several, some rows at a time.

A fit is charged between two checks: that of the form of a table, which is public, and
that of its values. Errors name X and quote none of its values.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from .._linalg.walks import RowWalk, reduce_rows, row_blocks, rows_per_block
from .clusters import (
    ClusterTable,
    ClusterUserTable,
    brought_here,
    cluster_table,
    column_parts,
    is_on_cluster,
    refuse_on_cluster,
    task,
)
from .columns import (
    as_array,
    column_at,
    column_names,
    dtypes_of,
    is_arrow,
    is_date,
    is_never_number,
    is_sparse,
    is_text,
    place_of,
    read_entries,
    read_quietly,
    refuse_masked,
    refuse_masked_form,
    refuse_same_names,
    select_columns,
    shape_of_lists,
)
from .files import NO_DATES, Parquet, SlicedRows, parquet, sliced_rows
from .ids import UserRows, check_id_type, id_array

_DTYPES: tuple[npt.DTypeLike, ...] = (np.float64, np.float32)

# Where rows are read block by block, whole numbers are converted block by block too.
_BLOCK_DTYPES = (*_DTYPES, *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)))

# First lines of scikit-learn's messages about the form of a table.
_OF_FORM = re.compile(
    r"Found array with|Expected 2D array|Complex data not supported|"
    r"Sparse data was passed for X|X has \d+ features|(The )?[Ff]eature names"
)

# What to do about columns of text.
CONVERT_TEXT = "convert text to numbers first, for example with DPTableVectorizer"

# How messages about values begin, and what is said instead: values, or the code of
# foreign objects, may have written the rest.
_OF_VALUES = {
    "Input X contains NaN": (
        "Input X contains NaN: drop such rows, or fill missing values by constants "
        "that are not computed from rows. In a pipeline, DPTableVectorizer or "
        'DPStandardScaler(missing="mean") fills them privately'
    ),
    "Input X contains infinity": (
        "Input X contains infinity or a value too large for its dtype"
    ),
    "could not convert string": (
        f"X: could not convert a string to float; {CONVERT_TEXT}"
    ),
    "setting an array element with a sequence": (
        "X: setting an array element with a sequence: every row must contain one "
        "number per feature"
    ),
    "float() argument must be": (
        "X: float() argument must be a string or a real number; X contains something "
        "else"
    ),
    "int too large": "X: int too large to convert to float",
    "Complex data not supported": "Complex data not supported: X must be real",
}

NEVER_NUMBERS = (
    "must contain numbers: columns of lists, structs, intervals, periods or of the "
    "types null and Object cannot be converted to numbers"
)

_NOT_ROWS = "X must be a 2D array of finite real numbers"

_RESHAPE = (
    "Reshape your data with X.reshape(-1, 1) if it has a single feature or "
    "X.reshape(1, -1) if it has a single sample"
)


_NO_TABLE = (
    "X must be a table of rows, not a single value or the name of a file: open files "
    'first, for example with numpy.load(path, mmap_mode="r") or pandas.read_csv'
)


@dataclass(frozen=True)
class DeferredRead:
    """A table whose form was checked, and whose values were not read.

    `shape` is public, and `sparse` is whether the table will be sparse. ``read()``,
    called after the charge, returns the table, or raises an error that depends on
    values. Tables of users have ``ids()``, which reads one id per row; it is None, and
    `shape` excludes their column. `distant` is the table on a cluster, if it is one.
    """

    shape: tuple[int, ...]
    read: Callable[[], Any]
    sparse: bool = False
    ids: Callable[[], Any] | None = None
    distant: ClusterTable | None = None

    def of_users(self, n_users: int) -> DeferredRead:
        """Return the form of one row of each user; all rows will be read."""
        return replace(self, shape=(n_users, *self.shape[1:]))


def deferred_rows(
    estimator,
    X,
    *,
    reset: bool = True,
    accept_sparse=False,
    in_blocks=False,
    allow_nan=False,
) -> DeferredRead:
    """Check the form of rows, and set or compare feature names, without reading values.

    With `reset`, as in a fit, `estimator` gets `n_features_in_` and
    `feature_names_in_`; otherwise they are compared, unless it is None. `accept_sparse`
    allows sparse rows, as CSR; `in_blocks` allows integers, memory maps and foreign
    arrays, converted block by block; `allow_nan` allows NaN.

    ``read()`` returns an ndarray, CSR matrix or SlicedRows of shape (n_samples,
    n_features), in float64 or float32 unless in blocks. Its errors quote no value.
    """
    sliced: SlicedRows | None = None
    if in_blocks:
        table = table_elsewhere(X)
        sliced = sliced_rows(X) if table is None else table.rows()
    if sliced is not None:
        _check_form(sliced.shape)
        compare_features(estimator, getattr(sliced, "named", sliced), reset)
        return DeferredRead(sliced.shape, lambda: finite_slices(sliced, allow_nan))
    shape = form_of(X, accept_sparse)
    refuse_malformed(X)
    refuse_text(X)
    # A stand-in has neither names nor values.
    named = X if hasattr(X, "shape") else np.broadcast_to(0.0, shape)
    compare_features(estimator, named, reset)
    dtypes = [np.dtype(kind) for kind in (_BLOCK_DTYPES if in_blocks else _DTYPES)]
    sparse_format = "csr" if accept_sparse else False

    def read():
        refuse_masked(X, "X")
        rows = _values_of(
            lambda: check_array(
                X,
                dtype=dtypes,
                accept_sparse=sparse_format,
                input_name="X",
                ensure_all_finite="allow-nan" if allow_nan else True,
            )
        )
        if rows.shape != shape:
            raise ValueError("X has changed its shape since it was checked")
        return rows

    return DeferredRead(shape, read, is_sparse(X))


def table_elsewhere(X) -> ClusterTable | Parquet | None:
    """Return a table of dask or of parquet files; None for other types."""
    return None if isinstance(X, np.ndarray) else cluster_table(X) or parquet(X)


def check_rows(estimator, X, **how):
    """Check form and values without a charge in between; see :func:`deferred_rows`."""
    return deferred_rows(estimator, X, **how).read()


def form_of(X, accept_sparse: bool = False) -> tuple[int, int]:
    """Return the shape of a table, after all checks that need no values."""
    if is_sparse(X) and not accept_sparse:
        _form_checked(lambda: check_array(sparse.csr_array((1, 1)), input_name="X"))
    refuse_same_names(column_names(X), "X")
    if isinstance(X, np.matrix):
        raise TypeError(f"{_NOT_ROWS}, not an np.matrix: pass np.asarray(X)")
    dtypes = dtypes_of(X)
    if any(map(is_date, dtypes)):
        # Their conversion to numbers depends on a hidden unit.
        raise ValueError(NO_DATES)
    if any(map(is_never_number, dtypes)):
        raise ValueError(f"X {NEVER_NUMBERS}")
    if is_sparse(X) and any(getattr(dtype, "fill_value", 0) != 0 for dtype in dtypes):
        raise ValueError(
            "X has sparse columns whose fill value is not 0: make them dense with "
            "X.sparse.to_dense()"
        )
    is_complex = any(getattr(dtype, "kind", None) == "c" for dtype in dtypes)
    return _check_form(shape_of(X), complex if is_complex else float)


def table_shape(X) -> tuple[int, int]:
    """Return the shape of a table without further checks."""
    table = table_elsewhere(X)  # of which shape_of would read all rows
    return _check_form(shape_of(X) if table is None else table.shape)


def _check_form(shape: tuple, kind: type = float) -> tuple[int, int]:
    """Check a shape as scikit-learn does for arrays."""
    if math.prod(shape) > sys.maxsize:
        raise ValueError(f"X has more values than an array can hold: shape {shape}")
    if kind is float and len(shape) == 2 and min(shape) > 0:
        return shape  # which it accepts, and takes long for
    stand_in: np.ndarray = np.broadcast_to(np.zeros((), kind), shape)
    _form_checked(
        lambda: check_array(
            stand_in, dtype=None, ensure_all_finite=False, input_name="X"
        )
    )
    return shape


def shape_of(X, name: str = "X") -> tuple[int, ...]:
    """Return the shape of an array-like after conversion to an array."""
    refuse_masked_form(X, name)
    reason = None
    try:
        shape = getattr(X, "shape", None)
        if isinstance(shape, tuple) and all(isinstance(s, Integral) for s in shape):
            return tuple(int(size) for size in shape)
        if isinstance(X, (list, tuple)):
            return shape_of_lists(X)
        return np.asarray(X).shape
    except (MemoryError, Warning):
        raise
    except Exception as error:
        # Its own words may quote values.
        reason = type(error).__name__
    if reason == "ValueError" and isinstance(X, (list, tuple)):
        raise ValueError(
            f"{name} has an inhomogeneous shape: all of its rows must have the same "
            "length"
        )
    raise ValueError(f"{name} could not be turned into an array ({reason})")


def n_rows_in_memory(X) -> int:
    """Return the number of rows of a table; refuse files and other readers."""
    shape = shape_of(X)
    if not shape:
        raise TypeError(f"X must be a table in memory, got {type(X).__name__}")
    return shape[0]


def refuse_malformed(X) -> None:
    """Refuse sparse matrices whose indices leave their shape: reading them crashes."""
    if not sparse.issparse(X):
        return
    try:
        if X.format == "coo":
            pairs = zip(X.coords, X.shape, strict=True)
            if all(((at >= 0) & (at < size)).all() for at, size in pairs):
                return
        else:
            # A check prunes its matrix: here another one of the same arrays.
            parts = (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else None
            made = type(X)(parts, shape=X.shape) if parts else X.tocsr()
            made.check_format(full_check=True)
            return
    except MemoryError:
        raise
    except Exception:  # whose words may quote indices
        pass
    raise ValueError(
        "X is a sparse matrix whose indices do not fit its shape: make it anew, for "
        "example by sparse.csr_array((values, (rows, columns)), shape=...)"
    )


def refuse_text(X) -> None:
    """Refuse columns of text dtypes."""
    for place, dtype in enumerate(dtypes_of(X)):
        if is_text(dtype):
            names = column_names(X)
            column = "" if names is None else f" in column {names[place]!r}"
            raise ValueError(f"X has dtype {dtype}{column}; {CONVERT_TEXT}")


def compare_features(estimator, X, reset: bool) -> None:
    """Set an estimator's feature names, or compare them to those of a fit."""
    if estimator is not None:
        _form_checked(
            lambda: validate_data(estimator, X, reset=reset, skip_check_array=True)
        )


def finite_slices(rows: SlicedRows, allow_nan: bool = False) -> SlicedRows:
    """Check that rows are finite in one pass over blocks, wherever they are."""
    nan, infinite = reduce_rows(rows, RowWalk(), _count_faults)
    nan = 0 if allow_nan else nan
    if nan or infinite:
        raise ValueError(_OF_VALUES[f"Input X contains {'NaN' if nan else 'infinity'}"])
    return rows


def _count_faults(blocks) -> np.ndarray:
    """Count NaN values and infinite values."""
    counts = np.zeros(2, dtype=np.int64)
    for block in blocks:
        with np.errstate(all="ignore"):
            fine = np.isfinite(block.sum())  # one sum tells whether to look
        if not fine:
            counts += (int(np.isnan(block).sum()), int(np.isinf(block).sum()))
    return counts


def map_rows(function, X) -> np.ndarray:
    """Stack the results of a function of blocks of rows, in the dtype of the first."""
    out = None
    for rows in row_blocks(X.shape[0], rows_per_block(X.shape[1])):
        made = function(X[rows])
        if out is None:
            out = np.empty((X.shape[0], *made.shape[1:]), dtype=made.dtype)
        out[rows] = made
    return out


def saturated(values: np.ndarray) -> np.ndarray:
    """Replace infinities by the largest floats, and NaN by zero, in place."""
    return np.nan_to_num(values, copy=False)


def check_features(X) -> np.ndarray:
    """Validate a table of features without an estimator."""
    return check_rows(None, X)


def check_scores(X, n_components: int) -> np.ndarray:
    """Validate scores of shape (n_samples, n_components)."""
    X = check_rows(None, X)
    if X.shape[1] != n_components:
        raise ValueError(
            f"X must have shape (n_samples, {n_components}), as transform returns it, "
            f"got {X.shape}"
        )
    return X


def _form_checked(validate) -> None:
    """Run a check of the form; keep scikit-learn's message if it quotes no value."""
    kind: type[Exception]
    try:
        validate()
        return
    except TypeError as error:
        kind, message = TypeError, str(error)
    except ValueError as error:
        kind, message = ValueError, str(error)
    if "eature names" in message:
        raise kind(message)  # names of features are public
    line = message.split("\n")[0].rstrip(":")
    if not _OF_FORM.match(line):
        raise kind(_NOT_ROWS)
    if not re.search(r"\bX\b", line):
        line = f"X: {line}"
    if "Reshape your data" in message:
        line += f". {_NO_TABLE if 'scalar array' in line else _RESHAPE}"
    raise kind(line)


def _values_of(validate):
    """Run a check of values; its errors quote no value and no message of others."""
    try:
        # Sums of extreme values overflow: a warning would tell of them.
        with np.errstate(all="ignore"):
            return validate()
    except (MemoryError, Warning):
        raise
    except TypeError as error:
        kind, message = TypeError, str(error)
    except (ValueError, OverflowError) as error:
        kind, message = ValueError, str(error)
    except Exception as error:  # of foreign objects, in their own words
        kind, message = ValueError, f"({type(error).__name__})"
    for beginning, said in _OF_VALUES.items():
        if message.startswith(beginning):
            raise kind(said)
    reason = f": a value could not be read {message}" if message[:1] == "(" else ""
    raise kind(_NOT_ROWS + reason)


# Rows of a slice of which columns are read together.
_PART_ROWS = 1 << 18


class Table:
    """A table in memory: a frame, an array or lists.

    `names`, `shape` and `dtypes` are public; `like` has them and no values, or is a
    frame, of which scikit-learn reads the names alone. `is_read` is whether every
    reading gives the same rows.
    """

    is_read = True

    def __init__(self, X) -> None:
        self._X, self.names = X, column_names(X)
        refuse_same_names(self.names, "X")
        self.shape = form_of(X) if self.names is None else shape_of(X)
        self.like = X if self.names is not None else np.broadcast_to(0.0, self.shape)
        self.dtypes = dtypes_of(X)

    @staticmethod
    def form(X) -> Table | ClusterTable | Parquet:
        """Check the form of a table, wherever its rows are."""
        elsewhere = table_elsewhere(X)
        if elsewhere is not None:
            refuse_same_names(elsewhere.names, "X")
            return elsewhere
        slices = sliced_rows(X)
        return Table(X) if slices is None else SliceTable(slices)

    @property
    def _source(self):
        """The table, with entries of their own types if it has no columns."""
        lists = isinstance(self._X, (list, tuple))  # of which a column is read alone
        if self.names is None and not lists and not hasattr(self._X, "dtype"):
            self._X = read_entries(self._X, "X")
        return self._X

    def given(self, place: int):
        """Return a column in the table's own type, without an index."""
        column = read_quietly(lambda: column_at(self._source, place))
        return column.array if hasattr(column, "iloc") else column

    def column(self, place: int) -> np.ndarray:
        """Return a column as an array, whose entries are read one by one."""
        return as_array(self.given(place))

    def features(self, kept: list[int]) -> DeferredRead:
        """Check the form of some columns of numbers, which are read later."""
        if self.names is not None:
            return deferred_rows(None, select_columns(self._X, self.names, kept))
        refuse_text(self._X)
        return DeferredRead((self.shape[0], len(kept)), lambda: self._numbers(kept))

    def _numbers(self, kept: list[int]) -> np.ndarray:
        whole = self._X if hasattr(self._X, "dtype") else read_entries(self._X, "X")
        first, last = kept[0], kept[-1]
        together = last - first + 1 == len(kept)  # a slice copies nothing
        chosen = slice(first, last + 1) if together else kept
        if whole.dtype.kind == "O":  # each column has a type of its own
            return check_features(as_array(whole)[:, chosen])
        return check_features(whole)[:, chosen]

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, some rows at a time."""
        yield [self.column(place) for place in places]


class SliceTable(Table):
    """Numbers in a memory map or a foreign array, read by slices of rows."""

    is_read = False

    def __init__(self, rows: SlicedRows) -> None:
        self._rows, self.names, self.shape = rows, None, rows.shape
        self.like, self.dtypes = np.broadcast_to(0.0, rows.shape), [rows.dtype]

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        for start in range(0, self.shape[0], _PART_ROWS):
            rows = self._rows[start : start + _PART_ROWS]
            yield [rows[:, place].copy() for place in places]


@dataclass(frozen=True)
class UserTable:
    """Rows of features, float64 or float32; `users` has one id per row, or is None."""

    X: np.ndarray
    users: object

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    def features(self, rows=slice(None)) -> np.ndarray:
        return self.X[rows]


class Names(NamedTuple):
    """Names for errors of the ids beside X, and of the id column in it."""

    ids: str = "users"
    feature: str = "user_feature"


USERS = Names()
CLIENTS = Names("clients", "client_feature")


def deferred_users(
    estimator,
    X,
    users,
    user_feature,
    *,
    reset: bool,
    names: Names = USERS,
    on_cluster: bool = False,
) -> DeferredRead:
    """Check the form of a table with users, without reading values.

    With `reset` the estimator gets `n_features_in_` and `feature_names_in_` of all
    columns; otherwise they are compared. All columns except that of the users must be
    finite numbers. Ids are given either beside X or as a column of it; `names` has the
    names of these parameters. `on_cluster` allows tables of dask. Errors of ``ids()``
    and ``read()`` quote no value.
    """
    if not on_cluster:
        refuse_on_cluster(X, type(estimator).__name__)
    distant = cluster_table(X)
    if distant is None and user_feature is None:
        rows = deferred_rows(estimator, X, reset=reset)
        _check_length(users, rows.shape[0], names.ids)
        ids = None if users is None else partial(id_array, users, names.ids)

        def read_all() -> UserTable:
            return UserTable(rows.read(), ids and ids())

        return DeferredRead(rows.shape, read_all, ids=ids)
    if users is not None and user_feature is not None:
        raise ValueError(
            f"{names.ids} must be None if {names.feature} names a column of X: ids are "
            "given twice"
        )
    table, place = distant or Table(X), None
    if user_feature is not None:
        place = place_of(table.like, user_feature, names.feature)
        check_id_type(table.like, place, names.feature)
    validate_data(estimator, table.like, reset=reset, skip_check_array=True)
    kept = [j for j in range(table.shape[1]) if j != place]
    if not kept:
        raise ValueError(
            f"X must have features besides {names.feature}, but has n_features = "
            f"{table.shape[1]}: Found array with 0 feature(s) apart from the ids, "
            "while a minimum of 1 is required"
        )
    if isinstance(table, ClusterTable):
        return _unread_cluster(table, place, kept, users, names.ids)
    unread, owner = table.features(kept), names.feature

    def ids_of_column() -> np.ndarray:
        return id_array(table.column(place), owner)

    def read() -> UserTable:
        return UserTable(unread.read(), ids_of_column())

    return DeferredRead(unread.shape, read, ids=ids_of_column)


def _unread_cluster(
    table: ClusterTable, place: int | None, kept: list[int], users, name: str
) -> DeferredRead:
    n_rows = table.shape[0]
    if not n_rows:
        raise ValueError(
            f"X: Found array with 0 sample(s) (shape=(0, {len(kept)})) while a minimum "
            "of 1 is required."
        )
    if not is_on_cluster(users):
        _check_length(users, n_rows, name)
    ids: Callable[[], list] | None = None
    if place is not None:
        ids = partial(table.column, place)
    elif users is not None:
        ids = table.beside(users, name)
    rows = table.rows(kept)  # whose columns must contain numbers

    def read() -> ClusterUserTable:
        finite_slices(rows)
        return ClusterUserTable(rows, ids)

    return DeferredRead(rows.shape, read, ids=ids, distant=table)


def read_users(estimator, X, users, user_feature, **how) -> UserTable:
    """Read a table with users, without a charge, into this process.

    Arguments are those of :func:`deferred_users`.
    """
    X, users = brought_here(X), brought_here(users)
    return deferred_users(estimator, X, users, user_feature, **how).read()


def users_of_rows(users, n_rows: int) -> UserRows:
    """Check the form of ids beside rows, and read the users: their number is public."""
    if is_on_cluster(users):
        found = UserRows(lambda: column_parts(users, "users"), "users")
    else:
        _check_length(users, n_rows, "users")
        found = UserRows(lambda: [users], "users")
    if found.n_rows != n_rows:
        raise ValueError("users must have one id per row of X")
    return found


def rows_at(rows, places: np.ndarray):
    """Return the rows at some places in memory; sparse ones stay sparse."""
    is_array = isinstance(rows, np.ndarray) or sparse.issparse(rows)
    return rows[places] if is_array else rows.at(places)


def _check_length(users, n_rows: int, name: str) -> None:
    if users is None:
        return
    try:
        n_users = -1 if isinstance(users, (str, bytes)) else len(users)
    except (MemoryError, Warning):
        raise
    except Exception:  # of foreign objects: their words may quote ids
        n_users = -1
    if n_users < 0:
        raise ValueError(f"{name} must be a list or 1D array of one id per row of X")
    check_id_type(users, 0, name)
    shape = shape_of(users, name)
    if len(shape) != 1:
        raise ValueError(
            f"{name} must be a list or 1D array of one id per row, got an array of "
            f"shape {shape}"
        )
    if n_users != n_rows:
        raise ValueError(f"{name} must have one id per row of X")


_NO_NUMBERS = "y must contain numbers: convert labels or dates to numbers first"
_COMPLEX_TARGETS = "Complex data not supported: y must contain real numbers"
_NEVER_LABELS = (
    "must contain labels that are numbers, text or booleans: convert columns of "
    "lists, structs, intervals, periods or of the types null and Object"
)
_COMPLEX = (complex, np.complexfloating)
_TIMES = (np.datetime64, np.timedelta64)
_SPARSE_TARGETS = "y must be a dense array: sparse targets are not supported"


def deferred_targets(
    estimator,
    y,
    n_rows: int,
    *,
    labels: bool = False,
    several: bool = False,
    beside: ClusterTable | None = None,
) -> DeferredRead:
    """Check the form of one target per row, without reading values.

    A single column is treated as a vector, with a warning. `several` allows further
    columns. ``read()`` returns an ndarray of shape (n_rows,) or (n_rows, n_targets) in
    float64; `labels` keep any dtype but complex. `beside` a table on a cluster, where y
    may be as well, it returns tasks for the table's parts. No error quotes a value.
    """
    if beside is not None and is_on_cluster(y):
        check_kinds_of_targets(y)
        column = beside.beside(y, "y")
        return DeferredRead((n_rows,), lambda: checked_parts(column()))
    shape = _shape_of_targets(estimator, y, n_rows, several)
    check_kinds_of_targets(y, labels)

    def read():
        values = read_targets(y, *shape, labels=labels)
        return values if beside is None else beside.cut(values)

    return DeferredRead(shape, read)


def check_kinds_of_targets(y, labels: bool = False) -> None:
    """Refuse targets, or labels, by their dtypes."""
    dtypes = dtypes_of(y)
    if any(getattr(dtype, "kind", None) == "c" for dtype in dtypes):
        raise ValueError(_COMPLEX_TARGETS)
    if any(map(is_never_number, dtypes)):
        raise ValueError(f"y {_NEVER_LABELS if labels else NEVER_NUMBERS}")
    if not labels and any(is_date(dtype) or is_text(dtype) for dtype in dtypes):
        raise ValueError(_NO_NUMBERS)


def _shape_of_targets(estimator, y, n_rows: int, several: bool) -> tuple[int, ...]:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    if sparse.issparse(y):
        raise ValueError(_SPARSE_TARGETS)
    refuse_masked_form(y, "y")
    shape: tuple[int, ...] | None = None
    with contextlib.suppress(ValueError):
        shape = shape_of(y, "y")
    if shape is None or (is_arrow(y) and column_names(y) is not None):
        raise ValueError(
            "y must be an array or a column with one number or one label per row"
        )
    if not several or len(shape) != 2 or shape[1] < 2:
        if len(shape) != 1 and not (len(shape) == 2 and shape[1] == 1):
            raise ValueError(
                "y should be a 1d array with one target per row, got "
                f"{len(shape)} dimensions; fit a separate model for each target"
            )
        column_or_1d(np.broadcast_to(0.0, shape), warn=True)
        shape = shape[:1]
    if shape[0] != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")
    return shape


def check_targets(estimator, y, n_rows: int) -> np.ndarray:
    """Check form and values of targets without a charge in between."""
    return deferred_targets(estimator, y, n_rows).read()


def checked_parts(parts: list) -> list:
    """Return tasks for the parts of a column of targets as numbers, checked there."""
    return list(map(task(read_targets, public=True), parts))


def read_targets(y, *shape: int, labels: bool = False) -> np.ndarray:
    """Return targets of a shape, or as a vector: numbers, or labels of any dtype."""
    refuse_masked(y, "y")
    said = "y must be an array with one label per row" if labels else _NO_NUMBERS
    values = read_quietly(lambda: read_entries(y, "y").reshape(shape or len(y)), said)
    kinds = {values.dtype.type}
    if values.dtype == object:
        refuse_masked(values.tolist(), "y")  # as entries of a frame's column are
        kinds = set(map(type, values.ravel()))
    if any(issubclass(kind, _COMPLEX) for kind in kinds):
        raise ValueError(_COMPLEX_TARGETS)
    if labels:  # texts of numpy's own are compared to no other type of text
        return values.astype(object) if values.dtype.kind == "T" else values
    if any(issubclass(kind, _TIMES) for kind in kinds):
        raise ValueError(_NO_NUMBERS)
    values = read_quietly(lambda: values.astype(np.float64), _NO_NUMBERS)
    if not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity: drop or fill such rows")
    return values
