"""The factorization with the least error, dense and offline."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, eigh

_ROUNDS = 300
_TOLERANCE = 1e-5


def optimal_matrix(workload: np.ndarray) -> np.ndarray:
    r"""Lower-triangular C that minimizes :math:`|C| \, \|A C^{-1}\|_F`.

    By the fixed point of the dual problem: with V diagonal and
    :math:`X = V^{-1/2} (V^{1/2} A'A V^{1/2})^{1/2} V^{-1/2}`, the diagonal of X is 1
    at the optimum, and C is its triangular factor, :math:`X = C'C`.

    Parameters
    ----------
    workload : ndarray of shape (n, n)
        The workload A, invertible.

    Returns
    -------
    ndarray of shape (n, n)
        C, whose columns have norms of 1, but for the tolerance of the iteration.

    Raises
    ------
    ValueError
        If the workload is singular in float64.

    References
    ----------
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy
    for SGD via optimal private linear operators on adaptive streams, theorem 3.2.
    """
    gram = workload.T @ workload
    dual = np.sqrt(np.diag(gram))
    for _ in range(_ROUNDS):
        before = dual
        dual = np.diag(_root(gram, before)).copy()
        if np.max(np.abs(dual / before - 1.0)) < _TOLERANCE:
            break
    scale = np.sqrt(dual)
    X = _root(gram, dual) / np.outer(scale, scale)
    # X = C'C with C lower-triangular: a Cholesky factor in the reverse order.
    try:
        return cholesky(X[::-1, ::-1], lower=False)[::-1, ::-1].copy()
    except np.linalg.LinAlgError:
        raise ValueError(
            'workload is too close to a singular matrix for factorization="optimal"; '
            "take another factorization"
        ) from None


def _root(gram: np.ndarray, dual: np.ndarray) -> np.ndarray:
    scale = np.sqrt(dual)
    values, vectors = eigh(gram * np.outer(scale, scale))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
