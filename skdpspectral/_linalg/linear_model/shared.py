r"""The shared part of a low rank plus sparse regression: least squares in U.

Given w_i and b_i, the loss is quadratic in U (d x r), with gradient
-sum_i X_i' e_i w_i' at the residuals e_i and curvature
A = sum_i (w_i w_i') (x) G_i, where G_i = X_i'X_i.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import linalg

from . import per_user
from .user_rows import Block, UserRows

# Relative ridge of the curvature, for directions that no user's rows see.
_JITTER = 1e-12
# Conjugate-gradient steps an outer iteration: more buy nothing (they are warm).
_CG_STEPS = 2
# One step is enough if it leaves so much of the gradient.
_CG_ENOUGH = 0.1
# Rows that the preconditioner is made from, and features that it is worth it for.
_MEAN_GRAM_ROWS = 1 << 17
_MEAN_GRAM_FEATURES = 2048
# Grams of all users are kept up to so many numbers.
_KEPT_GRAM_NUMBERS = 1 << 27
# Numbers that stay in the cache between two products.
_CACHED_NUMBERS = 1 << 16
# From so many features on, forming Grams costs more than a few products with X.
_GRAM_FEATURES = 24


def pack_symmetric(matrices: np.ndarray) -> np.ndarray:
    """Upper triangles with off-diagonals times sqrt(2): an isometry.

    Parameters
    ----------
    matrices : ndarray of shape (n, q, q)
        Symmetric matrices.

    Returns
    -------
    ndarray of shape (n, q (q + 1) / 2)
        Vectors whose inner products are the Frobenius ones of the matrices.
    """
    rows, columns = np.triu_indices(matrices.shape[1])
    factors = np.where(rows == columns, 1.0, np.sqrt(2.0))
    # C order: norms of rows must not depend on how many rows there are.
    return np.multiply(matrices[:, rows, columns], factors, order="C")


def unpack_symmetric(packed: np.ndarray, size: int) -> np.ndarray:
    """Invert :func:`pack_symmetric`: (n, q (q + 1) / 2) to (n, q, q)."""
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, np.sqrt(0.5))
    matrices = np.empty((len(packed), size, size))
    matrices[:, rows, columns] = packed * factors
    matrices[:, columns, rows] = matrices[:, rows, columns]
    return matrices


def packed_outer(weights: np.ndarray) -> np.ndarray:
    """Packed w w' of each user, of shape (n_users, r (r + 1) / 2)."""
    n_users, size = weights.shape
    out = per_user.empty_stack(n_users, size * (size + 1) // 2)
    starts = _row_starts(size)
    for row in range(size):
        place = slice(starts[row], starts[row + 1])
        np.multiply(weights[:, row:], weights[:, row, None], out=out[:, place])
    factors = np.full(out.shape[1], np.sqrt(2.0))
    factors[starts[:-1]] = 1.0
    out *= factors
    return out


def _row_starts(size: int) -> np.ndarray:
    """Where rows of an upper triangle begin, packed; last, where they end."""
    return np.cumsum([0, *range(size, 0, -1)])


def packed_grams(block: Block) -> np.ndarray:
    """Packed X'X of each user, of shape (n_users, d (d + 1) / 2)."""
    d = block.X.shape[2]
    out = np.empty((len(block), d * (d + 1) // 2))
    write_packed_grams(block, np.ones((len(block), 1)), out)
    return out


def write_packed_grams(block: Block, factors: np.ndarray, out: np.ndarray) -> None:
    """Write packed X'X of each user, times a factor.

    Parameters
    ----------
    block : Block
        Rows.
    factors : ndarray of shape (n_users, 1)
        Factors.
    out : ndarray of shape (n_users, d (d + 1) / 2)
        Where to write.
    """
    d = block.X.shape[2]
    # A copy: numpy mirrors the triangle of a product of a matrix with itself, entry by
    # entry, which takes longer than the other triangle.
    again = per_user.joined([block.X])
    grams = per_user.products(again, block.X, transpose_left=True)
    beside = factors * np.sqrt(2.0)
    starts = _row_starts(d)
    for row in range(d):
        place = slice(starts[row], starts[row + 1])
        np.multiply(grams[:, row, row:], beside, out=out[:, place])
    out[:, starts[:-1]] = np.diagonal(grams, axis1=1, axis2=2) * factors


def curvature_matrix(packed: np.ndarray, rank: int, n_features: int) -> np.ndarray:
    """The dr x dr curvature that a packed element of Sym(r) (x) Sym(d) stands for.

    Parameters
    ----------
    packed : ndarray of shape (r (r + 1) / 2, d (d + 1) / 2)
        As :func:`packed_outer` times :func:`packed_grams` gives it.
    rank, n_features : int
        r and d.

    Returns
    -------
    ndarray of shape (r d, r d)
        It acts on the columns of U stacked one below another.
    """
    inner = unpack_symmetric(packed, n_features)
    inner = inner.transpose(1, 2, 0).reshape(n_features**2, -1)
    full = unpack_symmetric(inner, rank).reshape(n_features, n_features, rank, rank)
    size = rank * n_features
    return full.transpose(2, 0, 3, 1).reshape(size, size)


def solve_curvature(curvature: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the matrix D of shape (d, r) with curvature vec(D) = vec(right)."""
    _require_finite(curvature, right)
    largest = float(np.diagonal(curvature).max(initial=0.0))
    if not largest > 0.0:
        return np.zeros_like(right)
    flat = right.T.ravel()
    matrix = curvature / largest + _JITTER * np.eye(len(flat))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.LinAlgWarning)
            solution = linalg.solve(matrix, flat / largest, assume_a="pos")
    except linalg.LinAlgError:
        solution = linalg.lstsq(matrix, flat / largest)[0]
    return solution.reshape(right.shape[::-1]).T


def _require_finite(*arrays: np.ndarray) -> None:
    """Raise what LAPACK raises where it fails, whatever scipy would raise."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise np.linalg.LinAlgError("numbers are beyond float64")


def positive_qr(U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR decomposition whose R has a diagonal that is not negative."""
    Q, R = np.linalg.qr(U)
    signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
    return Q * signs, R * signs[:, None]


def _few_users(block: Block):
    """Slices of users whose rows fit into a cache of one core."""
    size = max(1, _CACHED_NUMBERS // max(1, block.X[0].size))
    return (slice(i, i + size) for i in range(0, len(block), size))


class SharedStep:
    """Least-squares improvement of U, given the users' parameters.

    Parameters
    ----------
    rows : UserRows
        The data.
    solver : {"auto", "direct", "cached", "cg"}
        "direct" forms the curvature from the rows at each step, "cached" from the
        users' Grams, kept in memory; both solve a dr x dr system. "cg" takes one or two
        conjugate-gradient steps, each a product with X and one with X', at a cost
        that does not depend on the rank; its preconditioner is exact where users'
        weights tell nothing of their features.
    n_jobs : int or None
        Threads.
    """

    def __init__(self, rows: UserRows, solver: str, n_jobs=None):
        self._rows, self._n_jobs = rows, n_jobs
        d = rows.n_features
        self._n_packed = d * (d + 1) // 2
        if solver == "auto":
            small = rows.n_users * self._n_packed <= _KEPT_GRAM_NUMBERS
            solver = "cached" if small and d <= _GRAM_FEATURES else "cg"
        self.solver = solver
        self._grams: np.ndarray | None = None
        self._factor = None

    def __call__(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the change of U.

        Parameters
        ----------
        weights : ndarray of shape (n_users, rank)
            w.
        gradient : ndarray of shape (n_features, rank)
            sum_i X_i' e_i w_i' at the present U.

        Returns
        -------
        ndarray of shape (n_features, rank)
            What to add to U.
        """
        if self.solver == "cg":
            return self._conjugate_gradient(weights, gradient)
        packed = self._packed_curvature(weights)
        return solve_curvature(
            curvature_matrix(packed, weights.shape[1], self._rows.n_features), gradient
        )

    def _packed_curvature(self, weights: np.ndarray) -> np.ndarray:
        if self.solver == "cached":
            return packed_outer(weights).T @ self._cached_grams()

        def part(block):
            return packed_outer(weights[block.users]).T @ packed_grams(block)

        return sum(self._rows.map(part, self._n_jobs))

    def _cached_grams(self) -> np.ndarray:
        if self._grams is None:
            self._grams = np.empty((self._rows.n_users, self._n_packed))

            def fill(block):
                self._grams[block.users] = packed_grams(block)

            self._rows.map(fill, self._n_jobs)
        return self._grams

    def _curvature_times(self, weights: np.ndarray, direction: np.ndarray):
        """sum_i G_i D w_i w_i' for a direction D of the shape of U."""

        def part(block):
            own = weights[block.own]
            moved = (own @ direction.T)[:, :, None]
            curved = np.empty((len(own), block.X.shape[2]))
            # A few users at a time: their rows are still in the cache when read again.
            for some in _few_users(block):
                seen = block.X[some] @ moved[some]
                np.matmul(block.Xt[some], seen, out=curved[some, :, None])
            return curved.T @ own

        return sum(self._rows.map(part, self._n_jobs))

    def _conjugate_gradient(self, weights: np.ndarray, gradient: np.ndarray):
        """Steps from zero, preconditioned by sum w w' (x) the mean of the Grams."""
        outer = weights.T @ weights
        ridge = _JITTER * max(float(np.trace(outer)), np.finfo(float).tiny)
        inverse = np.linalg.inv(outer + ridge * np.eye(len(outer)))
        change, rest = np.zeros_like(gradient), gradient.copy()
        direction = whitened = self._precondition(rest) @ inverse
        product = first = np.vdot(rest, whitened)
        for _ in range(_CG_STEPS):
            if not product > _CG_ENOUGH**2 * first or not first > 0.0:
                break
            curved = self._curvature_times(weights, direction)
            length = product / np.vdot(direction, curved)
            change, rest = change + length * direction, rest - length * curved
            whitened = self._precondition(rest) @ inverse
            before, product = product, np.vdot(rest, whitened)
            direction = whitened + product / before * direction
        return change

    def _precondition(self, right: np.ndarray) -> np.ndarray:
        if self._rows.n_features > _MEAN_GRAM_FEATURES:
            return right
        _require_finite(right)
        if self._factor is None:
            gram = self._some_gram()
            _require_finite(gram)
            self._factor = linalg.cho_factor(gram)
        return linalg.cho_solve(self._factor, right)

    def _some_gram(self) -> np.ndarray:
        """Gram matrix of some rows, kept off singularity."""
        d, n_rows = self._rows.n_features, 0
        total = np.zeros((d, d))
        for block in self._rows.blocks():
            rows = block.X.reshape(-1, d)
            total += rows.T @ rows
            n_rows += len(rows)
            if n_rows >= _MEAN_GRAM_ROWS:
                break
        ridge = 1e-3 * float(np.trace(total)) / d
        return total + max(ridge, np.finfo(float).tiny) * np.eye(d)
