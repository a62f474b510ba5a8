"""Ratings of many users, each user's in an order of their own, walked in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from .recommendation_gathering import gathered, user_blocks
from .threads import map_in_threads, quietly

# Ratings and users of a block: what is made of them fits in memory many times.
_BLOCK_RATINGS = 1 << 19
_BLOCK_USERS = 1 << 13
# Numbers that are kept from one round for the next, at most: half a gigabyte.
_KEPT_NUMBERS = 1 << 26


class KeptProducts:
    """Sums of one round that wait for the next, and what all blocks share.

    Attributes
    ----------
    sums : dict
        Features and sums of their pairs, by the first user of a block.
    """

    def __init__(self) -> None:
        self.sums: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._last: tuple = (None, None, None)

    def pairs(self, old, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return places of pairs that are as they were, and products of all others.

        Parameters
        ----------
        old : ndarray of shape (n_items, q) or None
            Features that sums were kept of.
        features : ndarray of shape (n_items, r)
            Features that sums are asked of.
        """
        last_old, last, answer = self._last
        if last is features and last_old is old:
            return answer
        j, i = np.tril_indices(features.shape[1])
        same = np.zeros(features.shape[1], dtype=bool)
        if old is not None:
            for k, column in enumerate(old.T[: len(same)]):
                same[k] = np.array_equal(column, features[:, k])
        # Pairs of the first features have the same places whatever comes behind.
        found = same[i] & same[j]
        # Row by row in memory, as products of every block want it.
        table = np.ascontiguousarray(features[:, i[~found]] * features[:, j[~found]])
        answer = np.flatnonzero(found), table
        self._last = old, features, answer
        return answer


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
    kept : KeptProducts
        Where sums of one round wait for the next.

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
    kept: KeptProducts = field(default_factory=KeptProducts, repr=False)
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

    def pair_products(self, features: np.ndarray, *, keep: bool = False) -> np.ndarray:
        """Sum products of all pairs of items' features over each user's ratings.

        Sums of features that are the same as when sums were last kept are taken from
        there: they have the same bits.

        Parameters
        ----------
        features : ndarray of shape (n_items, q)
            What is public of the items.
        keep : bool, default=False
            Whether to keep the sums for the next call, as far as there is room.

        Returns
        -------
        ndarray of shape (n_users, q * (q + 1) / 2)
            Sums for features i <= j at place i + j * (j + 1) / 2.
        """
        old, known = self.kept.sums.get(self.users.start, (None, None))
        found, table = self.kept.pairs(old, features)
        out = self.products(table)
        if len(found):
            rest, out = out, np.empty((len(self), len(found) + out.shape[1]))
            out[:, found] = known[:, found]
            out[:, np.delete(np.arange(out.shape[1]), found)] = rest
        if keep and self.users.stop * out.shape[1] <= _KEPT_NUMBERS:
            self.kept.sums[self.users.start] = features, out
        return out


class UserRatings:
    """The last rating of every user and item, by user and then by item.

    Parameters
    ----------
    parts : iterable of Part
        Users' and items' codes and finite ratings, in the order of the table.
    counts : ndarray of shape (n_users,)
        Rows of each user.
    n_items : int
        Items of the catalog.
    middle, unit : float, default=0.0 and 1.0
        What is subtracted from ratings, and what they are divided by then.

    Attributes
    ----------
    pointer : ndarray of shape (n_users + 1,)
        Where each user's ratings begin and end.
    items : ndarray of shape (n_ratings,)
        Codes of items, ascending for each user, in the narrowest type.
    """

    def __init__(self, parts, counts, n_items: int, middle=0.0, unit=1.0):
        self.pointer, self.items, self._values = gathered(parts, counts, n_items)
        self.n_users, self.n_items = len(counts), n_items
        self._units = middle, unit
        self._kept = KeptProducts()

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
                self._kept,
            )

    def forgetful(self) -> UserRatings:
        """Return the same ratings, which keep nothing from one round for the next."""
        other = object.__new__(UserRatings)
        other.__dict__.update(self.__dict__)
        other._kept = KeptProducts()
        return other

    @quietly
    def _in_units(self, rows: slice) -> np.ndarray:
        middle, unit = self._units
        return (self._values[rows].astype(np.float64) - middle) / unit

    def map(self, function: Callable, n_jobs: int | None = None):
        """Apply a function to every block, in threads; yield what it returns."""
        return map_in_threads(function, self.blocks(), n_jobs)
