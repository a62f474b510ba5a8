"""Tables whose rows belong to users: ids, features and targets.

Rows of users and clients on a cluster are gathered there by their ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d, validate_data

from .clusters import (
    ClusterTable,
    brought_here,
    cluster_table,
    column_beside,
    is_on_cluster,
)
from .columns import (
    dtypes_of,
    is_date,
    is_never_number,
    is_text,
    objects_of_lists,
    place_of,
    read_entries,
    refuse_masked,
    refuse_masked_form,
)
from .gathered import ClusterUserTable, cluster_ids
from .ids import (
    id_array,
)
from .rows import (
    NEVER_NUMBERS,
    DeferredRead,
    deferred_rows,
    finite_slices,
    shape_of,
)
from .table import Table


@dataclass(frozen=True)
class UserTable:
    """Rows of features, and the users that they belong to.

    `X`, (n_rows, n_columns), is float64 or float32 and not copied if possible.
    `columns` selects the features. `users` has one id per row, or is None.
    """

    X: np.ndarray
    columns: slice | np.ndarray
    users: object

    @property
    def n_features(self) -> int:
        return self.X[:1, self.columns].shape[1]

    def features(self, rows=slice(None)) -> np.ndarray:
        return self.X[rows][:, self.columns]

    def features_of(self, clients: list) -> Iterator[np.ndarray]:
        """Yield the features of each client's rows."""
        return map(self.features, clients)


class Names(NamedTuple):
    """Names for errors of the ids beside X, and of the id column in it."""

    ids: str = "users"
    feature: str = "user_feature"


USERS = Names()
CLIENTS = Names("clients", "client_feature")


class DeferredTable(NamedTuple):
    """A table with users whose form was checked, and whose values were not read.

    `shape` excludes the column of users. ``ids()`` reads one id per row, or returns
    None. ``read()`` returns a :class:`UserTable` after the charge. `distant` is the
    table, and the result of ``read()``, on a cluster.
    """

    n_rows: int
    n_features: int
    has_users: bool
    ids: Callable[[], object]
    read: Callable[[], UserTable]
    distant: ClusterUserTable | None = None


def deferred_users(
    estimator, X, users, user_feature, *, reset: bool, names: Names = USERS
) -> DeferredTable:
    """Check the form of a table with users, without reading values.

    With `reset` the estimator gets `n_features_in_` and `feature_names_in_` of all
    columns; otherwise they are compared. All columns except that of the users must be
    finite numbers. Ids are given either beside X or as a column of it; `names` has the
    names of these parameters. Errors of ``ids()`` and ``read()`` quote no value.
    """
    distant = cluster_table(X)
    if distant is None and user_feature is None:
        rows = deferred_rows(estimator, X, reset=reset)
        _check_length(users, rows.shape[0], names.ids)

        def read_all() -> UserTable:
            return UserTable(rows.read(), slice(None), ids())

        def ids():
            return None if users is None else id_array(users, names.ids)

        return DeferredTable(*rows.shape, users is not None, ids, read_all)
    if users is not None and user_feature is not None:
        raise ValueError(
            f"{names.ids} must be None if {names.feature} names a column of X: ids are "
            "given twice"
        )
    table, place = distant or Table(X), None
    if user_feature is not None:
        place = place_of(table.like, user_feature, names.feature)
    kept = [j for j in range(table.shape[1]) if j != place]
    if not kept:
        raise ValueError(
            f"X must have features besides {names.feature}, but has n_features = "
            f"{table.shape[1]}: Found array with 0 feature(s) apart from the ids, "
            "while a minimum of 1 is required"
        )
    if distant is None:
        unread = table.features(kept)
    validate_data(estimator, table.like, reset=reset, skip_check_array=True)
    if distant is not None:
        return _unread_cluster(distant, place, kept, users, names.ids)

    def ids_of_column() -> np.ndarray:
        return id_array(table.column(place), names.feature)

    def read() -> UserTable:
        return UserTable(*unread.read(), ids_of_column())

    return DeferredTable(*unread.shape, True, ids_of_column, read)


def _unread_cluster(
    table: ClusterTable, place: int | None, kept: list[int], users, name: str
) -> DeferredTable:
    n_rows = table.shape[0]
    if not n_rows:
        raise ValueError(
            f"X: Found array with 0 sample(s) (shape=(0, {len(kept)})) while a minimum "
            "of 1 is required."
        )
    if not is_on_cluster(users):
        _check_length(users, n_rows, name)
    ids = cluster_ids(table, place, users, name)
    found = ClusterUserTable(table, kept, ids)
    rows = found.X  # whose columns must contain numbers

    def read() -> ClusterUserTable:
        finite_slices(rows)
        return found

    return DeferredTable(*rows.shape, ids is not None, lambda: ids, read, found)


def read_users(estimator, X, users, user_feature, **how) -> UserTable:
    """Read a table with users, without a charge, into this process.

    Arguments are those of :func:`deferred_users`.
    """
    X, users = brought_here(X), brought_here(users)
    return deferred_users(estimator, X, users, user_feature, **how).read()


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
    shape = (n_users,) if isinstance(users, (list, tuple)) else shape_of(users, name)
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


def _missing(estimator) -> str:
    """Return the error message for a missing y."""
    name = type(estimator).__name__
    return f"{name} requires y to be passed, but the target y is None"


def deferred_targets_of(estimator, y, table: DeferredTable) -> DeferredRead:
    """Apply :func:`deferred_targets` to a table, which may be on a cluster.

    On a cluster ``read()`` returns tasks for the table's parts.
    """
    if table.distant is None:
        return deferred_targets(estimator, y, table.n_rows)
    check_beside_cluster(estimator, y, table.n_rows)
    return DeferredRead((table.n_rows,), column_beside(y, table.distant.table, "y"))


def check_beside_cluster(estimator, y, n_rows: int) -> None:
    """Check the form of targets of a table on a cluster, where they may be as well."""
    if y is None or not hasattr(y, "to_delayed"):
        deferred_targets(estimator, y, n_rows)
    else:
        check_kinds_of_targets(y)


def check_kinds_of_targets(y, labels: bool = False) -> None:
    """Refuse targets, or labels, by their dtypes."""
    dtypes = dtypes_of(y)
    if any(getattr(dtype, "kind", None) == "c" for dtype in dtypes):
        raise ValueError(_COMPLEX_TARGETS)
    if any(map(is_never_number, dtypes)):
        raise ValueError(f"y {_NEVER_LABELS if labels else NEVER_NUMBERS}")
    if not labels and any(is_date(dtype) or is_text(dtype) for dtype in dtypes):
        raise ValueError(_NO_NUMBERS)


def deferred_targets(estimator, y, n_rows: int) -> DeferredRead:
    """Check the form of one target per row, without reading values.

    A single column is treated as a vector, with a warning. ``read()`` returns an
    ndarray of shape (n_rows,) in float64. No error quotes a value.
    """
    _check_column(estimator, y, n_rows)
    check_kinds_of_targets(y)
    return DeferredRead((n_rows,), lambda: read_targets(y, n_rows))


def _check_column(estimator, y, n_rows: int) -> None:
    """Check the form of a column of targets or labels."""
    if y is None:
        raise ValueError(_missing(estimator))
    refuse_masked_form(y, "y")
    if sparse.issparse(y):
        raise ValueError(_SPARSE_TARGETS)
    shape = None
    with contextlib.suppress(ValueError):
        shape = shape_of(y, "y")
    if shape is None:
        raise ValueError("y must be an array with one number or one label per row")
    if len(shape) != 1 and not (len(shape) == 2 and shape[1] == 1):
        raise ValueError(
            f"y should be a 1d array with one target per row, got {len(shape)} "
            "dimensions; fit a separate model for each target"
        )
    column_or_1d(np.broadcast_to(0.0, shape), warn=True)
    if shape[0] != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")


def deferred_labels(estimator, y, n_rows: int) -> DeferredRead:
    """Check the form of one label per row; ``read()`` keeps any dtype but complex."""
    _check_column(estimator, y, n_rows)
    check_kinds_of_targets(y, labels=True)
    return DeferredRead((n_rows,), lambda: _read_labels(y, n_rows))


def _read_labels(y, n_rows: int) -> np.ndarray:
    refuse_masked(y, "y")
    said = reason = None
    try:
        y = objects_of_lists(y) if isinstance(y, (list, tuple)) else np.asarray(y)
        labels = column_or_1d(y.reshape(n_rows))
    except (MemoryError, Warning):
        raise
    except Exception as error:
        said, reason = str(error), type(error).__name__
    if said is None:
        if labels.dtype == object:  # as masked entries of a frame's column are
            refuse_masked(labels.tolist(), "y")
            if any(isinstance(label, _COMPLEX) for label in labels):
                raise ValueError(_COMPLEX_TARGETS)
        return labels
    if said.startswith("Complex data not supported"):  # and quotes them
        raise ValueError(_COMPLEX_TARGETS)
    raise ValueError(f"y must be an array with one label per row ({reason})")


def deferred_target_columns(estimator, y, n_rows: int) -> DeferredRead:
    """Check the form of one or several targets per row, (n_rows, n_targets)."""
    shape = None if y is None or sparse.issparse(y) else _columns_of(y)
    if shape is None:
        return deferred_targets(estimator, y, n_rows)
    if shape[0] != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")
    check_kinds_of_targets(y)
    return DeferredRead(shape, lambda: read_targets(y, *shape))


def _columns_of(y) -> tuple[int, ...] | None:
    """Return the shape of several targets per row; None for one target."""
    try:
        shape = shape_of(y, "y")
    except ValueError:
        return None
    return shape if len(shape) == 2 and shape[1] > 1 else None


def check_targets(estimator, y, n_rows: int) -> np.ndarray:
    """Check form and values of targets without a charge in between."""
    return deferred_targets(estimator, y, n_rows).read()


def read_targets(y, *shape: int) -> np.ndarray:
    """Return targets as numbers of the given shape; errors quote no value."""
    refuse_masked(y, "y")
    try:
        y = read_entries(y, "y").reshape(shape)
        kinds = set(map(type, y.ravel())) if y.dtype == object else {y.dtype.type}
        is_complex = any(issubclass(kind, _COMPLEX) for kind in kinds)
        odd = is_complex or any(issubclass(kind, _TIMES) for kind in kinds)
        values = None if odd else y.astype(np.float64)
    except (MemoryError, Warning):
        raise
    except Exception:  # of whatever objects y holds: their words may quote values
        values, is_complex = None, False
    if values is None:
        raise ValueError(_COMPLEX_TARGETS if is_complex else _NO_NUMBERS)
    if not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity: drop or fill such rows")
    return values
