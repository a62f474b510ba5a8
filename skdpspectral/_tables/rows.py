"""Checks of rows, whose errors name X and quote none of its values.

A fit is charged between two checks: that of the form of a table, which is public
(shape, dtypes, names), and that of its values. Every check that depends on a value
belongs to the second one.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from .._linalg.walks import RowWalk, reduce_rows, row_blocks, rows_per_block
from .clusters import cluster_table
from .columns import (
    column_names,
    dtypes_of,
    is_date,
    is_never_number,
    is_sparse,
    is_text,
    refuse_masked,
    refuse_masked_form,
    refuse_same_names,
    shape_of_lists,
)
from .files import NO_DATES, SlicedRows, parquet, sliced_rows

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
    values.
    """

    shape: tuple[int, ...]
    read: Callable[[], Any]
    sparse: bool = False


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
    sliced = rows_in_blocks(X) if in_blocks else None
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


def rows_in_blocks(X) -> SlicedRows | None:
    """Return rows that are read or reduced by blocks; None for tables in memory."""
    if isinstance(X, np.ndarray):
        return sliced_rows(X)
    table = cluster_table(X) or parquet(X)
    return sliced_rows(X) if table is None else table.rows()


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
    if isinstance(X, np.ndarray):
        return _check_form(shape_of(X))
    table = cluster_table(X) or parquet(X)  # of which shape_of would read all rows
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


def row_slices(X):
    """Yield slices of rows, each one block in memory."""
    return row_blocks(X.shape[0], rows_per_block(X.shape[1]))


def map_rows(function, X) -> np.ndarray:
    """Stack the results of a function of blocks of rows, in the dtype of the first."""
    out = None
    for rows in row_slices(X):
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
