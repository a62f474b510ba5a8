"""Neighbors whose users are replaced under other ids, and coins that are coupled.

Matched users of two tables get the same place and the same coins, as in the proof of
:ref:`lemma-one-row-of-each`: the law of each fit is what it is without the coupling.
"""

import contextlib
from unittest.mock import patch

import numpy as np

from skdpspectral._release import noise
from skdpspectral._tables import columns as ids

_order, _shares = noise.Coins.secret_order, noise.Coins.shares
_begin, _rows = ids.UserDraw.__init__, ids.UserDraw.rows


def replaced(X, y, users, user, stranger, rows, targets, at="spread", seed=0):
    """Return a table in which a user has another id, other rows and other places."""
    rng = np.random.default_rng(seed)
    keep = users != user
    X, users = X[keep], users[keep]
    y = None if y is None else y[keep]
    m = len(rows)
    where = {"front": np.zeros(m, int), "end": np.full(m, len(users))}.get(at)
    where = np.sort(rng.integers(0, len(users) + 1, m)) if where is None else where
    if y is not None:
        y = np.insert(y, where, targets)
    return np.insert(X, where, rows, axis=0), y, np.insert(users, where, stranger)


@contextlib.contextmanager
def coupled(same):
    """Give matched users the same place and coins; ``same(id)`` is who one is."""
    at_hand = []

    def begin(draw, users, coins):
        at_hand.append(_numbers(users, same))
        _begin(draw, users, coins)

    def rows(draw, places=slice(None)):
        at_hand.append(_numbers(draw._users, same)[draw._order[places]])
        return _rows(draw, places)

    def order(coins, n_users):
        at_places, numbers = _order(coins, n_users), at_hand[-1]
        return np.argsort(numbers)[at_places]

    def shares(coins, n_users):
        # As many for all users, of whom any may be asked.
        return coins._coins.random(1 << 10)[at_hand[-1]]

    with (
        patch.object(ids.UserDraw, "__init__", begin),
        patch.object(ids.UserDraw, "rows", rows),
        patch.object(noise.Coins, "secret_order", order),
        patch.object(noise.Coins, "shares", shares),
    ):
        yield


def _numbers(users, same):
    """Return the number of each user, by code, whatever the ids are."""
    known = [same(one) for one in users.ids[ids.codes_and_rows(users.ids)[1]].tolist()]
    return np.argsort(np.argsort(np.array(known, dtype=object).astype(str)))
