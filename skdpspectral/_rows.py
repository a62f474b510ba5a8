"""Checks of rows, whose errors name X and quote none of its values."""

from __future__ import annotations

import re

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ._sliced_rows import NO_DATES, SlicedRows, sliced_rows
from ._spectral import row_blocks, rows_per_block

_DTYPES = (np.float64, np.float32)
# Where rows are read block by block, whole numbers are converted block by block too.
_BLOCK_DTYPES = (*_DTYPES, *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)))
# First lines of scikit-learn's and numpy's messages that quote shapes and types alone.
_HARMLESS = re.compile(
    r"Input X contains (NaN|infinity)|Found array with|Expected 2D array|"
    r"Complex data not supported|Sparse data was passed for X|X has \d+ features|"
    r"setting an array element with a sequence|float\(\) argument must be|"
    r"int too large|(The )?[Ff]eature names"
)
_RESHAPE = (
    "Reshape your data with X.reshape(-1, 1) if it has a single feature or "
    "X.reshape(1, -1) if it has a single sample"
)


def check_rows(
    estimator, X, *, reset: bool = True, accept_sparse=False, in_blocks=False
):
    """Validate rows for an estimator, and note or check their features.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_` with `reset`, is compared
        otherwise.
    X : array-like of shape (n_samples, n_features)
        Rows of finite numbers.
    reset : bool, default=True
        Whether this is a fit.
    accept_sparse : bool, default=False
        Whether sparse rows are let through, as CSR.
    in_blocks : bool, default=False
        Whether integers are let through, to be converted block by block, and memory
        maps and arrays of other libraries, to be read so.

    Returns
    -------
    ndarray, sparse CSR matrix or SlicedRows of shape (n_samples, n_features)
        float64 or float32, but for blocks.

    Raises
    ------
    ValueError, TypeError
        Naming X, and quoting no value of it.
    """
    if in_blocks:
        rows = sliced_rows(X)
        if rows is not None:
            return _checked_slices(estimator, rows, reset)
    dtypes = [np.dtype(kind) for kind in (_BLOCK_DTYPES if in_blocks else _DTYPES)]
    sparse_format = "csr" if accept_sparse else False
    return _checked(
        X,
        lambda: validate_data(
            estimator, X, dtype=dtypes, accept_sparse=sparse_format, reset=reset
        ),
    )


def _checked_slices(estimator, rows: SlicedRows, reset: bool) -> SlicedRows:
    """Validate rows in one pass, of which one block is in memory at a time."""
    for axis, what in enumerate(("sample", "feature")):
        if rows.shape[axis] == 0:
            raise ValueError(
                f"X: Found array with 0 {what}(s) (shape={rows.shape}) while a minimum "
                "of 1 is required."
            )
    _checked(
        rows,
        lambda: validate_data(estimator, rows, reset=reset, skip_check_array=True),
    )
    for start in row_slices(rows):
        block = rows[start]
        _checked(block, lambda block=block: assert_all_finite(block, input_name="X"))
    return rows


def row_slices(X):
    """Yield slices of rows that are worth a block in memory."""
    return row_blocks(X.shape[0], rows_per_block(X.shape[1]))


def map_rows(function, X) -> np.ndarray:
    """Stack what a function makes of blocks of rows.

    Parameters
    ----------
    function : callable
        Block of rows -> array of as many rows.
    X : ndarray, sparse CSR matrix or SlicedRows of shape (n, p)
        Rows, from :func:`check_rows`.

    Returns
    -------
    ndarray of shape (n, ...)
        Of the type of the first block's result.
    """
    out = None
    for rows in row_slices(X):
        made = function(X[rows])
        if out is None:
            out = np.empty((X.shape[0], *made.shape[1:]), dtype=made.dtype)
        out[rows] = made
    return out


def check_features(X) -> np.ndarray:
    """Validate a table of features, to which no estimator is compared."""
    return _checked(X, lambda: check_array(X, dtype=list(_DTYPES), input_name="X"))


def check_targets(estimator, y, n_rows: int) -> np.ndarray:
    """Validate one finite target a row.

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
    ndarray of shape (n_rows,)
        float64.

    Raises
    ------
    ValueError
        Naming y, and quoting no value of it.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None"
        )
    if sparse.issparse(y):
        raise ValueError("y must be a dense array: sparse targets are not supported")
    _refuse_masked(y, "y")
    try:
        given = np.asarray(y)
        # A text in a list would turn all other numbers into their texts.
        mixed = given.dtype.kind in "SU" and isinstance(y, (list, tuple))
        y = np.asarray(y, dtype=object) if mixed else given
    except ValueError:  # ragged
        raise ValueError("y must be an array of one number a row") from None
    shape = y.shape
    if len(shape) != 1 and not (len(shape) == 2 and shape[1] == 1):
        raise ValueError(
            f"y should be a 1d array of one target a row, got {len(shape)} dimensions; "
            "several targets need a model each"
        )
    if np.iscomplexobj(y):
        raise ValueError("Complex data not supported: y must hold real numbers")
    y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise ValueError("X and y have inconsistent numbers of samples")
    try:
        if y.dtype.kind in "mM":
            raise TypeError
        y = y.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        message = "y must hold numbers: turn labels or dates into numbers first"
        raise ValueError(message) from None
    if not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity: drop or fill such rows")
    return y


def check_scores(X, n_components: int) -> np.ndarray:
    """Validate scores of shape (n_samples, n_components)."""
    X = _checked(X, lambda: check_array(X, dtype=list(_DTYPES), input_name="X"))
    if X.shape[1] != n_components:
        raise ValueError(
            f"X must have shape (n_samples, {n_components}), as transform gives it, "
            f"got {X.shape}"
        )
    return X


def _checked(X, validate) -> np.ndarray:
    _refuse_masked(X, "X")
    _refuse_dates(X)
    try:
        # Sums of extreme values overflow: a warning would tell of them.
        with np.errstate(all="ignore"):
            return validate()
    except TypeError as error:
        kind, message = TypeError, str(error)
    except (ValueError, OverflowError) as error:
        kind, message = ValueError, str(error)
    raise kind(_without_values(message))


def _without_values(message: str) -> str:
    """Keep of a message what tells nothing of the rows."""
    if message.startswith("could not convert string"):
        return "X: could not convert a string to float; turn text into numbers first"
    if not _HARMLESS.match(message):
        return "X must be a 2D array of finite real numbers"
    if "eature names" in message:
        return message  # names of features are public
    line = message.split("\n")[0].rstrip(":")
    if not re.search(r"\bX\b", line):
        line = f"X: {line}"
    return f"{line}. {_RESHAPE}" if "Reshape your data" in message else line


def _refuse_masked(values, name: str) -> None:
    """Refuse what lies under a mask, and would be taken for a value."""
    if isinstance(values, np.ma.MaskedArray) and np.any(np.ma.getmaskarray(values)):
        raise ValueError(f"{name} has masked values: drop or fill such rows first")


def _refuse_dates(X) -> None:
    """Refuse times: their conversion to numbers depends on a hidden unit."""
    if sparse.issparse(X):
        return
    dtypes = getattr(X, "dtypes", None)
    dtypes = [getattr(X, "dtype", None)] if dtypes is None else list(dtypes)
    for dtype in dtypes:
        if re.match("datetime|timedelta|date|duration|time", str(dtype).lower()):
            raise ValueError(NO_DATES)
