"""Rankings within users, against one call of scikit-learn a user."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from skdpspectral.metrics import make_user_scorer, user_ndcg_score, user_recall_score
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


@pytest.mark.slow
@pytest.mark.dependencies
def test_many_users_take_no_loop():
    # A million rows of 200,000 users took 0.7 s when this was written.
    rng = np.random.default_rng(0)
    users = rng.integers(200_000, size=1_000_000)
    y_true, y_score = rng.integers(1, 6, size=len(users)), rng.random(len(users))
    few = users < 300
    value = user_ndcg_score(y_true[few], y_score[few], users[few], k=3)
    expected = loop_ndcg(y_true[few], y_score[few], users[few], 3)
    assert value == pytest.approx(expected, rel=1e-12)
    assert 0.5 < user_ndcg_score(y_true, y_score, users, k=3) < 1.0


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
        [("user", int(user)) for user in users],
        pd.Series(users).astype(str).astype("category"),
        pd.Series(users, dtype="Int64"),
        pl.Series(users).cast(pl.String),
        np.datetime64("2000-01-01") + users,
        [int(user) if user % 2 else str(user) for user in users],
    ):
        assert user_recall_score(y_true, y_score, kind, k=2) == expected


def test_one_and_the_string_one_are_two_users():
    assert user_recall_score([5, 5], [1, 2], [1, "1"], k=1) == 1.0
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
        ({"users": [1.0, np.nan, 2.0]}, "users must not contain missing"),
        ({"users": np.array([1.0, np.nan, 2.0])}, "users must not contain missing"),
        ({"users": pd.Series([1, None, 2], dtype="Int64")}, "users must not contain"),
        ({"users": pl.Series(["a", None, "b"])}, "users must not contain missing"),
        ({"users": np.zeros((3, 2))}, "users must be a list or 1D array"),
        ({"k": 0}, "k must be an integer of at least 1, or None"),
        ({"k": 2.5}, "k must be an integer"),
        ({"k": True}, "k must be an integer"),
    ],
)
def test_errors_name_the_argument(change, says):
    arguments = {"y_true": [5, 3, 1], "y_score": [1, 2, 3], "users": [1, 1, 2]}
    with pytest.raises(ValueError, match=says) as caught:
        user_ndcg_score(**{**arguments, **change})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("relevant", ["4", None, np.nan, True])
def test_recall_refuses_what_is_no_rating(relevant):
    with pytest.raises(ValueError, match="relevant must be a finite number"):
        user_recall_score([5, 3], [1, 2], [1, 1], relevant=relevant)


def test_unhashable_users():
    with pytest.raises(TypeError, match="users must contain hashable ids"):
        user_recall_score([5, 3], [1, 2], [[1], [2, 3]])


# --- the scorer


class ItemMean(RegressorMixin, BaseEstimator):
    """Predict an item's mean, shrunk; the items are in column 1 or "item_id"."""

    def __init__(self, shrinkage=1.0):
        self.shrinkage = shrinkage

    def _items(self, X):
        is_frame = hasattr(X, "columns")
        return np.asarray(X["item_id"] if is_frame else X[:, 1], dtype=int)

    def fit(self, X, y):
        items = self._items(X)
        self.mean_ = np.mean(y)
        counts = np.bincount(items, minlength=1000) + self.shrinkage
        sums = np.bincount(items, np.asarray(y) - self.mean_, minlength=1000)
        self.values_ = sums / np.maximum(counts, 1e-300)
        return self

    def predict(self, X):
        return self.mean_ + self.values_[self._items(X)]


def ratings_table(seed=0):
    """A table of ratings to which the items' means give a ranking."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(40, size=(2, 1500))
    means = np.linspace(1, 5, 40)
    y = np.clip(np.rint(means[items] + rng.standard_normal(1500)), 1, 5)
    return np.column_stack([users, items]), y


SCORER = make_user_scorer(user_ndcg_score, 0, k=3)


def test_scorer_reads_users_from_any_table():
    X, y = ratings_table()
    model = ItemMean().fit(X, y)
    expected = user_ndcg_score(y, model.predict(X), X[:, 0], k=3)
    assert SCORER(model, X, y) == expected
    columns = ["user_id", "item_id"]
    for frame in (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns)):
        assert SCORER(model, frame, y) == expected
        by_name = make_user_scorer(user_ndcg_score, "user_id", k=3)
        assert by_name(model, frame, y) == expected
        last = make_user_scorer(user_ndcg_score, user_feature=-2, k=3)
        assert last(model, frame, y) == expected


def test_scorer_reads_users_from_sparse_tables():
    X, y = ratings_table()
    model = LinearRegression().fit(X, y)
    for kind in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix):
        rows = kind(X)
        expected = user_ndcg_score(y, model.predict(rows), X[:, 0], k=3)
        assert SCORER(model, rows, y) == pytest.approx(expected)
        last = make_user_scorer(user_ndcg_score, -2, k=3)
        assert last(model, rows, y) == SCORER(model, rows, y)


def test_cross_validation_ranks_known_users():
    X, y = ratings_table()
    cv = PerUserKFold(5, user_feature=0)
    scores = cross_val_score(ItemMean(), X, y, cv=cv, scoring=SCORER)
    dummy = cross_val_score(DummyRegressor(), X, y, cv=cv, scoring=SCORER)
    assert scores.min() > dummy.max() + 0.05
    cold = cross_val_score(
        ItemMean(), X, y, cv=GroupKFold(5), groups=X[:, 0], scoring=SCORER
    )
    assert cold.min() > dummy.max()


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("routing", [False, True])
def test_grid_search_in_two_processes(routing):
    X, y = ratings_table()
    frame = pd.DataFrame(X, columns=["user_id", "item_id"])
    scoring = {
        "ndcg": make_user_scorer(user_ndcg_score, "user_id", k=5),
        "recall": make_user_scorer(user_recall_score, "user_id", k=5),
    }
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(
            ItemMean(),
            {"shrinkage": [0.0, 1.0, 1e12]},
            scoring=scoring,
            cv=PerUserKFold(3, user_feature="user_id"),
            refit="ndcg",
            n_jobs=2,
            error_score="raise",
        ).fit(frame, y)
    assert search.best_params_["shrinkage"] < 1e12
    for name in scoring:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()


def test_scorer_survives_pickling_and_shows_itself():
    X, y = ratings_table()
    model = Ridge().fit(X, y)
    copy = pickle.loads(pickle.dumps(SCORER))
    assert copy(model, X, y) == SCORER(model, X, y)
    assert repr(copy) == "make_user_scorer(user_ndcg_score, user_feature=0, k=3)"
    error = make_user_scorer(user_ndcg_score, "u", greater_is_better=False)
    assert repr(error) == (
        "make_user_scorer(user_ndcg_score, user_feature='u', greater_is_better=False)"
    )


def test_errors_are_negated():
    X, y = ratings_table()
    model = ItemMean().fit(X, y)

    def error(y_true, y_pred, users):
        return float(np.mean((y_true - y_pred) ** 2))

    found = make_user_scorer(error, 0, greater_is_better=False)(model, X, y)
    assert found == -np.mean((y - model.predict(X)) ** 2)


def test_scorer_refuses_bad_arguments():
    with pytest.raises(TypeError, match="score_func must be callable"):
        make_user_scorer("ndcg", 0)
    for feature in (None, 1.0, True, ["user_id"]):
        with pytest.raises(TypeError, match="user_feature must be the position"):
            make_user_scorer(user_ndcg_score, feature)


@pytest.mark.parametrize(
    ("feature", "rows", "says"),
    [
        (2, "array", "user_feature=2, but X has 2 columns"),
        (-3, "array", "user_feature=-3, but X has 2 columns"),
        ("user_id", "array", "X has no column names"),
        ("users", "frame", "no column of that name"),
        ("twice", "frame", "several columns of that name"),
        (9, "frame", "X has 4 columns"),
        (0, "flat", "X must have rows and columns"),
    ],
)
def test_scorer_names_what_is_wrong_with_the_column(feature, rows, says):
    X, y = ratings_table()
    model = ItemMean().fit(X, y)
    columns = ["user_id", "item_id", "twice", "twice"]
    frame = pd.DataFrame(np.hstack([X, X]), columns=columns)
    table = {"array": X, "frame": frame, "flat": X[:, 0]}[rows]
    with pytest.raises(ValueError, match=says):
        make_user_scorer(user_ndcg_score, feature)(model, table, y)
