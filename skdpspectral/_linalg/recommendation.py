"""Second moments of sparse users x items tables, summed without any rounding."""

from __future__ import annotations

import numpy as np
from scipy import sparse

# Values are held in steps of 2**-11: products of two are multiples of 2**-22, and sums
# of them over at most 2**31 users of unit norm are exact in float64.
STEP = 2.0**-11
# Columns of a product that are made together.
_PANEL = 256


def last_of_each(users, items, values):
    """Keep the last value of every pair of user and item, in order of users."""
    order = np.lexsort((items, users))  # stable: rows stay in their order
    users, items, values = users[order], items[order], values[order]
    last = np.ones(len(users), dtype=bool)
    last[:-1] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
    return users[last], items[last], values[last], order[last]


def latest_of_each(users, rows, most: int) -> np.ndarray:
    """Mark the last `most` entries of every user, by their rows in the table."""
    order = np.lexsort((-rows, users))
    starts = np.searchsorted(users[order], users[order], side="left")
    kept = np.zeros(len(users), dtype=bool)
    kept[order] = np.arange(len(users)) - starts < most
    return kept


def unit_steps(users, items, values, n_items: int) -> sparse.csr_array:
    """Rows of unit norm, one a user, in whole steps towards zero.

    Parameters
    ----------
    users, items : ndarray of shape (n_entries,)
        Codes; users in ascending order, every pair once.
    values : ndarray of shape (n_entries,)
        Finite numbers.
    n_items : int
        Number of columns.

    Returns
    -------
    csr_array of shape (n_users, n_items)
        Whole numbers, of norm at most 2**11 in each row. A row is a function of that
        user's entries alone, to the last bit.
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
    steps = np.trunc(values / np.repeat(lengths, counts) / STEP)
    return sparse.csr_array((steps, items, pointer), shape=shape)


def second_moment_of_steps(steps: sparse.csr_array) -> np.ndarray:
    """Sum over rows of x x', for rows in whole steps: exact, items x items."""
    n_items = steps.shape[1]
    out = np.empty((n_items, n_items), order="F")
    columns, rows = steps.tocsc(), steps.T.tocsr()
    for start in range(0, n_items, _PANEL):
        panel = slice(start, min(start + _PANEL, n_items))
        out[:, panel] = (rows @ columns[:, panel]).toarray()
    out *= STEP * STEP
    return out


def second_moment(users, items, values, n_items: int, most: int | None) -> np.ndarray:
    """Sum over users of x x' for unit rows x of their last values, exact.

    Parameters
    ----------
    users, items : ndarray of shape (n_entries,)
        Codes.
    values : ndarray of shape (n_entries,)
        Finite numbers.
    n_items : int
        Number of items.
    most : int or None
        Items of a user that count: the last ones.

    Returns
    -------
    ndarray of shape (n_items, n_items)
        Multiples of 2**-22.
    """
    users, items, values, rows = last_of_each(users, items, values)
    if most is not None:
        kept = latest_of_each(users, rows, most)
        users, items, values = users[kept], items[kept], values[kept]
    return second_moment_of_steps(unit_steps(users, items, values, n_items))
