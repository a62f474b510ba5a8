"""Rows seen from a subspace, and a power step that is made from such parts."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .eigen import flip_signs


def squared_parts(rows, components: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared lengths of rows along a subspace, and across it.

    Parameters
    ----------
    rows : array or sparse matrix of shape (b, p)
        Rows.
    components : ndarray of shape (r, p)
        Orthonormal rows.

    Returns
    -------
    along, across : ndarray of shape (b,)
        Squared lengths, at least 0 where they are finite.
    """
    scores = np.asarray(rows @ components.T)
    along = np.vecdot(scores, scores)
    if sparse.issparse(rows):
        total = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    else:
        total = np.vecdot(rows, rows)
    return along, np.maximum(total - along, 0.0)


def residual(rows, scores: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Dense rows less their part in a subspace.

    Parameters
    ----------
    rows : array or sparse matrix of shape (b, p)
        Rows; sparse ones without duplicate entries.
    scores : ndarray of shape (b, r)
        Their products with the components.
    components : ndarray of shape (r, p)
        Orthonormal rows.

    Returns
    -------
    ndarray of shape (b, p)
        Float64.
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

    Parameters
    ----------
    within : ndarray of shape (r, r)
        Symmetric.
    vectors : ndarray of shape (r, p)
        Orthonormal rows.

    Returns
    -------
    values : ndarray of shape (r,)
        Eigenvalues, largest first.
    vectors : ndarray of shape (r, p)
        Orthonormal rows, signs fixed.
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
    this is the signal space whatever U was: the moments of clipped projections
    cancel.

    Parameters
    ----------
    components : ndarray of shape (r, p)
        U', orthonormal rows.
    cross : ndarray of shape (p, r)
        B, mean product of residuals and clipped projections.
    weighted, wide : ndarray of shape (r, r)
        D and V: mean product of projections and clipped projections; mean square
        of projections. Symmetric, with eigenvalues above 0 and above `shift`.
    shift : float
        Noise variance s.

    Returns
    -------
    ndarray of shape (r, p)
        Orthonormal rows.
    """
    cross = cross - components.T @ (components @ cross)
    shifted = wide - shift * np.eye(len(wide))
    # B D^-1 V (V - s)^-1, with symmetric D, V that need not commute.
    factor = np.linalg.solve(weighted, np.linalg.solve(shifted, wide).T)
    return orthonormal_rows(components + (cross @ factor).T)
