"""Rankings within users, against one call of scikit-learn a user."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV

from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSplit

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=inf")


def table(seed=0, n_rows=600, n_users=60, n_levels=None):
    """Ratings, scores (with ties if there are few levels) and users of unequal size."""
    rng = np.random.default_rng(seed)
    users = rng.permutation((n_users * rng.random(n_rows) ** 2).astype(int))
    scores = rng.standard_normal(n_rows)
    if n_levels is not None:
        scores = rng.integers(n_levels, size=n_rows).astype(float)
    return rng.integers(1, 6, size=n_rows), scores, users


def loop_ndcg(y_true, y_score, users, k):
    """scikit-learn's score of each user; it refuses users of one row, who have 1."""
    values = []
    for user in np.unique(users):
        mine = users == user
        if not y_true[mine].any():
            continue
        if mine.sum() == 1:
            values.append(1.0)
        else:
            values.append(ndcg_score([y_true[mine]], [y_score[mine]], k=k))
    return np.mean(values)


def loop_recall(y_true, y_score, users, k, relevant):
    """Definition, for scores without ties."""
    values = []
    for user in np.unique(users):
        mine = np.flatnonzero(users == user)
        top = mine[np.argsort(-y_score[mine])][:k]
        if (y_true[mine] >= relevant).any():
            wanted = (y_true[mine] >= relevant).sum()
            values.append((y_true[top] >= relevant).sum() / wanted)
    return np.mean(values)


def all_orders_recall(y_true, y_score, k, relevant):
    """One user: the mean over every order of the rows that the scores allow."""
    values = [
        (y_true[list(order[:k])] >= relevant).sum() / (y_true >= relevant).sum()
        for order in itertools.permutations(range(len(y_true)))
        if (np.diff(y_score[list(order)]) <= 0).all()
    ]
    return np.mean(values)


# --- against loops


class Given(BaseEstimator):
    """Scores that were given beforehand, row by row."""

    def __init__(self, scores):
        self.scores = scores

    def predict(self, X):
        """Return the scores."""
        return np.asarray(self.scores, dtype=float)


def score(name, y_true, y_score, users, **parameters):
    """Return the exact score of a private scorer."""
    scorer = make_private_scorer(name, None, user_feature=0, **parameters)
    return scorer(Given(y_score), np.asarray(users)[:, np.newaxis], np.asarray(y_true))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("k", [1, 2, 5, 10, 1000, None])
@pytest.mark.parametrize("n_levels", [None, 1, 2, 4])
def test_ndcg_equals_scikit_learn_a_user(k, n_levels):
    y_true, y_score, users = table(seed=1, n_levels=n_levels)
    assert np.bincount(users).min() == 1  # lonely rows are among them
    expected = loop_ndcg(y_true, y_score, users, k)
    found = score("ndcg", y_true, y_score, users, k=k)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("k", [1, 3, 10, None])
@pytest.mark.parametrize("relevant", [2, 4, 4.5, 5])
def test_recall_equals_its_definition(k, relevant):
    y_true, y_score, users = table(seed=3)
    expected = loop_recall(y_true, y_score, users, k, relevant)
    found = score("recall", y_true, y_score, users, k=k, relevant=relevant)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("scores", [[0] * 6, [1, 1, 0, 0, 0, 0], [2, 1, 1, 1, 1, 0]])
def test_recall_is_the_mean_over_the_orders_of_ties(scores, k):
    y_true = np.array([5, 1, 4, 2, 3, 4])
    expected = all_orders_recall(y_true, np.array(scores), k, relevant=4)
    found = score("recall", y_true, scores, np.zeros(6, int), k=k)
    assert found == pytest.approx(expected, abs=1e-9)


def test_users_without_a_relevant_row_are_left_out():
    y_true, y_score = [5, 1, 3, 3, 0, 0], [1, 2, 2, 1, 1, 2]
    users = [0, 0, 1, 1, 2, 2]
    assert score("recall", y_true, y_score, users, k=1) == 0.0  # only 0 has one
    expected = np.mean([(1 + 5 / np.log2(3)) / (5 + 1 / np.log2(3)), 1.0])
    found = score("ndcg", y_true, y_score, users)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("relevant", ["4", None, np.nan, True])
def test_recall_refuses_what_is_no_rating(relevant):
    with pytest.raises(ValueError, match="relevant must be a"):
        make_private_scorer("recall", None, user_feature=0, relevant=relevant)


# --- in searches


class Unordered(RegressorMixin, BaseEstimator):
    """Predict the item, or nothing."""

    def __init__(self, weight=1.0):
        self.weight = weight

    def fit(self, X, y):
        """Learn nothing."""
        return self

    def predict(self, X):
        """Return the weight times the item."""
        items = X["item_id"] if hasattr(X, "columns") else X[:, 1]
        return self.weight * np.asarray(items, dtype=float)


def ratings_table():
    """A table of ratings to which the items' means give a ranking."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(40, size=(2, 1500))
    y = np.clip(np.rint(1 + items / 10 + rng.standard_normal(1500)), 1, 5)
    return np.column_stack([users, items]), y


def test_an_exact_scorer_reads_users_from_any_table():
    X, y = ratings_table()
    model, columns = Unordered(), ["user_id", "item_id"]
    expected = loop_ndcg(y, model.predict(X), X[:, 0], 3)
    frames = (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns))
    for feature, tables in ((0, (X, *frames)), ("user_id", frames)):
        scorer = make_private_scorer("ndcg", None, user_feature=feature, k=3)
        for rows in tables:
            assert scorer(model, rows, y) == pytest.approx(expected, abs=1e-9)


def test_searches_rank_known_users():
    X, y = ratings_table()
    scorer = make_private_scorer("ndcg", None, user_feature=0, k=3)
    folds = PrivateSplit(5, user_feature=0, whole_users=False, random_state=0)
    search = GridSearchCV(Unordered(), {"weight": [0.0, 1.0]}, scoring=scorer, cv=folds)
    assert search.fit(X, y).best_params_ == {"weight": 1.0}
    first, second = search.cv_results_["mean_test_score"]
    assert second > first + 0.05
