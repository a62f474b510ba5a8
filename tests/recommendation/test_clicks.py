"""DPMatrixFactorization of clicks without ratings: lists, users' models, files."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from skdpspectral import DPMatrixFactorization
from skdpspectral.datasets import make_ratings
from skdpspectral.model_selection import PerUserKFold

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
DATA = make_ratings(400, 50, n_ratings_per_user=10, random_state=0)
X = DATA.data
CLICKS = DPMatrixFactorization(
    items=DATA.item_ids,
    item_features=DATA.item_features,
    implicit=True,
    epsilon=4.0,
    noise_seed=0,
)
MODEL = clone(CLICKS).fit(X)


def two_tastes(n_users=1500, n_items=60, seed=0):
    """Clicks of users of whom half like items of even numbers, half the others."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, n_items + 1)
    rows = []
    for user in range(n_users):
        liked = np.arange(n_items) % 2 == user % 2
        shares = popularity * np.where(liked, 1.0, 0.1)
        n = rng.integers(8, 16)
        chosen = rng.choice(n_items, n, replace=False, p=shares / shares.sum())
        rows += [(user, item) for item in chosen]
    return np.array(rows)


@pytest.mark.parametrize("features", [False, True])
def test_lists_are_better_than_popularity(features):
    """Held-out clicks of two kinds of users; popularity cannot tell them apart.

    Of 1500 users a difference of means over lists has a standard error of .006 at most.
    """
    rows = two_tastes()
    train, test = next(PerUserKFold(4, user_feature=0).split(rows))
    kinds = (np.arange(60) % 2)[:, None].astype(float)
    users = np.unique(rows[test, 0])
    found = []
    for n_components in (3, 0) if not features else (0,):
        model = DPMatrixFactorization(
            n_components,
            items=range(60),
            item_features=kinds if features else None,
            implicit=True,
            epsilon=4.0,
        ).fit(rows[train])
        found.append(model.recommend(users, 5)[0])
    popular = model.recommend(users, 5, popularity=1e9)[0]
    listed = [
        set(zip(np.repeat(users, 5), x.ravel(), strict=True)) for x in (*found, popular)
    ]
    recalls = [np.mean([tuple(row) in pairs for row in rows[test]]) for pairs in listed]
    assert recalls[0] > recalls[-1] + (0.015 if features else 0.05)


def test_ratings_are_not_used():
    frame = pd.DataFrame(X, columns=["user_id", "item_id"])
    with pytest.warns(UserWarning, match="not used: rating"):
        named = clone(CLICKS).fit(frame.assign(rating=DATA.target))
    matrix = sparse.csr_array((DATA.target, tuple(X.T)))
    of_rows = clone(CLICKS).set_params(items=None, item_features=None).fit(matrix)
    for model in (clone(CLICKS).fit(X, DATA.target), named):
        assert np.array_equal(model.item_factors_, MODEL.item_factors_)
        assert np.array_equal(model._personal.weights, MODEL._personal.weights)
    ones = sparse.csr_array((np.ones(len(X)), tuple(X.T)))
    again = clone(of_rows).fit(ones)
    assert np.array_equal(again.item_factors_, of_rows.item_factors_)


def test_clicks_twice_are_clicks_once():
    again = clone(CLICKS).fit(np.vstack([X, X[:700]]))
    assert np.array_equal(again.item_factors_, MODEL.item_factors_)


def test_predictions_rank_as_lists_do():
    users = np.unique(X[:, 0])[:20]
    items, scores = MODEL.recommend(users, 4)
    rows = np.column_stack([np.repeat(users, 4), items.ravel()])
    predicted = MODEL.predict(rows).reshape(20, 4)
    seen = np.isinf(scores)
    assert predicted[~seen] == pytest.approx(scores[~seen], abs=1e-9)
    everything = MODEL.recommend(users, 50, exclude_seen=False)[0]
    order = DATA.item_ids[np.argsort(-MODEL.item_popularity_, kind="stable")]
    strange = MODEL.recommend([-1], 50)[0]
    assert np.array_equal(strange[0], order)
    assert not np.array_equal(everything[0], order)
    assert np.isfinite(MODEL.predict([[-1, 10**6]])).all()


def test_users_are_fitted_on_their_own_and_saved(tmp_path):
    users = np.unique(X[:, 0])[[3, 14]]
    rows = X[np.isin(X[:, 0], users)]
    own = MODEL.publish().personalize(rows)
    assert np.array_equal(own.predict(rows), MODEL.predict(rows))
    MODEL.save(tmp_path / "mine.npz", user=int(users[0]))
    mine = DPMatrixFactorization.load(tmp_path / "mine.npz")
    found, expected = mine.recommend(users[:1], 5), MODEL.recommend(users[:1], 5)
    assert all(map(np.array_equal, found, expected))


def test_clicks_have_no_score_and_no_level():
    assert not hasattr(MODEL, "score")
    model = (
        clone(CLICKS)
        .set_params(implicit=False, rating_range=(1, 5))
        .fit(X, DATA.target)
    )
    assert model.score(X, DATA.target) > 0
    assert np.isfinite(model.level_)
    model.set_params(implicit=True).fit(X)
    assert not hasattr(model, "level_")
    assert not hasattr(model, "item_offsets_")
    assert np.array_equal(model.item_factors_, MODEL.item_factors_)


@pytest.mark.parametrize(("n_components", "names"), [(0, 1), (2, 3), (99, 3)])
def test_the_plan_is_that_of_the_rounds(n_components, names):
    model = DPMatrixFactorization(n_components, implicit=True)
    shapes = [m.shape for m in model.privacy_plan(9).mechanisms]
    expected = [(10,), (9, 8), (9, min(n_components, 8))]
    assert shapes == expected[:names]
    assert [m.name for m in model.privacy_plan(50).mechanisms] == [
        "clicks",
        "neighbors",
        "factors",
    ][:names]
