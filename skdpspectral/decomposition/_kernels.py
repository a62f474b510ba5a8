"""Kernels of principal components: moments, leading vectors, and power steps.

They also combine subspaces of clients, make steps of a sparse power iteration, and
estimate Pearson correlations from noisy second moments of signs of differences.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from .._linalg.eigen import flip_signs, top_eigh
from .._linalg.walks import blas_threads, row_squares


def squared_parts(rows, components: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared lengths of rows along orthonormal `components` and across."""
    scores = np.asarray(rows @ components.T)
    along = np.vecdot(scores, scores)
    return along, np.maximum(row_squares(rows) - along, 0.0)


def leading_first(within: np.ndarray, vectors: np.ndarray):
    """Rotate orthonormal rows to the principal axes of a matrix within them."""
    values, rotation = np.linalg.eigh(within)
    return values[::-1].copy(), flip_signs(rotation.T[::-1] @ vectors)


def top_right_vectors(X, rank: int) -> np.ndarray:
    """Return leading eigenvectors of X'X as rows, of fewer rows than features."""
    gram, n_rows = X @ X.T, X.shape[0]
    if sparse.issparse(gram):
        gram = gram.toarray()
    vectors = eigh(gram, subset_by_index=(n_rows - rank, n_rows - 1))[1].T[::-1]
    # The columns of QR with a positive diagonal are unique.
    basis, triangle = np.linalg.qr(np.asarray(vectors @ X).T)
    return flip_signs((basis * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)).T)


# Gaps relative to the signal, and variances, are kept within these.
_TINY, _HUGE = 1e-100, 1e300
# Least singular value of columns of unit length that count as independent.
_INDEPENDENT = 1e-10


def inverse_variance_weights(variances) -> np.ndarray:
    """Return weights in inverse proportion to variances, with sum 1."""
    # Variances beyond float64 are alike: their ratios would be no numbers.
    variances = np.minimum(np.asarray(variances, dtype=np.float64), _HUGE)
    smallest = variances.min()
    if smallest == 0.0:
        weights = (variances == 0.0).astype(float)
    else:
        weights = smallest / variances
    return weights / weights.sum()


def spike_strength(values, noise_level) -> np.ndarray:
    r"""Return the signal behind the largest eigenvalue of a noisy matrix.

    Symmetric noise of off-diagonal variance v moves an eigenvalue t of a p x p matrix
    to :math:`t + \tau^2 / t`, with :math:`\tau = \sqrt{p v}`, and hides it at :math:`2
    \tau` if t is at most :math:`\tau` (Benaych-Georges and Nadakuditi 2011, section
    3.1). Returns t, or :math:`\tau` if it is hidden, for `values` and noise levels
    :math:`\tau` of shape (m,).
    """
    values = np.asarray(values, dtype=np.float64)
    noise_level = np.asarray(noise_level, dtype=np.float64)
    above = np.maximum(values, 2.0 * noise_level)
    root = np.sqrt((above - 2.0 * noise_level) * (above + 2.0 * noise_level))
    return 0.5 * (above + root)


def subspace_variances(
    signal: float,
    bulk: float,
    n_samples,
    noise_scale,
    rank: int,
    n_features: int,
    *,
    capped: bool = True,
) -> np.ndarray:
    r"""Return expected squared distances of clients' subspaces to the common one.

    To first order it is :math:`2 r (p - r) \lambda \beta / (n g^2)` from sampling, for
    normal rows with variance :math:`\lambda` along (`signal`) and :math:`\beta` across
    the subspace (`bulk`) and :math:`g = \lambda - \beta`, and :math:`r (p - r) s^2 /
    g^2` from symmetric noise of diagonal standard deviation s (`noise_scale`, one per
    client). With `capped` it is at most the largest squared distance, 2 min(r, p - r).
    It is 1 if r = p.
    """
    n_samples = np.asarray(n_samples, dtype=np.float64)
    noise_scale = np.asarray(noise_scale, dtype=np.float64)
    most = 2.0 * min(rank, n_features - rank)
    if most == 0.0:
        return np.ones(len(n_samples))
    # A gap of zero hides the subspace from all alike.
    gap = max(signal - bulk, _TINY * max(signal, 1.0))
    with np.errstate(over="ignore"):
        sampling = 2.0 * (signal / gap) * (max(bulk, 0.0) / gap) / n_samples
        first_order = rank * (n_features - rank) * (sampling + (noise_scale / gap) ** 2)
    first_order = np.minimum(first_order, _HUGE)
    return np.minimum(first_order, most) if capped else first_order


def top_of_projectors(bases, weights, rank: int) -> np.ndarray:
    """Return leading eigenvectors, as rows, of a weighted sum of projectors."""
    n_features = bases.shape[2]
    scaled = bases * np.sqrt(weights)[:, None, None]
    stacked = scaled.reshape(-1, n_features)
    if len(stacked) < n_features and rank <= len(stacked):
        return flip_signs(np.linalg.svd(stacked, full_matrices=False)[2][:rank])
    return top_eigh(stacked.T @ stacked, rank)[1]


def moment_variances(moment: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, float]:
    """Return variances of a noisy second moment along orthonormal rows, and across."""
    along = np.maximum(np.vecdot(axes @ moment, axes), 0.0)
    kept = float(along.sum())
    others = max(len(moment) - len(axes), 1)
    return along, (max(float(np.trace(moment)), kept) - kept) / others


def orthonormal_columns(basis) -> tuple[np.ndarray, float]:
    """Return orthonormal columns of the same span, and the norm of Q'Q - I."""
    largest = np.max(np.abs(basis), axis=0, initial=0.0)
    exponents = np.frexp(np.where(largest > 0.0, largest, 1.0))[1]
    with np.errstate(under="ignore"):
        columns, triangle = np.linalg.qr(np.ldexp(basis, -exponents))
    columns = columns * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
    defect = np.linalg.norm(columns.T @ columns - np.eye(columns.shape[1]))
    return columns, float(defect)


def largest_rows(columns: np.ndarray, n_kept: int) -> np.ndarray:
    """Return a mask of the rows of largest norm; ties keep the first ones."""
    norms = np.linalg.norm(columns, axis=1)
    kept = np.zeros(len(columns), dtype=bool)
    kept[np.argsort(-norms, kind="stable")[:n_kept]] = True
    return kept


def truncated_basis(product: np.ndarray, n_kept: int):
    """Truncate the product (p, k) of a power iteration to `n_kept` features.

    Features are kept by the norms of the rows of an orthonormal basis of the product.
    Returns orthonormal columns, sorted by singular value, the singular values of the
    kept rows, and the mask of kept features.
    """
    kept = largest_rows(np.linalg.svd(product, full_matrices=False)[0], n_kept)
    left, values, _ = np.linalg.svd(product[kept], full_matrices=False)
    columns = np.zeros(product.shape)
    columns[kept] = left
    return columns, values, kept


# Iterations on a matrix that is at hand; each costs a product and no privacy.
_ITERATIONS = 50


def sparse_subspace(matrix: np.ndarray, rank: int, n_kept: int) -> np.ndarray:
    """Return a subspace with `n_kept` features, by truncated power iterations."""
    columns = truncated_basis(top_eigh(matrix, rank)[1].T, n_kept)[0]
    if n_kept == len(matrix):
        return columns
    # Noise has negative eigenvalues too, which a power would magnify.
    shift = max(0.0, float(top_eigh(-matrix, 1)[0][0]))
    for _ in range(_ITERATIONS):
        columns = truncated_basis(matrix @ columns + shift * columns, n_kept)[0]
    return columns


# Points of the mixture that a diagonal is taken from, per deviation of its noise and at
# most, and steps towards the most likely one.
_POINTS_PER_DEVIATION, _MOST_POINTS, _STEPS = 2, 200, 60
# Deviations of noise that a released trace may be below 1, its value without ties.
_NEAR_ONE = 5.0
# Features up to which the matrix is projected, and steps of the projection: each is a
# whole eigendecomposition.
_MOST_PROJECTED, _PROJECTIONS = 300, 12
# What a feature is divided by, at least: in deviations of the noise on it, and such
# that the edge of the noise on the correlations is at most so large, in units of the
# variance of a feature.
_FEWEST_DEVIATIONS, _LARGEST_EDGE, _FLOORS = 2.0, 2.0, 40
# Slope of the correlation in Kendall's, at 0, for normal features.
_SLOPE = 0.5 * math.pi


def correlations_of_signs(matrix: np.ndarray, spread: float) -> np.ndarray:
    r"""Return estimated correlations of features from a released moment of signs.

    `matrix`, of which only the lower triangle is read, is the mean of z z', where z are
    the signs of a pair over the root of the number of nonzero ones, plus symmetric
    noise of standard deviation `spread` off the diagonal and :math:`\sqrt2` times that
    on it. The diagonal, of shares of untied pairs, is replaced by its posterior mean
    (:func:`shrink_diagonal`), and the matrix by the nearest positive semidefinite one
    with that diagonal. Each feature is divided by the root of its share, or by a larger
    number if noise would hide the others: such features have a variance below 1.
    :func:`bridge` converts the result to Pearson's correlations.
    """
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    order = len(matrix)
    shares = shrink_diagonal(np.diag(matrix), spread)
    if order <= _MOST_PROJECTED:
        matrix = nearest_semidefinite(matrix, shares)
    matrix[np.diag_indices(order)] = shares
    weights, is_quiet = _weights(shares, spread)
    if order > _MOST_PROJECTED and not is_quiet:
        # Correlations would be noise for the most part, and nothing has removed it.
        return matrix * order
    scaled = weights[:, None] * matrix * weights
    variances = np.diag(scaled).copy()
    largest = float(shares.max(initial=0.0))
    found = bridge(scaled, shares / largest if largest > 0.0 else shares)
    found[np.diag_indices(order)] = variances
    # The feature with the largest share is a standardized one.
    highest = float(variances.max())
    return found / highest if highest > 0.0 else found


def shrink_diagonal(released: np.ndarray, spread: float) -> np.ndarray:
    """Return posterior means of a nonnegative diagonal.

    The prior is the maximum-likelihood distribution on a grid, found by expectation
    maximization. It finds the common share of features without ties, and shrinks rare
    features to about 0.
    """
    order, deviation = len(released), math.sqrt(2.0) * spread
    trace = float(np.sum(released))
    if trace > 1.0 - _NEAR_ONE * deviation * math.sqrt(order):
        released = released + (1.0 - trace) / order
    middle = max(float(np.mean(released)), 0.0)
    highest = max(float(np.max(released)), middle)
    few_points = highest * _POINTS_PER_DEVIATION < _MOST_POINTS * deviation
    if highest == 0.0 or not few_points:
        return np.maximum(released, 0.0)
    count = math.ceil(highest * _POINTS_PER_DEVIATION / deviation) + 2
    points = np.append(np.linspace(0.0, highest, count), middle)
    squares = ((released[:, None] - points) / deviation) ** 2
    likelihood = np.exp(0.5 * (squares.min(axis=1, keepdims=True) - squares))
    # Half of the prior is that all features are alike.
    prior = np.append(np.full(count, 0.5 / count), 0.5)
    for _ in range(_STEPS):
        posterior = _normalized(likelihood * prior)
        prior = posterior.mean(axis=0)
    return _normalized(likelihood * prior) @ points


def _normalized(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(axis=1, keepdims=True)


def nearest_semidefinite(matrix: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Return about the nearest positive semidefinite matrix with a given diagonal.

    Nearest in Frobenius norm [1]_: the positive part of the matrix with another
    diagonal, found by accelerated gradient steps on the dual problem [2]_. The diagonal
    of the result is close to the given one.

    .. [1] Higham (2002), IMA Journal of Numerical Analysis 22.
    .. [2] Malick (2004), SIAM Journal on Matrix Analysis and Applications 26.
    """
    at = np.diag_indices(len(matrix))
    found, shifted = matrix, matrix.copy()
    last = ahead = diagonal.copy()
    momentum = 1.0
    with blas_threads(len(matrix)):
        for _ in range(_PROJECTIONS):
            shifted[at] = ahead
            values, vectors = np.linalg.eigh(shifted)
            found = (vectors * np.maximum(values, 0.0)) @ vectors.T
            step = ahead + diagonal - np.diag(found)
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            ahead = step + (momentum - 1.0) / following * (step - last)
            last, momentum = step, following
    return 0.5 * (found + found.T)


def _weights(shares: np.ndarray, spread: float) -> tuple[np.ndarray, bool]:
    """Return factors of features, and whether their noise is small after scaling.

    The least divisor is the smallest one with small noise, at most the mean share. A
    feature of no share has weight zero.
    """
    # Without noise too, the square of its inverse is a number.
    least = np.finfo(float).tiny ** 0.25
    low = max(_FEWEST_DEVIATIONS * math.sqrt(2.0) * spread, least)
    high = max(low, float(np.mean(shares)))
    floors = np.geomspace(low, high, _FLOORS)
    squares = 1.0 / np.maximum(shares, floors[:, None])
    # Of noise whose deviation is a product of two weights; without a floor at most.
    edges = 2.0 * spread * np.sqrt(squares.max(axis=1) * squares.sum(axis=1))
    quiet = np.flatnonzero(edges <= _LARGEST_EDGE)
    chosen = squares[quiet[0]] if len(quiet) else squares[-1]
    return np.where(shares > 0.0, np.sqrt(chosen), 0.0), len(quiet) > 0


def bridge(kendall: np.ndarray, shares: np.ndarray) -> np.ndarray:
    r"""Return Pearson's correlations for Kendall's (tau-b), off the diagonal.

    For two normal features it is :math:`\sin(\pi \tau / 2)`, and for two binary ones
    :math:`\tau`. `shares` are those of untied pairs, 1 for continuous features and at
    most 1/2 for binary ones. In between, the slope at 0 is a product of one factor per
    feature: for a normal and a binary feature it is the root of :math:`\pi / 2`, exact
    for small correlations and a split at the median.
    """
    kendall = np.clip(kendall, -1.0, 1.0)
    slopes = 1.0 + (math.sqrt(_SLOPE) - 1.0) * np.clip(2.0 * shares - 1.0, 0.0, 1.0)
    curved = (np.outer(slopes, slopes) - 1.0) / (_SLOPE - 1.0)
    return kendall + curved * (np.sin(_SLOPE * kendall) - kendall)
