"""What a ledger lets in of entries of other kinds, and what it refuses."""

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from kinds_tools import CURVES, ROWS, USERS, counted, plan_of
from ledger_tools import DELTA, faults, fit_plan, plan_with_mu

from skdpspectral import LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.accounting._composition import composed_epsilon
from skdpspectral.mechanisms import (
    Alternatives,
    ApproximateDP,
    Gaussian,
    ParallelPlan,
    SubsampledGaussian,
)

MU = 0.999 * gaussian_mu(1.0, DELTA)

# -- bad calls -----------------------------------------------------------------


def external(epsilon, delta, what, **relation):
    return lambda a: a.charge_external(epsilon, delta, what, **{**ROWS, **relation})


def named(*arguments, **more):
    return lambda a: a.named(*arguments, **more)


def budget(**parameters):
    return lambda _: PrivacyAccountant(**{"epsilon": 1.0, **parameters})


def steps(*fields):
    return lambda _: SubsampledGaussian("a", *fields)


PAIR, COUNTS = CURVES["pair"], (0, -1, 2.5, True, "3", None, math.nan, math.inf)
# What an error says, and the calls that raise it.
BAD_CALLS = {
    "epsilon must be in": [external(e, 0.0, "x") for e in (-0.1, math.inf, math.nan)],
    "epsilon must be a real": [external(e, 0, "x") for e in (None, "1", np.ones(2))],
    "delta must be in": [external(1.0, delta, "x") for delta in (1.0, -1e-9)],
    "delta must be a real number": [external(1.0, True, "x")],
    "what must describe": [external(1.0, 0.0, what) for what in ("  ", 7)],
    "unit must be one of": [external(1.0, 0.0, "x", unit=u) for u in ("record", 1)],
    "neighbors must": [external(1.0, 0.0, "x", neighbors=None)],
    "label must be a string": [named(None), named(b"a")],
    "n_fits must be a positive integer": [
        lambda a, n=n: a.check(fit_plan(), n_fits=n) for n in COUNTS
    ],
    "k must be a positive integer": [lambda a, k=k: a.remaining(k) for k in COUNTS],
    "failures": [budget(failures=part) for part in (-0.1, 1e-6, "a")],
    "pure must be in": [budget(pure=1.0), budget(pure=-1.0)],
    "parts of a budget: pass epsilon": [budget(epsilon=None, pure=0.1)],
    "sampling_probability must": [steps(0.0, 1.0), steps(1.1, 1.0)],
    "noise_multiplier must": [steps(0.1, 0.0)],
    "steps must be": [steps(0.1, 1.0, 0), steps(0.1, 1.0, 2.5)],
    "no guarantee under replace-one": [lambda _: plan_of(CURVES["subsampled"], **ROWS)],
    "epsilon of a budget must be": [budget(epsilon=e) for e in (0, math.inf)],
    "must be Gaussian": [
        lambda _: Alternatives("a", [[PAIR], [Gaussian("g", 1.0, 1.0, (1,))]])
    ],
    "only Gaussian mechanisms": [lambda _: ParallelPlan.of({"a": plan_of(PAIR)})],
    "must differ": [lambda _: plan_of(PAIR, PAIR)],
}


@pytest.mark.parametrize("message", BAD_CALLS)
def test_bad_calls_enter_nothing(message):
    accountant = PrivacyAccountant()
    for call in BAD_CALLS[message]:
        with pytest.raises(ValueError, match=message):
            call(accountant)
    assert accountant.ledger == ()


@pytest.mark.parametrize("name", CURVES)
def test_a_plan_may_not_claim_less_than_its_mechanisms_cost(name):
    cost = composed_epsilon(0.0, counted((CURVES[name], 1)), DELTA)
    if name == "pair":
        cost = CURVES[name].epsilon
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="cost more; calibrate"):
        accountant.charge(plan_of(CURVES[name], epsilon=0.999 * cost))
    accountant.charge(plan_of(CURVES[name], epsilon=1.001 * cost))
    assert len(accountant.ledger) == 1


# -- budgets -------------------------------------------------------------------


def test_a_default_budget_takes_any_mechanism_in_any_order():
    kinds = [*CURVES.values(), Gaussian("g", 1.0, 10.0, (1,))]
    for order in (kinds, kinds[::-1]):
        accountant = PrivacyAccountant(8.0, 1e-5)
        for mechanism in order:
            accountant.charge(plan_of(mechanism))
        assert len(accountant.ledger) == len(kinds)
        assert accountant.spent().epsilon < 8.0
        assert faults(accountant) == []


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("k", [1, 3])
def test_a_budget_without_failures_is_the_mu_of_all_gaussian_fits(mu, k):
    epsilon = gaussian_epsilon(mu, DELTA)
    accountant = PrivacyAccountant(epsilon, DELTA, failures=0.0)
    with pytest.raises(LedgerError, match="has epsilon="):
        PrivacyAccountant(2.0 * epsilon, DELTA, path=accountant.path)
    for _ in range(k):
        accountant.charge(plan_with_mu(mu * (1.0 - 1e-13) / math.sqrt(k)))
    assert accountant.spent().epsilon <= epsilon
    with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
        accountant.charge(plan_with_mu(1e-2 * mu))
    kept = PrivacyAccountant(0.25 + epsilon, 2e-6, failures=1e-6, pure=0.25)
    assert (kept.remaining().failures, kept.remaining().pure) == (1e-6, 0.25)
    kept.charge_external(0.25, 1e-6, "pair", **ROWS)
    assert (kept.remaining().failures, kept.remaining().pure) == (0.0, 0.0)


def test_a_mu_of_another_tool_is_that_of_steps_without_sampling():
    accountant = PrivacyAccountant(4.0, DELTA, failures=0.0, **ROWS)
    steps = SubsampledGaussian("steps", 1.0, 1.0 / 0.3)
    added = {"unit": "row", "neighbors": "add-remove-one"}
    accountant.charge(plan_of(steps, epsilon=2.0, **added))
    assert accountant.ledger[0].charged[0] == pytest.approx(0.6, rel=1e-9)


def test_the_first_entry_says_how_much_epsilon_is_pure():
    """Before anything is released, the box is not chosen by releases."""
    for first, pure in ((0.4, 0.4), (0.0, 0.0), (None, 0.0), (5.0, 0.0)):
        accountant = PrivacyAccountant(3.0, DELTA)
        with contextlib.suppress(PrivacyBudgetError):
            if first is None:
                accountant.charge(fit_plan(0.1))
            else:
                accountant.charge_external(first, 1e-8, "first", **ROWS)
        accountant = PrivacyAccountant(path=accountant.path)
        assert accountant._budget.pure == (None if first == 5.0 else pure)
    accountant = PrivacyAccountant(3.0, DELTA)
    accountant.charge_external(0.4, 1e-8, "first", **ROWS)
    accountant.charge(fit_plan(2.0))
    (first, second) = accountant.ledger
    assert (first.charged[0], first.charged[1]) == (0.0, 1e-8)
    assert first.charged[2] == 0.4
    assert second.charged[0] == pytest.approx(second.mu)


def test_a_first_entry_may_be_the_whole_budget():
    best = ApproximateDP("other", 1.0, DELTA)
    accountant = PrivacyAccountant(1.0, DELTA)
    accountant.charge(plan_of(best, epsilon=1.0))
    assert accountant.spent().epsilon == pytest.approx(1.0, rel=1e-6)
    assert accountant.remaining().epsilon == 0.0
    with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
        accountant.charge(plan_with_mu(1e-3, **USERS))
    small = PrivacyAccountant(0.99, DELTA)
    with pytest.raises(PrivacyBudgetError) as caught:
        small.charge(plan_of(best, epsilon=1.0))
    assert (caught.value.requested, small.ledger) == (1.0, ())
    tight = PrivacyAccountant(1.0, DELTA / 2)
    with pytest.raises(PrivacyBudgetError):
        tight.charge(plan_of(best, epsilon=1.0))


def test_a_first_entry_is_whole_only_for_the_relation_that_it_states():
    """A fit per user who may leave costs twice as much where rows are replaced."""
    accountant = PrivacyAccountant(1.0, DELTA, **ROWS)
    with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
        accountant.charge(plan_of(Gaussian("g", 1.0, 1.0 / MU, (1,)), epsilon=1.0))
    accountant.charge(plan_of(Gaussian("g", 1.0, 1.0 / MU, (1,)), epsilon=1.0, **ROWS))
    assert accountant.spent().epsilon <= 1.0


@pytest.mark.parametrize("name", CURVES)
def test_a_budget_is_never_exceeded_and_is_used(name):
    """What the filter lets in has cost less than the budget when it is full."""
    plan, budget = plan_of(CURVES[name]), 6.0
    accountant = PrivacyAccountant(budget, DELTA)
    count = 0
    with contextlib.suppress(PrivacyBudgetError):
        while count < 200:
            accountant.charge(plan)
            count += 1
    assert 2 <= count < 200
    assert len(accountant.ledger) == count
    assert 0.3 * budget < accountant.spent().epsilon <= budget


def test_remaining_is_what_may_be_charged():
    accountant = PrivacyAccountant(4.0, DELTA, failures=0.5 * DELTA, pure=1.0)
    for _ in range(2):
        for count in (1, 3):
            share = accountant.remaining(count).epsilon
            plans = [fit_plan(share)] * count
            assert accountant.check(plans).epsilon <= 4.0
            with pytest.raises(PrivacyBudgetError):
                accountant.check([fit_plan(1.001 * share)] * count)
        accountant.charge_external(0.3, 1e-8, "more", **ROWS)
    assert accountant.remaining().epsilon < 3.0
    accountant.charge_external(0.1, 4.0e-7, "most of delta", **ROWS)
    with pytest.raises(PrivacyBudgetError, match="deltas of other tools"):
        accountant.charge_external(0.1, 1.0e-7, "too much", **ROWS)


def failing_plan(epsilon, delta):
    """Plan that keeps a tenth of delta for failures."""
    mu = gaussian_mu(epsilon, 0.9 * delta) * (1.0 - 1e-6)
    plan = plan_with_mu(mu)
    return replace(plan, epsilon=epsilon, delta=delta, failure=0.1 * delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (9.0, 1e-6)])
def test_refusals_of_failures_say_so(epsilon, delta):
    accountant = PrivacyAccountant(4.0, 1e-6)
    accountant.charge(failing_plan(1.0, 3e-7))
    said = "The cause is not epsilon: .* may use 1e-07, 3e-08 is used, and this would"
    with pytest.raises(PrivacyBudgetError, match=said):
        accountant.check(failing_plan(epsilon, delta))
    with pytest.raises(PrivacyBudgetError) as refusal:
        accountant.check(failing_plan(4.5, 1e-7))
    assert "not epsilon" not in str(refusal.value)
    accountant.check(fit_plan(0.99 * refusal.value.remaining))
