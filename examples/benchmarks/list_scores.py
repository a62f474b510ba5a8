"""How good lists of items are: recall, NDCG, and how much of the catalog they show.

A list belongs to one user; `held_out` has pairs of a user and an item that no fit has
seen. The scores are exact, so use them on rows that you may look at.
"""

import numpy as np


def _hits(held_users, held_items, users, lists):
    """Return which places of lists were held out, and how many items of each user."""
    held = {user: set() for user in np.asarray(users).tolist()}
    for user, item in zip(
        np.asarray(held_users).tolist(), np.asarray(held_items).tolist(), strict=True
    ):
        if user in held:
            held[user].add(item)
    lists = np.asarray(lists).tolist()
    hits = [
        [i in own for i in row] for own, row in zip(held.values(), lists, strict=True)
    ]
    return np.array(hits, dtype=float), np.array([len(own) for own in held.values()])


def list_recall_score(held_users, held_items, users, lists):
    """Return the mean over users of the share of held-out items in their lists."""
    hits, n_held = _hits(held_users, held_items, users, lists)
    known = n_held > 0
    return float(np.mean(hits[known].sum(axis=1) / n_held[known]))


def list_ndcg_score(held_users, held_items, users, lists):
    """Return the mean over users of the gain of their lists over the largest gain."""
    hits, n_held = _hits(held_users, held_items, users, lists)
    weights = 1.0 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.append(0.0, np.cumsum(weights))[np.minimum(n_held, len(weights))]
    known = n_held > 0
    return float(np.mean(np.minimum((hits @ weights)[known] / ideal[known], 1.0)))


def catalog_coverage_score(lists, catalog):
    """Return the share of a catalog that appears in at least one list."""
    return len(np.unique(lists)) / len(catalog)


def rating_ndcg_score(y, predicted, users, k=10):
    """Return the mean over users of NDCG@k of their rated rows.

    Tied rows share the mean of their gains; users without a gain are left out.
    """
    codes = np.unique(users, return_inverse=True)[1].ravel()
    gains = np.maximum(np.asarray(y, dtype=float), 0.0)
    found = _ranked_sums(gains, np.asarray(predicted, dtype=float), codes, k)
    best = _ranked_sums(gains, gains, codes, k)
    return float(np.mean(np.minimum(found[best > 0] / best[best > 0], 1.0)))


def _ranked_sums(gains, scores, codes, k):
    """Sum discount times gain over the leading ranks of each user."""
    order = np.lexsort((-scores, codes))
    gains, scores, codes = gains[order], scores[order], codes[order]
    counts = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    weight = np.where(rank < k, 1.0 / np.log2(2.0 + rank), 0.0)
    starts_tie = (rank == 0) | (np.diff(scores, prepend=np.nan) != 0)
    starts = np.flatnonzero(starts_tie)
    mean_gain = np.add.reduceat(gains, starts) / np.diff(starts, append=len(codes))
    return np.bincount(codes[starts], mean_gain * np.add.reduceat(weight, starts))
