"""Ordinary pipelines: what an accountant says of their fits beforehand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPStandardScaler,
    FederatedDPPCA,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.pipeline import make_private_pipeline

N = 500
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
X["text"] = rng.choice(["x", "y"], N)
y = X["a"].to_numpy() > 0.0
NUMBERS = list("abcd")


def texts():
    return OneHotEncoder(
        categories=[["x", "y"]], handle_unknown="ignore", sparse_output=False
    )


def columns(*more, remainder="drop"):
    steps = [
        ("scaler", DPStandardScaler(epsilon=0.3), ["a", "b"]),
        ("texts", texts(), ["text"]),
        *more,
    ]
    return ColumnTransformer(steps, remainder=remainder, sparse_threshold=0)


def classifier(epsilon=0.4, **params):
    return DPAdamClassifier(
        classes=[False, True], epsilon=epsilon, n_epochs=2, **params
    )


PCA = ("pca", DPPCA(1, epsilon=0.5), ["c", "d"])
MODELS = {
    "columns": (columns(PCA), 2),
    "a pipeline of columns": (make_pipeline(columns(PCA), DPPCA(3)), 3),
    "columns in columns": (
        make_pipeline(columns(("more", columns(), [*NUMBERS, "text"])), DPPCA(3)),
        3,
    ),
    "a union": (
        make_pipeline(
            columns(), FeatureUnion([("a", DPPCA(1)), ("b", DPPCA(2))]), DPPCA(3)
        ),
        4,
    ),
    "a union with what is dropped": (
        make_pipeline(
            columns(),
            FeatureUnion([("a", DPPCA(1)), ("b", "drop"), ("c", "passthrough")]),
            DPPCA(3),
        ),
        3,
    ),
    "what remains": (
        ColumnTransformer(
            [("texts", "drop", ["text"]), ("a", DPPCA(1), ["a", "b"])],
            remainder=DPStandardScaler(),
        ),
        2,
    ),
    "what remains is passed on": (
        make_pipeline(
            ColumnTransformer([("texts", texts(), ["text"])], remainder="passthrough"),
            DPPCA(6),
        ),
        1,
    ),
    "a slice of names": (ColumnTransformer([("a", DPPCA(4), slice("a", "d"))]), 1),
    "a selector": (
        make_pipeline(
            ColumnTransformer(
                [("a", DPStandardScaler(), make_column_selector(dtype_include=float))]
            ),
            DPPCA(4),
        ),
        2,
    ),
    "no columns": (make_pipeline(columns(("none", DPPCA(1), [])), DPPCA(4)), 2),
    "samples": (make_pipeline(columns(), classifier(batch_size=50)), 2),
    "a private pipeline": (
        make_private_pipeline(
            ColumnTransformer([("a", DPStandardScaler(), ["a"])]), DPPCA(1)
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_check_says_is_what_a_fit_costs(name):
    model, n_entries = MODELS[name]
    with PrivacyAccountant() as accountant:
        said = accountant.check(model, X)
        assert accountant.ledger == ()
        model.fit(X, y)
    assert len(accountant.ledger) == n_entries
    assert accountant.spent().epsilon == pytest.approx(said.epsilon, rel=1e-9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
def test_what_check_lets_through_is_let_in(name):
    """Of a budget that is just enough, by the ledger's own rules."""
    model, n_entries = MODELS[name]
    low, high = 0.01, 10.0
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        try:
            PrivacyAccountant(middle, 1e-6).check(model, X)
            high = middle
        except PrivacyBudgetError:
            low = middle
    with PrivacyAccountant(high, 1e-6) as accountant:
        accountant.check(model, X)
        model.fit(X, y)
    assert len(accountant.ledger) == n_entries


def test_what_is_not_known_beforehand():
    accountant = PrivacyAccountant(50.0, 1e-6)
    model = ColumnTransformer([("a", DPStandardScaler(), lambda frame: ["a"])])
    with pytest.raises(ValueError, match="a: the columns that a function selects"):
        accountant.check(model, X)


def test_widths_that_a_step_decides_cost_nothing():
    found = ColumnTransformer([("t", OneHotEncoder(), ["text"])])
    accountant = PrivacyAccountant(50.0, 1e-6)
    said = accountant.check(make_pipeline(found, DPPCA(1)), X)
    assert said.epsilon == pytest.approx(1.0)
    clients = ColumnTransformer([("f", FederatedDPPCA(1), [0, 1])])
    assert accountant.check(make_pipeline(columns(), clients), X).epsilon > 0.0


@pytest.mark.parametrize("deltas", [[1e-9, 1e-6], [1e-6, 1e-9]])
def test_a_refit_is_counted_by_what_the_ledger_charges(deltas):
    """Epsilons of the candidates are alike, and their costs are not."""
    model = classifier(0.5, batch_size=50)
    rows = X[NUMBERS].to_numpy()
    found = [clone(model).set_params(delta=delta) for delta in deltas]
    folds = [one.privacy_plan(N // 2, 4) for one in found for _ in range(2)]
    totals = [
        PrivacyAccountant(9.0, 1e-5).check([*folds, one.privacy_plan(N, 4)]).epsilon
        for one in found
    ]
    grid = GridSearchCV(model, {"delta": deltas}, cv=2)
    said = PrivacyAccountant(9.0, 1e-5).check(grid, rows)
    assert said.epsilon == max(totals) > min(totals)
