"""Rows and their outer products as one vector a row, and back."""

from __future__ import annotations

import math

import numpy as np

from .._linalg.eigen import shrink_eigenvalues
from .._linalg.walks import blas_threads


class MomentRows:
    r"""The map of a row x to :math:`(x, w\, \mathrm{vec}(xx'))`, and its inverse.

    The outer product is flattened isometrically: its upper triangle by rows, with
    off-diagonal entries times :math:`\sqrt2`; or only its diagonal. `weight` is w, None
    for no products; `trace_weight` is that of the component along the identity, by
    default w. With `first`, x is included. `width` is the length of the vector.
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
        """Return sums of rows, (b, d), and products, (b, d, d), from sums of vectors.

        Sums of rows are zero if x is not included; products are None if absent.
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
    """Return the nearest symmetric matrices with a floor and a bounded trace.

    Matrices have shape (..., d, d), other arguments (...). `floor` is the least
    eigenvalue, at most trace / d. `spread` is the standard deviation off the diagonal
    of symmetric noise, whose bias is first removed (:func:`shrink_eigenvalues`).
    """
    floor, trace = (np.asarray(bound)[..., None] for bound in (floor, trace))
    with blas_threads(matrices.shape[-1]):
        values, vectors = np.linalg.eigh(matrices)
        if spread is not None:
            values = shrink_eigenvalues(values, spread)
        values = project_spectrum(values, floor, trace)
        return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def project_spectrum(values: np.ndarray, floor, total) -> np.ndarray:
    """Return the nearest points, (..., d), with a least entry and a bounded sum.

    A floor above total / d is lowered to it. The order of the entries is kept.
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
