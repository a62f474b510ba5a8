"""Kernels that give a user the same bits alone and among any others.

Two kinds of arithmetic are allowed on the way to what stays with a user, or to a vector
that is rounded before it is summed over users:

- operations entry by entry. IEEE 754 fixes every bit of a sum, product, quotient or
  root, wherever the entry stands; sums along an axis are made of such additions, in an
  order that the length of the axis alone decides;
- one call of BLAS a user, on that user's own matrices, whose shapes, strides and
  alignment are functions of the user's own shape. BLAS sums rows at the end of a matrix
  otherwise than the rest, and some kernels do so by the place in memory, so that
  neither a product over several users nor one of matrices that lie anywhere will do.

Everything else that sums (``ufunc.reduce``, ``einsum``, ``vecdot``, LAPACK on matrices
that numpy copies to wherever there is room) has an order of its own choosing.
"""

from __future__ import annotations

import math

import numpy as np


def sum_on_grid(contributions: np.ndarray, grid: float) -> np.ndarray:
    """Sum vectors rounded to a grid, in grid steps: exact, in any order."""
    steps = contributions / grid
    return np.rint(steps, out=steps).sum(axis=0)


# Matrices of users begin at multiples of so many bytes.
_ALIGNMENT = 64
_STEP = _ALIGNMENT // 8

# Numbers of a part of rows whose columns are combined together.
_PART_NUMBERS = 1 << 15
_TINY = float(np.finfo(np.float64).tiny)

# Relative ridge that keeps collinear columns from dividing by zero.
_JITTER = 1e-13

# Up to so many largest values, repeated maxima are faster than a sort.
_FEW = 8


def _stride(shape: tuple[int, ...]) -> int:
    """Numbers from one user's array to the next."""
    return -(-math.prod(shape) // _STEP) * _STEP


def empty_stack(n_users: int, *shape: int) -> np.ndarray:
    """Return memory for one contiguous array per user, on boundaries of 64 bytes."""
    size = _stride(shape)
    memory = np.empty(n_users * size + _STEP)
    start = -memory.ctypes.data % _ALIGNMENT // 8
    rows = memory[start : start + n_users * size].reshape(n_users, size)
    return rows[:, : math.prod(shape)].reshape(n_users, *shape)


def stacked(array: np.ndarray) -> np.ndarray:
    """Return an array of shape (n_users, ...) laid out as :func:`empty_stack` does.

    It is the very array if it lies so already.
    """
    fits = (
        array.dtype == np.float64
        and array.ctypes.data % _ALIGNMENT == 0
        and (len(array) == 1 or array.strides[0] == 8 * _stride(array.shape[1:]))
        and array[:1].flags.c_contiguous
    )
    return array if fits else joined([array])


def joined(arrays: list) -> np.ndarray:
    """Stack users' arrays one below another: (n_users, sum of p_j, ...)."""
    height = sum(array.shape[1] for array in arrays)
    out = empty_stack(len(arrays[0]), height, *arrays[0].shape[2:])
    start = 0
    for array in arrays:
        stop = start + array.shape[1]
        out[:, start:stop] = array
        start = stop
    return out


def take(stack: np.ndarray, chosen) -> np.ndarray:
    """Return the arrays of some users, laid out alike."""
    if isinstance(chosen, slice):
        return stack[chosen]
    out = empty_stack(len(chosen), *stack.shape[1:])
    if out.strides[0] == 8 * math.prod(out.shape[1:]):
        return np.take(stack, chosen, axis=0, out=out, mode="clip")
    out[...] = stack[chosen]
    return out


def products(left, right, *, transpose_left=False, transpose_right=False):
    """Multiply one matrix per user, or a public one, by another per user.

    Shapes are (n_users, p, q) or (p, q), and (n_users, q, s), if not stored transposed;
    the result is laid out as by :func:`empty_stack`.
    """
    same = left is right
    right = stacked(right)
    left = right if same else _aligned(left)
    if transpose_left:
        left = left.swapaxes(-1, -2)
    if transpose_right:
        right = right.swapaxes(-1, -2)
    out = empty_stack(len(right), left.shape[-2], right.shape[-1])
    return np.matmul(left, right, out=out)


def multiply_rows(rows: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Multiply one row per user by a public matrix, into the beginnings of `out`.

    Both stacks of rows are laid out as by :func:`empty_stack`.
    """
    np.matmul(rows[:, None], _aligned(matrix), out=out[:, None])


def _aligned(left: np.ndarray) -> np.ndarray:
    """Return matrices of users, or one that is public, on boundaries of 64 bytes."""
    return stacked(left) if left.ndim == 3 else stacked(left[None])[0]


def totals(values: np.ndarray) -> np.ndarray:
    """Sum over axis 1, in an order that its length alone decides: by halves."""
    if values.shape[1] == 0:
        return np.zeros((len(values), *values.shape[2:]))
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        # Of an odd number the last one waits for the next round.
        odd = values[:, 2 * half :]
        folded = np.empty((len(values), half + odd.shape[1], *values.shape[2:]))
        np.add(values[:, :half], values[:, half : 2 * half], out=folded[:, :half])
        folded[:, half:] = odd
        values = folded
    return values[:, 0]


def squares(*rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Squared norm of each row, of several arrays."""
    return tuple(totals(np.square(values)) for values in rows)


def norms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(totals(np.square(rows)))


def combined_columns(X: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return ``(X @ coefficients).T``, summed feature by feature.

    Each row has the same bits alone and among others, for any floats and memory order.
    """
    n_rows, n_features = X.shape
    n_results = coefficients.shape[1]
    out = np.empty((n_results, n_rows))
    size = max(64, _PART_NUMBERS // max(1, n_features))
    combine = _combine_features if n_features < n_results else _combine_results
    for start in range(0, n_rows, size):
        rows = X[start : start + size]
        # A sum over a first axis goes feature by feature, unless it is the only one.
        columns = np.zeros((n_features, max(2, len(rows))))
        columns[:, : len(rows)] = rows.T
        combine(columns, coefficients, out[:, start : start + size])
    return out


def _combine_features(columns, coefficients, out) -> None:
    """Add one feature after another to all results: where features are few."""
    part = np.zeros((len(out), columns.shape[1]))
    term = np.empty_like(part)
    for column, factors in zip(columns, coefficients, strict=True):
        np.multiply(column, factors[:, None], out=term)
        part += term
    out[:] = part[:, : out.shape[1]]


def _combine_results(columns, coefficients, out) -> None:
    """Make one result after another, each of all features: where results are few."""
    terms, part = np.empty_like(columns), np.empty(columns.shape[1])
    for result, factors in zip(out, coefficients.T, strict=True):
        np.multiply(columns, factors[:, None], out=terms)
        np.add.reduce(terms, axis=0, out=part)
        # As a sum that begins at 0, which never is -0.
        result[:] = part[: len(result)] + 0.0


def solve_each(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve one small positive semi-definite system per user: (q, q) and (q, p).

    Matrices are scaled to unit diagonal first and kept off singularity. Solutions are
    zero along columns without extent, and for users whose numbers are beyond float64.
    """
    A, b = users_last(gram), users_last(right)
    solve_in_place(A, b)
    return b.transpose(2, 0, 1)


def users_last(stack: np.ndarray) -> np.ndarray:
    """Copy matrices of users to an array whose last axis is the user."""
    return np.array(stack.transpose(1, 2, 0), dtype=np.float64, order="C")


def solve_in_place(A: np.ndarray, b: np.ndarray) -> None:
    """Solve as :func:`solve_each` does, with users along the last axis."""
    units = _to_unit_diagonal(A)[:, None]
    b *= units
    eliminate(A, b)
    b *= units


def _to_unit_diagonal(A: np.ndarray) -> np.ndarray:
    """Scale matrices to unit diagonal, in place; return what columns are scaled by."""
    q = np.arange(len(A))
    diagonal = A[q, q]
    # NaN compares false.
    usable = (diagonal > _TINY) & (diagonal < np.inf)
    units = np.where(usable, 1.0 / np.sqrt(np.where(usable, diagonal, 1.0)), 0.0)
    A *= units[:, None]
    A *= units
    np.copyto(A, 0.0, where=~np.isfinite(A))
    A[q, q] = 1.0 + _JITTER
    return units


def orthonormal(rows: np.ndarray) -> np.ndarray:
    """Orthonormal rows of the same span: (n_users, q, height) as given.

    Rows without extent, and those that the rows above explain, become zero.
    """
    if not rows.shape[1]:
        return rows
    gram = products(rows, rows, transpose_right=True)
    if gram.shape[1] == 1:
        usable = (gram > _TINY) & (gram < np.inf)
        return rows * np.where(usable, 1.0 / np.sqrt(np.where(usable, gram, 1.0)), 0.0)
    A = users_last(gram)
    # L^-1 of the LDL' decomposition, times what makes columns and pivots one.
    inverse, q = np.zeros_like(A), np.arange(len(A))
    inverse[q, q] = _to_unit_diagonal(A)
    for j in range(len(A)):
        pivot = np.where(A[j, j] > 0.0, 1.0 / A[j, j], 0.0)
        factors = (A[j + 1 :, j] * pivot)[:, None]
        A[j + 1 :, j + 1 :] -= factors * A[j, j + 1 :]
        inverse[j + 1 :, : j + 1] -= factors * inverse[j, : j + 1]
        inverse[j, : j + 1] *= np.sqrt(pivot)
    return products(inverse.transpose(2, 0, 1), rows)


def eliminate(A: np.ndarray, b: np.ndarray) -> None:
    """Solve positive definite systems in place, with users along the last axis."""
    size = len(A)
    pivots = np.empty((size, A.shape[2]))
    for j in range(size):
        pivots[j] = np.where(A[j, j] > 0.0, 1.0 / A[j, j], 0.0)
        factors = A[j + 1 :, j] * pivots[j]
        A[j + 1 :, j + 1 :] -= factors[:, None] * A[j, j + 1 :]
        b[j + 1 :] -= factors[:, None] * b[j]
    for j in range(size - 1, -1, -1):
        b[j] *= pivots[j]
        b[:j] -= A[:j, j, None] * b[j]


def eliminate_upper(A: np.ndarray, b: np.ndarray) -> None:
    """Solve large positive definite systems in place, by their upper triangles.

    Half the arithmetic of :func:`eliminate`, row by row: faster from about ten unknowns
    and some hundred users on. Arrays have shapes (q, q, n_users) and (q, n_users).
    """
    size = len(A)
    pivots, terms = np.empty((2, size, A.shape[2]))
    for j in range(size):
        row = A[j]
        pivots[j] = np.where(row[j] > 0.0, 1.0 / row[j], 0.0)
        factors = row[j + 1 :] * pivots[j]
        for i, factor in enumerate(factors, start=j + 1):
            term = terms[: size - i]
            np.multiply(factor, row[i:], out=term)
            A[i, i:] -= term
        b[j + 1 :] -= factors * b[j]
    for j in range(size - 1, -1, -1):
        b[j] *= pivots[j]
        b[:j] -= A[:j, j] * b[j]


def among_largest(values: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k largest values of each row, in increasing order, k > 0."""
    # Each row by itself: which of equal values is taken, the row alone decides.
    return np.sort(np.argpartition(-values, k - 1, axis=1)[:, :k], axis=1)


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k largest values of each row, largest first; overwrites values."""
    if k > _FEW:
        return np.argsort(-values, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(values))
    out = np.empty((len(values), k), dtype=np.intp)
    for j in range(k):
        best = np.argmax(values, axis=1)
        out[:, j] = best
        values[rows, best] = -np.inf
    return out
