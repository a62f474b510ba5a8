"""Variance that components keep, distances of subspaces, and rows that they are of."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from ..accounting._errors import warn
from ..mechanisms import check_real

ORTHONORMALITY_TOLERANCE = 1e-6
BLOCK_SIZE = 2**20  # numbers held at a time: 8 MB


def captured_variance(estimator, X, y=None):
    r"""Share of the variance of X that an estimator's components explain.

    Let :math:`\bar x` be the mean of the rows of X itself, and P the orthogonal
    projector on the span of `components_`. The score is

    .. math:: \sum_i \|P (x_i - \bar x)\|^2 \big/ \sum_i \|x_i - \bar x\|^2 .

    Pass it to a search as a scorer: `GridSearchCV(..., scoring=captured_variance)`.

    Parameters
    ----------
    estimator : fitted estimator, Pipeline, or array of shape (n_components, n_features)
        Estimator with `components_`, whose rows are orthonormal. If its `scale_` is not
        None, each feature is first divided by it. The components then refer to the
        scaled space, and features of scale 0 are ignored. In a Pipeline, the earlier
        steps transform X and the last step has `components_`. An array is used
        directly.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score, usually held out from the fit. They are processed in blocks, and
        sparse rows are converted to dense arrays block by block.
    y : None
        Ignored, present for API consistency.

    Returns
    -------
    float
        Share between 0 and 1. If all rows are equal, for example with a single row,
        there is no variance to explain. Then NaN is returned with an
        `UndefinedMetricWarning`, and a search reports that a score is not finite.

    Raises
    ------
    ValueError
        If the components are not orthonormal or do not match the features of X, X is
        not finite, or its rows differ by more than float64 can represent.
    TypeError
        If the estimator has no `components_`.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    Warnings
    --------
    The score is not private. For private held-out rows it is a release that no
    accountant records, and so is a parameter chosen by it. Score public rows, or keep
    the score as private as the rows.

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
    components, scale, X = components_and_rows(estimator, X)
    basis = orthonormal_rows(components, "components")
    if basis.shape[1] != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the components have {basis.shape[1]}: "
            "pass rows of the space that they were fitted in"
        )
    weights = inverse_scale(scale, X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        kept, total = _kept_and_total(X, weights, basis)
    if total == 0:
        message = "captured_variance is undefined, set to NaN: all rows are equal"
        warn(message, UndefinedMetricWarning)
        return float("nan")
    if not np.isfinite(total):
        raise ValueError("The variance of X overflows float64; rescale X")
    return float(min(kept / total, 1.0))


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
    basis_a = orthonormal_rows(components_a, "components_a")
    basis_b = orthonormal_rows(components_b, "components_b")
    if basis_a.shape[1] != basis_b.shape[1]:
        raise ValueError(
            f"components_a has {basis_a.shape[1]} features and components_b has "
            f"{basis_b.shape[1]}: pass components of the same feature space"
        )
    small, large = sorted((basis_a, basis_b), key=len)
    sines = np.linalg.svd(small - (small @ large.T) @ large, compute_uv=False)
    sines = np.minimum(sines[: len(small)], 1.0)
    values = np.concatenate([sines, sines, np.ones(len(large) - len(small))])
    if (largest := values.max()) == 0:
        return 0.0
    # Relative to the largest, so that high powers of tiny sines do not underflow.
    return float(largest * np.linalg.norm(values / largest, ord=float(ord)))


def orthonormal_rows(components, name):
    """Return the rows in float64, orthonormal to machine precision; same span."""
    any_shape = {"ensure_2d": False, "allow_nd": True, "ensure_min_samples": 0}
    any_shape["ensure_min_features"] = 0
    rows = check_array(components, dtype=np.float64, input_name=name, **any_shape)
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


def components_and_rows(estimator, X):
    """Return components, scale or None, and X in the space where they live."""
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return components_and_rows(estimator[-1], X)
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
    raise ValueError("X must contain numbers: convert text to numbers first")


def inverse_scale(scale, n_features):
    scale = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
    if scale.shape not in ((), (n_features,)):
        raise ValueError(
            f"scale_ must be a number or have shape ({n_features},), got {scale.shape}"
        )
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        raise ValueError("scale_ must be finite and at least 0")
    scale = np.broadcast_to(scale, (n_features,))
    return np.divide(1.0, scale, out=np.zeros(n_features), where=scale > 0)


def dense(rows):
    return (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64)


def _row_blocks(X, weights):
    """Yield blocks of rows, scaled and relative to the first row."""
    n_samples, n_features = X.shape
    first_row = dense(X[:1]) * weights
    for batch in gen_batches(n_samples, max(1, BLOCK_SIZE // n_features)):
        yield dense(X[batch]) * weights - first_row


def _kept_and_total(X, weights, basis):
    """Sum the squares about the mean: of the projections, and in all."""
    # Relative to the first row, equal rows give exactly 0 however the mean is rounded.
    mean = sum(block.sum(axis=0) for block in _row_blocks(X, weights)) / X.shape[0]
    kept, total = 0.0, 0.0
    for block in _row_blocks(X, weights):
        projected = (block - mean) @ basis.T
        kept += np.vdot(projected, projected)
        total += np.sum(np.square(block - mean))
    return kept, total
