"""Leading eigenpairs, ranks and corrected eigenvalues of noisy symmetric matrices."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, eigh, eigvalsh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from .walks import blas_threads


def weighted_median(values, weights) -> float:
    """Return the smallest value that has half of the weight at or below it.

    Weights are not negative; if all are zero, values have equal weights.
    """
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
    """Return rows of shape (r, p) with a positive entry of largest modulus each."""
    largest = np.argmax(np.abs(vectors), axis=1)
    signs = np.sign(vectors[np.arange(len(vectors)), largest])
    return vectors * np.where(signs == 0.0, 1.0, signs)[:, None]


def top_eigh(
    matrix: np.ndarray, rank: int, spread: float = 0.0, *, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues by value, decreasing, and eigenvectors as rows.

    A noisy matrix has large negative eigenvalues too; their eigenvectors are noise.
    Signs of the orthonormal rows are fixed by :func:`flip_signs`. The matrix is
    symmetric of shape (p, p); Fortran order is fastest.

    A few eigenpairs of a large matrix are found by iteration, as exactly as its noise
    is worth: they are those of a matrix that differs from this one by a thousandth of
    what noise of deviation `spread` does, in operator norm (:ref:`loose_eigenvectors`).
    `spread` is the public standard deviation of the noise off the diagonal, 0 for none
    or unknown. Use `exact` for a matrix of rows that was not released: a release of its
    eigenvectors is charged for the roundings of float64, and for no tolerance.
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
    """Return the vector after a few products, and about the norm of the matrix."""
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


# Safety factor on the width of the bulk.
_RANK_MARGIN = 1.15


def select_rank(matrix: np.ndarray, spread: float, n_samples: int) -> int:
    """Count the eigenvalues above the edge of noise and of sampling error; at least 1.

    The matrix is a second moment of n rows plus symmetric noise of deviation s,
    `spread`, off the diagonal. With m the median eigenvalue, the edge is ``m + 1.15 (2
    s sqrt(p) + m (2 sqrt(p/n) + p/n))``.
    """
    values = eigvalsh(matrix, check_finite=False)
    median, order = float(np.median(values)), len(values)
    width = _width(median, order, spread, n_samples)
    return max(1, int(np.sum(values > median + _RANK_MARGIN * width)))


def count_above_noise(
    values: np.ndarray, trace: float, order: int, spread: float, n_samples: int
) -> int:
    """Count leading eigenvalues above the edge of noise and of sampling error.

    This is the rule of :func:`select_rank`, with the mean of the other eigenvalues,
    which follows from the trace, in place of the median.
    """
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
    r"""Return deviations of the entries of leading eigenvectors by noise, (r, p).

    To first order, symmetric noise of deviation `spread` off the diagonal moves
    :math:`v_k` by :math:`\sum_{j \ne k} e_{jk} v_j / (\lambda_k - \lambda_j)` with
    independent :math:`e_{jk}` of that deviation. `values`, decreasing, and `vectors`
    are those of the noisy matrix; the other eigenvalues are taken to be equal, by the
    `trace`. Gaps are without what noise adds to them, and the entries of a vector vary
    by no more than those of a random one.
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
    """Return variances of the angles between eigenvectors, by noisy gaps.

    A true gap g appears as about ``g + count * spread**2 / g``.
    """
    root = np.sqrt(np.maximum(gaps**2 - 4.0 * count * spread**2, 0.0))
    least = max(1e-3 * spread, np.finfo(float).tiny)
    return (spread / np.maximum(0.5 * (gaps + root), least)) ** 2


def _width(middle: float, order: int, spread: float, n_samples: int) -> float:
    """Return the width of the bulk above its middle: noise and sampling error."""
    aspect = order / n_samples
    # A middle one that noise made negative says nothing of the rows' spread.
    sampling = max(middle, 0.0) * (2.0 * math.sqrt(aspect) + aspect)
    return 2.0 * spread * math.sqrt(order) + sampling


# Width of the kernel that the density of the eigenvalues is smoothed with, in units of
# the noise's own radius times order**(-1/3): flat between .5 and 1.5.
_SMOOTHING = 1.0

# How far beyond the edge an eigenvalue stands out of noise, and how many deviations
# beyond 0 a trace.
_SHRINKAGE_MARGIN, _SURE = 1.1, 3.0


def edge_of_noise(spread: float, order: int) -> float:
    r"""Return :math:`2 s \sqrt p`, the largest eigenvalue of symmetric Gaussian noise.

    The noise has the standard deviation s off the diagonal and :math:`\sqrt2 s` on it.
    """
    return 2.0 * spread * math.sqrt(order)


def shrink_eigenvalues(values: np.ndarray, spread, aspect: float = 0.0) -> np.ndarray:
    r"""Return the best eigenvalues for the eigenvectors of noisy second moments.

    For eigenvectors u of S plus symmetric noise, with S a matrix in general position to
    it, no other numbers come nearer to S in Frobenius norm than :math:`u' S u`. These
    are estimated from the eigenvalues alone: with :math:`v = s^2 p` and g the Stieltjes
    transform of their density at an eigenvalue y, they are :math:`y - 2 v\,
    \mathrm{Re}\, g` [1]_. With `aspect`, :math:`a = p / n`, they are :math:`u' \Sigma
    u` for rows of covariance :math:`\Sigma`: that over :math:`|1 - a + a (y g - v
    g^2)|^2`, the rule of [2]_ for s = 0.

    `values` of shape (..., p) are increasing, and so is the result, which may be
    negative; `spread` is the standard deviation s of the noise off the diagonal.

    .. [1] Bun, Allez, Bouchaud and Potters (2016), Rotational invariant estimator for
       general noisy matrices, IEEE Transactions on Information Theory 62.
    .. [2] Ledoit and Peche (2011), Eigenvectors of some large sample covariance matrix
       ensembles, Probability Theory and Related Fields 151.
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
    """Give one value to a bulk whose spread is no larger than that of noise alone.

    The spread of noise is known to a share 2 / p: a signal that is too small to be told
    from it is too small for its eigenvectors to be worth anything.
    """
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
    """Stieltjes transform of the eigenvalues, each smeared over a semicircle, at them.

    An eigenvalue far from all others does not see itself: its own semicircle has no
    real part at its middle.
    """
    radius = np.maximum(radius, np.finfo(float).tiny ** 0.25)[..., None]
    gaps = (values[..., :, None] - values[..., None, :]) / radius
    outside = np.sqrt(np.maximum(gaps**2 - 1.0, 0.0))
    real = gaps - np.copysign(outside, gaps)
    imaginary = np.sqrt(np.maximum(1.0 - gaps**2, 0.0))
    return 2.0 / radius[..., 0] * (real.mean(axis=-1) + 1j * imaginary.mean(axis=-1))


def _increasing(values: np.ndarray) -> np.ndarray:
    """Nearest increasing numbers in the largest difference."""
    above = np.maximum.accumulate(values, axis=-1)
    below = np.minimum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    return 0.5 * (above + below)


def shrink_noise(
    matrix: np.ndarray, spread: float, aspect: float = 0.0, floor: float | None = None
) -> np.ndarray:
    """Return a noisy second moment with the eigenvalues of :func:`shrink_eigenvalues`.

    Only the lower triangle is read; `floor` is the least eigenvalue, if any.
    """
    values, vectors = np.linalg.eigh(matrix)
    values = shrink_eigenvalues(values, spread, aspect)
    if floor is not None:
        values = np.maximum(values, floor)
    return _symmetric(vectors, values)


def _symmetric(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the matrix of eigenvectors in columns, symmetric to the last bit."""
    product = (vectors * values) @ vectors.T
    return 0.5 * (product + product.T)


def keep_outliers(matrix: np.ndarray, spread: float) -> np.ndarray:
    r"""Keep the eigenvalues that stand out of symmetric noise; there may be none.

    Eigenvalues y beyond the noise's edge become :math:`\sqrt{y^2 - 4 s^2 p}` with their
    sign, the best numbers for few signals in pure noise; others become 0. Only the
    lower triangle is read; `spread` is the deviation s off the diagonal.
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
    """Return a second moment from a noisy one below a clip and one beyond it.

    The second layer, between the clip and a larger one, is small, noisy, and mostly of
    the shape of the first one, whose eigenvalues are scaled up by the traces. Of the
    rest of the second one only what stands out of the noise is added: along the
    eigenvectors of the first, and then in any other direction. A second layer that is
    all noise adds nothing. Spreads are standard deviations off the diagonal; the result
    has eigenvalues of at least `floor`.
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
    """Return eigenvalues plus those of a noisy layer: of their shape, or far from it.

    `added` is the layer along their eigenvectors, with noise of sqrt(2) `spread`.
    """
    deviation = math.sqrt(2.0) * spread
    sure = float(added.sum()) > _SURE * deviation * math.sqrt(len(added))
    if not sure or not values.any():
        return values
    # The factor with the least sum of distances: few directions do not move it.
    known = values > 0.0
    more = max(weighted_median(added[known] / values[known], values[known]), 0.0)
    rest = added - more * values
    return (1.0 + more) * values + np.where(np.abs(rest) > _SURE * deviation, rest, 0.0)
