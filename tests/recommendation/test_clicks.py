"""DPMatrixFactorization of clicks without ratings: lists, users' models, files."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from skdpspectral import DPMatrixFactorization
from skdpspectral.datasets import make_ratings
from skdpspectral.model_selection import PrivateSplit

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
    train, test = next(
        PrivateSplit(4, user_feature=0, whole_users=False, random_state=0).split(rows)
    )
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


@pytest.mark.parametrize("n_components", [None, 2, 0])
def test_the_plan_is_that_of_the_largest_head(n_components):
    model = DPMatrixFactorization(n_components, implicit=True)
    for n_items, n_pairs in ((2, 3), (9, 45), (5000, 1500 * 1501 // 2)):
        plan = model.privacy_plan(n_items)
        shapes = {m.name: m.shape for m in plan.mechanisms}
        pairs = {} if n_components == 0 else {"pairs": (n_pairs,)}
        assert shapes == {"clicks": (n_items + 1,), **pairs}
        assert [m.sensitivity**2 for m in plan.mechanisms] == pytest.approx(
            [1.0, 0.5][: len(shapes)]
        )


def test_factors_are_those_that_stand_out_of_noise():
    """Two kinds of users have one taste; so has no one if items are clicked at random.

    An eigenvalue of noise alone is above the edge with a small chance; the largest of
    40 x 40 normals is above 1.06 edges with one below 1e-3.
    """
    known = 2  # popularity and its square
    model = DPMatrixFactorization(items=range(60), implicit=True, epsilon=8.0)
    model.set_params(noise_seed=0)
    found = clone(model).fit(two_tastes())
    assert found.item_factors_.shape == (60, known + 1)
    taste = found.item_factors_[:20] @ found._personal.weights[:400].T
    liked = (np.arange(20)[:, None] % 2) == (np.arange(400) % 2)
    assert taste[liked].mean() > taste[~liked].mean() + 0.5
    none = clone(model).set_params(n_components=0).fit(two_tastes())
    assert none.item_factors_.shape == (60, known)


def test_of_few_users_popularity_is_asked_twice():
    """No pairs stand out of their noise, whose budget is not lost.

    Released weights of 50 items then have noise of nearly all of the budget, and not of
    half of it: mean squares are within 40 % but for a chance below 1e-3 a fit.
    """
    found = []
    for n_components in (None, 0):
        model = DPMatrixFactorization(
            n_components, items=range(3000), implicit=True, epsilon=1.0, noise_seed=1
        ).fit(X)
        assert model.item_factors_.shape[1] == 2
        planned = [m.noise_std for m in model.privacy_.mechanisms]
        # Items that nobody clicked are half of the time logarithms of no noise at all.
        shift = model.item_popularity_.min()
        found.append(
            np.mean((np.exp(model.item_popularity_[50:]) - np.exp(shift)) ** 2)
        )
    assert planned[0] ** 2 == pytest.approx(2 * found[1], rel=0.2)
    assert found[0] == pytest.approx(found[1], rel=0.2)


def test_a_single_item_has_no_pairs():
    """All of the budget goes to its popularity."""
    model = clone(CLICKS).set_params(items=[1], item_features=None)
    assert [m.name for m in model.privacy_plan(1).mechanisms] == ["clicks"]
    alone = clone(model).set_params(n_components=0)
    found, wanted = (m.fit([[0, 1], [1, 1]]).item_popularity_ for m in (model, alone))
    np.testing.assert_array_equal(found, wanted)
