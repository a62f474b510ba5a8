"""Entries of any kind: what they cost together, and what a ledger lets in."""

import itertools
import math
import pickle
from decimal import Decimal

import numpy as np
import pytest
from kinds_tools import (
    CURVES,
    ROWS,
    USERS,
    composed_delta,
    counted,
    plan_of,
    without_name,
)
from ledger_tools import DELTA, faults, fit_plan, plan_with_mu, refused
from scipy.stats import binom

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant
from skdpspectral.accounting import _composition as _losses
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.accounting._composition import (
    composed,
    composed_epsilon,
    connect_dots,
)
from skdpspectral.accounting._ledger.costs import restated
from skdpspectral.mechanisms import (
    ApproximateDP,
    Gaussian,
    PrivacyPlan,
    SubsampledGaussian,
)

# -- composition against closed forms ------------------------------------------


@pytest.mark.parametrize("mu", [0.002, 0.02, 0.2])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_a_thousand_gaussians_by_another_name(mu, delta):
    """Of a Poisson sample of everybody nothing is amplified: the cost is known."""
    exact = gaussian_epsilon(mu * math.sqrt(1000), delta)
    curves = counted((SubsampledGaussian("", 1.0, 1.0 / mu), 1000))
    bound = composed_epsilon(0.0, curves, delta)
    assert exact <= bound <= exact * (1.0 + 5e-4)
    # Half of them as what they are.
    curves = counted((SubsampledGaussian("", 1.0, 1.0 / mu), 500))
    bound = composed_epsilon(mu * math.sqrt(500), curves, delta)
    assert exact <= bound <= exact * (1.0 + 5e-4)
    assert delta <= composed_delta(mu * math.sqrt(500), curves, exact) < 1.03 * delta


@pytest.mark.parametrize(("steps", "delta"), [(1000, 1e-12), (100_000, 1e-10)])
def test_rounding_of_transforms_is_no_privacy(steps, delta):
    """Powers have the errors of a transform as often: a tail below them is not seen."""
    curve = SubsampledGaussian("", 1.0, math.sqrt(steps), steps)
    exact = gaussian_epsilon(1.0, delta)
    assert exact <= composed_epsilon(0.0, counted((curve, 1)), delta)
    losses = _losses.composed_losses(0.0, counted((curve, 1)))
    seen = max(way.delta(exact) for way in losses)
    assert abs(seen - delta) <= _losses.TRANSFORM * steps + 0.03 * delta


def optimal_delta(pairs, epsilon):
    """Optimal composition of pairs, by all subsets (Murtagh and Vadhan 2016)."""
    gain = 0.0
    for signs in itertools.product([1, -1], repeat=len(pairs)):
        loss = sum(sign * pair[0] for sign, pair in zip(signs, pairs, strict=True))
        yes = math.prod(
            (math.exp(e) if sign > 0 else 1.0) / (1.0 + math.exp(e))
            for sign, (e, _) in zip(signs, pairs, strict=True)
        )
        gain += yes * max(1.0 - math.exp(epsilon - loss), 0.0)
    kept = math.prod(1.0 - delta for _, delta in pairs)
    return 1.0 - kept * (1.0 - gain)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_against_the_optimal_composition_theorem(seed):
    generator = np.random.default_rng(seed)
    sizes = generator.uniform(0.01, 1.2, 9)
    pairs = [(float(e), 10.0 ** generator.uniform(-9, -6)) for e in sizes]
    curves = counted(*((ApproximateDP("", *pair), 1) for pair in pairs))
    for epsilon in (0.5, 1.5, 0.8 * sizes.sum()):
        exact = optimal_delta(pairs, epsilon)
        bound = composed_delta(0.0, curves, epsilon)
        assert exact <= bound <= exact * 1.01
        assert composed_epsilon(0.0, curves, exact) >= epsilon * (1.0 - 1e-9)
    equal = counted((ApproximateDP("", 0.3, 1e-7), 9))
    exact = optimal_delta([(0.3, 1e-7)] * 9, 1.0)
    assert exact <= composed_delta(0.0, equal, 1.0) <= exact * 1.01


def test_costs_that_no_distribution_can_hold_have_a_bound_all_the_same():
    """A thousand that all differ, a Gaussian of mu = 100, and pairs near nothing."""
    pairs = [(ApproximateDP("", 1e-2 + 1e-8 * k, 0.0), 1) for k in range(1000)]
    bound = composed_epsilon(0.0, counted(*pairs), DELTA)
    exact = composed_epsilon(0.0, counted((ApproximateDP("", 1e-2, 0.0), 1000)), DELTA)
    assert exact <= bound <= 1.001 * exact
    tiny = counted((ApproximateDP("", 1e-8, 1e-9), 4))
    assert composed_epsilon(1e-8, tiny, DELTA) == 0.0
    pair = counted((ApproximateDP("", 0.1, 0.0), 1))
    large = composed_epsilon(100.0, pair, DELTA)
    assert (
        gaussian_epsilon(100.0, DELTA) < large < 1.01 * gaussian_epsilon(100.0, DELTA)
    )
    assert composed_epsilon(math.inf, pair, DELTA) == math.inf


# -- entries -------------------------------------------------------------------


@pytest.mark.parametrize("name", CURVES)
def test_entries_say_what_they_are(name):
    accountant = PrivacyAccountant()
    plan = plan_of(CURVES[name], Gaussian("moment", 0.1, 1.0, (3,)))
    accountant.charge(plan)
    accountant.charge(plan_with_mu(0.1, **USERS))
    first, second = accountant.ledger
    assert first.kinds == [CURVES[name].kind]
    assert (first.mu, second.kinds) == (math.inf, [])
    assert first.ledger_mu == pytest.approx(0.1, rel=1e-6)
    assert PrivacyPlan.from_json(first.plan) == plan == pickle.loads(pickle.dumps(plan))
    assert plan.private
    assert "private with epsilon=5, delta=1e-06 per" in str(plan)
    assert "inf" not in plan.details()
    alone = composed_epsilon(0.0, counted((CURVES[name], 1)), DELTA)
    assert alone < accountant.spent(DELTA).epsilon < 5.0


def test_equal_mechanisms_are_counted_once(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    for name in ("one", "two"):
        accountant.charge_external(0.1, 1e-9, name, **ROWS)
    accountant.charge_external(0.2, 1e-9, "three", **ROWS)
    found = accountant._standing().total
    assert found.curves == counted(
        (ApproximateDP("", 0.1, 1e-9), 2), (ApproximateDP("", 0.2, 1e-9), 1)
    )
    assert found.additive == pytest.approx(3e-9)


def test_external_spending_joins_fits():
    accountant = PrivacyAccountant()
    DPPCA(1, accountant=accountant).fit(np.eye(50, 4))
    accountant.charge_external(0.7, 1e-7, "counts by region", **ROWS)
    fit, external = accountant.ledger
    assert (external.estimator, external.epsilon) == ("counts by region", 0.7)
    assert (fit.kinds, external.kinds) == ([], ["approximate-dp"])
    spent = accountant.spent(2e-6).epsilon
    assert 1.0 < spent < 1.7
    assert accountant.spent().delta == 2e-7  # twice what tools leave to chance
    with pytest.raises(ValueError, match="delta must be in"):
        accountant.spent(1e-16)
    assert accountant.spent(1e-8).epsilon == math.inf


def test_pairs_of_no_delta_at_all():
    accountant = PrivacyAccountant()
    accountant.charge_external(1.0, 0.0, "Laplace", **ROWS)
    spent = accountant.spent()
    assert spent.delta == 1e-6
    assert 0.999 < spent.epsilon <= 1.0
    accountant.charge_external(0.0, 0.0, "nothing", **ROWS)
    assert accountant.spent().epsilon == pytest.approx(spent.epsilon, rel=1e-3)


# For two changes of a user, and for four; samples help for two alone.
FIVE = sum(math.exp(0.5 * i) for i in range(4)) * 1e-8
RESTATED = {
    "subsampled": [
        SubsampledGaussian("", 0.01, 1.0, 500, True),
        SubsampledGaussian("", 1.0, 0.5, 500, True),
    ],
    "pair": [
        ApproximateDP("", 1.0, (1.0 + math.exp(0.5)) * 1e-8),
        ApproximateDP("", 2.0, FIVE),
    ],
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("budget", [(), (2e4, 1e-5)])
@pytest.mark.parametrize("unit", ["user", "row"])
def test_guarantees_of_users_who_leave_count_for_replacements(name, budget, unit):
    """A user is replaced in two steps; a row that changes its user, in four."""
    relation = {"unit": unit, "neighbors": "replace-one"}
    accountant = PrivacyAccountant(*budget, **relation)
    accountant.charge(plan_of(CURVES[name]))
    ((found, times),) = accountant._standing().total.curves
    for field, value in without_name(RESTATED[name][unit == "row"]).items():
        expected = pytest.approx(value, rel=1e-11) if field == "delta" else value
        assert getattr(found, field) == expected
    assert times == 1
    assert faults(accountant) == []
    # What does not follow is refused, as ever.
    with pytest.raises(LedgerError, match="separate ledger"):
        PrivacyAccountant(**USERS).charge(fit_plan())


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 300.0, 701.0, 1e4, 1e300])
@pytest.mark.parametrize("delta", [0.0, 5e-324, 1e-320, 1e-304, 1e-200, 1e-9, 0.9])
@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_a_restated_pair_claims_no_less_than_its_chain(epsilon, delta, factor):
    found = restated(ApproximateDP("a", epsilon, delta), factor)
    exact = Decimal(delta) * sum(
        (i * Decimal(epsilon)).exp() if i * epsilon < 1e5 else Decimal("1e999")
        for i in range(int(factor))
    )
    assert found.delta >= min(exact, Decimal(np.nextafter(1.0, 0.0)))
    assert found.epsilon == factor * epsilon
    assert (found.delta > 0.0) == (delta > 0.0)


def test_failures_of_a_model_are_not_restated():
    plan = plan_of(CURVES["subsampled"], failure=1e-7)
    with pytest.raises(LedgerError, match="but for a probability of failure"):
        PrivacyAccountant(**ROWS).charge(plan)


def test_seeds_and_failures_count_as_before():
    accountant = PrivacyAccountant()
    accountant.charge(plan_of(CURVES["pair"], seeded=True))
    assert accountant.spent().epsilon == math.inf
    accountant = PrivacyAccountant()
    accountant.charge(plan_of(CURVES["subsampled"], failure=4e-7))
    left = composed_epsilon(0.0, counted((CURVES["subsampled"], 1)), 6e-7)
    assert accountant.spent(DELTA).epsilon == pytest.approx(left, rel=1e-6)


# -- the arithmetic of distributions --------------------------------------------


def test_sums_beyond_a_window_are_no_privacy():
    """What is cut off above counts in full, what is wrapped around from below adds."""
    step = 2.0**-6
    coin = connect_dots([-64, 64], [0.0, 0.0], step)  # log odds of 1
    odds = 1.0 / (1.0 + math.exp(-1.0))
    for times, cut in ((7, 1e-15), (400, 1e-15), (400, 1e-3), (400, 0.2)):
        with np.errstate(all="ignore"):
            total = composed([(coin, times)], cut)
        wins = np.arange(times + 1)
        chances = binom.pmf(wins, times, odds)
        for epsilon in (0.0, 1.5, 20.0, 0.4 * times, 0.6 * times):
            above = np.maximum(2.0 * wins - times - epsilon, 0.0)
            exact = float(chances @ -np.expm1(-above))
            assert exact - 1e-12 <= total.delta(epsilon) <= exact + 2 * cut + 1e-12


def test_rare_samples_of_large_steps_are_composed():
    """Rows that join have a long tail on the left, which must not fill the window."""
    curve = SubsampledGaussian("", 1e-3, 0.8, 2000)
    assert len(_losses.composed_losses(0.0, counted((curve, 1)))) == 2
    # By dp-accounting 0.4.4: 0.55996 at 1e-6, 1.45428 at 1e-9.
    for delta, epsilon in ((1e-6, 0.5599631), (1e-9, 1.4542793)):
        found = composed_epsilon(0.0, counted((curve, 1)), delta)
        assert found == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 8e307])
def test_an_epsilon_that_no_sum_can_hold(epsilon):
    """It would be charged, and each later total would fail."""
    with refused("epsilon must be 0, or from 1e-300") as accountant:
        accountant.charge_external(
            epsilon, 0.0, "a table", unit="row", neighbors="replace-one"
        )
