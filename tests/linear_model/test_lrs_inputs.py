"""What LRSRegressor accepts: ids, columns of users, containers, extreme numbers."""

import functools
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from containers import CONTAINERS, contents
from release_tools import record_releases

from skdpspectral import LRSRegressor
from skdpspectral.linear_model import Alternation, PrivateRounds

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:.*without privacy:skdpspectral.PrivacyLeakWarning"
    ),
    # Hopeless data need not converge.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
NAMES = list("abcde")
N_USERS, N_FEATURES, N_ROWS = 7, 5, 50
EXACT = {"epsilon": None, "solver": Alternation(max_iter=2)}
CHEAP = {
    "solver": PrivateRounds(
        n_rounds=2, curvature_clip_norm=50.0, gradient_clip_norm=50.0
    )
}
MODES = {"private": {**CHEAP, "noise_seed": 0}, "exact": EXACT}
# What the layout of rows in memory may change.
ROUNDING = {"rtol": 1e-9, "atol": 1e-9}


def whole_numbers():
    """Rows that every type of number holds exactly, and targets of seven users."""
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, size=(N_ROWS, N_FEATURES)).astype(float)
    users = rng.integers(0, N_USERS, size=N_ROWS)
    coef = rng.normal(size=(N_USERS, N_FEATURES))
    return X, np.vecdot(X, coef[users]) + users, users


@pytest.fixture
def data():
    return whole_numbers()


@functools.cache
def plain_model(mode):
    X, y, users = whole_numbers()
    return LRSRegressor(**MODES[mode]).fit(X, y, users=users)


def expected_predictions(mode):
    X, _, users = whole_numbers()
    return plain_model(mode).predict(X, users=users)


# -- containers of rows ----------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_container_makes_no_difference(data, tmp_path, container, mode):
    X, y, users = data
    given = CONTAINERS[container](X, tmp_path)
    before = contents(given)
    model = LRSRegressor(**MODES[mode]).fit(given, y, users=users)
    np.testing.assert_array_equal(model.components_, plain_model(mode).components_)
    predictions = model.predict(given, users=users)
    np.testing.assert_allclose(predictions, expected_predictions(mode), **ROUNDING)
    other = LRSRegressor(**MODES[mode]).fit(X, y, users=users)
    for fitted, rows in ((model, given), (other, whole_numbers()[0])):
        fitted.personalize(rows, y, user=3)
    np.testing.assert_allclose(model.get_coef(3), other.get_coef(3), **ROUNDING)
    assert contents(given) == before


# -- ids beside the rows ---------------------------------------------------------------

# Ways to write the ids 0 to 6.
IDS = {
    "integers": lambda users: users,
    "negative integers": lambda users: -users,
    "floats": lambda users: users * 4.0,
    "strings": lambda users: users.astype(str),
    "objects": lambda users: np.array([f"user {u}" for u in users], dtype=object),
    "list": lambda users: users.tolist(),
    "pandas": lambda users: pd.Series(users, index=users),
    "pandas category": lambda users: pd.Series(users.astype(str)).astype("category"),
    "pandas Int64": lambda users: pd.Series(users, dtype="Int64"),
    "polars": pl.Series,
    "polars strings": lambda users: pl.Series(users.astype(str)),
    "beyond float64": lambda users: users + 2**60,
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", IDS)
def test_any_ids(data, kind, mode):
    X, y, users = data
    ids = IDS[kind](users)
    listed = ids if isinstance(ids, list) else np.asarray(ids).tolist()
    model = LRSRegressor(**MODES[mode]).fit(X, y, users=ids)
    predictions = model.predict(X, users=ids)
    np.testing.assert_array_equal(predictions, expected_predictions(mode))
    backwards = model.predict(X[::-1], users=listed[::-1])
    np.testing.assert_allclose(backwards[::-1], predictions, **ROUNDING)
    user, own = listed[7], users == users[7]
    coef, intercept = model.get_coef(user), model.get_intercept(user)
    np.testing.assert_allclose(X[own] @ coef + intercept, predictions[own], **ROUNDING)
    model.personalize(X[own], -y[own], user=user)
    assert not np.allclose(model.get_coef(user), coef)
    np.testing.assert_array_equal(model.predict(X, users=ids)[~own], predictions[~own])


# -- ids in a column of X --------------------------------------------------------------


def text(users):
    return [f"user {code}" for code in users]


def with_column(X, users, position):
    return np.insert(X, position, users, axis=1)


def objects(X, users, position):
    table = np.insert(X.astype(object), position, None, axis=1)
    table[:, position] = text(users)
    return table


def pandas(X, users, position):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(position, "user", text(users))
    return frame


def polars(X, users, position):
    frame = pl.DataFrame(X, schema=NAMES)
    return frame.insert_column(position, pl.Series("user", text(users)))


COLUMNS = {
    "array": with_column,
    "Fortran order": lambda *a: np.asfortranarray(with_column(*a)),
    "objects": objects,
    "list": lambda *a: objects(*a).tolist(),
    "pandas": pandas,
    "pandas category": lambda *a: pandas(*a).astype({"user": "category"}),
    "polars": polars,
}

IDS_OF_COLUMN = {
    "objects": "user 3",
    "list": "user 3",
    "pandas": "user 3",
    "pandas category": "user 3",
    "polars": "user 3",
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("position", [0, 2, N_FEATURES])
@pytest.mark.parametrize("container", COLUMNS)
def test_a_column_of_users_is_the_same_as_users_beside(data, container, position, mode):
    X, y, users = data
    T = COLUMNS[container](X, users, position)
    before = contents(T)
    forms = [position - N_FEATURES - 1]
    if mode == "exact":
        forms += [position, np.int8(position)]
        forms += ["user"] if container.startswith("p") else []
    for user_feature in forms:
        model = LRSRegressor(**MODES[mode], user_feature=user_feature).fit(T, y)
        assert model.n_features_in_ == N_FEATURES + 1
        beside = plain_model(mode)
        np.testing.assert_array_equal(model.components_, beside.components_)
        predictions = model.predict(T)
        np.testing.assert_allclose(predictions, expected_predictions(mode), **ROUNDING)
        user = IDS_OF_COLUMN.get(container, 3)
        np.testing.assert_array_equal(model.get_coef(user), beside.get_coef(3))
    if mode == "exact":
        assert model.score(T, y) == pytest.approx(beside.score(X, y, users=users))
    assert contents(T) == before


def test_names_of_a_table_include_that_of_the_users(data):
    X, y, users = data
    model = LRSRegressor(user_feature="user", **EXACT).fit(pandas(X, users, 2), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "user", "c", "d", "e"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pandas(X, users, 0))
    with pytest.raises(ValueError, match="user_feature"):
        model.predict(with_column(X, users, 2))


# -- few rows, equal rows, constant columns --------------------------------------------

SHAPES = {
    "a single row": (1, 1, 3),
    "two rows of one user": (2, 1, 3),
    "one row a user": (20, 20, 3),
    "two rows a user": (40, 20, 3),
    "one feature": (60, 6, 1),
    "one user": (60, 1, 4),
    "more features than rows": (5, 2, 30),
}
SETTINGS = {
    "default": {},
    "above d": {"n_components": 99, "sparsity": 99},
    "sparse alone": {"n_components": 0},
    "directions alone": {"n_components": 2, "sparsity": 0},
    "fixed": {"shared_weights": "fixed"},
    "no penalties, scale or intercept": {
        "ridge_shared": 0,
        "ridge_sparse": 0,
        "fit_intercept": False,
        "scale": False,
    },
}


def check_finite(model, X, y, users):
    before = X.tobytes(), y.tobytes()
    with record_releases() as released:
        model.fit(X, y, users=users)
    assert (X.tobytes(), y.tobytes()) == before
    for name, values in released.items():
        assert np.isfinite(values).all(), name
    for name in ("components_", "weights_", "coef_", "intercept_", "scale_"):
        assert np.isfinite(getattr(model, name)).all(), name
    ordinary = np.ones((3, X.shape[1]))
    asked = [users[0], users[-1], users.max() + 1]
    assert np.isfinite(model.predict(ordinary, users=asked)).all()
    for user in asked:
        assert np.isfinite(model.get_coef(user)).all()
        assert np.isfinite(model.get_intercept(user))
    own = users == users[0]
    model.personalize(X[own], y[own], user=users[0])
    assert np.isfinite(model.predict(ordinary, users=asked)).all()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("epsilon", [1.0, None])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_or_columns(shape, setting, epsilon):
    n_rows, n_users, n_features = SHAPES[shape]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, n_features)), rng.normal(size=n_rows)
    users = np.arange(n_rows) % n_users
    check_finite(LRSRegressor(epsilon=epsilon, **SETTINGS[setting]), X, y, users)


ONE_ROW = np.array([0.3, -1.2, 0.7, 2.0])
DULL = {
    "equal rows": (lambda X: 0 * X + ONE_ROW, lambda y: y),
    "equal rows and targets": (lambda X: 0 * X + ONE_ROW, lambda y: 0 * y + 1.3),
    "a constant feature": (lambda X: np.where([0, 1, 0, 0], 7.0, X), lambda y: y),
    "a zero feature": (lambda X: X * [1.0, 0.0, 1.0, 1.0], lambda y: y),
    "equal features": (lambda X: 0 * X + X[:, :1], lambda y: y),
    "opposite features": (lambda X: X[:, [0, 0, 2, 3]] * [1, -1, 1, 1], lambda y: y),
    "zero rows": (lambda X: 0 * X, lambda y: y),
    "zero targets": (lambda X: X, lambda y: 0 * y),
    "constant targets": (lambda X: X, lambda y: 0 * y + 5.0),
    "nothing at all": (lambda X: 0 * X, lambda y: 0 * y),
}


def dull(kind):
    rng = np.random.default_rng(0)
    of_rows, of_targets = DULL[kind]
    X, y = of_rows(rng.normal(size=(60, 4))), of_targets(rng.normal(size=60))
    return X, y, np.arange(60) % 6


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, None])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", DULL)
def test_rows_that_tell_little(kind, setting, epsilon):
    """Without any warning: it would tell of some user's rows."""
    model = LRSRegressor(epsilon=epsilon, **SETTINGS[setting])
    check_finite(model, *dull(kind))


def test_constant_targets_are_predicted():
    X, y, users = dull("constant targets")
    for epsilon in (1.0, None):
        model = LRSRegressor(epsilon=epsilon).fit(X, y, users=users)
        np.testing.assert_allclose(model.predict(X, users=users), 5.0, atol=1e-12)


# -- extreme floats --------------------------------------------------------------------

FLOATS = {
    "subnormal": np.nextafter(0.0, 1.0),
    "square underflows": 1e-162,
    "square overflows": 1e155,
    "large": 1e300,
    "largest": np.finfo(float).max,
}


def extreme(kind, value):
    """Six users; the first has extreme numbers, of several sorts."""
    rng = np.random.default_rng(1)
    X, y, users = rng.normal(size=(60, 4)), rng.normal(size=60), np.arange(60) % 6
    first = users == 0
    if kind == "one number":
        X[0, 1] = value
    elif kind == "rows":
        X[first] = value * rng.choice([-1.0, 0.5, 1.0], size=(10, 4))
    elif kind == "targets":
        y[first] = value * rng.choice([-1.0, 0.5, 1.0], size=10)
    elif kind == "all":
        X[first], y[first] = -value, value
    return X, y, users


KINDS = ["one number", "rows", "targets", "all"]
EXTREME_SETTINGS = {
    "public clips": CHEAP,
    "fixed weights": {"shared_weights": "fixed"},
    "two directions, no intercept": {"n_components": 2, "fit_intercept": False},
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("setting", EXTREME_SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", FLOATS.values(), ids=FLOATS)
def test_extreme_rows_spoil_no_private_model_of_others(kind, value, setting):
    X, y, users = extreme(kind, value)
    model = LRSRegressor(**EXTREME_SETTINGS[setting])
    with record_releases() as released:
        model.fit(X, y, users=users)
    assert all(np.isfinite(values).all() for values in released.values())
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.predict(X[users > 0], users=users[users > 0])).all()
    assert np.isfinite(model.predict(np.ones((1, 4)), users=[77])).all()


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1e155, 1e300])
def test_extreme_rows_without_privacy_are_fitted_or_refused_by_name(kind, value, scale):
    """Nothing clips them; an error of LAPACK's would tell nobody what to do."""
    X, y, users = extreme(kind, value)
    model, said = LRSRegressor(**EXACT, scale=scale), None
    try:
        model.fit(X, y, users=users)
    except ValueError as error:
        said = str(error)
    if said is None:
        assert np.isfinite(model.predict(np.ones((6, 4)), users=np.arange(6))).all()
    else:
        assert re.search(r"\b(X|y)\b", said), said


@pytest.mark.parametrize("value", [1e-300, 1e300])
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_extreme_public_scales(data, value, epsilon):
    X, y, users = data
    scale = np.full(N_FEATURES, value)
    check_finite(LRSRegressor(epsilon=epsilon, scale=scale), X * value, y, users)
