"""Prices of compositions, and those that a search refuses."""

import pytest
from compositions import X, scored
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import (
    DPPCA,
    DPStandardScaler,
    PrivacyAccountant,
)
from skdpspectral.accounting._ledger.planned_fits import Refit, planned_fits
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.model_selection._candidates import check_estimator


def fits_of(model):
    """Return the planned fits, of the first candidate where one is refitted."""
    for fit in planned_fits(model, X):
        yield from fit.alternatives[0] if isinstance(fit, Refit) else [fit]


def price(model):
    return sum(fit.times for fit in fits_of(model))


SCORER = make_private_scorer("captured_variance", 1.0, clip_norm=1.0)
NO_BUDGET = make_private_scorer("captured_variance", clip_norm=1.0)
SPACE = {"n_components": [1, 2, 3]}


@pytest.mark.parametrize(
    ("composition", "n_fits"),
    [
        (make_pipeline(DPStandardScaler(), FeatureUnion([("a", DPPCA(1))])), 2),
        (make_pipeline(FunctionTransformer(), make_pipeline(DPPCA(1)), Ridge()), 1),
        (FeatureUnion([("a", DPPCA(1)), ("b", "drop"), ("c", "passthrough")]), 1),
        (Pipeline([("a", None), ("b", "passthrough"), ("c", DPPCA(1))]), 1),
        (GridSearchCV(scored(DPPCA(1)), {"private__n_components": [1, 2]}, cv=3), 7),
        # A score of every candidate and fold comes on top.
        (GridSearchCV(DPPCA(), SPACE, cv=2, scoring=SCORER), 13),
    ],
)
def test_prices_of_what_is_nested(composition, n_fits):
    assert price(composition) == n_fits


@pytest.mark.parametrize("of", [lambda s: make_pipeline(s, Ridge()), lambda s: s])
def test_fits_of_a_nested_search_are_not_known(of):
    inner = GridSearchCV(DPPCA(1), {}, cv=2)
    whole = GridSearchCV(inner, {}, cv=3) if of(inner) is inner else of(inner)
    with pytest.raises(TypeError, match="number of times that GridSearchCV fits"):
        price(whole)


SEARCH = PrivateSearchCV(DPPCA(1), SPACE, scoring=NO_BUDGET)


@pytest.mark.parametrize(
    ("composition", "said"),
    [
        (SEARCH, "estimator is a search"),
        (make_pipeline(GridSearchCV(DPPCA(), SPACE)), "gridsearchcv is a search"),
        (FeatureUnion([("a", SEARCH)]), "a is a search"),
        (make_pipeline(DPPCA(), memory="there"), "caches fitted steps"),
        (make_pipeline(DPPCA(), verbose=True), "verbose=True would print"),
        (make_pipeline(DPPCA(noise_seed=1)), "dppca__noise_seed=1 has no effect"),
    ],
)
def test_what_a_search_refuses_in_a_composition(composition, said):
    with pytest.raises(ValueError, match=said):
        check_estimator(composition)


def test_zeros_stand_for_what_a_step_makes():
    """No cost depends on their number of columns, which a release may decide."""
    model = make_pipeline(FeatureUnion([("a", DPPCA(1)), ("b", DPPCA(2))]), DPPCA(3))
    assert price(model) == 3
    assert price(make_pipeline(PCA(0.5), DPPCA(9))) == 1
    with pytest.raises(ValueError, match="n_components"):
        price(make_pipeline(PCA(3), DPPCA(9)))


def test_a_search_is_not_searched_over():
    """The entries of its scores would tell the number of runs."""
    own = PrivacyAccountant()
    scorer = make_private_scorer(
        "captured_variance", 0.01, accountant=own, clip_norm=1.0
    )
    grid = GridSearchCV(DPPCA(1), {"center": ["none"]}, cv=2, scoring=scorer)
    search = PrivateSearchCV(grid, {"estimator__n_components": [1]}, scoring=NO_BUDGET)
    with PrivacyAccountant() as accountant, pytest.raises(ValueError, match="nested"):
        search.fit(X)
    assert not accountant.ledger
    assert not own.ledger
