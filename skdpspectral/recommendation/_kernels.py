"""Ratings sorted by user, processed in blocks, and their exact second moments.

Ratings come in parts, in any order, so that a table need not be in memory. They are
sorted by counting, in linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._linalg.walks import map_in_threads, quietly

# Values are held in steps of 2**-11: products of two are multiples of 2**-22, and sums
# of them over at most 2**31 users of unit norm are exact in float64.
EMBEDDING_STEP = 2.0**-11
# Columns of a product that are made together.
_PANEL = 256


def unit_steps(users, items, values, n_items: int) -> sparse.csr_array:
    """Return one row of unit norm per user, truncated to whole steps.

    `users`, `items` (n_entries,): codes, users ascending, every pair once. Rows have
    integer entries and norms of at most 2**11, and depend on their user's entries
    alone.
    """
    firsts = np.unique(users, return_index=True)[1]
    shape = (len(firsts), n_items)
    if not len(firsts):
        return sparse.csr_array(shape)
    pointer = np.append(firsts, len(users))
    counts = np.diff(pointer)
    # By a power of two that brings the largest to 1/2 or more: squares that matter
    # neither overflow nor underflow.
    exponents = np.frexp(np.maximum.reduceat(np.abs(values), firsts))[1]
    values = np.ldexp(values, -np.repeat(exponents, counts))
    # Entry after entry of each user: the order is that user's own.
    of_user = np.repeat(np.arange(len(firsts)), counts)
    lengths = np.sqrt(np.bincount(of_user, values * values, len(firsts)))
    # Longer by more than the error of a sum of so many squares: never above 1.
    lengths *= 1.0 + (counts + 8) * 2.0**-52
    lengths[lengths == 0.0] = 1.0
    steps = np.trunc(values / np.repeat(lengths, counts) / EMBEDDING_STEP)
    return sparse.csr_array((steps, items, pointer), shape=shape)


def second_moment_of_steps(steps: sparse.csr_array) -> np.ndarray:
    """Return the exact sum of x x' over rows in whole steps, (n_items, n_items)."""
    n_items = steps.shape[1]
    out = np.empty((n_items, n_items), order="F")
    columns, rows = steps.tocsc(), steps.T.tocsr()
    for start in range(0, n_items, _PANEL):
        panel = slice(start, min(start + _PANEL, n_items))
        out[:, panel] = (rows @ columns[:, panel]).toarray()
    out *= EMBEDDING_STEP * EMBEDDING_STEP
    return out


# Ratings that are sorted together: what is made of them stays in the cache.
_SORTED_RATINGS = 1 << 19
# Types that hold ratings, the narrowest first.
_FLOATS = (np.float16, np.float32, np.float64)


class RatingsChunk(NamedTuple):
    """Some rows of a ratings table.

    `users`, `items` (n_rows,): codes; items outside the catalog are -1.
    `values` (n_rows,): finite ratings, float64.
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray


def gathered(parts: Iterable[RatingsChunk], counts: np.ndarray, n_items: int):
    """Gather the last rating of every user and item of the catalog.

    `parts`: the table, in its order. `counts` (n_users,): rows of each user. `n_items`:
    items of the catalog. Returns `pointer` (n_users + 1,): where each user's ratings
    begin and end; `items` (n_ratings,): codes, ascending for each user, in the
    narrowest type; `values` (n_ratings,): ratings, in the narrowest type that holds all
    of them exactly.
    """
    pointer = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    # Items outside the catalog come last, by a code of their own, until they go.
    kind = np.uint16 if n_items < 2**16 else np.int32
    items = np.empty(pointer[-1], dtype=kind)
    values = np.empty(pointer[-1], dtype=_FLOATS[0])
    filled = pointer[:-1].copy()
    for part in parts:
        if np.any(part.users < 0):
            _refuse_changes()
        found = np.where(part.items < 0, n_items, part.items)
        rows = _by_row(part.users, found, part.values, (len(counts), n_items + 1))
        values = values.astype(_float_for(rows.data, values.dtype), copy=False)
        within = np.diff(rows.indptr)
        if np.any(filled + within > pointer[1:]):
            _refuse_changes()  # a user's rows would lie upon another's
        places = np.repeat(filled - rows.indptr[:-1], within)
        places += np.arange(len(places))
        items[places], values[places] = rows.indices, rows.data
        filled += within
    if np.any(filled != pointer[1:]):
        _refuse_changes()
    return _last_of_each(pointer, items, values, n_items)


def _refuse_changes():
    raise ValueError(
        "X changed while it was being read: pass a table that does not change"
    )


def _last_of_each(pointer, items, values, n_items: int):
    """Sort each user's ratings by item in place, and keep the last one of each."""
    kept, kept_pointer = 0, np.zeros_like(pointer)
    for start, stop in user_blocks(pointer, _SORTED_RATINGS, _SORTED_RATINGS):
        rows = slice(pointer[start], pointer[stop])
        by_user = sparse.csr_array(
            (
                values[rows].astype(np.float64),
                items[rows].astype(np.int32),
                pointer[start : stop + 1] - pointer[start],
            ),
            shape=(stop - start, n_items + 1),
        )
        # Twice transposed, entries are in the order of items; equal ones stay in order.
        by_user = by_user.tocsc().tocsr()
        found, ends = by_user.indices, by_user.indptr
        last = np.ones(len(found), dtype=bool)
        last[:-1] = found[1:] != found[:-1]
        last[ends[1:][ends[1:] > 0] - 1] = True  # of a user, whoever comes next
        last &= found < n_items
        before = np.concatenate(([0], np.cumsum(last)))
        n_kept = before[-1]
        items[kept : kept + n_kept] = found[last]
        values[kept : kept + n_kept] = by_user.data[last]
        kept_pointer[start + 1 : stop + 1] = kept + before[ends[1:]]
        kept += n_kept
    return kept_pointer, items[:kept], values[:kept]


def user_blocks(pointer: np.ndarray, most: int, most_users: int):
    """Yield the start and end of blocks of at most `most` ratings and `most_users`.

    A user's ratings are never split.
    """
    start, n_users = 0, len(pointer) - 1
    while start < n_users:
        limit = pointer[start] + most
        stop = int(np.searchsorted(pointer, limit, side="right")) - 1
        stop = min(max(stop, start + 1), start + most_users, n_users)
        yield start, stop
        start = stop


def _by_row(rows, columns, values, shape) -> sparse.csr_array:
    """Group entries by row, in the given order, without merging duplicates."""
    entries = sparse.coo_array((values, (rows, columns)), shape=shape)
    entries.has_canonical_format = True  # else entries of one place would be added
    return entries.tocsr()


def _float_for(values: np.ndarray, least) -> np.dtype:
    """Return the narrowest type, at least `least`, that holds numbers exactly."""
    with np.errstate(all="ignore"):
        for kind in map(np.dtype, _FLOATS):
            wide = kind.itemsize >= np.dtype(least).itemsize
            if wide and np.array_equal(values.astype(kind), values):
                return kind
    return np.dtype(np.float64)


# Ratings and users of a block: what is made of them fits in memory many times.
_BLOCK_RATINGS = 1 << 19
_BLOCK_USERS = 1 << 13


@dataclass(frozen=True)
class RatingsBlock:
    """Some users, one after another, with the items that each of them rated.

    `pointer` (n_users + 1,): where each user's ratings begin and end.
    `items` (n_ratings,): codes of items, ascending for each user, none twice.
    `counts` (n_users,): ratings of each user.
    `of_user` (n_ratings,): place of each rating's user in the block.
    """

    users: slice
    pointer: np.ndarray
    items: np.ndarray
    values: np.ndarray
    n_items: int
    counts: np.ndarray = field(init=False)
    of_user: np.ndarray = field(init=False)

    def __len__(self) -> int:
        return len(self.pointer) - 1

    def __post_init__(self) -> None:
        # Not when they are asked for first: that would take a lock, which a fork keeps.
        counts = np.diff(self.pointer)
        of_user = np.repeat(np.arange(len(self)), counts)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "of_user", of_user)

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sum over each user's ratings, in order."""
        return np.bincount(self.of_user, values, len(self))

    def item_totals(self, values: np.ndarray) -> np.ndarray:
        """Sum over the ratings of each item: exact for integers only."""
        return np.bincount(self.items, values, self.n_items)

    def products(self, rows: np.ndarray, values: np.ndarray | None = None):
        """Sum rows of items over each user's ratings, weighted by `values` if given.

        Entry by entry, one rating after another: a user's sums have the same bits
        alone and among others.

        `rows` (n_items, q): what is public of the items. `values` (n_ratings,):
        weights. Returns (n_users, q): sums.
        """
        return self.clicks(values) @ rows

    def clicks(self, values: np.ndarray | None = None) -> sparse.csr_array:
        """Return users x items, of ones or of a value for each rating."""
        values = np.ones(len(self.items)) if values is None else values
        shape = (len(self), self.n_items)
        return sparse.csr_array((values, self.items, self.pointer), shape=shape)

    def pair_products(self, features: np.ndarray) -> np.ndarray:
        """Sum products of all pairs of items' features over each user's ratings.

        Returns (n_users, q * (q + 1) / 2): sums for features i <= j at place i + j * (j
        + 1) / 2.
        """
        j, i = np.tril_indices(features.shape[1])
        return self.products(features[:, i] * features[:, j])


class UserRatings:
    """The last rating of every user and item, by user and then by item.

    `parts`: chunks of the table, in its order.
    `counts` (n_users,): rows of each user.
    `middle`, `unit`: subtracted from ratings, which are then divided by the other.
    `pointer` (n_users + 1,): where each user's ratings begin and end.
    `items` (n_ratings,): codes, ascending for each user, in the narrowest type.
    """

    def __init__(self, parts, counts, n_items: int, middle=0.0, unit=1.0):
        self.pointer, self.items, self._values = gathered(parts, counts, n_items)
        self.n_users, self.n_items = len(counts), n_items
        self._units = middle, unit

    def blocks(self) -> Iterator[RatingsBlock]:
        """Yield all users, a few at a time."""
        for start, stop in user_blocks(self.pointer, _BLOCK_RATINGS, _BLOCK_USERS):
            first, last = self.pointer[start], self.pointer[stop]
            yield RatingsBlock(
                slice(start, stop),
                (self.pointer[start : stop + 1] - first).astype(np.int32),
                self.items[first:last].astype(np.int32),
                self._in_units(slice(first, last)),
                self.n_items,
            )

    @quietly
    def _in_units(self, rows: slice) -> np.ndarray:
        middle, unit = self._units
        return (self._values[rows].astype(np.float64) - middle) / unit

    def map(self, function: Callable, n_jobs: int | None = None):
        """Apply a function to every block, in threads; yield what it returns."""
        return map_in_threads(function, self.blocks(), n_jobs)
