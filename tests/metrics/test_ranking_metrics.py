"""Rankings within users, against one call of scikit-learn a user."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV

from skdpspectral.metrics import (
    make_private_scorer,
    user_ndcg_score,
    user_recall_score,
)
from skdpspectral.model_selection import PerUserKFold


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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("k", [1, 2, 5, 10, 1000, None])
@pytest.mark.parametrize("n_levels", [None, 1, 2, 4])
def test_ndcg_equals_scikit_learn_a_user(k, n_levels):
    y_true, y_score, users = table(seed=1, n_levels=n_levels)
    assert np.bincount(users).min() == 1  # lonely rows are among them
    expected = loop_ndcg(y_true, y_score, users, k)
    found = user_ndcg_score(y_true, y_score, users, k=k)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("transform", [lambda y: 2.0**y - 1, lambda y: y >= 4])
def test_ndcg_of_other_gains(transform):
    y_true, y_score, users = table(seed=2, n_users=150, n_levels=5)
    gains = transform(y_true).astype(float)
    found = user_ndcg_score(gains, y_score, users, k=3)
    assert found == pytest.approx(loop_ndcg(gains, y_score, users, 3), rel=1e-12)
    assert found != pytest.approx(user_ndcg_score(y_true, y_score, users, k=3), 1e-3)


@pytest.mark.parametrize("k", [1, 3, 10, None])
@pytest.mark.parametrize("relevant", [2, 4, 4.5, 5])
def test_recall_equals_its_definition(k, relevant):
    y_true, y_score, users = table(seed=3)
    expected = loop_recall(y_true, y_score, users, k, relevant)
    found = user_recall_score(y_true, y_score, users, k=k, relevant=relevant)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("scores", [[0] * 6, [1, 1, 0, 0, 0, 0], [2, 1, 1, 1, 1, 0]])
def test_recall_is_the_mean_over_the_orders_of_ties(scores, k):
    y_true = np.array([5, 1, 4, 2, 3, 4])
    expected = all_orders_recall(y_true, np.array(scores), k, relevant=4)
    found = user_recall_score(y_true, scores, ["ann"] * 6, k=k)
    assert found == pytest.approx(expected, rel=1e-12)


# --- properties


def test_best_and_worst_rankings():
    y_true, _, users = table(seed=4)
    assert user_ndcg_score(y_true, y_true, users) == 1.0
    assert user_recall_score(y_true, y_true, users, k=None) == 1.0
    worst = user_ndcg_score(y_true, -y_true, users, k=1)
    random = user_ndcg_score(y_true, np.zeros(len(users)), users, k=1)
    assert worst < random < 1.0
    assert user_recall_score(y_true, y_true, users, k=1) < 1.0  # several are relevant


def test_order_of_rows_names_of_users_and_offsets_of_scores_do_not_matter():
    y_true, y_score, users = table(seed=5, n_levels=3)
    order = np.random.default_rng(6).permutation(len(users))
    offset = np.random.default_rng(7).integers(-5, 5, size=users.max() + 1)[users]
    named = [f"user {user}" for user in users]
    for score in (user_ndcg_score, user_recall_score):
        expected = score(y_true, y_score, users, k=3)
        shuffled = score(y_true[order], y_score[order], users[order], k=3)
        assert shuffled == pytest.approx(expected, rel=1e-12)
        assert score(y_true, y_score, named, k=3) == expected
        assert score(y_true, y_score + offset, users, k=3) == expected


@pytest.mark.parametrize(
    "convert",
    [
        list,
        pd.Series,
        pl.Series,
        lambda values: pd.Series(values, index=np.arange(len(values))[::-1]),
        lambda values: np.asarray(values)[:, np.newaxis],
    ],
)
def test_kinds_of_columns(convert):
    y_true, y_score, users = table(seed=8)
    expected = user_ndcg_score(y_true, y_score, users)
    found = user_ndcg_score(convert(y_true), convert(y_score), users)
    assert found == expected


def test_users_of_any_hashable_kind():
    y_true, y_score, users = table(seed=8)
    expected = user_recall_score(y_true, y_score, users, k=2)
    for kind in (
        users.astype(float),
        users.astype(str).tolist(),
        pd.Series(users).astype(str).astype("category"),
        pd.Series(users, dtype="Int64"),
        pl.Series(users).cast(pl.String),
    ):
        assert user_recall_score(y_true, y_score, kind, k=2) == expected


def test_one_is_one_user_and_no_text():
    with pytest.raises(ValueError, match="users must contain ids of one kind"):
        user_recall_score([5, 5], [1, 2], [1, "1"], k=1)
    assert user_recall_score([5, 5], [1, 2], [1, 1.0], k=1) == 0.5


def test_users_without_a_relevant_row_are_left_out():
    y_true, y_score = [5, 1, 3, 3, 0, 0], [1, 2, 2, 1, 1, 2]
    users = ["a", "a", "b", "b", "c", "c"]
    assert user_recall_score(y_true, y_score, users, k=1) == 0.0  # only a has one
    expected = np.mean([(1 + 5 / np.log2(3)) / (5 + 1 / np.log2(3)), 1.0])
    assert user_ndcg_score(y_true, y_score, users) == pytest.approx(expected)


def test_no_user_at_all_is_undefined():
    with pytest.warns(UndefinedMetricWarning, match="no row is relevant") as record:
        assert np.isnan(user_recall_score([1, 2], [1, 2], [1, 2]))
    assert record[0].filename == __file__
    with pytest.warns(UndefinedMetricWarning, match="all gains are 0"):
        assert np.isnan(user_ndcg_score([0, 0], [1, 2], [1, 2]))


# --- errors


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y_true": [5, np.nan, 1]}, "y_true contains NaN"),
        ({"y_score": [5, np.inf, 1]}, "y_score contains infinity"),
        ({"y_true": [-1, 2, 3]}, "y_true must not be negative"),
        ({"y_true": ["secret", 2, 3]}, "y_true must contain one number per row"),
        ({"y_score": np.zeros((3, 2))}, "y_score must contain one number per row"),
        ({"y_true": [1, 2]}, r"one entry per row.*\[2, 3, 3\]"),
        ({"users": [1, 2]}, r"one entry per row.*\[3, 3, 2\]"),
        ({"y_true": [], "y_score": [], "users": []}, "at least one"),
        ({"users": [1, None, 2]}, "users must not contain missing"),
        ({"users": pd.Series([1, None, 2], dtype="Int64")}, "users must not contain"),
        ({"users": pl.Series(["a", None, "b"])}, "users must not contain missing"),
        ({"users": np.zeros((3, 2))}, "users must be a list or 1D array"),
        ({"k": 0}, "k must be a positive integer"),
        ({"k": 2.5}, "k must be a positive integer"),
        ({"k": True}, "k must be a positive integer"),
    ],
)
def test_errors_name_the_argument(change, says):
    arguments = {"y_true": [5, 3, 1], "y_score": [1, 2, 3], "users": [1, 1, 2]}
    with pytest.raises(ValueError, match=says) as caught:
        user_ndcg_score(**{**arguments, **change})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("relevant", ["4", None, np.nan, True])
def test_recall_refuses_what_is_no_rating(relevant):
    with pytest.raises(ValueError, match="relevant must be a"):
        user_recall_score([5, 3], [1, 2], [1, 1], relevant=relevant)


# --- the scorer


def ratings_table():
    """A table of ratings to which the items' means give a ranking."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(40, size=(2, 1500))
    y = np.clip(np.rint(1 + items / 10 + rng.standard_normal(1500)), 1, 5)
    return np.column_stack([users, items]), y


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


@pytest.mark.filterwarnings("ignore:epsilon=inf")
def test_an_exact_scorer_reads_users_from_any_table():
    X, y = ratings_table()
    model, columns = Unordered(), ["user_id", "item_id"]
    frames = (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns))
    for score in (user_ndcg_score, user_recall_score):
        expected = score(y, model.predict(X), X[:, 0], k=3)
        name = score.__name__.split("_")[1]
        for feature, tables in ((0, (X, *frames)), ("user_id", frames)):
            scorer = make_private_scorer(name, None, user_feature=feature, k=3)
            for table in tables:
                assert scorer(model, table, y) == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore:epsilon=inf")
def test_searches_rank_known_users():
    X, y = ratings_table()
    scorer = make_private_scorer("ndcg", None, user_feature=0, k=3)
    folds = PerUserKFold(5, user_feature=0)
    search = GridSearchCV(Unordered(), {"weight": [0.0, 1.0]}, scoring=scorer, cv=folds)
    assert search.fit(X, y).best_params_ == {"weight": 1.0}
    first, second = search.cv_results_["mean_test_score"]
    assert second > first + 0.05
