"""Subspaces of several clients made into one, and steps of a sparse power iteration."""

from __future__ import annotations

import numpy as np

from .._linalg.eigen import flip_signs, top_eigh

# Gaps relative to the signal, and variances, are kept within these.
_TINY, _HUGE = 1e-100, 1e300

# Least singular value of columns of unit length that count as independent.
_INDEPENDENT = 1e-10


def inverse_variance_weights(variances) -> np.ndarray:
    """Weights proportional to one over each variance, with sum 1.

    They minimize the variance of a mean of independent terms. Variances are positive
    or infinite; zeros share all of the weight.
    """
    # Variances beyond float64 are alike: their ratios would be no numbers.
    variances = np.minimum(np.asarray(variances, dtype=np.float64), _HUGE)
    smallest = variances.min()
    if smallest == 0.0:
        weights = (variances == 0.0).astype(float)
    else:
        weights = smallest / variances
    return weights / weights.sum()


def spike_strength(values, noise_level) -> np.ndarray:
    r"""Signal behind the largest eigenvalue of a noisy matrix.

    Symmetric noise of off-diagonal variance v pushes an eigenvalue t of a p x p
    matrix up to :math:`t + \tau^2 / t`, with :math:`\tau = \sqrt{p v}`, and hides it
    at :math:`2 \tau` if t is at most :math:`\tau` (Benaych-Georges and Nadakuditi 2011,
    section 3.1). Returns t, or :math:`\tau` where nothing is seen above the noise, for
    eigenvalues `values` and noise levels :math:`\tau` of shape (m,).
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
    r"""Expected squared distance of each client's subspace to the common one.

    To first order :math:`2 r (p - r) \lambda \beta / (n g^2)` from sampling, for
    normal rows with variance :math:`\lambda` along (`signal`) and :math:`\beta` across
    the subspace (`bulk`) and :math:`g = \lambda - \beta`, and
    :math:`r (p - r) s^2 / g^2` from symmetric noise of diagonal standard deviation s
    (`noise_scale`, one per client). With `capped` it is at most the largest squared
    distance, 2 min(r, p - r); the variance of a matrix has no such limit. With r = p,
    where nothing is to be estimated, it is 1.
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
    """Leading eigenvectors of a weighted sum of projectors, as orthonormal rows.

    `bases` are orthonormal rows of shape (m, r, p), `weights` are not negative. Leading
    ones come first, and signs are fixed.
    """
    n_features = bases.shape[2]
    scaled = bases * np.sqrt(weights)[:, None, None]
    stacked = scaled.reshape(-1, n_features)
    if len(stacked) < n_features and rank <= len(stacked):
        return flip_signs(np.linalg.svd(stacked, full_matrices=False)[2][:rank])
    return top_eigh(stacked.T @ stacked, rank)[1]


def moment_variances(moment: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, float]:
    """Variances of a noisy second moment along some axes, and on average across them.

    `axes` are orthonormal rows. Variances are not negative; that across is 0 where
    there is no other direction.
    """
    along = np.maximum(np.vecdot(axes @ moment, axes), 0.0)
    kept = float(along.sum())
    others = max(len(moment) - len(axes), 1)
    return along, (max(float(np.trace(moment)), kept) - kept) / others


def pack_lower(matrix: np.ndarray) -> np.ndarray:
    """Lower triangle of a symmetric matrix as a vector, row by row."""
    return matrix[np.tril_indices(len(matrix))]


def unpack_lower(packed: np.ndarray, order: int) -> np.ndarray:
    """Symmetric matrix whose lower triangle is given by :func:`pack_lower`."""
    matrix = np.zeros((order, order))
    rows, columns = np.tril_indices(order)
    matrix[rows, columns] = packed
    matrix[columns, rows] = packed
    return matrix


def orthonormal_columns(basis) -> tuple[np.ndarray, float]:
    """Orthonormal columns that span the same space as finite columns, by QR.

    Signs are those of a positive diagonal of R. The columns are orthonormal whatever
    the input is, zero included. Returns them and the computed Frobenius norm of Q'Q -
    I.
    """
    largest = np.max(np.abs(basis), axis=0, initial=0.0)
    exponents = np.frexp(np.where(largest > 0.0, largest, 1.0))[1]
    with np.errstate(under="ignore"):
        columns, triangle = np.linalg.qr(np.ldexp(basis, -exponents))
    columns = columns * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
    defect = np.linalg.norm(columns.T @ columns - np.eye(columns.shape[1]))
    return columns, float(defect)


def independent_columns(basis) -> bool:
    """Whether finite columns are linearly independent, whatever their units.

    False for a zero column, for more columns than rows, and for columns that depend on
    each other but for rounding errors.
    """
    largest = np.max(np.abs(basis), axis=0, initial=0.0)
    if basis.shape[1] > basis.shape[0] or not np.all(largest > 0.0):
        return False
    with np.errstate(under="ignore"):
        scaled = np.ldexp(basis, -np.frexp(largest)[1])
    scaled = scaled / np.linalg.norm(scaled, axis=0)
    return bool(np.linalg.svd(scaled, compute_uv=False)[-1] > _INDEPENDENT)


def largest_rows(columns: np.ndarray, n_kept: int) -> np.ndarray:
    """Mark the rows of largest norm; of equal ones those that come first."""
    norms = np.linalg.norm(columns, axis=1)
    kept = np.zeros(len(columns), dtype=bool)
    kept[np.argsort(-norms, kind="stable")[:n_kept]] = True
    return kept


def truncated_basis(product: np.ndarray, n_kept: int):
    """One step of a truncated power iteration after the product, of shape (p, k).

    `n_kept` features are kept by the norms of the rows of an orthonormal basis of the
    product; the others are set to zero, and what remains is made orthonormal again.
    Returns orthonormal columns, the first of the largest singular value; the singular
    values of the kept rows, largest first; and which features are kept.
    """
    kept = largest_rows(np.linalg.svd(product, full_matrices=False)[0], n_kept)
    left, values, _ = np.linalg.svd(product[kept], full_matrices=False)
    columns = np.zeros(product.shape)
    columns[kept] = left
    return columns, values, kept


# Iterations on a matrix that is at hand; each costs a product and no privacy.
_ITERATIONS = 50


def sparse_subspace(matrix: np.ndarray, rank: int, n_kept: int) -> np.ndarray:
    """Leading subspace of a symmetric matrix with few features, by truncated powers.

    Returns orthonormal columns of shape (p, rank), zero but for `n_kept` rows.
    """
    columns = truncated_basis(top_eigh(matrix, rank)[1].T, n_kept)[0]
    if n_kept == len(matrix):
        return columns
    # Noise has negative eigenvalues too, which a power would magnify.
    shift = max(0.0, float(top_eigh(-matrix, 1)[0][0]))
    for _ in range(_ITERATIONS):
        columns = truncated_basis(matrix @ columns + shift * columns, n_kept)[0]
    return columns
