"""Rows of many users with unequal counts, walked in blocks of equal height."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from . import per_user
from .walks import map_in_threads, quietly

# Numbers per block: with so many, the cost of numpy calls, and of the last steps of
# pursuits of few users, is small.
_BLOCK_NUMBERS = 1 << 21

# Blocks are kept in memory up to so many numbers, and loaded at each pass beyond.
_KEPT_NUMBERS = 1 << 27

# Users of more rows than this are never padded.
_LARGEST_PADDED = 1024


@dataclass(frozen=True)
class Block:
    """Users of one height: their rows and targets, padded by zeros.

    `X` of shape (n_users, height, n_features) and `y` are centered and scaled as asked.
    `counts` are numbers of rows, and `users` the codes.
    """

    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    users: np.ndarray

    @property
    def Xt(self) -> np.ndarray:
        """Transposed view, of shape (n_users, n_features, height)."""
        return self.X.transpose(0, 2, 1)

    def __len__(self) -> int:
        return len(self.users)

    @property
    def own(self):
        """Index of the users in arrays over all users: a slice where possible."""
        users = self.users
        if len(users) and _consecutive(users):
            return slice(int(users[0]), int(users[-1]) + 1)
        return users

    def take(self, chosen) -> Block:
        return Block(
            per_user.take(self.X, chosen),
            self.y[chosen],
            self.counts[chosen],
            self.users[chosen],
        )


def padded_heights(counts: np.ndarray) -> np.ndarray:
    """Round counts up, by at most a quarter, to few different heights.

    The height of a user depends on its own count alone: sums over padded rows then
    have the same bits whoever else is in the data.
    """
    counts = np.maximum(np.asarray(counts, dtype=np.int64), 1)
    step = 1 << np.maximum(np.frexp(counts)[1] - 3, 0)
    padded = -(-counts // step) * step
    return np.where(counts > _LARGEST_PADDED, counts, padded)


@dataclass(frozen=True)
class Level:
    r"""Penalty of users' intercepts c: ridge times :math:`(c - prior)^2`.

    With c minimized out, a user's squared error is that of the centered rows, and of
    one more row, :math:`\sqrt{m \lambda / (m + \lambda)}` times the means.
    """

    prior: float = 0.0
    ridge: float = 0.0

    @property
    def n_rows(self) -> int:
        """Rows that a user has on top of their own."""
        return int(self.ridge > 0.0)

    def weights(self, counts: np.ndarray) -> np.ndarray:
        """Factor of that row, by counts of rows."""
        return np.sqrt(counts * self.ridge / (counts + self.ridge))

    def intercepts(self, levels: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Shrink what is left of users' mean targets."""
        if not self.n_rows:
            return levels
        share = counts / (counts + self.ridge)
        return self.prior + share * (levels - self.prior)


_FREE = Level()


class UserRows:
    """Rows and targets grouped by user, as zero-padded blocks.

    Rows are in any order, and memory-mapped files are read block by block. `codes` are
    the numbers of users, from 0; `columns` selects the features of X. With `center`,
    each user's own means are subtracted from rows and targets; `scale` divides
    features; `level` is the penalty of each user's intercept, with `center`. `X_means`,
    unscaled, and `y_means` are the means of each user, None without centering.
    """

    def __init__(
        self,
        X,
        y,
        codes,
        n_users,
        *,
        columns=None,
        center=False,
        scale=None,
        level=_FREE,
    ):
        self._X, self._y = X, np.asarray(y, dtype=np.float64)
        self._columns = slice(None) if columns is None else columns
        self.n_users = n_users
        self.n_features = X[:1, self._columns].shape[1]
        self.counts = np.bincount(codes, minlength=n_users)
        self._starts = np.concatenate(([0], np.cumsum(self.counts)))
        grouped = bool(np.all(codes[1:] >= codes[:-1]))
        # Stable: a user's rows keep their order, whoever else is there.
        self._order = None if grouped else np.argsort(codes, kind="stable")
        self.level = level if center else _FREE
        self._group(center, scale)

    def _group(self, center: bool, scale) -> None:
        """Divide users into blocks, and center their rows if asked."""
        self._scale: np.ndarray | None = None
        self.X_means: np.ndarray | None = None
        self.y_means: np.ndarray | None = None
        self._members = self._split_users()
        if center:
            self._center()
        self._scale = scale
        self._kept: list[Block] | None = None
        self._squares: np.ndarray | None = None

    def dealt(self, part: int, n_parts: int) -> UserRows:
        """Return one of several parts, to which each user's rows are dealt in turn.

        Parts are centered by themselves. A user with fewer rows than there are parts
        has one of them in each, repeatedly: no user's part is empty. The part reads the
        same rows, and copies none.
        """
        counts = self.counts
        place = np.arange(self._starts[-1]) - np.repeat(self._starts[:-1], counts)
        each = np.repeat(counts, counts)
        few = each < n_parts
        taken = np.where(few, place == part % each, place % n_parts == part)
        new = copy.copy(self)
        order = np.arange(len(place)) if self._order is None else self._order
        new._order = order[taken]
        own = np.repeat(np.arange(self.n_users), counts)[taken]
        new.counts = np.bincount(own, minlength=self.n_users)
        new._starts = np.concatenate(([0], np.cumsum(new.counts)))
        new._group(self.X_means is not None, self._scale)
        return new

    def _split_users(self) -> list[tuple[int, np.ndarray]]:
        """Split users into (height, codes) of at most one block of numbers."""
        heights = padded_heights(self.counts + self.level.n_rows)
        order = np.argsort(heights, kind="stable")
        levels, firsts = np.unique(heights[order], return_index=True)
        blocks = []
        for height, group in zip(levels, np.split(order, firsts[1:]), strict=True):
            size = max(1, _BLOCK_NUMBERS // (int(height) * max(self.n_features, 1)))
            blocks += [
                (int(height), group[start : start + size])
                for start in range(0, len(group), size)
            ]
        return blocks

    @property
    def n_numbers(self) -> int:
        """Numbers in all padded blocks."""
        rows = sum(height * len(users) for height, users in self._members)
        return rows * self.n_features

    @quietly
    def _center(self) -> None:
        X_means = np.zeros((self.n_users, self.n_features))
        y_means = np.zeros(self.n_users)
        for height, users in self._members:
            block = self._load(height, users)
            counts = np.maximum(block.counts, 1)
            X_means[users] = per_user.totals(block.X) / counts[:, None]
            y_means[users] = per_user.totals(block.y) / counts
        self.X_means, self.y_means = X_means, y_means

    @quietly
    def _load(self, height: int, users: np.ndarray) -> Block:
        """Read, center, scale and pad the rows of some users."""
        counts, starts = self.counts[users], self._starts[users]
        full = bool(np.all(counts == height)) and not self.level.n_rows
        if full and self._order is None and _consecutive(users):
            rows = slice(starts[0], starts[0] + height * len(users))
        else:
            last = self._starts[-1] - 1
            rows = np.minimum(starts[:, None] + np.arange(height), last).ravel()
            rows = rows if self._order is None else self._order[rows]
        shape = (len(users), height)
        X = per_user.empty_stack(*shape, self.n_features)
        X[...] = self._X[rows][:, self._columns].reshape(X.shape)
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
        if self.level.n_rows and self.X_means is not None:
            self._add_levels(X, y, counts, users)
        return Block(X, y, counts, users)

    def _add_levels(self, X, y, counts, users: np.ndarray) -> None:
        """Write what an intercept costs as one more row, behind a user's own."""
        weights = self.level.weights(counts)
        means = self.X_means[users]
        means = means if self._scale is None else means / self._scale
        last = np.arange(len(users)), counts
        X[last] = weights[:, None] * means
        y[last] = weights * (self.y_means[users] - self.level.prior)

    @quietly
    def intercepts(self, means: np.ndarray) -> np.ndarray:
        """Intercepts of users whose models give their mean row these values."""
        if self.y_means is None:
            return np.zeros(self.n_users)
        return self.level.intercepts(self.y_means - means, self.counts)

    def blocks(self) -> Iterator[Block]:
        if self._kept is not None:
            yield from self._kept
        else:
            for height, users in self._members:
                yield self._load(height, users)

    def keep(self) -> None:
        """Keep the blocks in memory if they are not too large."""
        if self._kept is None and self.n_numbers <= _KEPT_NUMBERS:
            self._kept = list(self.blocks())

    def rescale(self, scale: np.ndarray) -> None:
        """Divide features by other numbers from now on."""
        self._scale, self._kept, self._squares = scale, None, None

    def column_squares(self, block: Block) -> np.ndarray:
        """Sums of squares of each user's features, of shape (n_users, n_features)."""
        if self._kept is None:
            # Rows of this many users are read anew; so are their squares.
            return per_user.totals(np.square(block.X))
        if self._squares is None:
            self._squares = np.full((self.n_users, self.n_features), np.nan)
        own = block.own
        known = self._squares[own]
        if np.isnan(known[:, :1]).any():
            known = per_user.totals(np.square(block.X))
            self._squares[own] = known
        return known

    def map(self, function: Callable, n_jobs=None) -> list:
        """Apply a function to every block, in threads, and return results in order.

        It may write to the block's users in shared arrays.
        """
        self.keep()
        if n_jobs in (None, 1):
            return list(map_in_threads(function, self.blocks()))
        tasks = self._kept if self._kept is not None else self._members
        chunk = max(1, min(16, len(tasks) // 8))
        chunks = [tasks[i : i + chunk] for i in range(0, len(tasks), chunk)]

        def run(chunk):
            return [
                function(task if isinstance(task, Block) else self._load(*task))
                for task in chunk
            ]

        results = map_in_threads(run, chunks, n_jobs)
        return [result for chunk in results for result in chunk]

    def sums(self, function: Callable, n_jobs=None) -> list:
        """Apply ``function(block, rows)`` to every block; return terms of the sum."""
        return self.map(partial(function, rows=self), n_jobs)


def _consecutive(users: np.ndarray) -> bool:
    return bool(users[-1] - users[0] == len(users) - 1) and bool(
        np.all(users[1:] > users[:-1])
    )


def column_scales(rows: UserRows, n_jobs=None) -> np.ndarray:
    """Root mean square of each feature over all rows; 1 where a feature is zero."""
    total = np.zeros(rows.n_features)
    for part in rows.map(lambda block: _squares(block, rows.level), n_jobs):
        total += part
    scale = np.sqrt(total / max(int(rows.counts.sum()), 1))
    return np.where(scale > 0.0, scale, 1.0)


def _squares(block: Block, level: Level) -> np.ndarray:
    """Sum squares of each feature over a block's rows; that of the levels is none."""
    squares = np.square(block.X).sum(axis=(0, 1))
    if level.n_rows:
        last = block.X[np.arange(len(block)), block.counts]
        squares -= np.square(last).sum(axis=0)
    return np.maximum(squares, 0.0)
