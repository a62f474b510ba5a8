"""Fits and the ledger: plans, failures, opt-outs, seeds, with blocks."""

import math

import numpy as np
import pytest
from ledger_tools import DELTA, X, entries, fit_plan

from skdpspectral import (
    DPPCA,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral.accounting import ambient_accountant


def state(estimator):
    return {name: id(value) for name, value in vars(estimator).items()}


# -- failures ------------------------------------------------------------------


def test_a_refused_fit_leaves_ledger_and_estimator_as_they_were():
    accountant = PrivacyAccountant(1.0, DELTA)
    pca = DPPCA(1, epsilon=0.8, accountant=accountant).fit(X)
    before, ledger = state(pca), entries(accountant)
    with pytest.raises(PrivacyBudgetError) as caught:
        pca.fit(X + 1.0)
    assert state(pca) == before
    assert entries(accountant) == ledger
    assert caught.value.requested == pytest.approx(0.8, rel=1e-6)
    left = accountant.remaining().epsilon
    assert caught.value.remaining == pytest.approx(left, rel=1e-9)


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "where", ["_statistics.moments.sum_of_outer_products", "_linalg.eigen.top_eigh"]
)
@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_fails_after_the_charge_stays_charged(
    monkeypatch, where, error, fitted
):
    """Even before any release: nobody can tell what the error gave away."""
    accountant = PrivacyAccountant(3.0, DELTA)
    pca = DPPCA(1, center="none", accountant=accountant)
    if fitted:
        pca.fit(X)
    before = state(pca)

    def explode(*args, **kwargs):
        raise error("exploded")

    with monkeypatch.context() as patch:
        patch.setattr(f"skdpspectral.{where}", explode)
        with pytest.raises(error, match="exploded"):
            pca.fit(X)
    assert len(entries(accountant)) == 1 + fitted
    assert state(pca) == before
    pca.fit(X)
    assert len(entries(accountant)) == 2 + fitted


# -- no privacy ----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [None, math.inf])
def test_opting_out_is_an_infinite_spend(epsilon):
    pca = DPPCA(1, epsilon=epsilon)
    budgeted, free = PrivacyAccountant(1e6, DELTA), PrivacyAccountant()
    with (
        pytest.warns(PrivacyLeakWarning, match="without privacy"),
        pytest.raises(PrivacyBudgetError, match="spends without limit") as caught,
    ):
        pca.set_params(accountant=budgeted).fit(X)
    assert caught.value.requested == math.inf
    with pytest.raises(PrivacyBudgetError, match="spends without limit"):
        budgeted.check(pca.privacy_plan(*X.shape))
    assert len(entries(budgeted)) == 0
    assert not hasattr(pca, "components_")
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        pca.set_params(accountant=free).fit(X)
    free.charge(fit_plan())
    assert free.spent().epsilon == math.inf
    assert free.check(fit_plan()).epsilon == math.inf
    assert "epsilon=inf" in str(free)
    assert [entry["epsilon"] for entry in entries(free)] == [math.inf, 1.0]


@pytest.mark.parametrize("noise_seed", [0, np.random.RandomState(0)])
def test_seeded_fits_and_budgets(noise_seed):
    accountant = PrivacyAccountant(1.4547, DELTA, failures=0)
    pca = DPPCA(1, accountant=accountant, noise_seed=noise_seed)
    with pytest.raises(PrivacyBudgetError, match="noise_seed") as caught:
        pca.fit(X)
    assert caught.value.requested == math.inf
    assert len(entries(accountant)) == 0
    free = PrivacyAccountant()
    pca.set_params(accountant=free).fit(X)
    assert entries(free)[0]["seeded"] == 1
    assert free.spent().epsilon == math.inf


# -- with blocks ---------------------------------------------------------------


def test_with_blocks_nest():
    outer, inner = PrivacyAccountant(), PrivacyAccountant()
    pca = DPPCA(1)
    assert ambient_accountant() is None
    with outer:
        pca.fit(X)
        with inner as entered:
            assert entered is ambient_accountant() is inner
            pca.fit(X)
            with outer, outer:
                pca.fit(X)
            pca.fit(X)
        pca.fit(X)
    pca.fit(X)
    assert ambient_accountant() is None
    assert (len(entries(outer)), len(entries(inner))) == (3, 2)
    assert pca.accountant is None


def test_a_with_block_ends_with_an_exception():
    outer, inner = PrivacyAccountant(), PrivacyAccountant(0.5, DELTA)
    with outer:
        with pytest.raises(PrivacyBudgetError), inner:
            DPPCA(1).fit(X)
        assert ambient_accountant() is outer
        with pytest.raises(KeyboardInterrupt), inner:
            raise KeyboardInterrupt
        assert ambient_accountant() is outer
    assert ambient_accountant() is None
    assert len(entries(inner)) == len(entries(outer)) == 0


def test_a_parameter_wins_over_a_block_and_the_innermost_over_others():
    mine, ambient = PrivacyAccountant(), PrivacyAccountant(0.5, DELTA)
    with ambient:
        DPPCA(1, accountant=mine).fit(X)
        DPPCA(1, accountant=mine.named("label")).fit(X)
    with mine, mine.named("noon"):
        DPPCA(1).fit(X)
    labels = [entry["label"] for entry in entries(mine)]
    assert (labels, entries(ambient)) == ([None, "label", "noon"], [])
