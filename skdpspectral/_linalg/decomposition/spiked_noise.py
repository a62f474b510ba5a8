"""Leading eigenvectors of a projector plus invariant noise, without the matrix."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ..federation import blocked_product
from .eigen import _start, flip_signs
from .moments import RowMap, blocked_second_moment

# Up to this order, the reduced matrix is solved whole.
_DENSE_ORDER = 400
_TOLERANCE = 1e-9


def top_right_vectors(X, rank: int, row_map: RowMap = lambda rows: rows):
    """Leading eigenvectors of X'X, without forming it where X is wide.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, p)
        Rows. Unless sparse, or few, they are sliced block by block.
    rank : int
        Number of vectors, at most min(n, p).
    row_map : callable, optional
        Block of rows -> float64 block of the same shape, which stands for it.

    Returns
    -------
    ndarray of shape (rank, p)
        Orthonormal rows, leading first, signs fixed.
    """
    n_rows, n_features = X.shape
    small = min(n_rows, n_features)
    if small <= _DENSE_ORDER or rank * 20 > small:
        wide = n_features > n_rows
        X = row_map(X[:]) if wide else X
        gram = X @ X.T if wide else blocked_second_moment(X, row_map)
        if sparse.issparse(gram):
            gram = gram.toarray()  # type: ignore[union-attr]
        vectors = eigh(gram, subset_by_index=(small - rank, small - 1))[1].T[::-1]
        vectors = vectors @ X if wide else vectors
    else:
        operator = LinearOperator(
            (n_features, n_features), matvec=_product(X, row_map), dtype=np.float64
        )
        _, vectors = eigsh(operator, rank, which="LA", v0=_start(n_features))
        vectors = vectors.T[::-1]
    return flip_signs(_haar_like(vectors))


def _product(X, row_map: RowMap):
    """Return a function that multiplies a vector with X'X, up to a factor."""
    if sparse.issparse(X):
        return lambda v: X.T @ (X @ v)
    return lambda v: blocked_product(X, row_map, v)


def _haar_like(rows: np.ndarray) -> np.ndarray:
    """Orthonormalize rows by QR with a positive diagonal, which is unique."""
    basis, triangle = np.linalg.qr(np.asarray(rows).T)
    return (basis * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)).T


def band_shapes(n_features: int, rank: int):
    """Draws that :func:`noisy_projector_vectors` needs.

    Returns
    -------
    normals : list of tuple of int
        Shapes of standard normals.
    chi_degrees : ndarray
        Degrees of freedom of chi variables.
    """
    blocks = n_features // rank
    rest = n_features - blocks * rank
    normals = [
        (blocks, rank, rank),
        (max(blocks - 1, 0), rank, rank),
        (n_features, rank),
        (rest, rest),
        (rest, rank),
    ]
    degrees = n_features - np.arange(rank, blocks * rank, dtype=float)
    return normals, degrees


def noisy_projector_vectors(
    components: np.ndarray, spread: float, normals, chis
) -> np.ndarray:
    r"""Sample the top eigenvectors of :math:`UU' + W`, W symmetric Gaussian noise.

    The noise is that of diagonal standard deviation s and s / sqrt(2) off the
    diagonal. Its law does not change under rotations. In a basis that begins with U,
    reflections of the complement reduce the matrix to a band of r by r blocks:
    symmetric noise on the diagonal, plus the identity in the first block, and
    triangular blocks of normals and chi variables beside it, all independent of the
    basis, which is uniform. Eigenvectors of the band, turned by a uniform basis of
    the complement, have the law of those of the whole matrix.

    Parameters
    ----------
    components : ndarray of shape (r, p)
        U', orthonormal rows.
    spread : float
        s.
    normals, chis : list of ndarray, ndarray
        Draws as :func:`band_shapes` asks for.

    Returns
    -------
    ndarray of shape (r, p)
        Orthonormal rows, leading first, signs fixed.
    """
    rank, n_features = components.shape
    if spread == 0.0:
        return components.copy()
    band = spread * _noise_band(n_features, rank, normals, chis)
    band += sparse.dia_array(
        ((np.arange(n_features) < rank).astype(float)[None], [0]),
        shape=(n_features, n_features),
    )
    vectors = _top_of_band(band.tocsr(), rank)
    # Where the complement's part lies is uniform: a frame, and its coordinates in it.
    frame = normals[2] - components.T @ (components @ normals[2])
    frame = _haar_like(frame.T)
    beyond = vectors[:, rank:]
    if n_features > rank:
        width = min(rank, n_features - rank)
        _basis, coordinates = np.linalg.qr(beyond.T)
        turned = coordinates.T[:, :width] @ frame[:width]
    else:
        turned = 0.0
    return flip_signs(_haar_like(vectors[:, :rank] @ components + turned))


def _noise_band(n_features: int, rank: int, normals, chis):
    """Block tridiagonal form of symmetric noise of unit diagonal deviation."""
    squares, beside, _, last, edge = normals
    blocks, rest = len(squares), n_features - len(squares) * rank
    # Off-diagonal normals of deviation 1 / sqrt 2, diagonal ones of deviation 1.
    diagonal = 0.5 * (squares + squares.transpose(0, 2, 1))
    last = 0.5 * (last + last.T)
    upper = np.triu(beside, 1) * np.sqrt(0.5)
    within = np.arange(rank)
    upper[:, within, within] = chis.reshape(-1, rank)[: blocks - 1] * np.sqrt(0.5)
    entries = [_block_entries(diagonal, rank, 0), _block_entries(upper, rank, rank)]
    entries.append((entries[1][1], entries[1][0], entries[1][2]))
    if rest:
        start = blocks * rank
        corner = np.sqrt(0.5) * edge
        row, column = np.indices((rest, rest)) + start
        entries.append((row.ravel(), column.ravel(), last.ravel()))
        row, column = (
            np.indices((rest, rank)) + np.array([start, start - rank])[:, None, None]
        )
        entries.append((row.ravel(), column.ravel(), corner.ravel()))
        entries.append((column.ravel(), row.ravel(), corner.ravel()))
    rows, columns, data = (np.concatenate(part) for part in zip(*entries, strict=True))
    shape = (n_features, n_features)
    return sparse.coo_array((data, (rows, columns)), shape=shape)


def _block_entries(blocks: np.ndarray, rank: int, shift: int):
    """Entries of blocks along the diagonal, moved down by a number of rows."""
    first = np.arange(len(blocks))[:, None, None] * rank
    row, column = np.indices((rank, rank))
    rows, columns = first + shift + row, first + column
    return rows.ravel(), columns.ravel(), blocks.ravel()


def _top_of_band(band, rank: int) -> np.ndarray:
    """Top eigenvectors, as rows, leading first."""
    order = band.shape[0]
    if order > _DENSE_ORDER and rank * 20 <= order:
        try:
            values, vectors = eigsh(
                band, rank, which="LA", v0=_start(order), tol=_TOLERANCE
            )
            return vectors.T[np.argsort(values)[::-1]]
        except ArpackError:
            pass
    vectors = eigh(band.toarray(), subset_by_index=(order - rank, order - 1))[1]
    return vectors.T[::-1]
