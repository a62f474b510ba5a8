"""Folds under which guarantees hold, and those that break them."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
)

from skdpspectral import PrivacyLeakWarning
from skdpspectral.model_selection import PrivateSplit

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
UNSOUND = [StratifiedKFold(4), StratifiedShuffleSplit(2, random_state=0), GroupKFold(3)]


@pytest.mark.parametrize("cv", SOUND, ids=str)
def test_folds_by_position_are_not_moved_by_a_label(cv):
    assert moved_by_a_label(cv) == 0


@pytest.mark.parametrize("cv", UNSOUND, ids=str)
def test_folds_by_labels_are_moved_by_one(cv):
    assert moved_by_a_label(cv) > 0


@pytest.mark.parametrize("n_splits", [1, 2, 5])
def test_folds_of_users_are_not_moved_by_others(n_splits):
    cv = PrivateSplit(
        n_splits, user_feature="user_id", whole_users=False, random_state=0
    )
    assert moved_by_a_user(cv) == 0


@pytest.mark.parametrize("cv", [KFold(4), PrivateSplit(4, random_state=0)], ids=str)
def test_other_folds_are_moved_by_a_user_who_leaves(cv):
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
    cv = PrivateSplit(3, user_feature="user_id", whole_users=False, random_state=0)
    for number, (_, test) in enumerate(cv.split(table)):
        folds[test] = number
    for _, own in pd.Series(folds).groupby(users):
        counts = np.bincount(own, minlength=3)
        assert np.ptp(counts) <= 1
    # Whoever has one row is in any of the folds.
    single = pd.DataFrame({"user_id": np.arange(3000)})
    sizes = [len(test) for _, test in cv.split(single)]
    assert np.abs(np.array(sizes) - 1000).max() < 4.5 * np.sqrt(3000 * 2 / 9)
    ((_, test),) = PrivateSplit(
        1, user_feature="user_id", whole_users=False, random_state=0
    ).split(single)
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
        list(PrivateSplit(2, user_feature="who", whole_users=False).split(USERS))


class UserMean(RegressorMixin, BaseEstimator):
    """Predict the mean of the user in column 0, who must be known."""

    def __init__(self, offset=0.0):
        self.offset = offset

    def fit(self, X, y):
        users = np.asarray(X)[:, 0]
        self.means_ = {u: np.mean(y[users == u]) for u in np.unique(users)}
        return self

    def predict(self, X):
        return self.offset + np.array([self.means_[u] for u in np.asarray(X)[:, 0]])


@pytest.mark.parametrize("routing", [False, True])
def test_groups_are_handed_on_without_being_requested(routing):
    rows = USERS[USERS["user_id"].duplicated(keep=False)].to_numpy()
    y = rows[:, 0] + np.random.default_rng(1).normal(size=len(rows)) / 10.0
    by_column = PrivateSplit(5, user_feature=0, whole_users=False, random_state=0)
    scores = cross_val_score(UserMean(), rows, y, cv=by_column, error_score="raise")
    groups = {"params": {"groups": rows[:, 0]}} if routing else {"groups": rows[:, 0]}
    with sklearn.config_context(enable_metadata_routing=routing):
        cv = PrivateSplit(5, whole_users=False, random_state=0)
        found = cross_val_score(UserMean(), rows, y, cv=cv, **groups)
        np.testing.assert_array_equal(found, scores)
        search = GridSearchCV(UserMean(), {"offset": [0.0, 9.0]}, cv=cv)
        search.fit(rows, y, groups=rows[:, 0])
    assert search.best_params_ == {"offset": 0.0}


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([1, 2], "inconsistent numbers of samples"),
        ([1] * 5 + [None], "groups must not contain missing ids"),
    ],
)
def test_bad_groups(groups, says):
    with pytest.raises(ValueError, match=says):
        next(PrivateSplit(2, whole_users=True).split(np.zeros((6, 1)), groups=groups))


@pytest.mark.parametrize(
    ("arguments", "groups"),
    [
        ({"user_feature": "user_id"}, None),
        ({}, USERS["user_id"]),
        ({"user_feature": 0, "whole_users": 1}, None),
        ({"user_feature": 0, "whole_users": "yes"}, None),
        ({"whole_users": False}, None),
        ({"whole_users": True}, None),
    ],
)
def test_folds_of_users_say_whether_users_are_whole(arguments, groups):
    """No default is right for models of users, and for one row of each user."""
    with pytest.raises(ValueError, match="whole_users must be True or False with"):
        next(PrivateSplit(2, **arguments).split(USERS, groups=groups))


def test_whole_users_are_in_folds_of_equal_numbers():
    how = {"user_feature": "user_id", "whole_users": True}
    tests = [test for _, test in PrivateSplit(5, **how).split(USERS)]
    users = [set(USERS["user_id"].iloc[test]) for test in tests]
    assert [len(own) for own in users] == [5] * 5
    assert len(set.union(*users)) == 25
    ((_, test),) = PrivateSplit(1, **how).split(USERS)
    assert USERS["user_id"].iloc[test].nunique() == 6
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        list(PrivateSplit(2, random_state=0, **how).split(USERS))
    with pytest.raises(ValueError, match="26 rows or more, or as many users"):
        list(PrivateSplit(26, **how).split(USERS))


def test_group_k_fold_goes_by_the_rows_of_others():
    """One user's rows decide on the folds of most others: no guarantee holds."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(200), rng.integers(1, 20, 200)))
    sides = []
    for users in (groups, np.append(groups, np.full(30, groups[0]))):
        train, _ = next(GroupKFold(5).split(users[:, None], groups=users))
        sides.append(set(users[train]))
    assert len((sides[0] ^ sides[1]) - {groups[0]}) > 20
