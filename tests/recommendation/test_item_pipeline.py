"""DPItemEmbedding by offsets, and models of users behind it, against the recommender.

Both release the same: what is shown for one of sums, noise and charge holds for the
other, and here it is shown that nothing else is released.
"""

import item_tools
import numpy as np
import pandas as pd
import polars as pl
import pytest
from lrs_tools import scripted
from release_tools import record_releases
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skdpspectral import (
    DPItemEmbedding,
    DPMatrixFactorization,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral.datasets import make_ratings
from skdpspectral.linear_model import UserIntercept
from skdpspectral.recommendation._kernels_models import component_columns

without_privacy = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
RATINGS = make_ratings(300, 30, n_ratings_per_user=15, random_state=0)
X, Y = RATINGS.data, RATINGS.target.astype(float)
FEATURES = np.asarray(RATINGS.item_features)


def embedding(n_components=3, **parameters):
    parameters = {"items": RATINGS.item_ids, "epsilon": 2.0, **parameters}
    return DPItemEmbedding(n_components, **{"rating_range": (1, 5), **parameters})


def users_of(**parameters):
    ridge = {"fit_intercept": UserIntercept(ridge=5.0, offset_feature=1)}
    return LRSRegressor(0, None, user_feature=0, **ridge, **parameters)


SETTINGS = {
    "default": {"item_features": FEATURES},
    "no features": {},
    "no components": {"n_components": 0, "item_features": FEATURES},
    "one component": {"n_components": 1, "item_features": FEATURES[:, :1]},
    "another range": {"rating_range": (-3, 8), "item_features": 1e3 * FEATURES},
    "no privacy": {"epsilon": None, "item_features": FEATURES},
}


@without_privacy
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_pipeline_is_the_recommender(setting):
    """The same releases, bit by bit, and then the same ridge regressions of users."""
    parameters = {"items": RATINGS.item_ids, "noise_seed": 3, **SETTINGS[setting]}
    parameters = {"n_components": 3, "epsilon": 2.0, **parameters}
    model = DPMatrixFactorization(**{"rating_range": (1, 5), **parameters})
    pipeline = make_pipeline(
        DPItemEmbedding(**{"rating_range": (1, 5), **parameters}), users_of()
    )
    found = []
    for estimator in (model, pipeline):
        with record_releases() as released:
            estimator.fit(X, Y)
        found.append(released)
    assert list(found[0]) == list(found[1])
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value)
    items = pipeline[0]
    assert items.privacy_.mechanisms == model.privacy_.mechanisms
    assert pipeline[1].privacy_.mechanisms == ()
    for name in ("level_", "item_offsets_", "item_popularity_"):
        np.testing.assert_array_equal(getattr(items, name), getattr(model, name))
    rows = np.concatenate([X, [[10**6, X[0, 1]], [X[0, 0], 10**6]]])
    expected = model.predict(rows)
    given = np.clip(pipeline.predict(rows), *model.rating_range)
    np.testing.assert_allclose(given, expected, atol=1e-9 * np.ptp(model.rating_range))


def test_more_features_than_the_recommender_has_components():
    wide = np.random.default_rng(0).standard_normal((30, 40))
    model = make_pipeline(embedding(item_features=wide), users_of()).fit(X, Y)
    assert model[0].item_embeddings_.shape == (30, 3 + 40 + 3)
    assert np.isfinite(model.predict(X)).all()


def test_one_penalty_suits_all_columns():
    """A user's weights cost what they do in the recommender, measured by the loss."""
    parameters = {"item_features": FEATURES, "noise_seed": 0}
    table = embedding(**parameters).fit(X, Y).item_embeddings_
    model = DPMatrixFactorization(
        items=RATINGS.item_ids, epsilon=2.0, **{"rating_range": (1, 5), **parameters}
    ).fit(X, Y)
    # Ridge regressions see features by their products over penalties alone.
    features = model.item_factors_[:, 1:]
    expected = (features / model.ridge_[1:]) @ features.T
    centered = np.eye(30) - 1.0 / 30
    found = table[:, 1:] @ table[:, 1:].T / 100.0
    np.testing.assert_allclose(
        centered @ found @ centered, centered @ expected @ centered, atol=1e-12
    )


# -- columns that come in --------------------------------------------------------------


def wide(library=pd.DataFrame):
    rng = np.random.default_rng(0)
    columns = {
        "timestamp": 9e8 + rng.integers(10**6, size=len(X)),
        "user_id": X[:, 0],
        "rating": Y,
        "item_id": X[:, 1],
        "hour": rng.integers(24, size=len(X)),
    }
    return library(columns)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, "array"])
def test_further_columns_are_dropped_with_a_warning(library):
    """A rating that is left in a table would predict itself."""
    table = wide() if library == "array" else wide(library)
    where, names = {}, "timestamp, rating, hour"
    if library == "array":
        table, names = table.to_numpy(), "x0, x2, x4"
        where = {"user_feature": 1, "item_feature": 3}
    model = make_pipeline(embedding(noise_seed=0, **where), users_of())
    with pytest.warns(UserWarning, match=f"are not used: {names}$") as seen:
        model[0].fit(table, Y)
    assert {warned.filename for warned in seen} == {__file__}
    with pytest.warns(UserWarning, match="are not used"):
        model.fit(table, Y)
    expected = make_pipeline(embedding(noise_seed=0), users_of()).fit(X, Y)
    np.testing.assert_array_equal(model.predict(table), expected.predict(X))
    assert len(model[0].get_feature_names_out()) == 1 + 3 + 2


@without_privacy
def test_further_columns_pass_beside_the_embedding():
    table = wide().drop(columns=["timestamp", "rating"])
    ids = ["user_id", "item_id"]
    both = ColumnTransformer(
        [("items", embedding(1), ids), ("rest", "passthrough", ["hour"])]
    )
    pipeline = make_pipeline(both, users_of()).fit(table, Y)
    names = both.set_params(items__noise_seed=0).fit(table, Y).get_feature_names_out()
    assert names[0] == "items__user_id"
    assert names[-1] == "rest__hour"
    assert np.isfinite(pipeline.predict(table)).all()
    scores = cross_val_score(pipeline, table, Y, cv=3, error_score="raise")
    assert (scores < 0.9).all()
    alone = embedding(1, item_features=FEATURES)
    assert alone._n_columns_out(X) == alone.fit_transform(X, Y).shape[1]


# -- nothing but releases --------------------------------------------------------------


def attributes(users, **parameters):
    """What a fit shows, where its releases are held fixed."""
    rows, ratings = item_tools.table(users)
    with scripted():
        model = DPItemEmbedding(
            2, items=range(5), **{"rating_range": (1, 5), **parameters}
        ).fit(rows, ratings)
    return model.publish()


@pytest.mark.parametrize("method", ["offsets", "residuals"])
@pytest.mark.parametrize("features", [None, np.arange(10.0).reshape(5, 2) ** 2])
def test_with_releases_held_fixed_nothing_depends_on_users(features, method, tmp_path):
    users = {0: [(0, 5.0), (1, 1.0)], 1: [(2, 3.0), (9, 4.0)]}
    joined = users | {7: [(j % 5, float(1 + j % 5)) for j in range(40)]}
    files = set()
    for table in (users, joined, {1: [(9, 1e300)]}):
        model = attributes(table, item_features=features, method=method)
        model.save(tmp_path / "items.npz")
        files.add((tmp_path / "items.npz").read_bytes())
    assert len(files) == 1


# -- components of what offsets leave --------------------------------------------------


def jokes(seed=0, n_users=400, n_items=100):
    """Users of two tastes that no public feature tells, and their ratings of all."""
    rng = np.random.default_rng(seed)
    taste, loading = rng.standard_normal(n_users), rng.standard_normal(n_items)
    values = rng.standard_normal(n_items) + np.outer(taste, loading)
    values += 0.5 * rng.standard_normal(values.shape)
    users, items = np.divmod(np.arange(values.size), n_items)
    return np.column_stack([users, items]), values.ravel(), loading


STRANGERS = {
    "ordinary": [(0, 5.0), (1, 4.0), (2, 1.0), (3, 2.0), (4, 5.0)],
    "one rating": [(3, 1.0)],
    "all alike": [(j, 3.0) for j in range(5)],
    "beyond every range": [(0, 1e300), (1, -1e300), (2, 1.7e308)],
    "subnormal": [(j, 5e-324 * j) for j in range(5)],
    "unknown items": [(9, 5.0), (8, 1.0)],
    "many ratings": [(j % 5, 5.0 - j % 2) for j in range(500)],
}


def asked_of(users, **parameters):
    """What a fit would release, given one transcript of what it has released."""
    rows, ratings = item_tools.table(users)
    with scripted() as asked:
        DPItemEmbedding(
            2,
            method="residuals",
            items=range(5),
            **{"rating_range": (1, 5), **parameters},
        ).fit(rows, ratings)
    return asked


@pytest.mark.parametrize("parameters", [{}, {"item_features": np.eye(5)}])
@pytest.mark.parametrize("what", STRANGERS)
def test_a_user_moves_every_sum_by_their_own_answer_of_norm_one(what, parameters):
    """Exactly; the second moment by a matrix x x' of whole steps."""
    rng = np.random.default_rng(0)
    users = {u: [(j, float(rng.integers(1, 6))) for j in range(5)] for u in range(9)}
    without = asked_of(users, **parameters)
    together = asked_of(users | {77: STRANGERS[what]}, **parameters)
    alone = asked_of({77: STRANGERS[what]}, **parameters)
    assert list(alone) == ["offsets", "residuals", "second_moment"]
    for name, value in alone.items():
        np.testing.assert_array_equal(together[name] - without[name], value)
        assert np.linalg.norm(value) <= 1.0
    whole = alone["second_moment"] * 2.0**22
    assert np.array_equal(whole, np.rint(whole))
    diagonal = np.diag(whole)
    assert np.array_equal(np.multiply.outer(diagonal, diagonal), whole * whole)
    if what == "ordinary":
        assert np.linalg.norm(alone["second_moment"]) > 0.99


@pytest.mark.parametrize(("n_components", "names"), [(0, 2), (3, 3)])
def test_the_budget_is_shared_out_exactly(n_components, names):
    model = embedding(n_components, method="residuals", epsilon=1.0)
    plan = model.privacy_plan(30)
    assert len(plan.mechanisms) == names
    costs = np.array([m.mu for m in plan.mechanisms])
    assert plan.mu == pytest.approx(np.sqrt(costs @ costs), rel=1e-12)
    assert plan.mu == pytest.approx(
        embedding(0).set_params(epsilon=1.0).privacy_plan(30).mu
    )
    for mechanism in plan.mechanisms:
        assert mechanism.sensitivity == 1.0
        assert mechanism.noise_std >= 1.0 / mechanism.mu
    assert model.fit(X, Y).privacy_ == plan
    assert model.item_embeddings_.shape == (30, 3 + n_components)


@without_privacy
def test_components_are_what_tastes_differ_in():
    rows, values, loading = jokes()
    common = {"items": range(100), "rating_range": (-4, 4)}
    train = np.random.default_rng(0).random(len(rows)) < 0.5
    found = {}
    for method in ("offsets", "residuals"):
        items = DPItemEmbedding(
            1, method=method, epsilon=None, **{"rating_range": (1, 5), **common}
        )
        model = make_pipeline(items, users_of()).fit(rows[train], values[train])
        error = model.predict(rows[~train]) - values[~train]
        found[method] = np.sqrt(np.mean(error**2))
    assert found["residuals"] < 0.95 * found["offsets"]
    (component,) = items.components_
    component = component - component.mean()
    cosine = abs(np.corrcoef(component, loading)[0, 1])
    assert cosine > 0.95
    assert items.components_.max() < 10.0


@pytest.mark.parametrize("cls", [DPMatrixFactorization, DPItemEmbedding])
def test_ratings_beyond_the_range_count_as_its_ends(cls):
    model = cls(items=RATINGS.item_ids, rating_range=(2, 4), noise_seed=0)
    method = "predict" if cls is DPMatrixFactorization else "transform"
    with pytest.warns(match="noise_seed"):
        found = [getattr(model.fit(X, y), method)(X) for y in (Y, np.clip(Y, 2, 4))]
    assert np.array_equal(*found)
    assert Y.min() < 2 < 4 < Y.max()


def test_eigenvalues_below_zero_are_noise_without_a_warning():
    """Of two items with products but no squares, one of two always is."""
    values, components = np.array([3.0, -3.0]), np.eye(2)
    for noise, sizes in ((0.0, [1.0, 0.0]), (1.0, [1.0, 0.0]), (4.0, [0.0, 0.0])):
        columns = component_columns(values, components, noise, np.ones(2))
        assert np.allclose(np.abs(columns).max(axis=0) > 0.0, sizes)
    items = DPItemEmbedding(
        2, method="residuals", items=range(2), epsilon=50.0, rating_range=(1, 5)
    )
    items.fit([[u, i] for u in range(9) for i in range(2)], np.tile([1.0, 5.0], 9))
    assert np.isfinite(items.item_embeddings_).all()


def test_components_that_are_noise_are_zero():
    """In at most one of 100 fits is one of five above the noise: 99.9 % sure."""
    rows, values, _ = jokes(n_users=3)
    model = DPItemEmbedding(
        5, method="residuals", items=range(100), epsilon=0.01, rating_range=(-4, 4)
    ).fit(rows, values)
    assert model.components_.shape == (5, 100)
    assert model.components_.any(axis=1).sum() <= 1


# -- users -----------------------------------------------------------------------------


def test_one_entry_pays_for_all():
    accountant = PrivacyAccountant(2.0, 1e-6)
    steps = embedding(accountant=accountant), users_of(accountant=accountant)
    make_pipeline(*steps).fit(X, Y)
    entries = [(entry.estimator, entry.epsilon) for entry in accountant.ledger]
    assert [name for name, _ in entries] == ["DPItemEmbedding", "LRSRegressor"]
    assert accountant.spent().epsilon == pytest.approx(2.0, rel=1e-6)


def test_unknown_users_are_predicted_as_the_average_one():
    model = make_pipeline(embedding(item_features=FEATURES), users_of()).fit(X, Y)
    rows = np.column_stack([np.full(30, 10**6), RATINGS.item_ids])
    means = model[0].level_ + model[0].item_offsets_
    np.testing.assert_allclose(model.predict(rows), means, rtol=1e-14)
    assert 1.0 < means.min() < means.max() < 5.0


def test_new_users_through_the_pipeline_as_alone_and_by_the_published_steps(tmp_path):
    old = X[:, 0] < 250
    model = make_pipeline(embedding(item_features=FEATURES), users_of())
    model.fit(X[old], Y[old])
    shared = make_pipeline(*(step.publish() for step in model))
    shared[-1].personalize(shared[:-1].transform(X[~old]), Y[~old])
    expected = shared.predict(X[~old])
    errors = np.sqrt(np.mean((expected - Y[~old]) ** 2)), Y[~old].std()
    assert errors[0] < 0.9 * errors[1]
    for user in (251, 280):
        own = X[:, 0] == user
        alone = make_pipeline(*(step.publish() for step in model))
        alone[-1].personalize(alone[:-1].transform(X[own]), Y[own])
        np.testing.assert_array_equal(alone.predict(X[own]), shared.predict(X[own]))
        shared[-1].save(tmp_path / "device.npz", user=user)
        device = make_pipeline(model[0], LRSRegressor.load(tmp_path / "device.npz"))
        np.testing.assert_array_equal(device.predict(X[own]), shared.predict(X[own]))
