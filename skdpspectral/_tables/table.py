"""One table for every form of rows: its form is public, its values are read later.

A fit is charged between two checks: that of the form of a table (names, dtypes and
shape), which reads no value, and that of its values. Errors quote no value. Rows of
files, of foreign arrays and of dask are read by slices or by parts.
"""

from __future__ import annotations

import copy
import math
import mmap
import os
import sys
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, repeat
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from .._linalg.walks import (
    Kernel,
    PairOrder,
    PairWalk,
    PoolWalk,
    RowWalk,
    add_sums,
    quietly,
    reduce_rows,
    row_blocks,
    rows_per_block,
    sum_blocks,
)
from .columns import (
    COMPLEX,
    CONVERT_TEXT,
    NEVER,
    NUMBER,
    OBJECTS,
    PartError,
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
    with_columns,
)

_DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]
# Of blocks, which are handed on as they are; others become float64.
_BLOCK_DTYPES = [
    *_DTYPES,
    *(np.dtype(f"{k}{size}") for k in "iu" for size in (1, 2, 4, 8)),
]

_NOT_ROWS = "X must be a 2D array of finite real numbers"
_NO_TABLE = (
    "X must be a table of rows, not a single value or a file: read files first, for "
    'example with numpy.load(path, mmap_mode="r") or pyarrow.parquet.read_table(path)'
)
_RESHAPE = (
    "Reshape your data with X.reshape(-1, 1) if it has a single feature or "
    "X.reshape(1, -1) if it has a single sample"
)
_NO_FLOAT = (
    "X: could not convert a string or an object to float; each argument must be a "
    f"string of digits or a number, one per row and feature: {CONVERT_TEXT}"
)
_NO_NAN = (
    "Input X contains NaN: drop such rows, or fill missing values by constants that "
    "are not computed from rows. In a pipeline, DPTableVectorizer or "
    'DPStandardScaler(missing="mean") fills them privately'
)


@dataclass(frozen=True)
class DeferredRead:
    """A table whose form was checked; ``read()`` is called after the charge."""

    shape: tuple[int, ...]  # without a column of ids
    read: Callable[[], Any]
    sparse: bool = False
    ids: Callable[[], Any] | None = None  # one per row

    def of_users(self, n_users: int) -> DeferredRead:
        """Return the form of one row of each user; all rows will be read."""
        return replace(self, shape=(n_users, *self.shape[1:]))


def deferred_rows(
    estimator,
    X,
    *,
    reset: bool = True,  # names are set, not compared
    accept_sparse=False,
    in_blocks=False,  # integers, memory maps and foreign arrays, too
    allow_nan=False,
) -> DeferredRead:
    """Check the form and the feature names of rows, without reading values."""
    sliced = None
    if in_blocks:
        elsewhere = table_elsewhere(X)
        sliced = sliced_rows(X) if elsewhere is None else elsewhere.rows()
    else:
        refuse_on_cluster(X, type(estimator).__name__ if estimator else "This")
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
    how = {"accept_sparse": "csr" if accept_sparse else False}
    # Sums of extreme values overflow: a warning would tell of them.
    check = quietly(
        partial(check_array, X, ensure_all_finite=False, dtype=dtypes, **how)
    )
    rows = read_quietly(check, _NO_FLOAT, TypeError)
    if rows.shape != shape:
        raise ValueError("X has changed its shape since it was checked")
    return rows if get_config()["assume_finite"] else finite(rows, allow_nan)


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


def check_scores(X, n_columns: int, **how):
    """Validate what transform returned, of shape (n_samples, n_columns)."""
    X = check_rows(None, X, **how)
    if X.shape[1] != n_columns:
        raise ValueError(
            f"X must have shape (n_samples, {n_columns}), as transform returns it, got "
            f"{X.shape}"
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
            self._read[place] = column_at(with_columns(self._X), place)
        column = self._read[place]
        return column.iloc[rows] if hasattr(column, "iloc") else column[rows]

    def column(self, place: int) -> np.ndarray:
        """Return a column as an array, whose entries are read one by one."""
        return as_array(read_quietly(lambda: self.part(place, slice(None))))

    def at(self, places: np.ndarray) -> Table:
        """Return the rows at some places."""
        if self.names is None:
            return Table(read_entries(self._X, "X")[places])
        return Table((self._X.iloc if hasattr(self._X, "iloc") else self._X)[places])

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, some rows at a time."""
        yield [self.column(place) for place in places]


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
    estimator, X, users, user_feature, *, reset: bool, names: Names = USERS
) -> DeferredRead:
    """Check the form of a table with users, as :func:`deferred_rows` does."""
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
            own = read_quietly(lambda: column_at(with_columns(X), place))
        return _read_ids(own, shape[0], owner)

    def read() -> UserTable:
        features = with_columns(X)
        if place is not None:
            features, _ = read_quietly(lambda: apart_at(features, place))
        numbers = _numbers(features, (shape[0], len(kept)))
        return UserTable(numbers, ids() if known else None)

    owner = names.ids if place is None else names.feature
    known = place is not None or users is not None
    return DeferredRead((shape[0], len(kept)), read, ids=ids if known else None)


def read_users(*args, **how) -> UserTable:
    """Read a table with users without a charge; see :func:`deferred_users`."""
    return deferred_users(*args, **how).read()


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
    """Check the form of targets, without reading values; `labels` keep dtypes."""
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


# -- files and foreign arrays: slices in memory --------------------------------------

# Rows of a slice of which columns are read together.
_PART_ROWS = 1 << 18

# Bytes of a sample that is kept.
_SAMPLE_BYTES = 1 << 26


def common_type(dtypes: Iterable, names: Iterable | None = None) -> np.dtype:
    """Return the type of blocks that holds numbers of several types; refuse others."""
    found = []
    for dtype, name in zip(dtypes, names or repeat(None), strict=False):
        own = getattr(dtype, "numpy_dtype", dtype)
        if getattr(own, "kind", "O") not in "fiub":
            said = refusal_of(dtype, name) or f"X has type {dtype} in column {name!r}"
            raise ValueError(f"{said}: rows in blocks must contain real numbers")
        found.append(np.dtype(own))
    kind = np.result_type(*found) if found else np.dtype(np.float64)
    return kind if kind in _BLOCK_DTYPES else np.dtype(np.float64)


class SlicedRows:
    """Numbers of which one slice is in memory at a time; `like` has the names."""

    ndim, names = 2, None

    def __init__(self, source, shape, dtype=np.float64, like=None):
        self.shape, self.dtype, self._source = shape, np.dtype(dtype), source
        self.like = np.broadcast_to(0.0, shape) if like is None else like
        self.dtypes = [self.dtype]
        self._sample: tuple = (None, [])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def common_dtype(self) -> np.dtype:
        """Dtype that holds any slice: a foreign source may return several dtypes."""
        kept = isinstance(self._source, np.ndarray) and self.dtype in _BLOCK_DTYPES
        return self.dtype if kept else np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows, of any real dtype."""
        start, stop, _ = rows.indices(self.shape[0])
        block, name = self._read(start, stop), f"X[{start}:{stop}]"
        wanted = (stop - start, self.shape[1])
        if block.shape != wanted or block.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} has shape {block.shape} and dtype {block.dtype}: X.shape "
                f"{self.shape} implies {wanted}, and X must contain real numbers"
            )
        if block.dtype in _BLOCK_DTYPES:
            return block
        with np.errstate(over="ignore"):  # of longer floats: infinity is told later
            return block.astype(np.float64)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the rows at some places, all of which are passed in order."""
        order = np.argsort(places)
        sorted_ = places[order]
        out = np.empty((len(places), self.shape[1]), self.common_dtype)
        for rows in row_blocks(self.shape[0], rows_per_block(self.shape[1])):
            block = self[rows]
            first, last = np.searchsorted(sorted_, [rows.start, rows.stop])
            out[order[first:last]] = block[sorted_[first:last] - rows.start]
        return out

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, some rows at a time."""
        for rows in row_blocks(self.shape[0], _PART_ROWS):
            block = self[rows]
            yield [block[:, place].copy() for place in places]

    def sample(self, key, n_rows: int, read: Callable[[], Iterable]) -> Iterable:
        """Return rows from all over the table, which are requested several times."""
        size = n_rows * self.shape[1] * self.common_dtype.itemsize
        if size > _SAMPLE_BYTES:
            return read()
        if self._sample[0] != key:
            self._sample = key, list(read())
        return self._sample[1]

    def _read(self, start: int, stop: int) -> np.ndarray:
        name = f"X[{start}:{stop}]"
        said = f"{name} could not be read as an array"
        block = read_quietly(lambda: self._source[start:stop], said)
        refuse_masked(block, name)
        return read_quietly(lambda: np.asarray(block), said)


class MadeRows(SlicedRows):
    """Rows that are made of other rows, with one slice in memory at a time."""

    def __init__(self, shape: tuple[int, int], make: Callable) -> None:
        super().__init__(make, shape)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._source(rows)


def map_table(source, row_map: Callable) -> SlicedRows:
    """Return a table's rows under a map; rows on a cluster are mapped there."""
    if hasattr(source, "mapped"):
        return source.mapped(row_map)
    return MadeRows(source.shape, lambda rows: row_map(source[rows]))


def rows_beside(tables: list) -> SlicedRows:
    """Return the rows of tables side by side, all or none on a cluster."""
    first, *others = tables
    if hasattr(first, "beside"):
        return first.beside(others)

    def make(rows: slice) -> np.ndarray:
        blocks = [table[rows] for table in tables]
        return np.column_stack(blocks).astype(np.float64, copy=False)

    width = sum(table.shape[1] for table in tables)
    return MadeRows((first.shape[0], width), make)


def sliced_rows(X) -> SlicedRows | None:
    """Return memory maps and foreign arrays of numbers as slices; None for others."""
    if isinstance(X, np.ndarray):
        return _mapped_rows(X)
    if isinstance(X, (np.generic, list, tuple)) or sparse.issparse(X):
        return None
    if any(hasattr(X, name) for name in ("iloc", "dtypes", "__dataframe__")):
        return None
    # Files that were closed raise errors of their own.
    shape, dtype = read_quietly(
        lambda: (getattr(X, "shape", None), getattr(X, "dtype", None)),
        "X.shape or X.dtype could not be read",
    )
    if shape is None or dtype is None or not hasattr(X, "__getitem__"):
        return None
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        return None
    if len(shape) != 2:
        raise ValueError(f"Expected 2D array, got X of {len(shape)} dimensions instead")
    if not all(isinstance(size, Integral) and int(size) >= 0 for size in shape):
        raise ValueError("X.shape must be two integers that are known in advance")
    common_type([dtype])
    return SlicedRows(X, (int(shape[0]), int(shape[1])), dtype)


def _mapped_rows(X: np.ndarray) -> SlicedRows | None:
    if isinstance(X, np.ma.MaskedArray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return None
    base = X
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is None or X.size == 0:
        return None
    return SlicedRows(np.asarray(X), X.shape, X.dtype)


_AS_DATASET = "pass pyarrow.dataset.dataset(path), of a file or of a folder of files"

# Numbers of a batch: some megabytes. Files are decoded by pages, so that groups of rows
# may be far larger.
_BATCH_NUMBERS = 1 << 20


class Parquet:
    """A dataset of parquet files as a table without values: names, shape and dtypes."""

    def __init__(self, source) -> None:
        if hasattr(source, "iter_batches"):
            raise TypeError(f"X is an open ParquetFile: {_AS_DATASET}")
        if getattr(source, "_scan_options", None):
            raise ValueError(
                "X must be a dataset without a filter: write the selected rows to "
                "separate files"
            )
        self._source, self.like = source, source.schema.empty_table()
        self.names, self.dtypes = list(source.schema.names), list(source.schema.types)
        self.shape = read_quietly(source.count_rows), len(self.names)

    def groups(self) -> list:
        """Return row groups, in order: a fragment of the dataset for each."""
        found = []
        for fragment in read_quietly(lambda: list(self._source.get_fragments())):
            if not hasattr(fragment, "row_groups"):
                raise ValueError(
                    "X must be a dataset of parquet files: the number of rows of other "
                    "datasets is not known in advance"
                )
            found += read_quietly(fragment.split_by_row_group)
        return found

    def batches(self, group, names: list[str] | None = None) -> Iterator:
        """Yield batches of the rows of a group, of some columns or all."""
        size = max(1, _BATCH_NUMBERS // max(len(names or self.names), 1))
        # Batches that are read ahead would be in memory together.
        how = {"schema": self._source.schema, "use_threads": False}
        how |= {"batch_readahead": 0, "batch_size": size, "columns": names}
        batches = iter(read_quietly(lambda: group.to_batches(**how)))
        while (batch := read_quietly(lambda: next(batches, None))) is not None:
            yield batch

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a batch of rows at a time, in their order."""
        names = [self.names[place] for place in places]
        for group in self.groups():
            for batch in self.batches(group, list(dict.fromkeys(names))):
                yield [as_array(batch.column(name)) for name in names]

    def rows(self) -> ParquetRows:
        """Return all columns as rows of numbers."""
        return ParquetRows(self)


def parquet(X) -> Parquet | None:
    """Return a dataset of parquet files as a table; None for other types."""
    is_file = hasattr(type(X), "iter_batches") and hasattr(type(X), "schema_arrow")
    is_dataset = hasattr(type(X), "get_fragments") and hasattr(type(X), "count_rows")
    return Parquet(X) if is_file or is_dataset else None


def opened(path):
    """Open the parquet file, or the folder of files, at a path."""
    try:
        from pyarrow.dataset import dataset
    except ImportError as error:
        raise ImportError(
            "X is a path: parquet files need pyarrow: pip install pyarrow"
        ) from error
    said = f"X={os.fspath(path)!r} is a path at which no parquet file could be read"
    return read_quietly(lambda: dataset(path, format="parquet"), said)


class ParquetRows(SlicedRows):
    """Rows of parquet files; a slice before the last one reads its group again."""

    def __init__(self, source: Parquet) -> None:
        dtype = common_type(map(_type_of_numpy, source.dtypes), source.names)
        self._groups = source.groups()
        sizes = (group.row_groups[0].num_rows for group in self._groups)
        self._ends = list(accumulate(sizes))
        shape = (self._ends[-1] if self._ends else 0, source.shape[1])
        super().__init__(source, shape, dtype, source.like)
        # What is being read: a group, its batches, and where the last one begins.
        self._group: int | None = None
        self._batches: Iterator = iter(())
        self._batch = np.empty((0, shape[1]))
        self._start = 0

    def __getstate__(self):
        raise TypeError("rows of a file cannot be copied: open the file again")

    def _read(self, start: int, stop: int) -> np.ndarray:
        """Read some rows of one group at a time."""
        pieces = [np.empty((0, self.shape[1]), self.dtype)]
        while start < stop:
            group = bisect_right(self._ends, start)
            first = self._ends[group - 1] if group else 0
            self._seek(group, start - first)
            here = start - first - self._start
            last = min(stop, self._ends[group])
            pieces.append(self._batch[here : here + last - start])
            start += len(pieces[-1])
        return pieces[1] if len(pieces) == 2 else np.concatenate(pieces)

    def _seek(self, group: int, place: int) -> None:
        """Read forward, or restart, until a batch contains a row of a group."""
        if group != self._group or place < self._start:
            self._group, self._start = group, 0
            self._batch = np.empty((0, self.shape[1]))
            self._batches = self._source.batches(self._groups[group])
        while place >= self._start + len(self._batch):
            found = next(self._batches, None)
            if found is None:
                self._group = None
                raise ValueError(
                    "X: a parquet file has changed since it was opened; open it again"
                )
            self._start += len(self._batch)
            self._batch = read_quietly(lambda found=found: self._numbers(found))

    def _numbers(self, batch) -> np.ndarray:
        """Return a batch as an array; missing values become NaN."""
        holes = any(column.null_count for column in batch.columns)
        kind = np.dtype(np.float64) if holes else self.dtype
        out = np.empty((batch.num_rows, batch.num_columns), kind)
        for j, column in enumerate(batch.columns):
            out[:, j] = column.to_numpy(zero_copy_only=False)
        return out


def _type_of_numpy(dtype):
    """Return the type of numpy for numbers of pyarrow; other types unchanged."""
    try:
        found = np.dtype(dtype.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return dtype
    return found if found.kind in "fiub" else dtype


# -- dask: reduced to sums on the cluster that keeps the rows --------------------------
#
# Walks and kernels are sent to the cluster: public functions, and numbers that are
# public, released, or computed there (the exact mean of rows). No noise is drawn there.
# Tasks do not write to their arguments: one that runs again returns the same sum.

# Sums that one task adds up.
_TOGETHER = 8


def task(function: Callable) -> Callable:
    """Return a function that makes tasks of a pure function."""
    from dask import delayed

    return delayed(function, pure=True)


def sent(function: Callable):
    """Return a task for a function, sent to workers once, with a name of its own."""
    from dask import delayed

    return delayed(function, name=f"skdpspectral-{uuid.uuid4()}", traverse=False)


# A warning of a worker would reveal something about values.
@quietly
def _applied(function: Callable, *arguments: Any) -> Any:
    return function(*arguments)


def run_on_cluster(run: Callable) -> Any:
    """Run tasks; an error becomes a ValueError that quotes no value."""
    said = "X could not be read on its cluster; the workers' logs say where"
    return read_quietly(run, said, passed=())  # warnings of tasks quote values


def _added_on_cluster(sums: list) -> Any:
    """Return the sum of the results of tasks, added in a tree, in order."""
    together = task(add_sums)
    while len(sums) > 1:
        starts = range(0, len(sums), _TOGETHER)
        sums = [together(sums[start : start + _TOGETHER]) for start in starts]
    return run_on_cluster(sums[0].compute)


def _lengths(parts: list) -> list[int]:
    return run_on_cluster(task(list)(list(map(task(len), parts))).compute)


def check_column(column, n_rows: int, name: str) -> None:
    """Refuse a dask collection that is not one column of as many rows as X."""
    if column.ndim != 1:
        raise ValueError(f"{name} must be one column, got {column.ndim} dimensions")
    known = hasattr(column, "chunks")
    if sum(column.chunks[0] if known else _lengths(column.to_delayed())) != n_rows:
        raise ValueError(f"X and {name} have inconsistent numbers of samples")


def cluster_table(X) -> ClusterTable:
    """Return a dask array or dataframe as a table of parts."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got X of {X.ndim} dimensions instead")
    if hasattr(X, "columns"):
        names, check = list(X.columns), task(_check_names)
        parts = [check(part, names) for part in X.to_delayed()]
        # Asked for of the very parts: files that are read anew might be cut otherwise.
        return ClusterTable(parts, _lengths(parts), list(X.dtypes), names, X._meta)
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            "X.shape must be two integers that are known in advance: call "
            "X.compute_chunk_sizes() first"
        )
    common_type([X.dtype])
    if not isinstance(X._meta, np.ndarray) or isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(
            f"X is a dask array of {type(X._meta).__name__}: its parts must be numpy "
            "arrays; convert them with map_blocks"
        )
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    parts, sizes = whole.to_delayed().ravel().tolist(), list(map(int, X.chunks[0]))
    like = np.broadcast_to(0.0, X.shape)
    return ClusterTable(parts, sizes, [X.dtype] * X.shape[1], None, like)


def _check_names(part, names: list):
    """Return a part; raise if its columns are in another order."""
    if not hasattr(part, "columns") or list(part.columns) != names:
        raise PartError(
            "X: a part has different columns from its collection, or has them in "
            "another order"
        )
    return part


@dataclass(frozen=True)
class ClusterTable:
    """Parts of a table on a cluster, tasks for arrays or frames of pandas, in order."""

    parts: list
    sizes: list[int]
    dtypes: list
    names: list | None
    like: Any

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), len(self.dtypes)

    def rows(self) -> ClusterRows:
        """Return all columns as rows of numbers."""
        dtype = common_type(self.dtypes, self.names)
        parts = [task(_numbers_of)(part, dtype) for part in self.parts]
        like = None if self.names is None else self.like
        return ClusterRows(parts, self.sizes, len(self.dtypes), dtype, like)

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield some columns, a part of the rows at a time."""
        read = task(_columns_of)
        for part in self.parts:
            yield run_on_cluster(read(part, places).compute)


def _numbers_of(part, dtype) -> np.ndarray:
    """Return a part as numbers."""
    if isinstance(part, np.ndarray):
        return part
    # The part's own type counts, whatever the collection declares.
    kinds = {getattr(dtype, "kind", "O") for dtype in part.dtypes}
    if kinds & set("mMc"):
        raise PartError("X must contain real numbers, not dates or durations")
    own = np.dtype(np.float64) if "O" in kinds else common_type(part.dtypes)
    if own != dtype or part.isna().to_numpy().any():
        # As of a missing whole number: found with others that are not finite.
        return part.to_numpy(np.float64, na_value=np.nan)
    return part.to_numpy(dtype)


def _columns_of(part, places: list[int]) -> list[np.ndarray]:
    return [as_array(column_at(part, place)) for place in places]


class ClusterRows(SlicedRows):
    """Rows whose parts lie on a cluster, as tasks for arrays, and are reduced there."""

    def __init__(
        self, parts: list, sizes: list[int], n_features: int, dtype=float, like=None
    ) -> None:
        super().__init__(None, (sum(sizes), n_features), dtype, like)
        # Of parts without rows nothing is asked.
        self._parts = [p for p, size in zip(parts, sizes, strict=True) if size]
        self._sizes = [size for size in sizes if size]
        self._ends = list(accumulate(self._sizes))
        self._row_map: Callable | None = None
        self._samples: dict[tuple[PairOrder, int], list] = {}

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows into this process, for a transform."""
        start, stop, _ = rows.indices(self.shape[0])
        pieces = task(_joined)(self._cuts(slice(start, stop)))
        block = run_on_cluster(pieces.compute)
        return block if self._row_map is None else self._row_map(block)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Read the rows at some places, which every part takes from its own."""
        order, take = np.argsort(places), task(_some)
        ends = np.searchsorted(places[order], [0, *self._ends])
        pieces = []
        for k, (part, size) in enumerate(zip(self._parts, self._sizes, strict=True)):
            own = places[order[ends[k] : ends[k + 1]]] - (self._ends[k] - size)
            pieces.append(take(part, (size, self.shape[1]), own))
        found = run_on_cluster(task(_joined)(pieces).compute)
        out = np.empty_like(found)
        out[order] = found
        return out

    def mapped(self, row_map: Callable) -> ClusterRows:
        """Return the rows under a row-wise map."""
        other, first = copy.copy(self), self._row_map
        other._row_map = row_map if first is None else partial(_then, first, row_map)
        return other

    def cut(self, values: np.ndarray) -> ClusterRows:
        """Return other columns of the same rows, which are sent to the cluster."""
        from dask import delayed

        pieces = np.split(values, self._ends[:-1])
        parts = [delayed(piece, traverse=False) for piece in pieces]
        return ClusterRows(parts, self._sizes, values.shape[1])

    def beside(self, others: list[ClusterRows]) -> ClusterRows:
        """Return the rows of this table and others, side by side."""
        tables, join = [self, *others], task(_parts_beside)
        several = zip(*(table._parts for table in tables), strict=True)
        parts = [join(each) for each in several]
        width = sum(table.shape[1] for table in tables)
        return ClusterRows(parts, self._sizes, width)

    def reduce(self, walk: Any, kernel: Kernel) -> Any:
        """Return the result of a kernel on all blocks of a walk."""
        apply, given = task(_applied), (walk, kernel, self._row_map)
        if isinstance(walk, (PairWalk, PoolWalk)):
            job = sent(partial(_sums_of_pool, *given))
            pools = self._pools(walk.order, walk.n_pools)
            return _added_on_cluster([apply(job, pool) for pool in pools])
        job = sent(partial(_sums_of_part, *given, self.shape[1]))
        parts = zip(self._parts, self._sizes, strict=True)
        return _added_on_cluster([apply(job, part, size) for part, size in parts])

    def _pools(self, order: PairOrder, n_pools: int | None) -> list:
        """Return tasks that gather the rows of the first pools on workers."""
        from dask import persist

        key, gather = (order, n_pools), task(_joined)
        if n_pools is not None and key in self._samples:
            return self._samples[key]
        pools = [
            gather([piece for read in reads for piece in self._cuts(read)])
            for reads in order.reads_of_pools(n_pools)
        ]
        if n_pools is not None:  # of a sample, which is requested several times
            pools = list(run_on_cluster(lambda: persist(*pools)))
            self._samples[key] = pools
        return pools

    def _cuts(self, rows: slice) -> list:
        """Return tasks for the pieces of parts that contain some rows."""
        take, pieces, start = task(_some), [], rows.start
        while start < rows.stop:
            k = bisect_right(self._ends, start)
            stop, first = min(rows.stop, self._ends[k]), self._ends[k] - self._sizes[k]
            own = slice(start - first, stop - first)
            pieces.append(take(self._parts[k], (self._sizes[k], self.shape[1]), own))
            start = stop
        return pieces


def _sums_of_part(walk, kernel: Kernel, row_map, n_features: int, part, n_rows: int):
    shape = (n_rows, n_features)
    if getattr(part, "shape", None) != shape:
        raise PartError(
            "X: a part has a different shape from the one that its collection states; "
            "call X.compute_chunk_sizes() first"
        )
    rows = SlicedRows(part, shape)  # whose slices are checked when they are read
    rows = rows if row_map is None else map_table(rows, row_map)
    return sum_blocks(kernel, walk.blocks(rows))


def _sums_of_pool(walk, kernel: Kernel, row_map, pool):
    rows = pool if row_map is None else row_map(pool)
    return sum_blocks(kernel, walk.blocks_of_a_pool(rows, np.arange(len(pool))))


def _some(part, shape: tuple, rows) -> np.ndarray:
    # A copy: the part itself need not be kept. A column has one dimension.
    return np.asarray(part).reshape(shape)[rows].astype(np.float64)


def _then(first: Callable, second: Callable, block):
    return second(first(block))


def _parts_beside(parts: tuple) -> np.ndarray:
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in parts])


def _joined(pieces: list) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
