"""Reports about pipelines: private, stateless, or leaking."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from skdpspectral import DPPCA, FederatedDPPCA
from skdpspectral.audit import privacy_report


def verdicts(estimator):
    return {step.name: step.verdict for step in privacy_report(estimator)}


def test_a_private_pipeline():
    report = privacy_report(make_pipeline(Normalizer(), DPPCA(), Normalizer()))
    assert report.private
    assert [step.verdict for step in report] == ["stateless", "private", "stateless"]
    assert "epsilon=1, delta=1e-06" in str(report)


@pytest.mark.parametrize(
    "leak",
    [
        StandardScaler(),
        SimpleImputer(),
        QuantileTransformer(),
        OneHotEncoder(),
        OrdinalEncoder(),
        SimpleImputer(strategy="constant", fill_value=0),
        OneHotEncoder(categories=[[0, 1]], min_frequency=2),
        FunctionTransformer(lambda X: X - X.mean(axis=0)),
        FunctionTransformer(np.log1p, inverse_func=lambda X: X),
        GaussianProcessRegressor(),
        SimpleImputer(
            strategy="constant",
            fill_value=0,
            keep_empty_features=True,
            add_indicator=True,
        ),
    ],
)
def test_a_leak_voids_what_comes_after(leak):
    report = privacy_report(make_pipeline(Normalizer(), leak, DPPCA()))
    assert [step.verdict for step in report] == ["stateless", "LEAKS", "LEAKS"]
    last = list(report)[-1]
    assert type(leak).__name__.lower() in last.reason
    assert not report.private


def test_a_leak_after_does_not_void_what_came_before():
    report = verdicts(make_pipeline(DPPCA(), LogisticRegression()))
    assert report == {"dppca": "private", "logisticregression": "LEAKS"}


@pytest.mark.parametrize(
    "harmless",
    [
        Normalizer(),
        Binarizer(),
        FunctionTransformer(np.log1p),
        FunctionTransformer(),
        HashingVectorizer(),
        PolynomialFeatures(),
        GaussianRandomProjection(2),
        SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
        OneHotEncoder(categories=[[0, 1]]),
        OrdinalEncoder(categories=[[0, 1]]),
        "passthrough",
        None,
    ],
)
def test_stateless_steps(harmless):
    report = privacy_report(make_pipeline(harmless, DPPCA()))
    assert [step.verdict for step in report] == ["stateless", "private"]


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (DPPCA(epsilon=None), "switched off"),
        (DPPCA(epsilon=np.inf), "switched off"),
        (DPPCA(noise_seed=0), "seed"),
    ],
)
def test_private_estimators_that_are_not(estimator, reason):
    (step,) = privacy_report(estimator)
    assert step.verdict == "LEAKS"
    assert reason in step.reason
    assert step.name == "dppca"


def test_nested_estimators():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), [0]), ("pca", DPPCA(), [1, 2])]
    )
    report = verdicts(make_pipeline(columns, DPPCA()))
    assert report == {
        "columntransformer__scaled": "LEAKS",
        "columntransformer__pca": "private",
        "columntransformer__remainder": "stateless",
        "dppca": "LEAKS",
    }
    union = FeatureUnion([("a", DPPCA()), ("b", StandardScaler())])
    assert verdicts(union) == {"a": "private", "b": "LEAKS"}


def test_columns_that_a_function_picks():
    for columns, private in (
        (lambda X: [0], False),
        (make_column_selector(dtype_include=float), True),
        ([0], True),
    ):
        step = ColumnTransformer([("a", "passthrough", columns)])
        report = privacy_report(make_pipeline(step, DPPCA()))
        assert report.private is private
        assert [s.verdict for s in report][-1] == ("private" if private else "LEAKS")


def test_a_search_leaks_its_choice():
    search = GridSearchCV(make_pipeline(DPPCA()), {"dppca__epsilon": [1.0, 2.0]})
    report = verdicts(search)
    assert report == {"estimator__dppca": "private", "search": "LEAKS"}
    inside = verdicts(make_pipeline(search, DPPCA()))
    assert inside["dppca"] == "LEAKS"


def test_fitted_or_not_is_the_same():
    pipeline = make_pipeline(Normalizer(), DPPCA(1))
    before = str(privacy_report(pipeline))
    pipeline.fit(np.eye(5, 3))
    assert str(privacy_report(pipeline)) == before


def test_budgets_of_clients_and_models_are_said():
    budgets = FederatedDPPCA(1, epsilon={"a": 1.0, "b": 2.0})
    (step,) = privacy_report(budgets)
    assert (step.verdict, step.reason) == (
        "private",
        "each fit spends epsilon=one a client, delta=1e-06",
    )
    model = {"signal_variance": 1.0, "noise_variance": 1.0}
    for cls in (DPPCA, FederatedDPPCA):
        (step,) = privacy_report(cls(1, mechanism="spiked", **model))
        assert "only for rows of the model" in step.reason
        assert "papers' claim" not in step.reason
        (step,) = privacy_report(
            cls(1, mechanism="spiked", calibration="paper", **model)
        )
        assert "papers' claim" in step.reason
