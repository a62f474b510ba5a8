"""Ordinary pipelines: what an accountant says before."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
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
    "a slice of names": (
        ColumnTransformer([("a", DPPCA(4), slice("a", "d"))]),
        1,
    ),
    "a selector": (
        make_pipeline(
            ColumnTransformer(
                [("a", DPStandardScaler(), make_column_selector(dtype_include=float))]
            ),
            DPPCA(4),
        ),
        2,
    ),
    "no columns": (
        make_pipeline(columns(("none", DPPCA(1), [])), DPPCA(4)),
        2,
    ),
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


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            ColumnTransformer([("a", DPStandardScaler(), lambda frame: ["a"])]),
            "ColumnTransformer: a: the columns that a function selects are not known",
        ),
        (
            make_pipeline(
                ColumnTransformer([("t", OneHotEncoder(), ["text"])]), DPPCA(1)
            ),
            "t: the number of columns that OneHotEncoder returns is not known",
        ),
        (
            make_pipeline(
                columns(), ColumnTransformer([("f", FederatedDPPCA(1), [0, 1])])
            ),
            None,
        ),
    ],
    ids=["function", "categories", "federated"],
)
def test_what_is_not_known_beforehand(model, words):
    accountant = PrivacyAccountant(50.0, 1e-6)
    if words is None:
        assert accountant.check(model, X).epsilon > 0.0
        return
    with pytest.raises(ValueError, match=words):
        accountant.check(model, X)
