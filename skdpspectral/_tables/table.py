"""One table for every form of rows: its form is public, its values are read later.

A fit is charged between two checks: that of the form of a table (names, dtypes and
shape), which reads no value, and that of its values. Errors quote no value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from .._linalg.walks import RowWalk, reduce_rows, row_blocks, rows_per_block
from .columns import (
    COMPLEX,
    CONVERT_TEXT,
    NEVER,
    NUMBER,
    OBJECTS,
    UserRows,
    apart_at,
    as_array,
    check_id_type,
    column_at,
    column_names,
    dtypes_of,
    id_array,
    is_arrow,
    is_on_cluster,
    is_sparse,
    kind_of,
    place_of,
    read_entries,
    read_quietly,
    refusal_of,
    refuse_kinds,
    refuse_masked,
    refuse_on_cluster,
    refuse_same_names,
    shape_of,
)
from .files import (
    ClusterTable,
    Parquet,
    SlicedRows,
    check_column,
    cluster_table,
    parquet,
    run_on_cluster,
    sliced_rows,
)

_DTYPES: tuple[npt.DTypeLike, ...] = (np.float64, np.float32)

# Where rows are read block by block, whole numbers are converted block by block too.
_BLOCK_DTYPES = (*_DTYPES, *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)))

_NOT_ROWS = "X must be a 2D array of finite real numbers"
_NO_TABLE = (
    "X must be a table of rows, not a single value or a file: read files first, for "
    'example with numpy.load(path, mmap_mode="r") or pyarrow.parquet.read_table(path)'
)
_RESHAPE = (
    "Reshape your data with X.reshape(-1, 1) if it has a single feature or "
    "X.reshape(1, -1) if it has a single sample"
)
_NO_NAN = (
    "Input X contains NaN: drop such rows, or fill missing values by constants that "
    "are not computed from rows. In a pipeline, DPTableVectorizer or "
    'DPStandardScaler(missing="mean") fills them privately'
)


@dataclass(frozen=True)
class DeferredRead:
    """A table whose form was checked; ``read()`` is called after the charge.

    `shape` and `sparse` are public. Tables of users have ``ids()``, which reads one id
    per row, and `shape` excludes their column.
    """

    shape: tuple[int, ...]
    read: Callable[[], Any]
    sparse: bool = False
    ids: Callable[[], Any] | None = None

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

    With `reset`, `estimator` gets `n_features_in_` and `feature_names_in_`; otherwise
    they are compared, unless it is None. `in_blocks` allows integers, memory maps and
    foreign arrays, converted block by block. ``read()`` returns an ndarray, CSR matrix
    or SlicedRows, in float64 or float32 unless in blocks.
    """
    sliced = _rows_elsewhere(X) if in_blocks else None
    if sliced is not None:
        _check_shape(sliced.shape)
        compare_features(estimator, sliced.like, reset)
        return DeferredRead(sliced.shape, lambda: finite(sliced, allow_nan))
    shape = form_of(X, accept_sparse)
    compare_features(estimator, X, reset)
    how = _BLOCK_DTYPES if in_blocks else _DTYPES, accept_sparse, allow_nan
    return DeferredRead(shape, lambda: _numbers(X, shape, *how), is_sparse(X))


def check_rows(estimator, X, **how):
    """Check form and values without a charge in between; see :func:`deferred_rows`."""
    return deferred_rows(estimator, X, **how).read()


def table_elsewhere(X) -> ClusterTable | Parquet | None:
    """Return a table of dask or of parquet files; None for other types."""
    return cluster_table(X) if is_on_cluster(X) else parquet(X)


def _rows_elsewhere(X) -> SlicedRows | None:
    """Return rows of numbers that are read by slices; None for a table in memory."""
    table = table_elsewhere(X)
    return sliced_rows(X) if table is None else table.rows()


def form_of(X, accept_sparse: bool = False, skip: int | None = None) -> tuple[int, int]:
    """Return the shape of rows of numbers, but for a column to `skip`."""
    labels, dtypes = column_names(X), dtypes_of(X)
    refuse_same_names(labels, "X")
    if isinstance(X, np.matrix):
        raise TypeError(f"{_NOT_ROWS}, not an np.matrix: pass np.asarray(X)")
    refuse_kinds(dtypes, labels, skip)
    if is_sparse(X):
        if not accept_sparse:
            raise TypeError(
                "Sparse data was passed for X, but dense data is required: pass "
                "X.toarray()"
            )
        if any(getattr(dtype, "fill_value", 0) != 0 for dtype in dtypes):
            raise ValueError(
                "X has sparse columns whose fill value is not 0: make them dense with "
                "X.sparse.to_dense()"
            )
        refuse_malformed(X)
    return _check_shape(shape_of(X))


def table_shape(X) -> tuple[int, int]:
    """Return the shape of a table without further checks."""
    table = table_elsewhere(X)  # of which shape_of would read all rows
    return _check_shape(shape_of(X) if table is None else table.shape)


def _check_shape(shape: tuple) -> tuple[int, int]:
    """Refuse what is no table, in the words of scikit-learn."""
    if len(shape) != 2:
        remedy = _RESHAPE if shape else _NO_TABLE
        raise ValueError(
            f"Expected 2D array, got X of {len(shape)} dimensions instead. {remedy}"
        )
    for size, kind in zip(shape, ("sample", "feature"), strict=True):
        if not size:
            raise ValueError(
                f"X: Found array with 0 {kind}(s) (shape={shape}) while a minimum of 1 "
                "is required."
            )
    if math.prod(shape) > sys.maxsize:
        raise ValueError(f"X has more values than an array can hold: shape {shape}")
    return shape


def refuse_malformed(X) -> None:
    """Refuse sparse matrices whose indices leave their shape: reading them crashes."""
    if not sparse.issparse(X):
        return
    try:
        if X.format == "coo":
            type(X)((X.data, X.coords), shape=X.shape)
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


def compare_features(estimator, X, reset: bool) -> None:
    """Set an estimator's feature names, or compare them to those of a fit."""
    if estimator is not None:
        # Lists have no names.
        named = X if hasattr(X, "shape") else np.broadcast_to(0.0, shape_of(X))
        validate_data(estimator, named, reset=reset, skip_check_array=True)


def _numbers(X, shape, dtypes=_DTYPES, accept_sparse=False, allow_nan=False):
    """Return rows as finite numbers; errors quote no value and no message of others."""
    if isinstance(X, (list, tuple)):
        refuse_masked(X, "X")
    try:
        # Sums of extreme values overflow: a warning would tell of them.
        with np.errstate(all="ignore"):
            rows = check_array(
                X,
                dtype=[np.dtype(kind) for kind in dtypes],
                accept_sparse="csr" if accept_sparse else False,
                ensure_all_finite=False,
            )
    except (MemoryError, Warning):
        raise
    except Exception as error:  # of foreign objects, too
        kind = TypeError if isinstance(error, TypeError) else ValueError
        reason = type(error).__name__
    else:
        if rows.shape != shape:
            raise ValueError("X has changed its shape since it was checked")
        assumed = get_config()["assume_finite"]
        return rows if assumed else finite(rows, allow_nan)
    raise kind(
        f"X: could not convert a string or an object to float ({reason}); each "
        f"argument must be a string of digits or a number, one per row and feature: "
        f"{CONVERT_TEXT}"
    )


def finite(rows, allow_nan: bool = False):
    """Check that rows are finite in one pass over blocks, wherever they are."""
    if sparse.issparse(rows):
        nan, infinite = _count_faults([rows.data])
    else:
        nan, infinite = reduce_rows(rows, RowWalk(), _count_faults)
    if nan and not allow_nan:
        raise ValueError(_NO_NAN)
    if infinite:
        raise ValueError("Input X contains infinity or a value too large for its dtype")
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


def rows_at(rows, places: np.ndarray):
    """Return the rows at some places in memory; sparse ones stay sparse."""
    is_array = isinstance(rows, np.ndarray) or sparse.issparse(rows)
    return rows[places] if is_array else rows.at(places)


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


def check_scores(X, n_components: int) -> np.ndarray:
    """Validate scores of shape (n_samples, n_components)."""
    X = check_rows(None, X)
    if X.shape[1] != n_components:
        raise ValueError(
            f"X must have shape (n_samples, {n_components}), as transform returns it, "
            f"got {X.shape}"
        )
    return X


class Table:
    """A frame, an array or lists in memory; `like` is of use for its names alone."""

    def __init__(self, X) -> None:
        if isinstance(X, np.matrix):
            raise TypeError(f"{_NOT_ROWS}, not an np.matrix: pass np.asarray(X)")
        self._X, self.names = X, column_names(X)
        refuse_same_names(self.names, "X")
        self.shape, self.dtypes = _check_shape(shape_of(X)), dtypes_of(X)
        if self.names is None and kind_of(self.dtypes[0]) == COMPLEX:
            raise ValueError(refusal_of(self.dtypes[0]))
        self.like = X if self.names is not None else np.broadcast_to(0.0, self.shape)
        self._read: dict[int, Any] = {}

    @staticmethod
    def form(X) -> Table | ClusterTable | Parquet | SlicedRows:
        """Check the form of a table, wherever its rows are."""
        elsewhere = table_elsewhere(X)
        if elsewhere is not None:
            refuse_same_names(elsewhere.names, "X")
            return elsewhere
        slices = sliced_rows(X)
        return Table(X) if slices is None else slices

    def part(self, place: int, rows: slice):
        """Return some rows of a column in the table's own type."""
        if place not in self._read:
            self._read[place] = column_at(_with_columns(self._X), place)
        column = self._read[place]
        return column.iloc[rows] if hasattr(column, "iloc") else column[rows]

    def column(self, place: int) -> np.ndarray:
        """Return a column as an array, whose entries are read one by one."""
        return as_array(read_quietly(lambda: self.part(place, slice(None))))

    def at(self, places: np.ndarray) -> Table:
        """Return the rows at some places."""
        X = self._X.iloc if hasattr(self._X, "iloc") else self._X
        lists = isinstance(X, (list, tuple))
        return Table([X[at] for at in places] if lists else X[places])

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, some rows at a time."""
        yield [self.column(place) for place in places]


def _with_columns(X):
    """Return a table of which columns can be taken, with entries of their own types."""
    known = isinstance(X, (list, tuple)) or hasattr(X, "dtype")
    return X if known or column_names(X) is not None else read_entries(X, "X")


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
) -> DeferredRead:
    """Check the form of a table with users, without reading values.

    With `reset` the estimator gets `n_features_in_` and `feature_names_in_` of all
    columns; otherwise they are compared. Ids are given either beside X or as a column
    of it; all other columns must be finite numbers.
    """
    refuse_on_cluster(X, type(estimator).__name__)
    if users is not None and user_feature is not None:
        raise ValueError(
            f"{names.ids} must be None if {names.feature} names a column of X: ids are "
            "given twice"
        )
    shape, place = _check_shape(shape_of(X)), None
    # Of other tables a stand-in has all that is public.
    like = np.broadcast_to(0.0, shape) if column_names(X) is None else X
    if user_feature is not None:
        place = place_of(like, user_feature, names.feature)
        check_id_type(like, place, names.feature)
    form_of(X, skip=place)
    compare_features(estimator, like, reset)
    kept = [j for j in range(shape[1]) if j != place]
    if not kept:
        raise ValueError(
            f"X must have features besides {names.feature}, but has n_features = "
            f"{shape[1]}: Found array with 0 feature(s) apart from the ids, while a "
            "minimum of 1 is required"
        )
    _check_length(users, shape[0], names.ids)

    def ids() -> np.ndarray:
        """Return the ids alone: other columns may be private, and are not read."""
        own = users
        if place is not None:
            own = read_quietly(lambda: column_at(_with_columns(X), place))
        return _read_ids(own, shape[0], owner)

    def read() -> UserTable:
        features, own = _with_columns(X), users
        if place is not None:
            features, own = read_quietly(lambda: apart_at(features, place))
        numbers = _numbers(features, (shape[0], len(kept)))
        own = None if own is None else _read_ids(own, shape[0], owner)
        return UserTable(numbers, own)

    owner = names.ids if place is None else names.feature
    known = place is not None or users is not None
    return DeferredRead((shape[0], len(kept)), read, ids=ids if known else None)


def read_users(estimator, X, users, user_feature, **how) -> UserTable:
    """Read a table with users without a charge; see :func:`deferred_users`."""
    return deferred_users(estimator, X, users, user_feature, **how).read()


def users_of_rows(users, n_rows: int) -> UserRows:
    """Check the form of ids beside rows, and read the users: their number is public."""
    _check_length(users, n_rows, "users")
    return UserRows(_read_ids(users, n_rows, "users"))


def _brought_here(X):
    """Return a column of dask in memory; others unchanged."""
    return run_on_cluster(X.compute) if is_on_cluster(X) else X


def _read_ids(users, n_rows: int, name: str) -> np.ndarray:
    ids = id_array(_brought_here(users), name)
    if len(ids) != n_rows:  # parts may differ from what their collection says
        raise ValueError(f"{name} must have one id per row of X")
    return ids


def _check_length(users, n_rows: int, name: str) -> None:
    if users is None:
        return
    if is_on_cluster(users):
        return check_column(users, n_rows, name)
    said = f"{name} must be a list or 1D array of one id per row of X"
    if isinstance(users, (str, bytes)) or not hasattr(users, "__len__"):
        raise ValueError(said)
    check_id_type(users, 0, name)
    shape = shape_of(users, name)
    if len(shape) != 1:
        raise ValueError(f"{said}, got an array of shape {shape}")
    if shape[0] != n_rows:
        raise ValueError(f"{name} must have one id per row of X")


_NO_NUMBERS = "y must contain numbers: convert labels or dates to numbers first"
_COMPLEX_TARGETS = "Complex data not supported: y must contain real numbers"
_COMPLEX = (complex, np.complexfloating)
_TIMES = (np.datetime64, np.timedelta64)


def deferred_targets(
    estimator, y, n_rows: int, *, labels: bool = False, several: bool = False
) -> DeferredRead:
    """Check the form of one target per row, without reading values.

    A single column is treated as a vector, with a warning. ``read()`` returns an array
    in float64; `labels` keep any dtype but complex.
    """
    if is_on_cluster(y):
        check_column(y, n_rows, "y")
        shape: tuple = (n_rows,)
    else:
        shape = _shape_of_targets(estimator, y, n_rows, several)
    for kind in map(kind_of, dtypes_of(y)):
        if kind == COMPLEX:
            raise ValueError(_COMPLEX_TARGETS)
        if kind == NEVER:
            raise ValueError(
                f"y must contain {'labels that are ' * labels}numbers"
                f"{', text or booleans' * labels}: convert columns of lists, structs, "
                "intervals, periods or of the types null and Object"
            )
        if not labels and kind not in (NUMBER, OBJECTS, None):
            raise ValueError(_NO_NUMBERS)
    return DeferredRead(shape, lambda: _read_targets(_brought_here(y), shape, labels))


def _shape_of_targets(estimator, y, n_rows: int, several: bool) -> tuple[int, ...]:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    if sparse.issparse(y):
        raise ValueError("y must be a dense array: sparse targets are not supported")
    if is_arrow(y) and column_names(y) is not None:
        raise ValueError("y must be an array or a column, not a table of pyarrow")
    shape = shape_of(y, "y")
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


def _read_targets(y, shape: tuple, labels: bool) -> np.ndarray:
    """Return targets of a shape: numbers, or labels of any dtype."""
    refuse_masked(y, "y")
    said = "y must be an array with one label per row" if labels else _NO_NUMBERS
    values = read_quietly(lambda: read_entries(y, "y").reshape(shape), said)
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
