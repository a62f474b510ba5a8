"""Composition, splitting, parallel blocks and conversion of relations."""

import itertools
import math

import numpy as np
import pytest

from skdpspectral.accounting import (
    gaussian_epsilon,
    gaussian_mu,
    relation_factor,
    split_mu,
)
from skdpspectral.mechanisms import Neighbors, Unit


def test_composition_is_exact_against_loss_distributions():
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    mus = [0.3, 0.5, 0.2, 0.7]
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    for mu in mus:
        accountant.compose(dp_accounting.GaussianDpEvent(1.0 / mu))
    ours = gaussian_epsilon(math.hypot(*mus), 1e-6)
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def test_two_fits_of_the_same_rows():
    mu = gaussian_mu(1.0, 1e-6)
    assert gaussian_epsilon(math.hypot(mu, mu), 1e-6) == pytest.approx(1.4547, abs=1e-4)


@pytest.mark.parametrize("shares", [(1.0,), (0.15, 0.85), (0.4, 0.57, 0.018, 0.012)])
def test_split_composes_to_the_whole(shares):
    assert math.hypot(*split_mu(0.7, shares)) == pytest.approx(0.7, rel=1e-14)


@pytest.mark.parametrize("shares", [(0.5, 0.6), (0.0, 1.0), (-0.5, 1.5), (0.5,)])
def test_split_refuses_shares_that_are_none(shares):
    with pytest.raises(ValueError, match="shares"):
        split_mu(1.0, shares)


# Databases over two users with rows in {0, 1}: small enough to enumerate.
_VALUES = (0, 1)
_ROWS = [()] + [rows for k in (1, 2) for rows in itertools.product(_VALUES, repeat=k)]


def _databases():
    return list(itertools.product(_ROWS, repeat=2))


def _differ_in_one_user(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True)) == 1


def _row_moves(a, b):
    """Whether a row of one user is replaced by a row of another."""
    grown = [len(y) - len(x) for x, y in zip(a, b, strict=True)]
    if sorted(grown) != [-1, 1]:
        return False
    pairs = (sorted(both, key=len) for both in zip(a, b, strict=True))
    return all(
        any(long[:i] + long[i + 1 :] == short for i in range(len(long)))
        for short, long in pairs
    )


def _are_neighbors(a, b, unit, neighbors):
    """Whether two databases (tuples of users, each a tuple of rows) are neighbors."""
    if (unit, neighbors) == (Unit.ROW, Neighbors.REPLACE_ONE) and _row_moves(a, b):
        return True
    if not _differ_in_one_user(a, b):
        return False
    ours, theirs = next((x, y) for x, y in zip(a, b, strict=True) if x != y)
    if unit is Unit.USER:
        if neighbors is Neighbors.ADD_REMOVE_ONE:
            return ours == () or theirs == ()
        return ours != () and theirs != ()
    if neighbors is Neighbors.REPLACE_ONE:
        same = len(ours) == len(theirs)
        return same and sum(x != y for x, y in zip(ours, theirs, strict=True)) == 1
    short, long = sorted((ours, theirs), key=len)
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def _distance(a, b, unit, neighbors):
    """Length of the shortest chain of neighbors between two databases."""
    seen, frontier = {a}, {a}
    for steps in range(1, 5):
        frontier = {
            d
            for d in _databases()
            if d not in seen
            and any(_are_neighbors(f, d, unit, neighbors) for f in frontier)
        }
        if b in frontier:
            return steps
        seen |= frontier
    return None


_KINDS = [
    (unit, neighbors)
    for unit in Unit
    for neighbors in (Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE)
]


@pytest.mark.parametrize("source", _KINDS)
@pytest.mark.parametrize("target", _KINDS)
def test_conversion_bounds_every_chain(source, target):
    """A factor is at least the longest shortest chain over all target neighbors."""
    factor = relation_factor(*source, *target)
    if factor is None:
        return
    pairs = [
        (a, b)
        for a in _databases()
        for b in _databases()
        if _are_neighbors(a, b, *target)
    ]
    if source == (Unit.USER, Neighbors.REPLACE_ONE):  # who the users are is public
        pairs = [(a, b) for a, b in pairs if [*map(bool, a)] == [*map(bool, b)]]
    assert pairs
    longest = max(_distance(a, b, *source) or math.inf for a, b in pairs)
    assert longest <= factor


def test_a_row_that_changes_its_user_moves_two_users():
    """The sum of projectors on users' correlations, which `LRSRegressor` releases.

    One user who joins or leaves moves it by 1, and the row moves it by 2.83.
    """
    rows = [*itertools.product((0, 1), np.eye(2), (1e-3, 1.0))]  # user, axis, length

    def total(table):
        found = np.zeros((2, 2))
        for user in (0, 1):
            s = sum((n * axis for own, axis, n in table if own == user), np.zeros(2))
            found += np.outer(s, s) / max(s @ s, 1e-30)
        return found

    tables = itertools.product(rows, repeat=3)
    moved = max(
        float(np.linalg.norm(total(table) - total([new, *table[1:]])))
        for table in tables
        for new in rows
    )
    relations = (Unit.USER, Neighbors.ADD_REMOVE_ONE, Unit.ROW, Neighbors.REPLACE_ONE)
    assert 2.8 < moved < 2.83 < relation_factor(*relations)


def test_conversion_table():
    user, row = Unit.USER, Unit.ROW
    replace, add = Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE
    zero = Neighbors.ZERO_OUT_ONE
    assert relation_factor(user, add, user, replace) == 2.0
    assert relation_factor(user, add, row, replace) == 4.0
    assert relation_factor(user, replace, row, replace) == 2.0
    assert relation_factor(row, zero, row, replace) == 2.0
    for unit, neighbors in itertools.product(Unit, Neighbors):
        assert relation_factor(unit, neighbors, unit, neighbors) == 1.0
    # What would claim more than was proved is refused.
    for neighbors, other in itertools.product(Neighbors, Neighbors):
        assert relation_factor(row, neighbors, user, other) is None
    assert relation_factor(row, replace, row, add) is None
    assert relation_factor(row, replace, row, zero) is None
    assert relation_factor(user, replace, user, add) is None
