"""Prices of compositions, and those that a search refuses."""

import pytest
from compositions import X, scored
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import DPPCA, DPStandardScaler, SpikedPCA
from skdpspectral.accounting._ledger.planned_fits import Refit, planned_fits
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.model_selection._private_search import check_estimator
from skdpspectral.pipeline import make_private_pipeline


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
        (make_private_pipeline(GridSearchCV(DPPCA(), SPACE)), "cv is a search"),
        (
            make_private_pipeline(make_pipeline(DPPCA(), memory="there")),
            "caches fitted steps",
        ),
        (
            make_private_pipeline(make_pipeline(DPPCA(), verbose=True)),
            "verbose=True would print",
        ),
        (make_private_pipeline(DPPCA(noise_seed=1)), "dppca__noise_seed=1 has no"),
        (make_pipeline(DPPCA()), "several steps in make_private_pipeline"),
    ],
)
def test_what_a_search_refuses_in_a_composition(composition, said):
    with pytest.raises((TypeError, ValueError), match=said):
        check_estimator(composition)


def test_zeros_stand_for_what_a_step_makes():
    """No cost depends on their number of columns, which a release may decide."""
    model = make_pipeline(FeatureUnion([("a", DPPCA(1)), ("b", DPPCA(2))]), DPPCA(3))
    assert price(model) == 3
    assert price(make_pipeline(PCA(0.5), DPPCA(9))) == 1
    with pytest.raises(ValueError, match="n_components"):
        price(make_pipeline(PCA(3), DPPCA(9)))


def test_a_search_whose_fits_cost_by_their_rows_is_checked_on_equal_folds_alone():
    """The guarantee of the papers' noise depends on the number of rows."""
    paper = SpikedPCA(1, signal_variance=9, noise_variance=1, calibration="paper")
    assert price(GridSearchCV(paper, {}, cv=KFold(3))) == 4
    with pytest.raises(ValueError, match=r"number of rows.* of a fold, is not known"):
        price(GridSearchCV(paper, {}, cv=RepeatedKFold(n_splits=2)))
