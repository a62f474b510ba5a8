"""Rows and their outer products as one vector a row, and back."""

from __future__ import annotations

import math

import numpy as np

from .._linalg.eigen import shrink_eigenvalues
from .._linalg.walks import blas_threads


class MomentRows:
    r"""The map of a row x to :math:`(x, w\, \mathrm{vec}(xx'))`, and its inverse.

    The outer product is flattened isometrically: its upper triangle by rows, with
    off-diagonal entries times :math:`\sqrt2`; or its diagonal alone.

    Parameters
    ----------
    n_features : int
        Length d of x.
    weight : float or None
        The weight w; None leaves the products out.
    diagonal : bool, default=False
        Whether only the diagonal of the product counts.
    first : bool, default=True
        Whether x itself counts.
    trace_weight : float or None, default=None
        Weight of the component of the product along the identity; None takes w.

    Attributes
    ----------
    width : int
        Length of the vector.
    """

    def __init__(
        self,
        n_features: int,
        weight: float | None,
        *,
        diagonal: bool = False,
        first: bool = True,
        trace_weight: float | None = None,
    ):
        d = self.n_features = n_features
        self.weight, self.diagonal, self.first = weight, diagonal, first
        self.trace_weight = trace_weight
        self.width = d if first else 0
        if weight is not None:
            self.width += d if diagonal else d * (d + 1) // 2

    def _diagonal_places(self) -> np.ndarray:
        """Return where the diagonal is among the products."""
        i = np.arange(self.n_features)
        return i if self.diagonal else i * self.n_features - i * (i - 1) // 2

    def pack(self, rows: np.ndarray) -> np.ndarray:
        """Return vectors of shape (b, width) for rows of shape (b, d)."""
        out = np.empty((len(rows), self.width))
        start = self.n_features if self.first else 0
        if self.first:
            out[:, :start] = rows
        if self.weight is not None:
            self._pack_products(rows, out[:, start:])
        return out

    def _pack_products(self, rows: np.ndarray, out: np.ndarray) -> None:
        if self.diagonal:
            np.multiply(rows, rows, out=out)
            out *= self.weight
        else:
            self._pack_triangle(rows, out)
        if self.trace_weight is not None:
            self._stretch_trace(out, self.trace_weight / self.weight)

    def _pack_triangle(self, rows: np.ndarray, out: np.ndarray) -> None:
        d, place = self.n_features, 0
        scaled = rows * (math.sqrt(2.0) * self.weight)
        for i in range(d):
            column = rows[:, i : i + 1]
            np.multiply(column, scaled[:, i:], out=out[:, place : place + d - i])
            np.multiply(rows[:, i], rows[:, i], out=out[:, place])
            out[:, place] *= self.weight
            place += d - i

    def _stretch_trace(self, products: np.ndarray, factor: float) -> None:
        """Multiply the component along the identity."""
        places = self._diagonal_places()
        # Contiguous, so that a row has the same bits in any batch.
        diagonal = np.ascontiguousarray(products[:, places])
        mean = diagonal.sum(axis=1, keepdims=True) / self.n_features
        products[:, places] = diagonal + (factor - 1.0) * mean

    def unpack(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return sums of rows and of products from sums of vectors.

        Parameters
        ----------
        vectors : ndarray of shape (b, width)
            Sums of packed vectors; not modified.

        Returns
        -------
        first : ndarray of shape (b, d)
            Zero where x itself does not count.
        second : ndarray of shape (b, d, d) or None
            Symmetric.
        """
        d, start = self.n_features, self.n_features if self.first else 0
        first = vectors[:, :start].copy() if self.first else np.zeros((len(vectors), d))
        if self.weight is None:
            return first, None
        products = vectors[:, start:] / self.weight
        if self.trace_weight is not None:
            self._stretch_trace(products, self.weight / self.trace_weight)
        second = np.zeros((len(vectors), d, d))
        if self.diagonal:
            second[:, np.arange(d), np.arange(d)] = products
            return first, second
        i, j = np.triu_indices(d)
        scale = np.where(i == j, 1.0, math.sqrt(0.5))
        second[:, i, j] = second[:, j, i] = products * scale
        return first, second


def project_covariance(matrices: np.ndarray, floor, trace, spread=None) -> np.ndarray:
    """Nearest symmetric matrices with eigenvalues above a floor and a bounded trace.

    Parameters
    ----------
    matrices : ndarray of shape (..., d, d)
        Symmetric.
    floor : float or ndarray of shape (...)
        Least eigenvalue; lowered to trace / d where it is above.
    trace : float or ndarray of shape (...)
        Bound on the trace, positive.
    spread : ndarray of shape (...) or None, default=None
        Standard deviation off the diagonal of symmetric noise in the matrices, to rid
        their eigenvalues of its bias first: :func:`shrink_eigenvalues`.

    Returns
    -------
    ndarray of shape (..., d, d)
        The projections in Frobenius norm.
    """
    floor, trace = (np.asarray(bound)[..., None] for bound in (floor, trace))
    with blas_threads(matrices.shape[-1]):
        values, vectors = np.linalg.eigh(matrices)
        if spread is not None:
            values = shrink_eigenvalues(values, spread)
        values = project_spectrum(values, floor, trace)
        return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def project_spectrum(values: np.ndarray, floor, total) -> np.ndarray:
    """Nearest points with entries above a floor and a bounded sum.

    Parameters
    ----------
    values : ndarray of shape (..., d)
        Any order.
    floor : float or ndarray of shape (..., 1)
        Least entry; lowered to total / d where it is above.
    total : float or ndarray of shape (..., 1)
        Bound on the sum, positive.

    Returns
    -------
    ndarray of shape (..., d)
        The projections, in the order of `values`.
    """
    d = values.shape[-1]
    floor = np.minimum(floor, total / d)
    raised = np.maximum(values, floor)
    # Otherwise entries v become max(v - t, floor): t follows from the largest k.
    excess = -np.sort(floor - values, axis=-1)
    shifts = (np.cumsum(excess, axis=-1) - (total - d * floor)) / np.arange(1, d + 1)
    count = np.maximum((excess > shifts).sum(axis=-1, keepdims=True), 1)
    shift = np.take_along_axis(shifts, count - 1, axis=-1)
    lowered = np.maximum(values - shift, floor)
    return np.where(raised.sum(axis=-1, keepdims=True) <= total, raised, lowered)
