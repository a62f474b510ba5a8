"""Distances between subspaces, and the divergence of Gaussians.

None of these functions is private: a score computed on private rows, or against a
quantity estimated from them without noise, is itself a release.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..mechanisms import check_real
from ._score_kinds import _finite_array, _orthonormal_rows

SYMMETRY_TOLERANCE = 1e-8


def subspace_distance(components_a, components_b, *, ord=2):
    r"""Schatten norm of the difference of two orthogonal projectors.

    Let U and V have orthonormal columns that span the two subspaces. The distance is
    :math:`\|UU' - VV'\|_{S_q}`, the l_q-norm of the singular values. The singular
    values are the sines of the principal angles, each twice, and 1 for every dimension
    by which one subspace exceeds the other. The sines are computed from the residual
    :math:`(I - UU')V`, which preserves the leading digits of an angle of 1e-9, unlike
    :math:`\sqrt{1 - \cos^2}`. No p x p matrix is formed.

    Parameters
    ----------
    components_a : array-like of shape (n_components_a, n_features)
        Orthonormal rows, as in `components_`. The entries of their Gram matrix may
        differ from the identity by at most 1e-6.
    components_b : array-like of shape (n_components_b, n_features)
        Orthonormal rows as above. The number of rows may differ.
    ord : float, default=2
        Order q of the norm, at least 1. Use 1 for the nuclear, 2 for the Frobenius and
        `numpy.inf` for the spectral norm.

    Returns
    -------
    float
        The distance, between 0 and :math:`(2 \min(r_a, r_b) + |r_a - r_b|)^{1/q}`.

    Raises
    ------
    ValueError
        If rows are not orthonormal, the numbers of features differ, or `ord` is not at
        least 1.

    References
    ----------
    G. W. Stewart and J. Sun (1990), Matrix Perturbation Theory, theorem I.5.5.
    A. V. Knyazev and M. E. Argentati (2002), Principal angles between subspaces in
    an A-based scalar product, SIAM J. Sci. Comput. 23(6) (why sines and not cosines).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.metrics import subspace_distance
    >>> round(subspace_distance([[1.0, 0.0]], [[0.0, 1.0]]), 12)
    1.414213562373
    """
    if not check_real("ord", ord) >= 1:
        raise ValueError(f"ord must be at least 1, and may be numpy.inf, got {ord!r}")
    basis_a = _orthonormal_rows(components_a, "components_a")
    basis_b = _orthonormal_rows(components_b, "components_b")
    if basis_a.shape[1] != basis_b.shape[1]:
        raise ValueError(
            f"components_a has {basis_a.shape[1]} features and components_b has "
            f"{basis_b.shape[1]}: pass components of the same feature space"
        )
    small, large = sorted((basis_a, basis_b), key=len)
    sines = _principal_sines(small, large)
    excess = np.ones(len(large) - len(small))
    return _vector_norm(np.concatenate([sines, sines, excess]), float(ord))


def gaussian_kl(mean_a, cov_a, mean_b, cov_b):
    r"""Kullback-Leibler divergence of N(mean_a, cov_a) from N(mean_b, cov_b).

    .. math:: \mathrm{KL} = \tfrac12 \bigl[\mathrm{tr}(\Sigma_b^{-1} \Sigma_a) - p
        + (\mu_b - \mu_a)' \Sigma_b^{-1} (\mu_b - \mu_a)
        + \ln\det\Sigma_b - \ln\det\Sigma_a\bigr],

    It is computed from Cholesky factors, not an inverse, as a sum of non-negative
    terms.

    Parameters
    ----------
    mean_a, mean_b : array-like of shape (n_features,)
        The means. The expectation is taken under a, for example the true distribution.
    cov_a, cov_b : array-like of shape (n_features, n_features)
        The covariances, symmetric (to 1e-8 of the largest entry) and positive definite.

    Returns
    -------
    float
        Divergence in nats, at least 0.

    Raises
    ------
    ValueError
        If shapes disagree, or a covariance is not symmetric or not positive definite.

    References
    ----------
    S. Kullback (1959), Information Theory and Statistics, chapter 9, eq. (1.2).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.metrics import gaussian_kl
    >>> gaussian_kl([0.0], [[1.0]], [1.0], [[1.0]])
    0.5
    """
    factor_a = _cholesky(cov_a, "cov_a")
    factor_b = _cholesky(cov_b, "cov_b")
    n_features = len(factor_a)
    if len(factor_b) != n_features:
        raise ValueError(
            f"cov_a has {n_features} features and cov_b has {len(factor_b)}: "
            "both must describe the same features"
        )
    mean_a = _mean(mean_a, "mean_a", n_features)
    mean_b = _mean(mean_b, "mean_b", n_features)
    ratio = linalg.solve_triangular(factor_b, factor_a, lower=True)
    shift = linalg.solve_triangular(factor_b, mean_b - mean_a, lower=True)
    # The ratio is lower triangular: its diagonal carries both the determinants and
    # its part of the trace, as d^2 - 1 - 2 ln d >= 0, exact near d = 1.
    excess = np.diag(ratio) - 1.0
    diagonal = excess * (excess + 2.0) - 2.0 * np.log1p(excess)
    lower = np.sum(np.tril(ratio, -1) ** 2)
    return max(0.5 * float(diagonal.sum() + lower + shift @ shift), 0.0)


def _principal_sines(small, large):
    residual = small - (small @ large.T) @ large
    sines = np.linalg.svd(residual, compute_uv=False)
    return np.minimum(sines[: len(small)], 1.0)


def _vector_norm(values, order):
    largest = values.max()
    if largest == 0:
        return 0.0
    # Relative to the largest, so that high powers of tiny sines do not underflow.
    return float(largest * np.linalg.norm(values / largest, ord=order))


def _mean(mean, name, n_features):
    mean = _finite_array(mean, name)
    if mean.shape != (n_features,):
        raise ValueError(
            f"{name} must have shape ({n_features},) like the covariances, "
            f"got {mean.shape}"
        )
    return mean


def _cholesky(covariance, name):
    covariance = _finite_array(covariance, name)
    size = covariance.shape[:1]
    if size == (0,) or covariance.shape != 2 * size:
        raise ValueError(f"{name} must be a square matrix, got {covariance.shape}")
    asymmetry = np.abs(covariance - covariance.T).max()
    if asymmetry > SYMMETRY_TOLERANCE * np.abs(covariance).max():
        raise ValueError(f"{name} must be symmetric: pass (cov + cov.T) / 2 if it is")
    try:
        return linalg.cholesky(covariance, lower=True)
    except linalg.LinAlgError as error:
        raise ValueError(
            f"{name} must be positive definite ({error}): add a small multiple of the "
            "identity, or compare the two in the subspace where they vary"
        ) from error
