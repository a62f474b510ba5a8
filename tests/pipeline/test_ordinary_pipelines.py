"""Ordinary pipelines: what an accountant says before, and budgets that it allocates."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPStandardScaler,
    FederatedDPPCA,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.accounting import gaussian_mu
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


# -- budgets of steps ----------------------------------------------------------------


def charged(model, accountant):
    """Fit a model whose steps are charged to an accountant."""
    with accountant:
        return model.fit(X, y)


def test_steps_of_gaussian_noise_get_shares_of_mu():
    accountant = PrivacyAccountant()
    model = make_pipeline(columns(PCA), DPPCA(3))
    found = accountant.allocate(model, X, epsilon=2.0, delta=1e-7)
    assert model[1].epsilon == 1.0
    assert accountant.ledger == ()
    charged(found, accountant)
    mus = np.array([entry.mu for entry in accountant.ledger])
    total = gaussian_mu(2.0, 1e-7)
    shares = (mus / total) ** 2
    # Ledgers set a tenth of delta aside for what is not Gaussian.
    assert 0.99 < shares.sum() <= 1.0
    np.testing.assert_allclose(
        shares / shares.sum(), np.array([1, 2, 2]) / 5, rtol=1e-6
    )
    assert accountant.spent(1e-7).epsilon <= 2.0


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_samples_get_what_their_ledger_lets_in(share):
    accountant = PrivacyAccountant(1.5, 1e-6)
    shares = {"columntransformer": share, "dpadamclassifier": 1.0 - share}
    model = make_pipeline(columns(), classifier(batch_size=50))
    found = accountant.allocate(model, X, shares=shares)
    charged(found, accountant)
    assert len(accountant.ledger) == 2
    assert 1.4 < accountant.spent().epsilon <= 1.5


def test_what_was_spent_before_counts():
    accountant = PrivacyAccountant(2.0, 1e-6)
    accountant.charge(DPPCA(1, epsilon=1.2).privacy_plan(N, 4))
    model = make_pipeline(DPStandardScaler(), DPPCA(2))
    with pytest.raises(ValueError, match="not a private step"):
        accountant.allocate(model, X[NUMBERS], shares={"pca": 1.0})
    found = accountant.allocate(model, X[NUMBERS])
    with accountant:
        found.fit(X[NUMBERS])
    assert 1.95 < accountant.spent().epsilon <= 2.0


def test_what_cannot_be_allocated():
    model = make_pipeline(DPStandardScaler(), DPPCA(2))
    with pytest.raises(ValueError, match="epsilon must be given"):
        PrivacyAccountant().allocate(model, X[NUMBERS])
    plain = make_pipeline(FunctionTransformer())
    with pytest.raises(ValueError, match="no private estimator"):
        PrivacyAccountant().allocate(plain, X[NUMBERS], epsilon=1.0)
    accountant = PrivacyAccountant(1.0, 1e-6)
    accountant.charge(DPPCA(1, epsilon=1.0).privacy_plan(N, 4))
    with pytest.raises(PrivacyBudgetError):
        accountant.allocate(model, X[NUMBERS], epsilon=0.5)
