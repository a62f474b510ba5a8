"""Distances between subspaces, which are not private."""

from __future__ import annotations

import numpy as np

from ..mechanisms import check_real
from ._score_kinds import _orthonormal_rows


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
    sines = np.linalg.svd(small - (small @ large.T) @ large, compute_uv=False)
    sines = np.minimum(sines[: len(small)], 1.0)
    values = np.concatenate([sines, sines, np.ones(len(large) - len(small))])
    if (largest := values.max()) == 0:
        return 0.0
    # Relative to the largest, so that high powers of tiny sines do not underflow.
    return float(largest * np.linalg.norm(values / largest, ord=float(ord)))
