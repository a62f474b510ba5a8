"""Checks of targets: their form, and then their values, as in ``_rows``."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d

from .cluster_tables import column_beside
from .masks import refuse_masked
from .rows import Unread, dtypes_of, shape_of
from .users import UnreadTable

_NO_NUMBERS = "y must hold numbers: turn labels or dates into numbers first"
_COMPLEX_TARGETS = "Complex data not supported: y must hold real numbers"
_SPARSE_TARGETS = "y must be a dense array: sparse targets are not supported"


def _missing(estimator) -> str:
    """Return what is said where there is no y."""
    name = type(estimator).__name__
    return f"{name} requires y to be passed, but the target y is None"


def unread_targets_of(estimator, y, table: UnreadTable) -> Unread:
    """Check the form of one target a row of a table, wherever that is.

    Parameters
    ----------
    estimator, y
        As for :func:`unread_targets`; y may be on the table's cluster.
    table : UnreadTable
        The table.

    Returns
    -------
    Unread
        As of :func:`unread_targets`; on a cluster ``read()`` gives tasks for its parts.
    """
    if table.distant is None:
        return unread_targets(estimator, y, table.n_rows)
    check_beside_cluster(estimator, y, table.n_rows)
    parts = column_beside(y, table.distant.table, "y")
    return Unread((table.n_rows,), lambda: parts)


def check_beside_cluster(estimator, y, n_rows: int) -> None:
    """Check the form of targets of a table on a cluster, where they may be as well.

    Parameters
    ----------
    estimator, y, n_rows
        As for :func:`unread_targets`.

    Raises
    ------
    ValueError
        Naming y; a column on the cluster is compared to the table elsewhere.
    """
    if y is None or not hasattr(y, "to_delayed"):
        unread_targets(estimator, y, n_rows)
    else:
        _check_kinds(y)


def _check_kinds(y) -> None:
    kinds = {getattr(dtype, "kind", None) for dtype in dtypes_of(y)}
    if "c" in kinds:
        raise ValueError(_COMPLEX_TARGETS)
    if kinds & {"m", "M"}:
        raise ValueError(_NO_NUMBERS)


def unread_targets(estimator, y, n_rows: int) -> Unread:
    """Check the form of one target a row; read no value.

    Parameters
    ----------
    estimator : estimator
        Named where y is missing.
    y : array-like of shape (n_rows,)
        Targets; a single column is taken for a vector, with a warning.
    n_rows : int
        Rows of X.

    Returns
    -------
    Unread
        Of which ``read()`` gives an ndarray of shape (n_rows,) and float64.

    Raises
    ------
    ValueError
        Naming y, and quoting no value of it.
    """
    if y is None:
        raise ValueError(_missing(estimator))
    if sparse.issparse(y):
        raise ValueError(_SPARSE_TARGETS)
    try:
        shape = shape_of(y, "y")
    except ValueError:
        raise ValueError("y must be an array of one number a row") from None
    if len(shape) != 1 and not (len(shape) == 2 and shape[1] == 1):
        raise ValueError(
            f"y should be a 1d array of one target a row, got {len(shape)} dimensions; "
            "several targets need a model each"
        )
    _check_kinds(y)
    column_or_1d(np.broadcast_to(0.0, shape), warn=True)
    if shape[0] != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")
    return Unread((n_rows,), lambda: _read_targets(y, n_rows))


def label_column(estimator, y, n_rows: int) -> np.ndarray:
    """Return labels as a column, of which the form was checked and no value.

    Parameters
    ----------
    estimator : estimator
        Named where y is missing.
    y : array-like of shape (n_rows,)
        Labels; a single column is taken for a vector, with a warning.
    n_rows : int
        Rows of X.

    Returns
    -------
    ndarray of shape (n_rows,)
        Of any type but complex; of a masked array what lies under the mask as well.

    Raises
    ------
    ValueError
        Naming y, and quoting no value of it.
    """
    if y is None:
        raise ValueError(_missing(estimator))
    if sparse.issparse(y):
        raise ValueError(_SPARSE_TARGETS)
    said = reason = None
    try:
        labels = column_or_1d(y, warn=True)
    except (MemoryError, Warning):
        raise
    except Exception as error:
        said, reason = str(error), type(error).__name__
    if said is not None:
        raise ValueError(_about_labels(said, reason))
    if len(labels) != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")
    return labels


def _about_labels(said: str, reason: str) -> str:
    """Return what is wrong with labels, where that is of their form alone."""
    if said.startswith("Complex data not supported"):  # and quotes them
        return _COMPLEX_TARGETS
    if said.startswith(("y should be a 1d array", "Input y contains NaN")):
        return said
    return f"y must be an array of one label a row ({reason})"


def unread_target_columns(estimator, y, n_rows: int) -> Unread:
    """Check the form of one or several targets a row; read no value.

    Parameters
    ----------
    estimator : estimator
        Named where y is missing.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    n_rows : int
        Rows of X.

    Returns
    -------
    Unread
        Of which ``read()`` gives a float64 ndarray of the shape of y.

    Raises
    ------
    ValueError
        Naming y, and quoting no value of it.
    """
    shape = None if y is None or sparse.issparse(y) else _columns_of(y)
    if shape is None:
        return unread_targets(estimator, y, n_rows)
    if shape[0] != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")
    columns = [np.asarray(y)[:, j] for j in range(shape[1])] if n_rows else []
    unread = [unread_targets(estimator, column, n_rows) for column in columns]
    return Unread(shape, lambda: _read_columns(y, unread))


def _read_columns(y, unread: list[Unread]) -> np.ndarray:
    refuse_masked(y, "y")  # of which the columns know no mask
    return np.stack([part.read() for part in unread], axis=1)


def _columns_of(y) -> tuple[int, ...] | None:
    """Return the shape of several targets a row; None for one."""
    try:
        shape = shape_of(y, "y")
    except ValueError:
        return None
    return shape if len(shape) == 2 and shape[1] > 1 else None


def check_targets(estimator, y, n_rows: int) -> np.ndarray:
    """Check form and values of targets, where nothing is to be charged between them."""
    return unread_targets(estimator, y, n_rows).read()


def _read_targets(y, n_rows: int) -> np.ndarray:
    refuse_masked(y, "y")
    try:
        given = np.asarray(y)
        # A text in a list would turn all other numbers into their texts.
        mixed = given.dtype.kind in "SU" and isinstance(y, (list, tuple))
        y = (np.asarray(y, dtype=object) if mixed else given).reshape(n_rows)
        values = None if y.dtype.kind in "cmM" else y.astype(np.float64)
        is_complex = y.dtype.kind == "c"
    except (MemoryError, Warning):
        raise
    except Exception:  # of whatever objects y holds: their words may quote values
        values, is_complex = None, False
    if values is None:
        raise ValueError(_COMPLEX_TARGETS if is_complex else _NO_NUMBERS)
    if not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity: drop or fill such rows")
    return values
