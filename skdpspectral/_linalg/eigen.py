"""Leading eigenpairs, ranks and corrected eigenvalues of noisy symmetric matrices."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, eigh, eigvalsh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from .walks import blas_threads


def weighted_median(values, weights) -> float:
    """Return the lower weighted median, unweighted if all weights are zero."""
    values, weights = (np.asarray(a, dtype=np.float64) for a in (values, weights))
    if not weights.any():
        weights = np.ones(len(values))
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order] / weights.max())
    return float(values[order][np.searchsorted(shares, 0.5 * shares[-1])])


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
# Products that estimate the norm of a matrix.
_POWER_STEPS = 4


def flip_signs(vectors: np.ndarray) -> np.ndarray:
    """Flip the signs of rows so that their entries of largest modulus are positive."""
    largest = np.argmax(np.abs(vectors), axis=1)
    signs = np.sign(vectors[np.arange(len(vectors)), largest])
    return vectors * np.where(signs == 0.0, 1.0, signs)[:, None]


def top_eigh(
    matrix: np.ndarray, rank: int, spread: float = 0.0, *, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the `rank` largest eigenvalues, decreasing, and eigenvectors as rows.

    Eigenvalues are ordered by value, not by modulus. `matrix` is symmetric, (p, p), and
    fastest in Fortran order. `spread` is the public standard deviation of its
    off-diagonal noise, 0 for none or unknown. A few eigenpairs of a large matrix are
    computed iteratively, with an error of a thousandth of the noise in operator norm
    (:ref:`loose_eigenvectors`). Set `exact` for a matrix that was not released: its
    accounting allows for float64 rounding only.
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
    """Return the largest eigenpairs, computed from the lower triangle by Lanczos."""
    matrix = np.asfortranarray(matrix)
    # These products wait for memory, and for each other.
    with blas_threads(0):
        start, length = _two_stage(matrix, _start(len(matrix)))
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


def _two_stage(matrix: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the vector after a few products, and an estimate of the matrix norm."""
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
    """Return Ritz vectors of the span of `vectors`, and their Rayleigh quotients."""
    basis = np.linalg.qr(vectors)[0]
    images = [blas.dsymv(1.0, matrix, vector, lower=True) for vector in basis.T]
    values, turned = np.linalg.eigh(np.array(images) @ basis)
    return values, basis @ turned


def _start(size: int) -> np.ndarray:
    """Return a fixed start vector spread over all directions (Weyl's sequence)."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    return (golden * np.arange(1, size + 1)) % 1.0 - 0.5


# Safety factor on the width of the bulk.
_RANK_MARGIN = 1.15


def select_rank(matrix: np.ndarray, spread: float, n_samples: int) -> int:
    """Return the number of eigenvalues above the edge of noise and sampling error.

    It is at least 1. The matrix is a second moment of n rows plus symmetric noise with
    off-diagonal deviation s, `spread`. With the median eigenvalue m, the edge is ``m +
    1.15 (2 s sqrt(p) + m (2 sqrt(p/n) + p/n))``.
    """
    values = eigvalsh(matrix, check_finite=False)
    median, order = float(np.median(values)), len(values)
    width = _width(median, order, spread, n_samples)
    return max(1, int(np.sum(values > median + _RANK_MARGIN * width)))


def count_above_noise(
    values: np.ndarray, trace: float, order: int, spread: float, n_samples: int
) -> int:
    """Apply :func:`select_rank` with the mean, from the trace, as the median."""
    others = (trace - float(np.sum(values))) / max(order - len(values), 1)
    others = others if len(values) < order else float(np.min(values))
    return int(
        np.sum(
            values > others + _RANK_MARGIN * _width(others, order, spread, n_samples)
        )
    )


def entry_deviations(
    values: np.ndarray, vectors: np.ndarray, trace: float, spread: float
) -> np.ndarray:
    r"""Return standard deviations of leading eigenvectors' entries, of shape (r, p).

    To first order, symmetric noise of deviation `spread` off the diagonal moves
    :math:`v_k` by :math:`\sum_{j \ne k} e_{jk} v_j / (\lambda_k - \lambda_j)` with
    independent :math:`e_{jk}`. `values`, decreasing, and `vectors` are those of the
    noisy matrix; the other eigenvalues are taken to be equal. Gaps are corrected for
    noise, and deviations are at most those of a random unit vector.
    """
    rank, order = vectors.shape
    inner = _rotations(np.abs(values[:, None] - values), spread, 2)
    np.fill_diagonal(inner, 0.0)
    variance, total = inner @ vectors**2, inner.sum(axis=1)
    if rank < order:
        others = (trace - float(np.sum(values))) / (order - rank)
        outer = _rotations(values - others, spread, order - rank)
        variance += outer[:, None] * np.maximum(1.0 - np.sum(vectors**2, axis=0), 0.0)
        total = total + outer * (order - rank)
    return np.sqrt(variance / np.maximum(total, 1.0)[:, None])


def _rotations(gaps: np.ndarray, spread: float, count: int) -> np.ndarray:
    """Return variances of angles between eigenvectors, given noisy gaps."""
    root = np.sqrt(np.maximum(gaps**2 - 4.0 * count * spread**2, 0.0))
    least = max(1e-3 * spread, np.finfo(float).tiny)
    return (spread / np.maximum(0.5 * (gaps + root), least)) ** 2


def _width(middle: float, order: int, spread: float, n_samples: int) -> float:
    """Return how far noise and sampling error spread the bulk above its middle."""
    aspect = order / n_samples
    # A middle one that noise made negative says nothing of the rows' spread.
    sampling = max(middle, 0.0) * (2.0 * math.sqrt(aspect) + aspect)
    return edge_of_noise(spread, order) + sampling


# Width of the kernel that the density of the eigenvalues is smoothed with, in units of
# the noise's own radius times order**(-1/3): flat between .5 and 1.5.
_SMOOTHING = 1.0
# How far beyond the edge an eigenvalue stands out of noise, and how many deviations
# beyond 0 a trace.
_SHRINKAGE_MARGIN, _SURE = 1.1, 3.0


def edge_of_noise(spread: float, order: int) -> float:
    r"""Return :math:`2 s \sqrt p`, the largest eigenvalue of a (p, p) noise matrix."""
    return 2.0 * spread * math.sqrt(order)


def shrink_eigenvalues(values: np.ndarray, spread, aspect: float = 0.0) -> np.ndarray:
    r"""Return the eigenvalues with the least Frobenius error for noisy eigenvectors.

    With :math:`v = s^2 p` and g the Stieltjes transform of the spectral density at an
    eigenvalue y, they are :math:`y - 2 v\, \mathrm{Re}\, g` [1]_. With `aspect`,
    :math:`a = p / n`, that is divided by :math:`|1 - a + a (y g - v g^2)|^2` to
    estimate the covariance of the rows, the rule of [2]_ for s = 0.

    `values`, (..., p), are increasing, and so is the result, which may be negative;
    `spread` is the standard deviation s of the noise off the diagonal.

    .. [1] Bun, Allez, Bouchaud and Potters (2016), IEEE Trans. Inf. Theory 62.
    .. [2] Ledoit and Peche (2011), Probability Theory and Related Fields 151.
    """
    values = np.asarray(values, dtype=np.float64)
    spread = np.asarray(spread, dtype=np.float64)[..., None]
    scale = np.maximum(np.max(np.abs(values), axis=-1, keepdims=True), spread)
    scale = np.where(scale > 0.0, scale, 1.0)
    values, order = values / scale, values.shape[-1]
    variance = (spread / scale) ** 2 * order
    width = variance + aspect * np.mean(values**2, axis=-1, keepdims=True)
    transform = _stieltjes(
        values, 2.0 * _SMOOTHING * np.sqrt(width) * order ** (-1 / 3)
    )
    found = values - 2.0 * variance * transform.real
    if aspect > 0.0:
        product = values * transform - variance * transform**2
        found = found / np.abs(1.0 - aspect + aspect * product) ** 2
    found = _flat_bulk(values, _increasing(found), variance, aspect)
    return scale * found


def _flat_bulk(values, found, variance, aspect: float) -> np.ndarray:
    """Set the bulk to its mean if it spreads no more than noise alone would."""
    order = values.shape[-1]
    middle = np.median(values, axis=-1, keepdims=True)
    noise = variance + aspect * middle**2
    # Beyond its edge the noise has eigenvalues by p**(-2/3) of it, and hardly farther.
    edge = 2.0 * np.sqrt(noise) * (1.0 + order ** (-2.0 / 3.0))
    bulk = np.abs(values - middle) <= edge
    count = np.maximum(bulk.sum(axis=-1, keepdims=True), 1)
    mean = (values * bulk).sum(axis=-1, keepdims=True) / count
    spread = ((values - mean) ** 2 * bulk).sum(axis=-1, keepdims=True) / count
    flat = spread <= noise * (count / order) * (1.0 + 2.0 * _SURE / count)
    flat &= 2 * count >= order
    level = (found * bulk).sum(axis=-1, keepdims=True) / count
    return np.where(flat & bulk, level, found)


def _stieltjes(values: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return Stieltjes transforms of semicircle-smoothed eigenvalues, at each."""
    radius = np.maximum(radius, np.finfo(float).tiny ** 0.25)[..., None]
    gaps = (values[..., :, None] - values[..., None, :]) / radius
    outside = np.sqrt(np.maximum(gaps**2 - 1.0, 0.0))
    real = gaps - np.copysign(outside, gaps)
    imaginary = np.sqrt(np.maximum(1.0 - gaps**2, 0.0))
    return 2.0 / radius[..., 0] * (real.mean(axis=-1) + 1j * imaginary.mean(axis=-1))


def _increasing(values: np.ndarray) -> np.ndarray:
    """Return the nearest increasing sequence in the maximum norm."""
    above = np.maximum.accumulate(values, axis=-1)
    below = np.minimum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    return 0.5 * (above + below)


def shrink_noise(
    matrix: np.ndarray, spread: float, aspect: float, floor: float
) -> np.ndarray:
    """Apply :func:`shrink_eigenvalues` to a lower triangle, down to a floor."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(shrink_eigenvalues(values, spread, aspect), floor)
    return _symmetric(vectors, values)


def _symmetric(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix of given eigenvalues and eigenvector columns."""
    product = (vectors * values) @ vectors.T
    return 0.5 * (product + product.T)


def keep_outliers(matrix: np.ndarray, spread: float) -> np.ndarray:
    r"""Shrink the eigenvalues that exceed the noise's edge, and zero the others.

    An eigenvalue y beyond the edge becomes :math:`\sqrt{y^2 - 4 s^2 p}` with its sign,
    which is optimal for few signals in pure noise. Only the lower triangle is read;
    `spread` is the deviation s off the diagonal.
    """
    values, vectors = np.linalg.eigh(matrix)
    edge = edge_of_noise(spread, len(values))
    kept = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    kept[np.abs(values) <= _SHRINKAGE_MARGIN * edge] = 0.0
    return _symmetric(vectors, np.copysign(kept, values))


def join_layers(
    near: np.ndarray,
    far: np.ndarray,
    near_spread: float,
    far_spread: float,
    floor: float,
    aspect: float = 0.0,
) -> np.ndarray:
    """Add the noisy second moment of rows beyond a clip to that of clipped rows.

    The eigenvalues of `near` are scaled up by the traces. From the rest of `far`, only
    what exceeds the noise is added: along the eigenvectors of `near`, and then in other
    directions. Spreads are standard deviations off the diagonal; eigenvalues of the
    result are at least `floor`.
    """
    values, vectors = np.linalg.eigh(near)
    values = np.maximum(shrink_eigenvalues(values, near_spread, aspect), 0.0)
    turned = vectors.T @ far @ vectors
    along = _scaled_up(values, np.diag(turned), far_spread)
    turned[np.diag_indices_from(turned)] = 0.0
    joined = keep_outliers(turned, far_spread)
    joined[np.diag_indices_from(joined)] += along
    values, turned = np.linalg.eigh(joined)
    return _symmetric(vectors @ turned, np.maximum(values, floor))


def _scaled_up(values: np.ndarray, added: np.ndarray, spread: float) -> np.ndarray:
    """Return eigenvalues plus those that a noisy layer adds along eigenvectors."""
    deviation = math.sqrt(2.0) * spread
    sure = float(added.sum()) > _SURE * deviation * math.sqrt(len(added))
    if not sure or not values.any():
        return values
    # The factor with the least sum of distances: few directions do not move it.
    known = values > 0.0
    more = max(weighted_median(added[known] / values[known], values[known]), 0.0)
    rest = added - more * values
    return (1.0 + more) * values + np.where(np.abs(rest) > _SURE * deviation, rest, 0.0)


# Rows of a triangle that are read together, as they lie in columns.
_PANEL = 64


def pack_lower(matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the lower triangle of a symmetric matrix as a vector, row by row."""
    order, stop = len(matrix), 0
    out = np.empty(order * (order + 1) // 2) if out is None else out
    for first in range(0, order, _PANEL):
        last = first + _PANEL
        panel = np.ascontiguousarray(matrix[first:last, :last])
        for length, row in enumerate(panel, first + 1):
            start, stop = stop, stop + length
            out[start:stop] = row[:length]
    return out


def packed_diagonal(order: int) -> np.ndarray:
    """Return the places of the diagonal in a packed matrix."""
    return np.cumsum(np.arange(1, order + 1)) - 1


def unpack_lower(packed: np.ndarray, order: int) -> np.ndarray:
    """Return the symmetric matrix packed by :func:`pack_lower`, in Fortran order."""
    matrix, stop = np.empty((order, order)), 0
    for first in range(0, order, _PANEL):
        last = min(first + _PANEL, order)
        for length in range(first + 1, last + 1):
            start, stop = stop, stop + length
            matrix[length - 1, :length] = packed[start:stop]
            matrix[first : length - 1, length - 1] = matrix[
                length - 1, first : length - 1
            ]
        matrix[:first, first:last] = matrix[first:last, :first].T
    return matrix.T
