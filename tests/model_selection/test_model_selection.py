"""PerUserKFold: every user everywhere, balanced folds, any ids, any table."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, cross_val_score

from skdpspectral.model_selection import PerUserKFold


def long_tailed_users(seed=0, n_rows=500, n_users=80):
    """Users of one to many rows, in random order."""
    rng = np.random.default_rng(seed)
    return (n_users * rng.random(n_rows) ** 3).astype(int)


def folds_of(cv, groups=None, X=None):
    """The test fold of each row, after a check that there is one."""
    X = np.zeros((len(groups), 1)) if X is None else X
    n_rows = X.shape[0] if sparse.issparse(X) else len(X)
    folds = np.full(n_rows, -1)
    for fold, (train, test) in enumerate(cv.split(X, groups=groups)):
        assert (folds[test] == -1).all()
        folds[test] = fold
        assert (np.diff(test) > 0).all()
        assert (np.diff(train) > 0).all()
        rows = np.sort(np.concatenate([train, test]))
        np.testing.assert_array_equal(rows, np.arange(n_rows))
    assert (folds >= 0).all()
    return folds


OPTIONS = [{}, {"shuffle": True, "random_state": 0}, {"shuffle": True}]


# --- the folds


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("n_splits", [2, 3, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_each_user_and_the_whole_are_spread_evenly(n_splits, options, seed):
    users = long_tailed_users(seed)
    folds = folds_of(PerUserKFold(n_splits, **options), users)
    table = np.zeros((users.max() + 1, n_splits), dtype=int)
    np.add.at(table, (users, folds), 1)
    assert np.ptp(table, axis=1).max() == 1
    assert np.ptp(table.sum(axis=0)) <= 1


def test_rows_are_dealt_in_turn():
    users = np.array([7, 3, 7, 7, 3, 5, 7])
    # 7 comes first and gets folds 0, 1, 2, 0; 3 goes on with 1, 2; 5 has 0.
    assert folds_of(PerUserKFold(3), users).tolist() == [0, 1, 1, 2, 2, 0, 0]


# --- determinism and shuffling


def test_shuffling_is_repeatable_with_a_seed():
    users = long_tailed_users()
    cv = PerUserKFold(5, shuffle=True, random_state=0)
    expected = folds_of(cv, users)
    np.testing.assert_array_equal(folds_of(cv, users), expected)
    other = PerUserKFold(5, shuffle=True, random_state=1)
    assert (folds_of(other, users) != expected).mean() > 0.5
    assert (folds_of(PerUserKFold(5), users) != expected).mean() > 0.5
    generator = np.random.RandomState(0)
    moving = PerUserKFold(5, shuffle=True, random_state=generator)
    assert (folds_of(moving, users) != folds_of(moving, users)).any()


# --- ids and tables


def test_users_from_a_column():
    users = long_tailed_users()
    expected = folds_of(PerUserKFold(5), users)
    array = np.column_stack([np.arange(len(users)), users])
    frame = pd.DataFrame(array, columns=["item_id", "user_id"])
    for table, feature in ((array, 1), (array, -1), (frame, 1), (frame, "user_id")):
        folds = folds_of(PerUserKFold(5, user_feature=feature), X=table)
        np.testing.assert_array_equal(folds, expected)


# --- in scikit-learn


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


@pytest.fixture
def table():
    users = long_tailed_users()
    users = users[np.bincount(users)[users] >= 2]
    y = users + np.random.default_rng(1).standard_normal(len(users))
    return np.column_stack([users, np.zeros(len(users))]), y


@pytest.mark.parametrize("routing", [False, True])
def test_groups_are_handed_on_without_being_requested(table, routing):
    X, y = table
    expected = cross_val_score(
        UserMean(), X, y, cv=PerUserKFold(5, user_feature=0), error_score="raise"
    )
    assert expected.min() > 0.99
    groups = {"params": {"groups": X[:, 0]}} if routing else {"groups": X[:, 0]}
    with sklearn.config_context(enable_metadata_routing=routing):
        cv = PerUserKFold(5)
        scores = cross_val_score(UserMean(), X, y, cv=cv, **groups)
        np.testing.assert_array_equal(scores, expected)
        search = GridSearchCV(UserMean(), {"offset": [0.0, 9.0]}, cv=cv, n_jobs=2)
        search.fit(X, y, groups=X[:, 0])
        assert search.best_params_ == {"offset": 0.0}
        assert search.n_splits_ == 5
        request = cv.get_metadata_routing().split.requests
    assert request == {"groups": True}


# --- errors


@pytest.mark.parametrize("n_splits", [1, 0, -3, 2.0, "5", None, True])
def test_bad_numbers_of_splits(n_splits):
    with pytest.raises(ValueError, match="n_splits must be an integer of at least 2"):
        PerUserKFold(n_splits)


def test_bad_parameters():
    with pytest.raises(TypeError, match="shuffle must be True or False"):
        PerUserKFold(shuffle=1)
    with pytest.raises(ValueError, match="random_state has no effect without shuffle"):
        PerUserKFold(random_state=0)
    with pytest.raises(TypeError, match="user_feature must be the position"):
        next(PerUserKFold(user_feature=1.5).split(np.zeros((9, 2))))


@pytest.mark.parametrize(
    ("groups", "error", "says"),
    [
        (None, ValueError, "pass groups, or name a column of X by user_feature"),
        ([1, 2], ValueError, "inconsistent numbers of samples"),
        ([1] * 5 + [None], ValueError, "groups must not contain missing ids"),
    ],
)
def test_bad_groups(groups, error, says):
    with pytest.raises(error, match=says):
        next(PerUserKFold(2).split(np.zeros((6, 1)), groups=groups))


def test_more_folds_than_rows():
    with pytest.raises(
        ValueError, match="n_splits=5 requires at least as many rows, but there"
    ):
        next(PerUserKFold(5).split(np.zeros((4, 1)), groups=[1, 2, 3, 4]))
