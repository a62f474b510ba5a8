"""Leading eigenpairs of symmetric matrices, by value."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

# From this order on, a few eigenpairs are cheaper by Lanczos iteration.
_LANCZOS_ORDER = 600
_LANCZOS_SHARE = 20
# Relative accuracy of its eigenvalues: far below the noise of any release.
_TOLERANCE = 1e-9


def flip_signs(vectors: np.ndarray) -> np.ndarray:
    """Make the entry of largest modulus of every row positive.

    Parameters
    ----------
    vectors : ndarray of shape (r, p)
        Rows with at least one non-zero entry.

    Returns
    -------
    ndarray of shape (r, p)
        Rows with their sign fixed.
    """
    largest = np.argmax(np.abs(vectors), axis=1)
    signs = np.sign(vectors[np.arange(len(vectors)), largest])
    return vectors * np.where(signs == 0.0, 1.0, signs)[:, None]


def top_eigh(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs of the largest eigenvalues, by value and not by modulus.

    A noisy matrix has large negative eigenvalues too; their eigenvectors are noise.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
        Symmetric; Fortran order is fastest.
    rank : int
        Number of eigenpairs, at most p.

    Returns
    -------
    values : ndarray of shape (rank,)
        Eigenvalues, largest first.
    vectors : ndarray of shape (rank, p)
        Orthonormal rows with their signs fixed by :func:`flip_signs`.
    """
    order = len(matrix)
    if order >= _LANCZOS_ORDER and rank * _LANCZOS_SHARE <= order:
        try:
            values, vectors = _lanczos(matrix, rank)
        except ArpackError:
            values, vectors = _dense(matrix, rank)
    else:
        values, vectors = _dense(matrix, rank)
    return values[::-1].copy(), flip_signs(vectors.T[::-1])


def _dense(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    order = len(matrix)
    some = (order - rank, order - 1)
    try:
        return eigh(matrix, subset_by_index=some, check_finite=False)
    except np.linalg.LinAlgError:
        # Relatively robust representations may fail where eigenvalues are alike.
        values, vectors = np.linalg.eigh(matrix, UPLO="L")
        return values[-rank:], vectors[:, -rank:]


def _lanczos(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenpairs from products with the lower triangle."""
    matrix = np.asfortranarray(matrix)
    operator = LinearOperator(
        matrix.shape,
        matvec=lambda v: blas.dsymv(1.0, matrix, v, lower=True),
        dtype=np.float64,
    )
    values, vectors = eigsh(
        operator, rank, which="LA", v0=_start(len(matrix)), tol=_TOLERANCE
    )
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _start(size: int) -> np.ndarray:
    """Fixed start of the iteration, spread over all directions (Weyl's sequence)."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    return (golden * np.arange(1, size + 1)) % 1.0 - 0.5
