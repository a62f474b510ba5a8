"""Distances between subspaces, variance kept, divergence of Gaussians.

None of these functions is private: a score computed on private rows, or against a
quantity estimated from them without noise, is itself a release.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

ORTHONORMALITY_TOLERANCE = 1e-6

SYMMETRY_TOLERANCE = 1e-8

BLOCK_SIZE = 2**20  # numbers held at a time: 8 MB


def subspace_distance(components_a, components_b, *, ord=2):
    r"""Schatten norm of the difference of two orthogonal projectors.

    For U and V with orthonormal columns that span the two subspaces, it is
    :math:`\|UU' - VV'\|_{S_q}`, the l_q-norm of the singular values. These are the
    sines of the principal angles, each twice, and 1 for every dimension that one
    subspace has more than the other. The sines come from the residual
    :math:`(I - UU')V`, so that an angle of 1e-9 keeps its leading digits, which
    :math:`\sqrt{1 - \cos^2}` would lose. No p x p matrix is formed.

    Parameters
    ----------
    components_a : array-like of shape (n_components_a, n_features)
        Orthonormal rows, as in `components_`: the deviation of their Gram matrix
        from the identity is at most 1e-6 in every entry.
    components_b : array-like of shape (n_components_b, n_features)
        Likewise. The number of rows may differ.
    ord : float, default=2
        Order q of the norm, at least 1: 1 is the nuclear, 2 the Frobenius and
        `numpy.inf` the spectral norm.

    Returns
    -------
    float
        The distance, between 0 and
        :math:`(2 \min(r_a, r_b) + |r_a - r_b|)^{1/q}`.

    Raises
    ------
    ValueError
        If rows are not orthonormal, the numbers of features differ, or `ord` is not
        a number of at least 1.

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
    order = _check_order(ord)
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
    return _vector_norm(np.concatenate([sines, sines, excess]), order)


def captured_variance(estimator, X, y=None):
    r"""Share of the variance of X that an estimator's components keep.

    With :math:`\bar x` the mean of the rows of X itself and P the orthogonal
    projector on the span of `components_`,

    .. math:: \sum_i \|P (x_i - \bar x)\|^2 \big/ \sum_i \|x_i - \bar x\|^2 .

    It has the signature of a scorer: `GridSearchCV(..., scoring=captured_variance)`.

    Parameters
    ----------
    estimator : fitted estimator, Pipeline, or array of shape (n_components, n_features)
        Something with `components_`, of orthonormal rows. With a `scale_` that is
        not None, each feature is divided by it before anything else (the components
        then live in the scaled space; a feature of scale 0 does not count). Of a
        Pipeline, the earlier steps transform X and the last one has `components_`.
        An array is taken as the components.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to score, usually held out from the fit. They are walked in blocks
        of rows, and sparse rows are made dense a block at a time.
    y : None
        Ignored, present for the signature.

    Returns
    -------
    float
        Between 0 and 1. NaN, with an `UndefinedMetricWarning`, where all rows are
        equal and there is no variance to keep (a single row, for one): neither 0 nor
        1 would be fair, and a search then says that a score is not finite.

    Raises
    ------
    ValueError
        If the components are not orthonormal or do not match the features of X, or if
        X is not finite, or its rows differ by more than float64 can hold.
    TypeError
        If the estimator has no `components_`.
    sklearn.exceptions.NotFittedError
        If it is not fitted.

    Warnings
    --------
    The score is not private. On private held-out rows it is itself a release, and so
    is the choice of a parameter by it; no estimator and no accountant accounts for
    either. Score on public rows, or treat the score as the private rows themselves.

    References
    ----------
    I. T. Jolliffe (2002), Principal Component Analysis, 2nd edition, section 6.1.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.metrics import captured_variance
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> captured_variance(np.array([[1.0, 0.0]]), X)
    0.8
    """
    components, scale, X = _components_and_rows(estimator, X)
    basis = _orthonormal_rows(components, "components")
    if basis.shape[1] != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the components have {basis.shape[1]}: "
            "pass rows of the space that they were fitted in"
        )
    weights = _inverse_scale(scale, X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        kept, total = _kept_and_total(X, weights, basis)
    if total == 0:
        message = "captured_variance is undefined, set to NaN: all rows are equal"
        warnings.warn(message, UndefinedMetricWarning, stacklevel=2)
        return float("nan")
    if not np.isfinite(total):
        raise ValueError("The rows of X differ by more than float64 holds: rescale X")
    return float(min(kept / total, 1.0))


def gaussian_kl(mean_a, cov_a, mean_b, cov_b):
    r"""Kullback-Leibler divergence of N(mean_a, cov_a) from N(mean_b, cov_b).

    .. math:: \mathrm{KL} = \tfrac12 \bigl[\mathrm{tr}(\Sigma_b^{-1} \Sigma_a) - p
        + (\mu_b - \mu_a)' \Sigma_b^{-1} (\mu_b - \mu_a)
        + \ln\det\Sigma_b - \ln\det\Sigma_a\bigr],

    by Cholesky factors, without an inverse, in terms that are never negative.

    Parameters
    ----------
    mean_a, mean_b : array-like of shape (n_features,)
        The means; a is where the expectation is taken (the truth, say).
    cov_a, cov_b : array-like of shape (n_features, n_features)
        The covariances: symmetric (to 1e-8 of the largest entry) and positive
        definite.

    Returns
    -------
    float
        The divergence in nats, at least 0.

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


def _check_order(order):
    try:
        value = float(order)
    except (TypeError, ValueError):
        value = np.nan
    if isinstance(order, (bool, np.bool_, str)) or not value >= 1:
        raise ValueError(
            f"ord must be a number of at least 1 or numpy.inf, got {order!r}"
        )
    return value


def _finite_array(values, name):
    return check_array(
        values,
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        ensure_min_features=0,
        input_name=name,
    )


def _orthonormal_rows(components, name):
    """Return the rows in float64, orthonormal to machine precision; same span."""
    rows = _finite_array(components, name)
    if rows.ndim != 2 or not 1 <= rows.shape[0] <= rows.shape[1]:
        raise ValueError(
            f"{name} must have shape (n_components, n_features) with 1 <= n_components "
            f"<= n_features, got {rows.shape}: transpose columns into rows, and "
            "reshape one direction to (1, n_features)"
        )
    deviation = np.abs(rows @ rows.T - np.eye(len(rows))).max()
    if not deviation <= ORTHONORMALITY_TOLERANCE:
        raise ValueError(
            f"{name} must have orthonormal rows, but its Gram matrix differs from the "
            f"identity by {deviation:.2g}: pass numpy.linalg.qr({name}.T)[0].T for "
            "their span"
        )
    # What the tolerance lets through (float32) would drown angles below it.
    return np.linalg.qr(rows.T)[0].T


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


def _components_and_rows(estimator, X):
    """Return components, scale or None, and X in the space where they live."""
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return _components_and_rows(estimator[-1], X)
    if isinstance(estimator, (np.ndarray, list, tuple)):
        return estimator, None, _rows(lambda: check_array(X, accept_sparse="csr"))
    if not hasattr(estimator, "components_"):
        if hasattr(estimator, "fit"):
            check_is_fitted(estimator)
        raise TypeError(
            f"{estimator!r} has no components_: captured_variance scores PCA-like "
            "estimators, a Pipeline that ends in one, or an array of components"
        )
    if isinstance(estimator, BaseEstimator):
        X = _rows(lambda: validate_data(estimator, X, accept_sparse="csr", reset=False))
    else:
        X = _rows(lambda: check_array(X, accept_sparse="csr"))
    return estimator.components_, getattr(estimator, "scale_", None), X


def _rows(validate):
    """Validate rows; a text among them must not be quoted."""
    try:
        return validate()
    except ValueError as error:
        if not str(error).startswith("could not convert string"):
            raise
    raise ValueError("X must hold numbers: turn text into numbers first")


def _inverse_scale(scale, n_features):
    if scale is None:
        return np.ones(n_features)
    scale = np.asarray(scale, dtype=np.float64)
    if scale.shape not in ((), (n_features,)):
        raise ValueError(
            f"scale_ must be a number or have shape ({n_features},), got {scale.shape}"
        )
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        raise ValueError("scale_ must be finite and at least 0")
    scale = np.broadcast_to(scale, (n_features,))
    return np.divide(1.0, scale, out=np.zeros(n_features), where=scale > 0)


def _dense(rows):
    return (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64)


def _row_blocks(X, weights):
    """Yield blocks of rows, scaled and relative to the first row."""
    n_samples, n_features = X.shape
    first_row = _dense(X[:1]) * weights
    for batch in gen_batches(n_samples, max(1, BLOCK_SIZE // n_features)):
        yield _dense(X[batch]) * weights - first_row


def _kept_and_total(X, weights, basis):
    """Sum the squares about the mean: of the projections, and in all.

    Relative to the first row, rows that are all equal give exactly 0 however the
    mean is rounded; relative to the largest entry, no square underflows.
    """
    column_sums, largest = 0.0, 0.0
    for block in _row_blocks(X, weights):
        column_sums = column_sums + block.sum(axis=0)
        largest = np.maximum(largest, np.abs(block).max())  # keeps a NaN
    if largest == 0:
        return 0.0, 0.0
    mean = column_sums / X.shape[0]
    kept, total = 0.0, 0.0
    for block in _row_blocks(X, weights):
        centered = (block - mean) / largest
        projected = centered @ basis.T
        kept += np.vdot(projected, projected)
        total += np.vdot(centered, centered)
    return kept, total


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
