"""Arrays that a user gives as a workload, or as a matrix that shapes noise."""

from __future__ import annotations

import numpy as np

# Squares of weights must not underflow beside those of other rows.
_LEAST_SHARE = 1e-60
# A sum that is smaller, beside that of absolute weights, is a difference.
_LEAST_SUM = 1e-6


def check_triangular(name: str, matrix, *, singular: bool = False) -> np.ndarray:
    """Check a lower-triangular array of finite numbers.

    Parameters
    ----------
    name : str
        Of the argument, for errors.
    matrix : array-like of shape (n, n)
        The array.
    singular : bool, default=False
        Whether zeros on the diagonal are fine.

    Returns
    -------
    ndarray of shape (n, n)
        float64.
    """
    try:
        matrix = np.asarray(matrix)
        if matrix.dtype.kind not in "iufO":
            raise TypeError
        matrix = matrix.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(
            f"{name} must be a square array, one row a step, got shape {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must hold finite numbers")
    if np.any(np.triu(matrix, 1)):
        raise ValueError(
            f"{name} must be lower-triangular: no step can depend on later rows"
        )
    diagonal = np.abs(np.diag(matrix))
    if not singular and diagonal.min() <= 1e-8 * np.abs(matrix).max():
        raise ValueError(
            f"{name} is singular, or nearly so: its diagonal must not have zeros"
        )
    return matrix


def check_weights(
    weights, name: str = "workload", *, contrast: bool = False
) -> np.ndarray:
    """Check weights of rows, of which a mean and a covariance are to be made.

    Parameters
    ----------
    weights : array-like of shape (n, n)
        Row t holds the weights of rows 0..t; some may be below 0.
    name : str, default="workload"
        Of the argument, for errors.
    contrast : bool, default=False
        Whether weights of a step may add up to 0, or to less: no mean is made of them.

    Returns
    -------
    ndarray of shape (n, n)
        float64.

    Raises
    ------
    ValueError
        Naming the argument.
    """
    weights = check_triangular(name, weights, singular=True)
    sizes = np.abs(weights)
    largest = sizes.max(axis=1)
    if not largest.min() > 0.0:
        raise ValueError(
            f"{name} must hold weights that are not all of a row 0: a mean and a "
            "covariance are made with them"
        )
    if largest.min() < _LEAST_SHARE * largest.max():
        raise ValueError(
            f"{name} must have rows of similar scale: the largest weight of a row is "
            f"below {_LEAST_SHARE:g} times that of another; scale its rows"
        )
    if not contrast and contrasts(weights).any():
        raise ValueError(
            f"the weights of each row of {name} must add up to more than 0, for a mean "
            "and a covariance are made with them; differences are for workload beside "
            "a second_workload of which these are made"
        )
    return weights


def contrasts(weights: np.ndarray) -> np.ndarray:
    """Say of each row of weights whether it adds up to nothing, or to less."""
    scaled = weights / np.abs(weights).max(axis=1, keepdims=True)
    return ~(scaled.sum(axis=1) > _LEAST_SUM * np.abs(scaled).sum(axis=1))
