"""Kernels whose results for a user have the same bits alone and among other users.

Only two kinds of arithmetic are allowed: elementwise operations, including sums that
add in an order which depends only on the length of an axis; and one BLAS call per user,
on matrices whose shapes, strides and alignment depend only on the shape of the user's
data, because some kernels depend on the memory address. Other sums (``ufunc.reduce``,
``einsum``, ``vecdot``, LAPACK on copies that numpy makes) choose their own order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .walks import map_in_threads, quietly


def sum_on_grid(contributions: np.ndarray, grid: float) -> np.ndarray:
    """Sum vectors rounded to a grid, in grid steps: exact in any order."""
    steps = contributions / grid
    return np.rint(steps, out=steps).sum(axis=0)


# Matrices of users begin at multiples of so many bytes.
_ALIGNMENT = 64
_STEP = _ALIGNMENT // 8

# Numbers of a part of rows whose columns are combined together.
_PART_NUMBERS = 1 << 17
_TINY = float(np.finfo(np.float64).tiny)

# Relative ridge that keeps collinear columns from dividing by zero.
_JITTER = 1e-13


def _stride(shape: tuple[int, ...]) -> int:
    """Return the distance, in numbers, from one user's array to the next."""
    return -(-math.prod(shape) // _STEP) * _STEP


def empty_stack(n_users: int, *shape: int) -> np.ndarray:
    """Allocate one contiguous array per user, aligned to 64 bytes."""
    size = _stride(shape)
    memory = np.empty(n_users * size + _STEP)
    start = -memory.ctypes.data % _ALIGNMENT // 8
    rows = memory[start : start + n_users * size].reshape(n_users, size)
    return rows[:, : math.prod(shape)].reshape(n_users, *shape)


def stacked(array: np.ndarray) -> np.ndarray:
    """Return an array laid out as by :func:`empty_stack`, copied only if needed."""
    fits = (
        array.dtype == np.float64
        and array.ctypes.data % _ALIGNMENT == 0
        and (len(array) == 1 or array.strides[0] == 8 * _stride(array.shape[1:]))
        and array[:1].flags.c_contiguous
    )
    return array if fits else joined([array])


def joined(arrays: list) -> np.ndarray:
    """Stack users' arrays vertically: (n_users, sum of p_j, ...)."""
    height = sum(array.shape[1] for array in arrays)
    out = empty_stack(len(arrays[0]), height, *arrays[0].shape[2:])
    start = 0
    for array in arrays:
        stop = start + array.shape[1]
        out[:, start:stop] = array
        start = stop
    return out


def take(stack: np.ndarray, chosen) -> np.ndarray:
    """Return the arrays of some users, in the same layout."""
    if isinstance(chosen, slice):
        return stack[chosen]
    out = empty_stack(len(chosen), *stack.shape[1:])
    if out.strides[0] == 8 * math.prod(out.shape[1:]):
        return np.take(stack, chosen, axis=0, out=out, mode="clip")
    out[...] = stack[chosen]
    return out


def products(left, right, *, transpose_left=False, transpose_right=False):
    """Multiply (n_users, p, q), or a public (p, q), by (n_users, q, s), as a stack."""
    same = left is right
    right = stacked(right)
    left = right if same else _aligned(left)
    if transpose_left:
        left = left.swapaxes(-1, -2)
    if transpose_right:
        right = right.swapaxes(-1, -2)
    out = empty_stack(len(right), left.shape[-2], right.shape[-1])
    return np.matmul(left, right, out=out)


def multiply(rows: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Multiply a stack by a public matrix, or by another stack, into `out`."""
    np.matmul(rows, _aligned(matrix), out=out)


def _aligned(left: np.ndarray) -> np.ndarray:
    """Return matrices of users, or a public one, aligned to 64 bytes."""
    return stacked(left) if left.ndim == 3 else stacked(left[None])[0]


def totals(values: np.ndarray) -> np.ndarray:
    """Sum over axis 1 by halves, in an order that depends on its length only."""
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


def norms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(totals(np.square(rows)))


def combined_columns(X: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return ``(X @ coefficients).T``, each row with the same bits among others."""
    out = np.empty((coefficients.shape[1], len(X)))
    size = max(64, _PART_NUMBERS // max(1, *coefficients.shape))
    for start in range(0, len(X), size):
        columns = np.array(X[start : start + size].T, dtype=np.float64, order="C")
        part = np.zeros((len(out), columns.shape[1]))
        # One feature after another: the order of a sum would be numpy's choice.
        for column, factors in zip(columns, coefficients, strict=True):
            part += column * factors[:, None]
        out[:, start : start + size] = part
    return out


def users_last(stack: np.ndarray) -> np.ndarray:
    """Copy a stack of matrices so that users are on the last axis."""
    return np.array(stack.transpose(1, 2, 0), dtype=np.float64, order="C")


def solve_in_place(A: np.ndarray, b: np.ndarray) -> None:
    """Solve a small system per user, along the last axis; 0 where numbers overflow."""
    units = _to_unit_diagonal(A)[:, None]
    b *= units
    pivots = np.empty((len(A), A.shape[2]))
    for j in range(len(A)):
        pivots[j] = np.where(A[j, j] > 0.0, 1.0 / A[j, j], 0.0)
        factors = A[j + 1 :, j] * pivots[j]
        A[j + 1 :, j + 1 :] -= factors[:, None] * A[j, j + 1 :]
        b[j + 1 :] -= factors[:, None] * b[j]
    for j in range(len(A) - 1, -1, -1):
        b[j] *= pivots[j]
        b[:j] -= A[:j, j, None] * b[j]
    b *= units


def _to_unit_diagonal(A: np.ndarray) -> np.ndarray:
    """Scale matrices to unit diagonal, in place; return the scaling factors."""
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
    """Orthonormalize rows per user; what is in the span of rows above becomes zero."""
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


def eliminate_upper(A: np.ndarray, b: np.ndarray) -> None:
    """Solve systems (q, q, n_users) of ten unknowns or more, by upper triangles."""
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
    """Return the indices of the k > 0 largest values of each row, increasing."""
    # Each row by itself: which of equal values is taken, the row alone decides.
    return np.sort(np.argpartition(-values, k - 1, axis=1)[:, :k], axis=1)


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of each row's k largest values, sorted; overwrites values."""
    rows = np.arange(len(values))
    out = np.empty((len(values), k), dtype=np.intp)
    for j in range(k):
        best = np.argmax(values, axis=1)
        out[:, j] = best
        values[rows, best] = -np.inf
    return out


# Numbers per block, and of the blocks that are kept in memory, not loaded at each pass.
_BLOCK_NUMBERS, _KEPT_NUMBERS = 1 << 21, 1 << 27

# Users of more rows than this are never padded.
_LARGEST_PADDED = 1024


@dataclass(frozen=True)
class Block:
    """Users with the same number of rows, (n_users, height, ...), padded with zeros."""

    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    users: np.ndarray
    _squares: list = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.users)

    @property  # a cached one has a lock, which a forked process might inherit held
    def squares(self) -> np.ndarray:
        """Sums of squares of each user's features, (n_users, n_features)."""
        if not self._squares:
            self._squares.append(totals(np.square(self.X)))
        return self._squares[0]

    def take(self, chosen) -> Block:
        others = (part[chosen] for part in (self.y, self.counts, self.users))
        return Block(take(self.X, chosen), *others)


def padded_heights(counts: np.ndarray) -> np.ndarray:
    """Round each count of rows up, by at most a quarter, whatever the other counts."""
    counts = np.maximum(np.asarray(counts, dtype=np.int64), 1)
    step = 1 << np.maximum(np.frexp(counts)[1] - 3, 0)
    padded = -(-counts // step) * step
    return np.where(counts > _LARGEST_PADDED, counts, padded)


class GroupedRows:
    """Rows and targets grouped by user, in zero-padded blocks."""

    def __init__(self, X, y, codes, n_users, *, center=False, scale=None, level=(0, 0)):
        self._X, self._y = X, np.asarray(y, dtype=np.float64)
        self.n_users, self.n_features = n_users, X.shape[1]
        self.counts = np.bincount(codes, minlength=n_users)
        self._starts = np.concatenate(([0], np.cumsum(self.counts)))
        grouped = bool(np.all(codes[1:] >= codes[:-1]))
        # Stable: a user's rows keep their order, whoever else is there.
        self._order = None if grouped else np.argsort(codes, kind="stable")
        # Of a penalty ridge * (c - prior)^2 of intercepts c: minimized out, it is one
        # more row, sqrt(m ridge / (m + ridge)) times the means of m rows.
        self._prior, self._ridge = level if center else (0.0, 0.0)
        self.has_level = self._ridge > 0.0
        self._scale: np.ndarray | None = None
        self.X_means: np.ndarray | None = None  # unscaled
        self.y_means: np.ndarray | None = None
        self._members = self._split_users()
        if center:
            self._center()
        self._scale = scale
        self._kept: list[Block] | None = None

    def _split_users(self) -> list[tuple[int, np.ndarray]]:
        """Split users into (height, codes), each of at most one block of numbers."""
        heights = padded_heights(self.counts + self.has_level)
        order = np.argsort(heights, kind="stable")
        levels, firsts = np.unique(heights[order], return_index=True)
        blocks = []
        for height, group in zip(levels, np.split(order, firsts[1:]), strict=True):
            size = max(1, _BLOCK_NUMBERS // (int(height) * max(self.n_features, 1)))
            starts = range(0, len(group), size)
            blocks += [(int(height), group[start : start + size]) for start in starts]
        return blocks

    @quietly
    def _center(self) -> None:
        X_means = np.zeros((self.n_users, self.n_features))
        y_means = np.zeros(self.n_users)
        for height, users in self._members:
            block = self._load(height, users)
            counts = np.maximum(block.counts, 1)
            X_means[users] = totals(block.X) / counts[:, None]
            y_means[users] = totals(block.y) / counts
        self.X_means, self.y_means = X_means, y_means

    @quietly
    def _load(self, height: int, users: np.ndarray) -> Block:
        """Read, center, scale and pad the rows of some users."""
        counts, starts = self.counts[users], self._starts[users]
        full = bool(np.all(counts == height)) and not self.has_level
        consecutive = users[-1] - users[0] == len(users) - 1
        if full and self._order is None and consecutive and np.all(np.diff(users) > 0):
            rows = slice(starts[0], starts[0] + height * len(users))
        else:
            last = self._starts[-1] - 1
            rows = np.minimum(starts[:, None] + np.arange(height), last).ravel()
            rows = rows if self._order is None else self._order[rows]
        shape = (len(users), height)
        X = empty_stack(*shape, self.n_features)
        X[...] = self._X[rows].reshape(X.shape)
        y = self._y[rows].reshape(shape)
        if self.X_means is not None:
            X -= self.X_means[users][:, None]
            y = y - self.y_means[users][:, None]
        if self._scale is not None:
            X /= self._scale
        if not full:
            beyond = np.arange(height) >= counts[:, None]
            y = y.copy()
            X[beyond], y[beyond] = 0.0, 0.0
        if self.has_level and self.X_means is not None:
            # The row of the intercept's penalty is after each user's own rows.
            weights = np.sqrt(counts * self._ridge / (counts + self._ridge))
            means = self.X_means[users]
            means = means if self._scale is None else means / self._scale
            last = np.arange(len(users)), counts
            X[last] = weights[:, None] * means
            y[last] = weights * (self.y_means[users] - self._prior)
        return Block(X, y, counts, users)

    @quietly
    def intercepts(self, means: np.ndarray) -> np.ndarray:
        """Return users' intercepts, given predictions `means` at their mean rows."""
        if self.y_means is None:
            return np.zeros(self.n_users)
        levels = self.y_means - means
        if not self.has_level:
            return levels
        # Shrunk means of the remaining targets.
        share = self.counts / (self.counts + self._ridge)
        return self._prior + share * (levels - self._prior)

    def blocks(self) -> Iterator[Block]:
        if self._kept is not None:
            yield from self._kept
        else:
            for height, users in self._members:
                yield self._load(height, users)

    def keep(self) -> None:
        """Keep the blocks in memory unless they are too large."""
        n_rows = sum(height * len(users) for height, users in self._members)
        if self._kept is None and n_rows * self.n_features <= _KEPT_NUMBERS:
            self._kept = list(self.blocks())

    def rescale(self, scale: np.ndarray) -> None:
        """Use other divisors of the features from now on."""
        self._scale, self._kept = scale, None

    def map(self, function: Callable, n_jobs=None) -> list:
        """Apply a function to every block in threads; return results in order."""
        self.keep()

        def run(task):
            return function(task if isinstance(task, Block) else self._load(*task))

        return list(map_in_threads(run, self._kept or self._members, n_jobs))

    def sums(self, function: Callable, n_jobs=None) -> list:
        """Apply ``function(block, rows)`` to every block; return terms of the sum."""
        return self.map(functools.partial(function, rows=self), n_jobs)


def column_scales(rows: GroupedRows, n_jobs=None) -> np.ndarray:
    """Return the root mean square of each feature over rows; 1 if it is zero."""

    def squares(block: Block) -> np.ndarray:
        found = np.square(block.X).sum(axis=(0, 1))
        if rows.has_level:  # without the row of the penalty
            last = block.X[np.arange(len(block)), block.counts]
            found -= np.square(last).sum(axis=0)
        return np.maximum(found, 0.0)

    total = sum(rows.map(squares, n_jobs), np.zeros(rows.n_features))
    scale = np.sqrt(total / max(int(rows.counts.sum()), 1))
    return np.where(scale > 0.0, scale, 1.0)
