"""Verdicts, prices and refusals of one list of compositions.

They are given by a report, by a ledger's ``check`` and by a private search: each has
its own questions, and all have to see the same private estimators.
"""

import pytest
from compositions import COMPOSITIONS, X, scored
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPStandardScaler,
    PrivacyAccountant,
)
from skdpspectral.accounting._ledger.planned_fits import Refit, planned_fits
from skdpspectral.audit import privacy_report
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.model_selection._candidates import check_estimator, private_parts

# Of these it is known how often a fit fits what they hold.
PRICED = ("Pipeline", "FeatureUnion", "ColumnTransformer")
MODELS = {
    "components": DPPCA(1),
    "regressor": DPAdamRegressor(target_bounds=(-1, 1), n_epochs=2),
    "classifier": DPAdamClassifier(n_epochs=2, classes=[0, 1]),
}
CASES = [
    (name, model)
    for name, composition in COMPOSITIONS.items()
    for model in MODELS
    if composition.of(MODELS[model]) is not None
]


def made(name, model):
    composition = COMPOSITIONS[name]
    inner = composition.of(MODELS[model])
    if name == "FrozenEstimator":
        return FrozenEstimator(inner)  # nothing is fitted here
    return composition.make(inner, clone(inner))


def fits_of(model):
    """Return the planned fits, of the first candidate where one is refitted."""
    for fit in planned_fits(model, X):
        yield from fit.alternatives[0] if isinstance(fit, Refit) else [fit]


def price(model):
    return sum(fit.times for fit in fits_of(model))


def private_steps(model):
    return {step.name for step in privacy_report(model) if step.verdict == "private"}


@pytest.mark.parametrize(("name", "model"), CASES)
def test_a_report_and_a_search_see_the_same_private_steps(name, model):
    composition = made(name, model)
    parts = {prefix.removesuffix("__") for prefix in private_parts(composition)}
    if name == "FrozenEstimator":  # a search fits none that is in it
        assert parts <= private_steps(composition)
    elif name in PRICED:
        assert parts == private_steps(composition) != set()
    else:
        (leak,) = privacy_report(composition)
        assert leak.verdict == "LEAKS"


@pytest.mark.parametrize(("name", "model"), CASES)
def test_fits_are_priced_where_their_number_is_known(name, model):
    composition = made(name, model)
    if name in PRICED:
        assert price(composition) == COMPOSITIONS[name].n_fits(composition)
    elif name == "FrozenEstimator":
        with pytest.raises(ValueError, match="no private estimator is fitted"):
            price(composition)
    else:
        kind = type(composition).__name__
        with pytest.raises(TypeError, match=f"number of times that {kind} fits"):
            price(composition)


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
        (made("HalvingGridSearchCV of classifiers", "components"), "is a search"),
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
