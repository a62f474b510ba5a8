"""One row of each user: the laws of orders and rows, whatever ids are."""

import math

import numpy as np
import pytest
from scipy import stats

from skdpspectral import DPAdamRegressor, PrivacyLeakWarning
from skdpspectral._release.noise import Coins
from skdpspectral._tables.columns import UserDraw, UserRows

# Of a chi-squared test whose seed is fixed: a false alarm would be found at once.
LEVEL = 1e-6
IDS = np.array([7, 3, 7, 7, 5, 3, 9, 7])


def is_uniform(counts):
    return stats.chisquare(counts).pvalue > LEVEL


def test_the_order_is_uniform():
    coins = Coins(0)
    orders = [tuple(coins.secret_order(4)) for _ in range(24_000)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == math.factorial(4)
    assert is_uniform(counts)


def test_each_user_shows_one_of_its_rows_uniformly():
    """In any place, and independently of the others."""
    coins, users = Coins(1), UserRows(IDS)
    drawn = [UserDraw(users, coins).rows() for _ in range(8000)]
    assert all(sorted(IDS[rows]) == [3, 5, 7, 9] for rows in drawn[:50])
    table = np.array([rows[np.argsort(IDS[rows])] for rows in drawn])
    for column, user in enumerate((3, 5, 7, 9)):
        rows, counts = np.unique(table[:, column], return_counts=True)
        assert rows.tolist() == np.flatnonzero(user == IDS).tolist()
        assert len(counts) == 1 or is_uniform(counts)
    joint = np.unique(table, axis=0, return_counts=True)[1]
    assert len(joint) == 8
    assert is_uniform(joint)


def test_a_share_of_almost_one_is_the_last_row():
    """Products of a float below 1 and a large number may be rounded up."""
    users = UserRows(np.zeros(7, dtype=int))
    (row,) = users.rows(np.array([0]), np.array([1.0 - 2.0**-53]))
    assert row == 6


def test_a_network_sees_a_fresh_row_at_each_step(monkeypatch):
    """And no row of a user who is not in the batch."""
    seen = []
    rows = UserDraw.rows

    def noted(draw, places=slice(None)):
        found = rows(draw, places)
        seen.append((np.array(places), found, draw._order))
        return found

    monkeypatch.setattr(UserDraw, "rows", noted)
    users = np.repeat(np.arange(40), 25)
    X = np.random.default_rng(0).normal(size=(1000, 2))
    with pytest.warns(PrivacyLeakWarning):
        DPAdamRegressor(
            target_bounds=(-3, 3), batch_size=20, n_epochs=50, noise_seed=0
        ).fit(X, X[:, 0], users=users)
    assert len(seen) == 100
    for places, found, order in seen:
        np.testing.assert_array_equal(users[found], order[places])
    distinct = {row for _, found, _ in seen for row in found.tolist()}
    # About 50 draws of 25 rows each: 870 of 1000 on average.
    assert len(distinct) > 700
