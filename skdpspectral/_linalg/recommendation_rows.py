"""Ratings of many users, each user's in an order of their own, walked in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from .recommendation import last_of_each, latest_of_each
from .threads import map_in_threads

# Ratings of a block: what is made of them fits in memory many times.
_BLOCK_RATINGS = 1 << 19


@dataclass(frozen=True)
class RatingsBlock:
    """Some users, one after another, with the items that each of them rated.

    Parameters
    ----------
    users : slice
        Their codes.
    pointer : ndarray of shape (n_users + 1,)
        Where each user's ratings begin and end.
    items : ndarray of shape (n_ratings,)
        Codes of items, ascending for each user, none twice.
    values : ndarray of shape (n_ratings,)
        Ratings.
    n_items : int
        Items of the catalog.

    Attributes
    ----------
    counts : ndarray of shape (n_users,)
        Ratings of each user.
    of_user : ndarray of shape (n_ratings,)
        Place of each rating's user in the block.
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
        """Sum over each user's ratings, one after another: the order is their own."""
        return np.bincount(self.of_user, values, len(self))

    def item_totals(self, values: np.ndarray) -> np.ndarray:
        """Sum over the ratings of each item: exact for whole numbers alone."""
        return np.bincount(self.items, values, self.n_items)

    def products(self, rows: np.ndarray, values: np.ndarray | None = None):
        """Sum rows of items over each user's ratings, weighted by `values` if given.

        Entry by entry, one rating after another: a user's sums have the same bits
        alone and among others.

        Parameters
        ----------
        rows : ndarray of shape (n_items, q)
            What is public of the items.
        values : ndarray of shape (n_ratings,) or None, default=None
            Weights.

        Returns
        -------
        ndarray of shape (n_users, q)
            Sums.
        """
        values = np.ones(len(self.items)) if values is None else values
        shape = (len(self), self.n_items)
        return sparse.csr_array((values, self.items, self.pointer), shape=shape) @ rows


class UserRatings:
    """The last rating of every user and item, by user and then by item.

    Parameters
    ----------
    users, items : ndarray of shape (n_ratings,)
        Codes; those of users from 0.
    values : ndarray of shape (n_ratings,)
        Finite ratings.
    n_users, n_items : int
        Numbers of codes.
    most : int or None, default=None
        Items of a user that count: the last ones in the table.
    """

    def __init__(self, users, items, values, n_users: int, n_items: int, most=None):
        users, items, values, rows = last_of_each(users, items, values)
        if most is not None:
            kept = latest_of_each(users, rows, most)
            users, items, values = users[kept], items[kept], values[kept]
        self.items, self.values = items.astype(np.int32), values
        self.n_users, self.n_items = n_users, n_items
        counts = np.bincount(users, minlength=n_users)
        self.pointer = np.concatenate(([0], np.cumsum(counts)))

    def blocks(self) -> Iterator[RatingsBlock]:
        """Yield all users, a few at a time."""
        start = 0
        while start < self.n_users:
            most = self.pointer[start] + _BLOCK_RATINGS
            stop = int(np.searchsorted(self.pointer, most, side="right")) - 1
            stop = min(max(stop, start + 1), self.n_users)
            first, last = self.pointer[start], self.pointer[stop]
            yield RatingsBlock(
                slice(start, stop),
                self.pointer[start : stop + 1] - first,
                self.items[first:last],
                self.values[first:last],
                self.n_items,
            )
            start = stop

    def map(self, function: Callable, n_jobs: int | None = None):
        """Apply a function to every block, in threads; yield what it returns."""
        return map_in_threads(function, self.blocks(), n_jobs)
