"""How good lists of items are: recall, NDCG and coverage of the catalog."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from .._tables.id_index import IdIndex
from .._tables.ids import id_array


def list_recall_score(true_users, true_items, users, items, *, k=None):
    """Mean over users of the share of their items that are in their lists.

    Parameters
    ----------
    true_users, true_items : array-like of shape (n_rows,)
        Pairs of a user and an item that was held out: any hashable ids. A pair that
        stands there twice counts once.
    users : array-like of shape (n_users,)
        Users that lists were made for, none of them twice.
    items : array-like of shape (n_users, n)
        Their lists, best first, as of
        :meth:`skdpspectral.DPMatrixFactorization.recommend`.
    k : int or None, default=None
        Number of places that count, at least 1. None counts all.

    Returns
    -------
    float
        Between 0 and 1; a user with more held-out items than places stays below 1.
        Users without held-out items are left out; NaN, with an
        `UndefinedMetricWarning`, if none is left.

    Raises
    ------
    ValueError
        If an argument is out of its range, or lengths differ.
    TypeError
        If an id is not hashable.

    See Also
    --------
    user_recall_score : The same for scores of rows.
    list_ndcg_score : Early places count more.

    Warnings
    --------
    The score is not private: on private users it is itself a release, which no
    estimator and no accountant accounts for.

    Examples
    --------
    >>> from skdpspectral.metrics import list_recall_score
    >>> list_recall_score(["ann", "ann"], [1, 2], ["ann"], [[2, 3]])
    0.5
    """
    hits, held_out = _hits(true_users, true_items, users, items, k)
    return _mean_share(hits.sum(axis=1), held_out)


def list_ndcg_score(true_users, true_items, users, items, *, k=None):
    r"""Mean over users of the normalized discounted cumulative gain of their lists.

    An item that was held out for the user is a gain of 1, at place j of the list
    divided by :math:`\log_2(1 + j)`; their sum is divided by that of a list that begins
    with all of the user's held-out items.

    Parameters
    ----------
    true_users, true_items : array-like of shape (n_rows,)
        Pairs of a user and an item that was held out: any hashable ids. A pair that
        stands there twice counts once.
    users : array-like of shape (n_users,)
        Users that lists were made for, none of them twice.
    items : array-like of shape (n_users, n)
        Their lists, best first.
    k : int or None, default=None
        Number of places that count, at least 1. None counts all.

    Returns
    -------
    float
        Between 0 and 1. Users without held-out items are left out; NaN, with an
        `UndefinedMetricWarning`, if none is left.

    Raises
    ------
    ValueError
        If an argument is out of its range, or lengths differ.
    TypeError
        If an id is not hashable.

    See Also
    --------
    user_ndcg_score : The same for scores of rows, with gains.
    list_recall_score : All places count alike.

    Warnings
    --------
    The score is not private: on private users it is itself a release, which no
    estimator and no accountant accounts for.

    Examples
    --------
    >>> from skdpspectral.metrics import list_ndcg_score
    >>> list_ndcg_score(["ann"], [1], ["ann"], [[1, 2]])
    1.0
    """
    hits, held_out = _hits(true_users, true_items, users, items, k)
    weights = 1.0 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.concatenate(([0.0], np.cumsum(weights)))
    best = ideal[np.minimum(held_out, hits.shape[1])]
    return _mean_share(hits @ weights, best)


def catalog_coverage_score(items, catalog):
    """Share of the items of a catalog that are in any list.

    Parameters
    ----------
    items : array-like of shape (n_users, n)
        Lists, as of :meth:`skdpspectral.DPMatrixFactorization.recommend`.
    catalog : array-like of shape (n_items,)
        Ids of all items; those of lists must be among them.

    Returns
    -------
    float
        Between 0 and 1: one list of popular items for everybody covers next to nothing.

    Raises
    ------
    ValueError
        If an argument has the wrong shape, or lists hold items outside the catalog.
    TypeError
        If an id is not hashable.

    Warnings
    --------
    The score is not private: which items are in the lists of private users is a
    release, which no estimator and no accountant accounts for.

    Examples
    --------
    >>> from skdpspectral.metrics import catalog_coverage_score
    >>> catalog_coverage_score([[1, 2], [1, 3]], [1, 2, 3, 4])
    0.75
    """
    index = IdIndex(catalog, "catalog")
    if not len(index):
        raise ValueError("catalog must hold at least one id")
    flat, _ = _lists(items)
    found = index.find(flat, "items")
    if (found < 0).any():
        raise ValueError("items must not hold ids that are not in catalog")
    return len(np.unique(found)) / len(index)


def _hits(true_users, true_items, users, items, k) -> tuple[np.ndarray, np.ndarray]:
    """Return which places of lists were held out, and how many items of each user."""
    pairs = id_array(true_users, "true_users"), id_array(true_items, "true_items")
    flat, shape = _lists(items)
    index = IdIndex(users, "users")
    if len(index) != len(index.codes):
        raise ValueError("users must not hold an id twice")
    if shape[0] != len(index):
        raise ValueError("users and items must have one entry a list")
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError("true_users and true_items must be of one length")
    n = _places(k, shape[1])
    if not len(pairs[0]):
        return np.zeros((shape[0], n), dtype=bool), np.zeros(shape[0], dtype=np.intp)
    catalog = IdIndex(pairs[1], "true_items")
    owners = index.find(pairs[0], "true_users")
    known = owners >= 0
    held_out = np.unique(owners[known] * len(catalog) + catalog.codes[known])
    listed = catalog.find(flat, "items").reshape(shape)[:, :n]
    keys = np.arange(shape[0])[:, None] * len(catalog) + listed
    hits = np.isin(keys, held_out) & (listed >= 0)
    return hits, np.bincount(held_out // len(catalog), minlength=shape[0])


def _lists(items) -> tuple[np.ndarray, tuple[int, int]]:
    """Return ids of lists one after another, and the shape of the lists."""
    flat: Any
    if isinstance(items, np.ndarray):
        flat, shape = items.ravel(), items.shape if items.ndim == 2 else None
    else:
        rows = list(items) if np.iterable(items) else [items]
        shape = _shape_of(rows)
        flat = None if shape is None else [item for row in rows for item in row]
    if shape is None or 0 in shape:
        raise ValueError("items must have shape (n_users, n): one list of ids a user")
    return id_array(flat, "items"), shape


def _shape_of(rows) -> tuple[int, int] | None:
    try:
        lengths = {len(row) for row in rows}
    except TypeError:
        return None
    return (len(rows), lengths.pop()) if len(lengths) == 1 else None


def _places(k, n: int) -> int:
    if k is None:
        return n
    if not isinstance(k, numbers.Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, or None, got {k!r}")
    return min(int(k), n)


def _mean_share(found: np.ndarray, best: np.ndarray) -> float:
    defined = best > 0
    if not defined.any():
        warnings.warn(
            "no user of a list has an item that was held out, so that no user has a "
            "score; set to NaN",
            UndefinedMetricWarning,
            stacklevel=3,
        )
        return float("nan")
    return float(np.minimum(found[defined] / best[defined], 1.0).mean())
