"""Kernels of principal components: moments, leading vectors, and power steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from .._linalg.eigen import _start, flip_signs
from .._linalg.walks import RowWalk, blas_threads, reduce_rows


def sum_of_products(blocks: Iterable, columns: np.ndarray) -> np.ndarray:
    """Sum of x (x'Q) over rows that come in blocks; `columns` are Q."""
    total = np.zeros(columns.shape)
    for rows in blocks:
        total += rows.T @ (rows @ columns)
    return total


def blocked_product(
    X, row_map: RowMap, columns: np.ndarray, block_rows: int | None = None
) -> np.ndarray:
    """Mean of x (x'Q) over mapped rows, of shape (p, k); no second moment is formed.

    `columns` are Q, of shape (p, k); `row_map` takes a block of rows to a float64 block
    of the same shape, and `block_rows` is the number of rows of a block.
    """
    kernel = partial(sum_of_products, columns=columns)
    return reduce_rows(X, RowWalk(row_map, block_rows), kernel) / X.shape[0]


# Columns of a sparse product that are made dense together.
_DENSE_COLUMNS = 256

# Of more features than this, a block's product is made so many columns at a time, of
# the lower triangle alone: it never leaves the cache, and there is no second matrix.
_PANELED_FEATURES, _PANEL = 2048, 256


class OuterProductSum:
    """Sum of outer products of rows, to which blocks are added.

    Each block is summed on its own and then added to the total, so that the
    rounding error grows with rows per block plus number of blocks. `total` is of shape
    (p, p) and Fortran-ordered; its lower triangle counts.
    """

    def __init__(self, n_features: int):
        self.total = np.zeros((n_features, n_features), order="F")
        self.n_rows = 0

    def update(self, rows: np.ndarray) -> OuterProductSum:
        """Add rows of shape (b, n_features), float64, or sparse."""
        if sparse.issparse(rows):
            return self._update_sparse(rows)
        rows = np.ascontiguousarray(rows)
        if rows.shape[1] > _PANELED_FEATURES:
            self._add_panels(rows)
        else:
            # A symmetric rank-k update, like scipy's but with other threads let run.
            block = (rows.T @ rows).T
            if self.n_rows == 0:
                self.total = block
            else:
                self.total += block
        self.n_rows += len(rows)
        return self

    def _add_panels(self, rows: np.ndarray) -> None:
        """Add rows to the lower triangle, each panel of columns on its own.

        Every entry is the product's sum over the rows first, and added to the total
        then, as of narrower rows.
        """
        columns, width = self.total.T, rows.shape[1]
        room = np.empty(_PANEL * width)
        for start in range(0, width, _PANEL):
            stop = min(start + _PANEL, width)
            shape = (stop - start, width - start)
            panel = room[: shape[0] * shape[1]].reshape(shape)
            np.matmul(rows[:, start:stop].T, rows[:, start:], out=panel)
            columns[start:stop, start:] += panel

    def _update_sparse(self, rows) -> OuterProductSum:
        """Add sparse rows; of their product, few columns are dense at a time."""
        product = (rows.T @ rows).tocsc()
        for start in range(0, product.shape[1], _DENSE_COLUMNS):
            columns = slice(start, start + _DENSE_COLUMNS)
            self.total[:, columns] += product[:, columns].toarray()
        self.n_rows += rows.shape[0]
        return self


RowMap = Callable[[np.ndarray], np.ndarray]


def sum_of_rows(blocks: Iterable, n_features: int) -> np.ndarray:
    """Sum of rows that come in blocks of shape (b, n_features)."""
    total = np.zeros(n_features)
    for block in blocks:
        total += block.sum(axis=0)
    return total


def sum_of_outer_products(blocks: Iterable, n_features: int) -> np.ndarray:
    """Sum of outer products of float64 rows, dense or sparse, that come in blocks.

    It is Fortran-ordered, and its lower triangle counts. Each block is summed before
    the next is asked for.
    """
    moment = OuterProductSum(n_features)
    with blas_threads(n_features):
        for block in blocks:
            moment.update(block)
    return moment.total


def sums_of_layers(
    blocks: Iterable, n_features: int, n_layers: int
) -> tuple[np.ndarray, ...]:
    """Sums of outer products of several parts of the same rows, in one pass.

    Each block is a list of `n_layers` parts; lower triangles of the sums count.
    """
    layers = [OuterProductSum(n_features) for _ in range(n_layers)]
    with blas_threads(n_features):
        for parts in blocks:
            for layer, part in zip(layers, parts, strict=True):
                layer.update(part)
    return tuple(layer.total for layer in layers)


def blocked_mean(X, row_map: RowMap, block_rows: int | None = None) -> np.ndarray:
    """Mean of mapped rows, of shape (p,); parameters as of :func:`blocked_product`."""
    kernel = partial(sum_of_rows, n_features=X.shape[1])
    return reduce_rows(X, RowWalk(row_map, block_rows), kernel) / X.shape[0]


def blocked_second_moment(
    X, row_map: RowMap, block_rows: int | None = None
) -> np.ndarray:
    """Mean outer product of mapped rows, of which the lower triangle counts.

    It is Fortran-ordered; parameters are as of :func:`blocked_product`.
    """
    kernel = partial(sum_of_outer_products, n_features=X.shape[1])
    total = reduce_rows(X, RowWalk(row_map, block_rows), kernel)
    total /= X.shape[0]
    return total


def squared_parts(rows, components: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared lengths of rows along a subspace and across it, both of shape (b,).

    `components` are orthonormal rows. Lengths are at least 0 where they are finite.
    """
    scores = np.asarray(rows @ components.T)
    along = np.vecdot(scores, scores)
    if sparse.issparse(rows):
        total = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    else:
        total = np.vecdot(rows, rows)
    return along, np.maximum(total - along, 0.0)


def residual(rows, scores: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Dense rows less their part in a subspace of orthonormal rows, float64.

    `scores` are the products of the rows with the components; sparse rows must have no
    duplicate entries.
    """
    part = scores @ components
    if sparse.issparse(rows):
        np.negative(part, out=part)
        entries = rows.tocoo()
        part[entries.row, entries.col] += entries.data
        return part
    return np.subtract(rows, part, out=part)


def floor_eigenvalues(matrix: np.ndarray, floor: float) -> np.ndarray:
    """Raise the eigenvalues of a symmetric matrix to a floor."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, floor)) @ vectors.T


def leading_first(within: np.ndarray, vectors: np.ndarray):
    """Rotate orthonormal rows to the principal axes of a matrix within their space.

    `within` is symmetric, of shape (r, r). Returns its eigenvalues, largest first, and
    the rotated rows with fixed signs.
    """
    values, rotation = np.linalg.eigh(within)
    return values[::-1].copy(), flip_signs(rotation.T[::-1] @ vectors)


def orthonormal_rows(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the space of rows, signs fixed."""
    return flip_signs(np.linalg.qr(matrix.T)[0].T)


def shifted_power_step(components, cross, weighted, wide, shift: float) -> np.ndarray:
    r"""Improve a subspace by moments of rows along and across it.

    The rows span :math:`U + (I - UU') B D^{-1} V (V - s I)^{-1}`. If B, D and V are
    the moments of :math:`N(0, \Sigma)` with a spiked covariance of noise variance s,
    this is the signal space whatever U was: the moments of clipped projections cancel.

    `components` are U', orthonormal rows of shape (r, p), and `shift` is s. `cross` is
    B, the mean product of residuals and clipped projections, of shape (p, r).
    `weighted` and `wide` are D and V: the mean product of projections and clipped
    projections, and the mean square of projections; symmetric, with eigenvalues above 0
    and above s.
    """
    cross = cross - components.T @ (components @ cross)
    shifted = wide - shift * np.eye(len(wide))
    # B D^-1 V (V - s)^-1, with symmetric D, V that need not commute.
    factor = np.linalg.solve(weighted, np.linalg.solve(shifted, wide).T)
    return orthonormal_rows(components + (cross @ factor).T)


# Nodes of the quadrature on a logarithmic scale, and its half-width.
_NODES, _REACH = 400, 25.0


def unit_row_moments(along: float, across: float, rank: int, degrees: int):
    r"""Moments of :math:`z = x / \|x\|` for x with two different variances.

    The first `rank` directions have variance `along`, and `degrees` others `across`.
    Returns :math:`E z_1^2 - E z_2^2` and :math:`E z_1^2 z_2^2`, of one direction of
    either kind, from :math:`q^{-k} = \int t^{k-1} e^{-tq} dt / (k-1)!` for
    :math:`q = \|x\|^2`, whose Laplace transform is a product.
    """
    total = rank * along + degrees * across
    t = np.exp(np.linspace(-_REACH, _REACH, _NODES)) / total
    weight = t * 2.0 * _REACH / (_NODES - 1)
    log_transform = -0.5 * (
        rank * np.log1p(2.0 * along * t) + degrees * np.log1p(2.0 * across * t)
    )
    transform = np.exp(log_transform) * weight
    first, second = along / (1.0 + 2.0 * along * t), across / (1.0 + 2.0 * across * t)
    gap = np.sum(transform * (first - second))
    cross = np.sum(transform * t * first * second)
    return float(gap), float(cross)


# Up to this order, the reduced matrix is solved whole.
_DENSE_ORDER = 400
_TOLERANCE = 1e-9


def top_right_vectors(X, rank: int, row_map: RowMap = lambda rows: rows):
    """Leading eigenvectors of X'X, without forming it where X is wide.

    Rows that are neither sparse nor few are read block by block. `rank` is at most
    min(n, p). Returns orthonormal rows of shape (rank, p), leading first, signs fixed.
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
    """Shapes of normals and degrees of chis for :func:`noisy_projector_vectors`."""
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
    """Sample the top eigenvectors of :math:`UU' + W`, W symmetric Gaussian noise.

    The noise is that of diagonal standard deviation s and s / sqrt(2) off the
    diagonal. Its law does not change under rotations. In a basis that begins with U,
    reflections of the complement reduce the matrix to a band of r by r blocks:
    symmetric noise on the diagonal, plus the identity in the first block, and
    triangular blocks of normals and chi variables beside it, all independent of the
    basis, which is uniform. Eigenvectors of the band, turned by a uniform basis of
    the complement, have the law of those of the whole matrix.

    `components` are U', `spread` is s, and draws are those of :func:`band_shapes`.
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
