"""Ratings in any order, gathered by user and then by item, in few bytes each.

They come part by part, so that a table need not be in memory, and are sorted by
counting: every step takes time in proportion to the ratings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import sparse

# Ratings that are sorted together: what is made of them stays in the cache.
_SORTED_RATINGS = 1 << 19
# Types that hold ratings, the narrowest first.
_FLOATS = (np.float16, np.float32, np.float64)


class Part(NamedTuple):
    """Some rows of a ratings table.

    Parameters
    ----------
    users, items : ndarray of shape (n_rows,)
        Codes; items outside the catalog are -1.
    values : ndarray of shape (n_rows,)
        Finite ratings, float64.
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray


def gathered(parts: Iterable[Part], counts: np.ndarray, n_items: int):
    """Gather the last rating of every user and item of the catalog.

    Parameters
    ----------
    parts : iterable of Part
        The table, in its order.
    counts : ndarray of shape (n_users,)
        Rows of each user.
    n_items : int
        Items of the catalog.

    Returns
    -------
    pointer : ndarray of shape (n_users + 1,)
        Where each user's ratings begin and end.
    items : ndarray of shape (n_ratings,)
        Codes, ascending for each user, in the narrowest type.
    values : ndarray of shape (n_ratings,)
        Ratings, in the narrowest type that holds all of them exactly.

    Raises
    ------
    ValueError
        If the parts do not hold as many rows of each user as were counted.
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
        "X has changed while it was read: give a table that stays as it is"
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
    """Yield where blocks of so many ratings begin and end, and of so many users.

    A user's ratings are never in two blocks, however many they are.
    """
    start, n_users = 0, len(pointer) - 1
    while start < n_users:
        limit = pointer[start] + most
        stop = int(np.searchsorted(pointer, limit, side="right")) - 1
        stop = min(max(stop, start + 1), start + most_users, n_users)
        yield start, stop
        start = stop


def _by_row(rows, columns, values, shape) -> sparse.csr_array:
    """Group entries by row, in the order given; those of one place stay apart."""
    entries = sparse.coo_array((values, (rows, columns)), shape=shape)
    entries.has_canonical_format = True  # else entries of one place would be added
    return entries.tocsr()


def _float_for(values: np.ndarray, least) -> np.dtype:
    """Narrowest type, at least `least`, that holds numbers exactly."""
    with np.errstate(all="ignore"):
        for kind in map(np.dtype, _FLOATS):
            wide = kind.itemsize >= np.dtype(least).itemsize
            if wide and np.array_equal(values.astype(kind), values):
                return kind
    return np.dtype(np.float64)
