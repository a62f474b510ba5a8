"""Refusals with an order of their own: warnings, streams, and optimizers."""

import numpy as np
import pytest
from estimators import ENTRIES, ROWS
from ledger_tools import refused
from sklearn.model_selection import GridSearchCV

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    JMECovariance,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdpspectral.neural_network import Adam, JMEAdam

NAN, INF = float("nan"), float("inf")
X = np.clip(ROWS, -3.0, 3.0)


@pytest.mark.parametrize("parameters", [{"epsilon": NAN}, {"n_components": -1}])
def test_a_ledger_of_a_with_block_is_not_charged(parameters):
    accountant = PrivacyAccountant(2.0)
    with accountant, pytest.raises(ValueError, match=r"epsilon|n_components"):
        DPPCA(**parameters).fit(X)
    assert accountant.ledger == ()


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("parameters", [{"epsilon": None}, {"delta": 0.1}])
def test_a_warning_that_is_raised_as_an_error_costs_nothing(name, parameters):
    entry = ENTRIES[name]
    if entry.unit == "user":  # of how many users is not public
        parameters = {"epsilon": INF}
    with refused(None, PrivacyLeakWarning) as accountant:
        entry.fit(entry.make(accountant=accountant, **parameters))


@pytest.mark.parametrize("name", ["DPItemEmbedding", "DPMatrixFactorization"])
def test_a_missing_catalog_is_said_before_a_charge(name):
    with refused("items is required: pass the public catalog") as accountant:
        ENTRIES[name].fit(ENTRIES[name].make(accountant=accountant, items=None))


# -- streams ---------------------------------------------------------------------------


def test_a_stream_without_a_horizon_has_no_partial_fit():
    assert not hasattr(JMECovariance(), "partial_fit")
    assert hasattr(JMECovariance(workload="mean"), "partial_fit")


# -- networks --------------------------------------------------------------------------


def test_the_optimizer_is_searched_as_a_nested_parameter():
    grid = {"optimizer__learning_rate": [0.01, 0.1], "optimizer__moments": ["pp"]}
    model = DPAdamRegressor(target_bounds=(-1, 1), n_epochs=1, optimizer=Adam())
    search = GridSearchCV(model, grid, cv=2).fit(X, X[:, 0])
    assert search.best_estimator_.optimizer.learning_rate in (0.01, 0.1)
    with pytest.raises(ValueError, match="optimizer='adam' has no parameters"):
        DPAdamRegressor().set_params(optimizer__learning_rate=0.1)


def test_bad_gradients():
    adam = JMEAdam(3, 30, batch_size=30)
    batch = next(adam.batches())
    gradients = np.random.default_rng(0).normal(size=(len(batch), 3))
    for wrong in (
        gradients[:-1],
        gradients[:, :2],
        gradients[0],
        gradients * 1j,
        np.ma.masked_array(gradients),
        gradients.astype(str),
        gradients.astype(object),
        None,
        "abc",
        3.0,
        [],
    ):
        with pytest.raises(ValueError, match="gradients") as caught:
            adam.step(wrong, batch)
        assert str(len(batch)) not in str(caught.value)  # secret of a sample
    assert adam.position == 0
    gradients[0], gradients[1] = NAN, INF  # which are of examples, and count as zero
    assert np.isfinite(adam.step(gradients, batch)).all()
