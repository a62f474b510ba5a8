"""Catalogs with items that nobody rates, and matrices that do not fit a catalog."""

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdpspectral import (
    DPItemEmbedding,
    DPMatrixFactorization,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral.linear_model import UserIntercept

N_ITEMS, UNRATED = 100, [97, 98, 99]
BOTH = (DPMatrixFactorization, DPItemEmbedding)


def evenly_rated(seed):
    """Ratings of all items but three, each as often as the others; true values."""
    rng = np.random.default_rng(seed)
    keys = rng.random((2000, N_ITEMS))
    keys[:, UNRATED] = 2.0
    items = np.argsort(keys, axis=1)[:, :15].ravel()
    users = np.repeat(np.arange(2000), 15)
    values = 3.0 + 0.5 * rng.standard_normal(N_ITEMS)
    y = values[items] + 0.4 * rng.standard_normal(2000)[users]
    y = np.clip(np.rint(y + 0.7 * rng.standard_normal(len(y))), 1, 5)
    return np.column_stack([users, items]), y


# Seeds are fixed: the bounds hold for these fits, and failed for all of them before.
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_items_that_nobody_rates_are_predicted_as_ordinary_ones(epsilon, seed):
    X, y = evenly_rated(seed)
    common = {"items": range(N_ITEMS), "rating_range": (1, 5), "noise_seed": seed}
    model = DPMatrixFactorization(epsilon=epsilon, **common).fit(X, y)
    # Values have a standard deviation of .5 about 3; nothing is known of these three.
    assert abs(model.level_ + model.item_offsets_[UNRATED] - 3.0).max() < 0.6
    lists = model.recommend(np.arange(300), 5, popularity=0.0)[0]
    assert (
        np.isin(lists, UNRATED).any(axis=1).mean() < 0.15
    )  # by chance .14 = 5 3 / 100
    for method in ("offsets", "residuals"):
        items = DPItemEmbedding(method=method, epsilon=epsilon, **common)
        intercept = UserIntercept(ridge=5.0, offset_feature=1)
        users = LRSRegressor(0, None, user_feature=0, fit_intercept=intercept)
        pipeline = make_pipeline(items, users).fit(X, y)
        pairs = np.column_stack([np.repeat(np.arange(300), 3), np.tile(UNRATED, 300)])
        found = pipeline.predict(pairs)
        assert np.abs(found - 3.0).max() < 2.5


def test_clicks_of_some_items_say_nothing_of_those_that_nobody_clicks():
    X, _ = evenly_rated(0)
    model = DPMatrixFactorization(0, items=range(N_ITEMS), implicit=True, noise_seed=0)
    weights = np.abs(model.fit(X).item_factors_)
    assert weights[UNRATED].max() < 3.0 * weights.max(initial=0.0, axis=0).min() + 3.0


def test_the_average_user_stays_within_the_range():
    """Whatever noise there is: here it is larger than all sums."""
    X, y = evenly_rated(0)
    for seed in range(5):
        model = DPMatrixFactorization(
            items=range(N_ITEMS), rating_range=(1, 5), epsilon=0.05, noise_seed=seed
        ).fit(X[:600], y[:600])
        means = model.level_ + model.item_offsets_
        assert 1.0 - 1e-9 <= means.min() <= means.max() <= 5.0 + 1e-9


# -- public form -----------------------------------------------------------------------

MATRIX = sparse.csr_array(
    np.random.default_rng(0).integers(1, 6, (30, 6)).astype(float)
)
WRONG = {
    "transposed": (MATRIX.T, range(6), "X.T if the rows of X are the items"),
    "too wide": (MATRIX, range(5), r"pass items=range\(6\)"),
    "too narrow": (MATRIX, range(7), r"pass items=range\(6\)"),
    "from one": (MATRIX, range(1, 7), r"items 0 to 5.* pass items=range\(6\)"),
    "names": (MATRIX, list("abcdef"), r"pass items=range\(6\)"),
}


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("case", WRONG)
def test_a_matrix_has_the_columns_of_the_catalog(cls, case):
    X, items, words = WRONG[case]
    with refused(words) as accountant:
        cls(items=items, rating_range=(1, 5), accountant=accountant).fit(X)
    assert cls(items=range(6)[::-1], rating_range=(1, 5)).fit(MATRIX).privacy_


@pytest.mark.parametrize("items", [None, range(6)])
def test_later_matrices_have_the_columns_of_the_catalog(items):
    common = {"items": items, "rating_range": (1, 5), "noise_seed": 0}
    model = DPMatrixFactorization(**common).fit(MATRIX)
    embedding = DPItemEmbedding(**common).fit(MATRIX)
    wrong = MATRIX.T.tocsr()[:, :5]
    for method in (model.predict, model.score, model.personalize, embedding.transform):
        with pytest.raises(
            ValueError, match="with 5 columns, which are the items 0 to 4"
        ):
            method(wrong)
    assert model.predict(MATRIX[:3]).shape == (18,)


@pytest.mark.filterwarnings("ignore:X has no columns user_id:UserWarning")
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize("cls", BOTH)
def test_a_dense_matrix_is_no_table_of_ratings(cls, make):
    accountant = PrivacyAccountant()
    model = cls(items=range(6), rating_range=(1, 5), accountant=accountant)
    X = make(MATRIX.toarray())
    with pytest.raises(ValueError, match=r"as many as items: pass .*csr_array\(X\)"):
        model.fit(X, np.ones(30))
    if cls is DPMatrixFactorization:
        with pytest.raises(ValueError, match="as many as items"):
            clone(model).set_params(implicit=True, rating_range=None).fit(X)
        with pytest.raises(ValueError, match=r"matrix of users x items as .*csr_array"):
            clone(model).set_params(items=range(9)).fit(X)
    assert not accountant.ledger


@pytest.mark.parametrize("cls", BOTH)
def test_a_catalog_that_is_one_off_its_features_is_refused(cls):
    features = pd.DataFrame({"price": range(6)}, index=range(1, 7))
    with refused(r"pass items=item_features\.index") as accountant:
        model = cls(items=range(6), rating_range=(1, 5), accountant=accountant)
        model.set_params(item_features=features)
        model.fit([[0, 1], [1, 2]], [5, 1])
    model.set_params(items=range(1, 7)).fit([[0, 1], [1, 2]], [5, 1])
    model.set_params(items=range(5, 11), item_features=features.reset_index(drop=True))
    assert model.fit([[0, 5], [1, 6]], [5, 1]).privacy_


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_the_range_of_ratings_is_required(cls, epsilon):
    with refused(r"rating_range is required: .*\(1, 5\)") as accountant:
        model = cls(items=range(6), epsilon=epsilon, accountant=accountant)
        assert model.rating_range is None
        model.fit([[0, 1], [1, 2]], [50, 100])
    assert model.privacy_plan(6).mechanisms
    if cls is DPMatrixFactorization and epsilon:
        assert model.set_params(implicit=True).fit([[0, 1], [1, 2]]).privacy_
