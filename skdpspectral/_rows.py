"""Checks of rows, whose errors name X and quote none of its values."""

from __future__ import annotations

import re

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

_DTYPES = (np.float64, np.float32)
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


def check_rows(estimator, X, *, reset: bool = True) -> np.ndarray:
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

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        float64 or float32.

    Raises
    ------
    ValueError, TypeError
        Naming X, and quoting no value of it.
    """
    return _checked(
        X, lambda: validate_data(estimator, X, dtype=list(_DTYPES), reset=reset)
    )


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


def _refuse_dates(X) -> None:
    """Refuse times: their conversion to numbers depends on a hidden unit."""
    if sparse.issparse(X):
        return
    dtypes = getattr(X, "dtypes", None)
    dtypes = [getattr(X, "dtype", None)] if dtypes is None else list(dtypes)
    for dtype in dtypes:
        if re.match("datetime|timedelta|date|duration|time", str(dtype).lower()):
            raise ValueError(
                "X must hold numbers, not dates or durations: turn them into numbers "
                "of a unit that you choose"
            )
