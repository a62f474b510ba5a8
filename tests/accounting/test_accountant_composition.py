"""What the ledger adds up to, and what a budget lets in: exactly."""

import math
from dataclasses import replace

import numpy as np
import pytest
from ledger_tools import DELTA, entries, fit_plan, plan_with_mu

from skdpspectral import LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import Spent, gaussian_delta, gaussian_epsilon, gaussian_mu
from skdpspectral.mechanisms import ParallelPlan

MU = gaussian_mu(1.0, DELTA)


def epsilon_of(accountant):
    return accountant.spent(DELTA).epsilon


def assert_uncharged(accountant, call, error, match):
    before = entries(accountant)
    with pytest.raises(error, match=match) as caught:
        call()
    assert entries(accountant) == before
    return caught.value


def test_labels_compose_one_after_another():
    accountant = PrivacyAccountant(unit="row", neighbors="replace-one")
    for label in "aba":
        accountant.named(label).charge(fit_plan())
    expected = gaussian_epsilon(3**0.5 * MU, DELTA)
    assert epsilon_of(accountant) == pytest.approx(expected, rel=1e-9)
    assert [entry["label"] for entry in entries(accountant)] == ["a", "b", "a"]


def parallel(*epsilons):
    """Plan of clients with these epsilons."""
    return ParallelPlan.of({str(i): fit_plan(e) for i, e in enumerate(epsilons)})


def test_clients_of_one_fit_are_one_entry():
    accountant = PrivacyAccountant(1.4547, DELTA, failures=0)
    accountant.charge(parallel(1.0, 0.5, 0.3))
    assert epsilon_of(accountant) == pytest.approx(1.0, rel=1e-9)
    # The next fit is of the same rows: it comes on top, or not at all.
    assert_uncharged(
        accountant,
        lambda: accountant.charge(parallel(1.0, 1.2)),
        PrivacyBudgetError,
        "nothing was charged",
    )
    accountant.charge(parallel(1.0))
    assert round(epsilon_of(accountant), 3) == 1.455
    assert len(accountant.ledger) == 2


def test_a_client_may_not_claim_less_than_it_costs():
    weak = replace(fit_plan(1.0), epsilon=0.5)
    plan = ParallelPlan.of({"a": fit_plan(2.0), "b": weak})
    with pytest.raises(ValueError, match="cost more; calibrate"):
        PrivacyAccountant().charge(plan)


ROW_REPLACE, ROW_ADD = ("row", "replace-one"), ("row", "add-remove-one")
USER_REPLACE, USER_ADD = ("user", "replace-one"), ("user", "add-remove-one")
ROW_ZERO, USER_ZERO = ("row", "zero-out-one"), ("user", "zero-out-one")
CONVERSIONS = [
    (USER_REPLACE, ROW_REPLACE, 2.0),
    (USER_ADD, USER_REPLACE, 2.0),
    (USER_ADD, ROW_REPLACE, 4.0),
    (USER_ZERO, ROW_REPLACE, 4.0),
    (USER_ADD, ROW_ADD, 2.0),
    (USER_ZERO, USER_REPLACE, 2.0),
    (ROW_ADD, ROW_REPLACE, 2.0),
    (ROW_ZERO, ROW_REPLACE, 2.0),
    (USER_ADD, USER_ADD, 1.0),
]
REFUSALS = [
    (ROW_REPLACE, USER_REPLACE),
    (ROW_ADD, USER_ADD),
    (ROW_REPLACE, ROW_ADD),
    (USER_REPLACE, USER_ADD),
    (USER_REPLACE, ROW_ADD),
    (ROW_REPLACE, ROW_ZERO),
]


def ledger_of(relation, how, *budget):
    """Ledger whose relation the constructor or an almost free entry fixed."""
    if how == "constructor":
        unit, neighbors = relation
        return PrivacyAccountant(*budget, unit=unit, neighbors=neighbors)
    accountant = PrivacyAccountant(*budget, failures=0.0 if budget else None)
    accountant.charge(plan_with_mu(1e-9, *relation))
    return accountant


@pytest.mark.parametrize("how", ["constructor", "first entry"])
@pytest.mark.parametrize(("relation", "kept", "factor"), CONVERSIONS, ids=str)
def test_converted_totals_are_held_against_the_budget(relation, kept, factor, how):
    total = factor * MU
    accountant = ledger_of(kept, how, gaussian_epsilon(total, DELTA), DELTA)
    too_much = plan_with_mu(1.001 * MU, *relation)
    for call in (accountant.charge, accountant.check):
        assert_uncharged(
            accountant, lambda f=call: f(too_much), PrivacyBudgetError, "nothing was"
        )
    fitting = plan_with_mu((1 - 1e-12) * MU, *relation)
    accountant.check(fitting)
    accountant.charge(fitting)
    entry = entries(accountant)[-1]
    assert (entry["unit"], entry["neighbors"]) == relation
    assert (entry["mu"], entry["ledger_mu"]) == (fitting.mu, factor * fitting.mu)
    expected = gaussian_epsilon(total, DELTA)
    assert epsilon_of(accountant) == pytest.approx(expected, rel=1e-9)
    assert f"per {kept[0]}, {kept[1]}." in str(accountant)


@pytest.mark.parametrize("how", ["constructor", "first entry"])
@pytest.mark.parametrize(("relation", "kept"), REFUSALS, ids=str)
def test_relations_that_do_not_follow_are_refused(relation, kept, how):
    accountant, plan = ledger_of(kept, how), plan_with_mu(MU, *relation)
    unit, neighbors = map(repr, relation)
    remedy = rf"implies nothing[\s\S]*unit={unit}, neighbors={neighbors}"
    for call in (accountant.charge, accountant.check):
        assert_uncharged(accountant, lambda f=call: f(plan), LedgerError, remedy)


def test_a_ledger_of_users_takes_no_clients_of_rows():
    accountant = PrivacyAccountant(unit="user", neighbors="add-remove-one")
    plan = plan_with_mu(MU, "user", "add-remove-one")
    assert_uncharged(
        accountant,
        lambda: accountant.charge(ParallelPlan.of({"a": plan, "b": plan})),
        LedgerError,
        "ledger of rows",
    )


def test_a_refused_first_entry_fixes_nothing():
    accountant = PrivacyAccountant(1.0, DELTA)
    dear = plan_with_mu(2 * MU, *USER_ADD)
    mixed = [plan_with_mu(0.1 * MU, *relation) for relation in (USER_ADD, ROW_ZERO)]
    with pytest.raises(PrivacyBudgetError):
        accountant.charge(dear)
    with pytest.raises(LedgerError, match="implies nothing"):
        accountant.check(mixed)
    assert entries(accountant) == []
    accountant.check(plan_with_mu(0.5 * MU, *USER_ADD))
    accountant.charge(plan_with_mu(0.5 * MU, *ROW_REPLACE))
    assert "per row, replace-one" in str(accountant)


def refuses(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except PrivacyBudgetError:
        return True
    return False


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_what_remains_can_be_spent_and_no_more(seed):
    generator = np.random.default_rng(seed)
    for _ in range(6):
        budget, delta = (
            10 ** generator.uniform(-1, 1.5),
            10 ** generator.uniform(-12, -4),
        )
        accountant = PrivacyAccountant(budget, delta)
        assert accountant.remaining().epsilon == pytest.approx(budget, rel=1e-12)
        for share in generator.uniform(0.1, 0.95, size=3):
            left = accountant.remaining().epsilon
            accountant.charge(fit_plan(share * left, delta=delta))
        left = accountant.remaining()
        assert left.delta == accountant.delta == delta
        # One in a thousand more is too much, and what remains is not.
        more = fit_plan(1.001 * left.epsilon, delta=delta)
        error = assert_uncharged(
            accountant,
            lambda p=more, a=accountant: a.charge(p),
            PrivacyBudgetError,
            "nothing was charged",
        )
        assert error.remaining == pytest.approx(left.epsilon, rel=1e-6)
        assert error.requested == pytest.approx(1.001 * left.epsilon, rel=1e-6)
        accountant.charge(fit_plan(left.epsilon, delta=delta))
        assert accountant.spent().epsilon <= budget
        tiny = plan_with_mu(1e-3 * gaussian_mu(budget, delta))
        assert refuses(accountant.charge, tiny)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", ["asked", "planned"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-12), (1.0, 1e-6), (3.0, 1e-9), (20.0, 1e-3)]
)
def test_a_budget_of_k_fits_lets_exactly_k_in(epsilon, delta, source):
    """The budget comes from the epsilon that is asked for, or from the plan."""
    plan = fit_plan(epsilon, delta=delta)
    mu = gaussian_mu(epsilon, delta) if source == "asked" else plan.mu
    for k in (1, 2, 3, 5, 8, 10):
        budget = gaussian_epsilon(k**0.5 * mu, delta)
        accountant = PrivacyAccountant(budget, delta, failures=0)
        for left in range(k, 0, -1):
            promised = accountant.check(plan, n_fits=left)
            assert promised.epsilon == pytest.approx(budget, rel=1e-9)
            assert refuses(accountant.check, plan, n_fits=left + 1)
            assert not refuses(accountant.charge, plan)
        assert refuses(accountant.check, plan)
        assert refuses(accountant.charge, plan)
        assert len(entries(accountant)) == k


def test_a_fit_is_held_against_the_budget_at_the_budgets_delta():
    """Not at its own: a fit at a small delta costs more at a large epsilon."""
    accountant = PrivacyAccountant(1.0, 1e-9)
    assert refuses(accountant.charge, fit_plan(1.0, delta=1e-6))
    accountant.charge(fit_plan(1.0, delta=1e-9))
    accountant = PrivacyAccountant(1.0, 1e-6)
    accountant.charge(fit_plan(1.0, delta=1e-9))
    assert accountant.remaining().epsilon > 0.3


def test_totals_are_stated_at_any_delta():
    accountant = PrivacyAccountant()
    assert accountant.spent() == Spent(0.0, 1e-6)
    assert accountant.remaining().epsilon == math.inf
    plans = [fit_plan(0.5, delta=1e-8), fit_plan(1.5, delta=1e-8)]
    for plan in plans:
        accountant.charge(plan)
    mu = math.hypot(*(plan.mu for plan in plans))
    expected = gaussian_epsilon(mu, 1e-8), 1e-8
    assert accountant.spent() == pytest.approx(expected, rel=1e-9)
    for delta in (1e-3, 1e-6, 1e-12):
        epsilon = accountant.spent(delta).epsilon
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-9)
    for bad in (0.0, 1.0, -1e-6, 1e-16, math.nan):
        with pytest.raises(ValueError, match="delta"):
            accountant.spent(bad)
    assert PrivacyAccountant(1.0, 1e-4).spent().delta == 1e-4


def test_a_negative_zero_or_a_wrong_clock_damages_no_ledger(tmp_path, monkeypatch):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    rows = {"unit": "row", "neighbors": "replace-one"}
    for epsilon, delta in ((0.1, -0.0), (-0.0, 0.0), (0.1, 1e-9)):
        accountant.charge_external(epsilon, delta, "counts", **rows)
    monkeypatch.setattr("time.time", lambda: 1e12)
    with pytest.raises(LedgerError, match="clock"):
        accountant.charge_external(0.1, 0.0, "counts", **rows)
    assert len(PrivacyAccountant(path=tmp_path / "ledger.db").ledger) == 3
    assert accountant.spent() == pytest.approx((0.2, 2e-9))
