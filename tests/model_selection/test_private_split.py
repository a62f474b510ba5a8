"""Folds under which guarantees hold, and those that break them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from skdpspectral.model_selection import PerUserKFold, PrivateSplit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
LABELS = RNG.integers(0, 3, 120)
USERS = pd.DataFrame({"user_id": RNG.integers(0, 25, 120), "item_id": np.arange(120)})


def moved_by_a_label(cv):
    """Rows, but the changed one, that change sides in the first split."""
    other = LABELS.copy()
    other[3] = (other[3] + 1) % 3
    sides = []
    for y in (LABELS, other):
        groups = y if isinstance(cv, GroupKFold) else None
        train = set(next(iter(cv.split(X, y, groups)))[0])
        sides.append(train - {3})
    return len(sides[0] ^ sides[1])


def moved_by_a_user(cv, table=USERS):
    """Rows of others that change sides when a user leaves."""
    leaver = table["user_id"].iloc[0]
    rest = table[table["user_id"] != leaver]
    sides = []
    for rows in (table, rest):
        train = next(iter(cv.split(rows)))[0]
        sides.append(set(rows.iloc[train].query("user_id != @leaver")["item_id"]))
    return len(sides[0] ^ sides[1])


SOUND = [
    PrivateSplit(1, random_state=0),
    PrivateSplit(4, random_state=1),
    KFold(4, shuffle=True, random_state=0),
    ShuffleSplit(2, random_state=0),
    RepeatedKFold(random_state=0),
    TimeSeriesSplit(3),
]
UNSOUND = [
    StratifiedKFold(4),
    StratifiedShuffleSplit(2, random_state=0),
    GroupKFold(3),
]


@pytest.mark.parametrize("cv", SOUND, ids=str)
def test_folds_by_position_are_not_moved_by_a_label(cv):
    assert moved_by_a_label(cv) == 0


@pytest.mark.parametrize("cv", UNSOUND, ids=str)
def test_folds_by_labels_are_moved_by_one(cv):
    assert moved_by_a_label(cv) > 0


@pytest.mark.parametrize("n_splits", [1, 2, 5])
def test_folds_of_users_are_not_moved_by_others(n_splits):
    cv = PrivateSplit(n_splits, user_feature="user_id", random_state=0)
    assert moved_by_a_user(cv) == 0


@pytest.mark.parametrize(
    "cv", [KFold(4), PerUserKFold(4, user_feature="user_id"), PrivateSplit(4)], ids=str
)
def test_other_folds_are_moved_by_a_user_who_leaves(cv):
    cv.random_state = 0 if isinstance(cv, PrivateSplit) else None
    assert moved_by_a_user(cv) > 0


def test_every_row_is_held_out_once_and_parts_have_their_sizes():
    folds = list(PrivateSplit(7, random_state=0).split(X))
    held = np.concatenate([test for _, test in folds])
    assert sorted(held) == list(range(120))
    assert {len(test) for _, test in folds} <= {17, 18}
    ((train, test),) = PrivateSplit(1).split(X)
    assert (len(train), len(test)) == (90, 30)
    assert not set(train) & set(test)


@pytest.mark.parametrize("ids", ["numbers", "strings", "floats"])
def test_rows_of_each_user_are_spread(ids):
    users = USERS["user_id"]
    table = USERS.assign(
        user_id={
            "numbers": users,
            "strings": "u" + users.astype(str),
            "floats": users.astype(float),
        }[ids]
    )
    folds = np.empty(120, dtype=int)
    cv = PrivateSplit(3, user_feature="user_id", random_state=0)
    for number, (_, test) in enumerate(cv.split(table)):
        folds[test] = number
    for _, own in pd.Series(folds).groupby(users):
        counts = np.bincount(own, minlength=3)
        assert np.ptp(counts) <= 1
    # Whoever has one row is in any of the folds.
    single = pd.DataFrame({"user_id": np.arange(3000)})
    sizes = [len(test) for _, test in cv.split(single)]
    assert np.abs(np.array(sizes) - 1000).max() < 4.5 * np.sqrt(3000 * 2 / 9)
    ((_, test),) = PrivateSplit(1, user_feature="user_id", random_state=0).split(single)
    assert abs(len(test) - 750) < 4.5 * np.sqrt(3000 * 3 / 16)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_splits": 0},
        {"n_splits": 2.0},
        {"n_splits": True},
        {"n_splits": "5"},
        {"user_feature": 1.0},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_bad_splits_are_refused(arguments):
    with pytest.raises((TypeError, ValueError)):
        PrivateSplit(**arguments)


def test_tables_without_enough_rows_or_users_are_refused():
    with pytest.raises(ValueError, match="n_samples=3"):
        list(PrivateSplit(5).split(X[:3]))
    with pytest.raises(ValueError, match="user_feature"):
        list(PrivateSplit(2, user_feature="who").split(USERS))
