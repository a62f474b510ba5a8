"""Leading eigenpairs of symmetric matrices, by value."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ..threads import blas_threads

# From this order on, a few eigenpairs are cheaper by Lanczos iteration.
_LANCZOS_ORDER = 600
_LANCZOS_SHARE = 20
# Relative accuracy of its eigenvalues, where there is no noise.
_TOLERANCE = 1e-9
# Residuals that are left, as a share of the root of the order times the deviation of
# the noise: of the length that noise itself adds to an eigenvector's image.
_SHARE_OF_NOISE = 1e-3
# Entries may be rounded to float32 where that moves them by less than such a share of
# their noise, and the residuals are well above what its products round away.
_SHARE_OF_ENTRIES, _FLOAT32_UNIT, _FLOAT32_TOLERANCE = 1e-3, 2.0**-24, 1e-5
# Products that tell how long vectors become.
_POWER_STEPS = 4


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


def top_eigh(
    matrix: np.ndarray, rank: int, spread: float = 0.0, *, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs of the largest eigenvalues, by value and not by modulus.

    A noisy matrix has large negative eigenvalues too; their eigenvectors are noise.

    A few of a large matrix are found by iteration, as exactly as the noise in it is
    worth: they are those of a matrix that differs from this one by a thousandth of
    what noise of deviation `spread` does, in operator norm (:ref:`loose_eigenvectors`).

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
        Symmetric; Fortran order is fastest.
    rank : int
        Number of eigenpairs, at most p.
    spread : float, default=0.0
        Standard deviation of the noise off the diagonal, public; 0 for none, or where
        it is not known.
    exact : bool, default=False
        Whether the matrix is of rows, and was not released: what is released of its
        eigenvectors is charged for the roundings of float64, and for no tolerance.

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
            values, vectors = _lanczos(matrix, rank, spread, exact)
        except ArpackError:
            values, vectors = _dense(matrix, rank)
    else:
        values, vectors = _dense(matrix, rank)
    return values[::-1].copy(), flip_signs(vectors.T[::-1])


def _dense(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    order = len(matrix)
    some = (order - rank, order - 1)
    with blas_threads(order):
        try:
            return eigh(matrix, subset_by_index=some, check_finite=False)
        except np.linalg.LinAlgError:
            # Relatively robust representations may fail where eigenvalues are alike.
            values, vectors = np.linalg.eigh(matrix, UPLO="L")
            return values[-rank:], vectors[:, -rank:]


def _lanczos(
    matrix: np.ndarray, rank: int, spread: float, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenpairs from products with the lower triangle."""
    matrix = np.asfortranarray(matrix)
    # These products wait for memory, and for each other.
    with blas_threads(0):
        start, length = _power_steps(matrix, _start(len(matrix)))
        if exact:
            return _leading(matrix, rank, start, 0.0)  # ARPACK's word for float64's
        wanted = _SHARE_OF_NOISE * math.sqrt(len(matrix)) * spread
        tolerance = max(wanted / length, _TOLERANCE) if length > 0.0 else _TOLERANCE
        largest = max(float(np.max(matrix)), -float(np.min(matrix)))
        coarse = largest * _FLOAT32_UNIT < _SHARE_OF_ENTRIES * spread
        if not (coarse and tolerance > _FLOAT32_TOLERANCE):
            return _leading(matrix, rank, start, tolerance)
        # Half as many bytes at each product, and they are all that it costs. In units
        # of the largest entry: no other is beyond float32 then.
        rounded = np.empty(matrix.shape, np.float32, order="F")
        np.divide(matrix, largest, out=rounded, casting="same_kind")
        _, vectors = _leading(rounded, rank, start.astype(np.float32), tolerance)
        return _by_quotients(matrix, vectors.astype(np.float64))


def _leading(
    matrix: np.ndarray, rank: int, start: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    product = blas.dsymv if matrix.dtype == np.float64 else blas.ssymv
    operator = LinearOperator(
        matrix.shape,
        matvec=lambda v: product(1.0, matrix, v, lower=True),
        dtype=matrix.dtype,
    )
    values, vectors = eigsh(operator, rank, which="LA", v0=start, tol=tolerance)
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _power_steps(matrix: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Where a few products carry a vector, and about the norm of the matrix."""
    length = 0.0
    for _ in range(_POWER_STEPS):
        product = blas.dsymv(1.0, matrix, start, lower=True)
        length = float(blas.dnrm2(product))
        if not 0.0 < length < math.inf:
            return start, 0.0
        start = product / length
    return start, length


def _by_quotients(
    matrix: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal vectors of the same span, by their Rayleigh quotients, and these."""
    basis = np.linalg.qr(vectors)[0]
    images = [blas.dsymv(1.0, matrix, vector, lower=True) for vector in basis.T]
    values, turned = np.linalg.eigh(np.array(images) @ basis)
    return values, basis @ turned


def _start(size: int) -> np.ndarray:
    """Fixed start of the iteration, spread over all directions (Weyl's sequence)."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    return (golden * np.arange(1, size + 1)) % 1.0 - 0.5
