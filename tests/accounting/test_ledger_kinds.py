"""Entries of any kind: what they cost together, and what a ledger lets in."""

import contextlib
import itertools
import math
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
from ledger_tools import (
    DELTA,
    PATIENCE,
    clean_context,
    entries,
    fit_plan,
    in_processes,
    plan_with_mu,
)

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import _extra, gaussian_delta, gaussian_epsilon
from skdpspectral.accounting._coarse import few_kinds
from skdpspectral.accounting._export import faults
from skdpspectral.accounting._losses import (
    _connected,
    _lower_hull,
    composed_delta,
    composed_epsilon,
)
from skdpspectral.accounting._renyi import (
    ORDERS,
    composed_divergences,
    gaussian_divergences,
    renyi_delta,
)
from skdpspectral.accounting._selection import calibrate_selection, selection_delta
from skdpspectral.mechanisms import (
    Alternatives,
    ApproximateDP,
    Gaussian,
    ParallelPlan,
    PrivacyPlan,
    PrivateSelection,
    SubsampledGaussian,
    read_plan,
)

pytest.importorskip("dp_accounting")

ROWS = {"unit": "row", "neighbors": "replace-one"}
USERS = {"unit": "user", "neighbors": "add-remove-one"}
CURVES = {
    "subsampled": SubsampledGaussian("steps", 0.01, 1.0, 500),
    "selection": PrivateSelection("best", 0.1, gamma=0.05),
    "poisson selection": PrivateSelection("best", 0.1, "poisson", mean=10.0),
    "pair": ApproximateDP("other", 0.5, 1e-8),
}


def plan_of(*mechanisms, epsilon=5.0, delta=DELTA, **fields):
    """Plan of mechanisms at a claim that is more than they cost."""
    fields = {**USERS, "estimator": "Other", **fields}
    return PrivacyPlan(epsilon, delta, mechanisms, **fields)


def without_name(curve):
    return {**vars(curve), "name": ""}


def counted(*curves):
    """Mechanisms as the ledger gives them to the composition."""
    return tuple((type(curve)(**without_name(curve)), times) for curve, times in curves)


# -- composition against closed forms ------------------------------------------


@pytest.mark.parametrize("mu", [0.002, 0.02, 0.2])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_a_thousand_gaussians_by_another_name(mu, delta):
    """Of a Poisson sample of everybody nothing is amplified: the cost is known."""
    exact = gaussian_epsilon(mu * math.sqrt(1000), delta)
    curves = counted((SubsampledGaussian("", 1.0, 1.0 / mu), 1000))
    bound = composed_epsilon(0.0, curves, delta)
    assert exact <= bound <= exact * (1.0 + 2e-4)
    # Half of them as what they are.
    curves = counted((SubsampledGaussian("", 1.0, 1.0 / mu), 500))
    bound = composed_epsilon(mu * math.sqrt(500), curves, delta)
    assert exact <= bound <= exact * (1.0 + 2e-4)
    assert delta <= composed_delta(mu * math.sqrt(500), curves, exact) < 1.01 * delta


@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_curves_that_are_only_known_at_points(mu):
    """The exact curve of a Gaussian, and the best that its Renyi divergences say."""
    step, points = 2.0**-9, np.arange(-4000, 4001)
    exact = np.array([gaussian_delta(mu, abs(e)) for e in step * points])
    factor = np.exp(np.minimum(step * points, 0.0))
    exact = np.minimum(1.0 - factor + factor * exact, 1.0)
    renyi = renyi_delta(ORDERS, gaussian_divergences(mu, ORDERS), step * points)
    assert np.all(renyi >= exact)
    for curve, most in ((exact, 1.002), (renyi, 30.0)):
        kept = _lower_hull(np.exp(step * points), curve)
        losses = _connected(points[kept].tolist(), curve[kept], step)
        for epsilon in (0.3, 0.5 * mu**2 + mu, 0.5 * mu**2 + 3.0 * mu):
            delta = losses.get_delta_for_epsilon(epsilon)
            assert 1.0 - 1e-9 <= delta / gaussian_delta(mu, epsilon) <= most
            with np.errstate(all="ignore"):
                many = losses.self_compose(100)
            delta = many.get_delta_for_epsilon(10.0 * epsilon)
            assert delta >= (1.0 - 1e-9) * gaussian_delta(10.0 * mu, 10.0 * epsilon)


GRID = [(1e-3, 0.7, 300), (0.02, 2.0, 300), (0.3, 1.0, 1), (0.3, 4.0, 60)]


@pytest.mark.parametrize(("probability", "noise", "steps"), GRID)
def test_subsampled_gaussians_against_the_library(probability, noise, steps):
    """Between a lower and an upper bound of dp-accounting's, on a grid of its own."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    curve = SubsampledGaussian("steps", probability, noise, steps)
    bound = composed_epsilon(0.0, counted((curve, 2)), DELTA)
    most, least = (
        pld.from_gaussian_mechanism(
            noise,
            sampling_prob=probability,
            value_discretization_interval=1e-4,
            use_connect_dots=upper,
            pessimistic_estimate=upper,
        )
        .self_compose(2 * steps)
        .get_epsilon_for_delta(DELTA)
        for upper in (True, False)
    )
    assert least <= bound <= most * 1.003 + 1e-4


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
        assert exact <= bound <= exact * 1.003
        assert composed_epsilon(0.0, curves, exact) >= epsilon * (1.0 - 1e-9)
    equal = counted((ApproximateDP("", 0.3, 1e-7), 9))
    exact = optimal_delta([(0.3, 1e-7)] * 9, 1.0)
    assert exact <= composed_delta(0.0, equal, 1.0) <= exact * 1.003


def test_a_selection_costs_in_company_what_its_profile_allows():
    """Of one the profile itself; of several no more than the product of theirs."""
    best = CURVES["selection"]
    one, three = counted((best, 1)), counted((best, 3))
    assert composed_delta(0.3, one, 1.2) == pytest.approx(
        selection_delta(best, 1.2, 0.3), rel=1e-9
    )
    single = composed_epsilon(0.0, one, DELTA)
    several = composed_epsilon(0.0, three, DELTA)
    assert 1.2 * single < several < 3.0 * single
    # An (epsilon, delta) pair beside it sends it through its curve.
    beside = counted((best, 1), (ApproximateDP("", 1e-9, 0.0), 1))
    assert single * (1.0 - 1e-6) <= composed_epsilon(0.0, beside, DELTA)
    assert composed_epsilon(0.0, beside, DELTA) <= single * 1.01


@pytest.mark.parametrize("more", CURVES)
@pytest.mark.parametrize("first", CURVES)
def test_nothing_is_cheaper_with_more(first, more):
    beside = counted((CURVES[first], 1), (CURVES[more], 2))
    alone = composed_epsilon(0.0, counted((CURVES[first], 1)), DELTA)
    assert alone <= composed_epsilon(0.0, beside, DELTA)
    assert composed_epsilon(0.0, beside, DELTA) <= composed_epsilon(0.4, beside, DELTA)


def test_costs_that_no_distribution_can_hold_have_a_bound_all_the_same():
    """Ten thousand that all differ, and a Gaussian of mu = 100."""
    pairs = [(ApproximateDP("", 1e-3 + 1e-9 * k, 0.0), 1) for k in range(10_000)]
    bound = composed_epsilon(0.0, counted(*pairs), DELTA)
    exact = composed_epsilon(
        0.0, counted((ApproximateDP("", 1e-3, 0.0), 10_000)), DELTA
    )
    assert exact <= bound <= 1.1 * exact
    pair = counted((ApproximateDP("", 0.1, 0.0), 1))
    large = composed_epsilon(100.0, pair, DELTA)
    assert (
        gaussian_epsilon(100.0, DELTA) < large < 1.01 * gaussian_epsilon(100.0, DELTA)
    )
    assert composed_epsilon(math.inf, pair, DELTA) == math.inf
    assert composed_delta(math.inf, pair, 1.0) == 1.0


# -- entries -------------------------------------------------------------------


@pytest.mark.parametrize("name", CURVES)
def test_entries_say_what_they_are(name):
    accountant = PrivacyAccountant()
    plan = plan_of(CURVES[name], Gaussian("moment", 0.1, 1.0, (3,)))
    accountant.charge(plan)
    accountant.charge(plan_with_mu(0.1, **USERS))
    first, second = accountant.ledger
    assert first.kind == ", ".join(sorted([CURVES[name].kind, "gaussian"]))
    assert (first.mu, second.kind) == (math.inf, "gaussian")
    assert first.ledger_mu == pytest.approx(0.1, rel=1e-6)
    assert read_plan(first.plan) == plan == pickle.loads(pickle.dumps(plan))
    assert plan.private
    assert "(5, 1e-06)-differentially private per" in str(plan)
    assert "inf" not in str(plan)
    alone = composed_epsilon(0.0, counted((CURVES[name], 1)), DELTA)
    assert alone < accountant.spent(DELTA).epsilon < 5.0
    curve = accountant.privacy_curve([0.0, accountant.spent(DELTA).epsilon])
    assert curve[0] > curve[1]
    assert curve[1] == pytest.approx(DELTA, rel=2e-2)


def test_equal_mechanisms_are_counted_once(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    for name in ("one", "two"):
        accountant.charge_external(0.1, 1e-9, name, **ROWS)
    accountant.charge_external(0.2, 1e-9, "three", **ROWS)
    with accountant._ledger().transaction(keep=False) as transaction:
        found = transaction.total()
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
    assert (fit.kind, external.kind) == ("gaussian", "approximate-dp")
    spent = accountant.spent(2e-6).epsilon
    assert 1.0 < spent < 1.7
    assert accountant.spent().delta == 2e-7  # twice what tools leave to chance
    assert "counts by region" in accountant.export()
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


@pytest.mark.parametrize("name", CURVES)
def test_other_relations_are_refused(name):
    accountant = PrivacyAccountant(**ROWS)
    with pytest.raises(LedgerError, match=r"ledger of its own for it"):
        accountant.charge(plan_of(CURVES[name]))
    if name != "subsampled":  # has no guarantee of this kind
        plan = plan_of(CURVES[name], unit="user", neighbors="replace-one")
        with pytest.raises(LedgerError, match="no Gaussian mechanism"):
            accountant.charge(plan)
        assert fit_plan().mu  # a Gaussian of that relation would be taken
        accountant.charge(plan_with_mu(0.1, unit="user", neighbors="replace-one"))
    assert len(entries(accountant)) == (name != "subsampled")


def test_seeds_and_failures_count_as_before():
    accountant = PrivacyAccountant()
    accountant.charge(plan_of(CURVES["pair"], seeded=True))
    assert accountant.spent().epsilon == math.inf
    accountant = PrivacyAccountant()
    accountant.charge(plan_of(CURVES["selection"], failure=4e-7))
    left = composed_epsilon(0.0, counted((CURVES["selection"], 1)), 6e-7)
    assert accountant.spent(DELTA).epsilon == pytest.approx(left, rel=1e-6)


# -- without the library -------------------------------------------------------


def test_without_the_library_charges_are_kept_and_totals_explained(monkeypatch):
    accountant = PrivacyAccountant()
    accountant.charge(plan_with_mu(0.1, **USERS))
    before = accountant.spent()

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(_extra.importlib, "import_module", missing)
    assert accountant.spent() == before  # Gaussians need nothing else
    accountant.charge(plan_of(CURVES["selection"]))
    assert before.epsilon < accountant.spent().epsilon < 2.0  # nor does one selection
    accountant.charge(plan_of(CURVES["pair"], epsilon=0.5))
    assert len(accountant.ledger) == 3
    with pytest.raises(ImportError, match=r"skdpspectral\[subsampling\]"):
        accountant.spent()


# -- bad calls -----------------------------------------------------------------

BAD_EXTERNAL = {
    "epsilon negative": ((-0.1, 1e-7, "x"), ROWS, "epsilon must be in"),
    "epsilon infinite": ((math.inf, 1e-7, "x"), ROWS, "epsilon must be in"),
    "epsilon nan": ((math.nan, 1e-7, "x"), ROWS, "epsilon must be in"),
    "epsilon missing": ((None, 1e-7, "x"), ROWS, "epsilon must be a real number"),
    "epsilon a word": (("1", 1e-7, "x"), ROWS, "epsilon must be a real number"),
    "epsilon an array": ((np.ones(2), 1e-7, "x"), ROWS, "epsilon must be a real"),
    "delta one": ((1.0, 1.0, "x"), ROWS, "delta must be in"),
    "delta negative": ((1.0, -1e-9, "x"), ROWS, "delta must be in"),
    "delta a flag": ((1.0, True, "x"), ROWS, "delta must be a real number"),
    "what empty": ((1.0, 0.0, "  "), ROWS, "what must say"),
    "what a number": ((1.0, 0.0, 7), ROWS, "what must say"),
    "unit unknown": ((1.0, 0.0, "x"), {**ROWS, "unit": "record"}, "unit must be one"),
    "unit a number": ((1.0, 0.0, "x"), {**ROWS, "unit": 1}, "unit must be one of"),
    "neighbors none": ((1.0, 0.0, "x"), {**ROWS, "neighbors": None}, "neighbors must"),
}


@pytest.mark.parametrize("name", BAD_EXTERNAL)
def test_bad_external_charges_enter_nothing(name):
    arguments, relation, message = BAD_EXTERNAL[name]
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match=message):
        accountant.charge_external(*arguments, **relation)
    assert accountant.ledger == ()
    with pytest.raises(TypeError, match="unit"):
        accountant.charge_external(1.0, 0.0, "x")


selection = PrivateSelection
BAD_MECHANISMS = {
    "q zero": (lambda: SubsampledGaussian("a", 0.0, 1.0), "sampling_probability must"),
    "q above one": (lambda: SubsampledGaussian("a", 1.1, 1.0), "sampling_probability"),
    "no noise": (lambda: SubsampledGaussian("a", 0.1, 0.0), "noise_multiplier must"),
    "steps zero": (lambda: SubsampledGaussian("a", 0.1, 1.0, 0), "steps must be"),
    "steps broken": (lambda: SubsampledGaussian("a", 0.1, 1.0, 2.5), "steps must be"),
    "free run": (lambda: selection("a", 0.0, gamma=0.1), "run_mu must be in"),
    "open run": (lambda: selection("a", math.inf, gamma=0.1), "run_mu must be in"),
    "no gamma": (lambda: selection("a", 0.1), "gamma must be a real number"),
    "gamma one": (lambda: selection("a", 0.1, gamma=1.0), "gamma must be in"),
    "eta": (lambda: selection("a", 0.1, eta=-1.0, gamma=0.1), "eta must be in"),
    "law": (lambda: selection("a", 0.1, "uniform", gamma=0.1), "law must be one of"),
    "mean": (lambda: selection("a", 0.1, "poisson"), "mean must be a real number"),
    "both": (lambda: selection("a", 0.1, "poisson", mean=3, gamma=0.1), "leave out"),
    "mean of the other": (lambda: selection("a", 0.1, gamma=0.1, mean=3), "leave out"),
    "shuffled": (
        lambda: plan_of(CURVES["subsampled"], **ROWS),
        "no replace-one guarantee",
    ),
    "a branch": (
        lambda: Alternatives("a", [[CURVES["pair"]], [Gaussian("g", 1.0, 1.0, (1,))]]),
        "must be Gaussian",
    ),
    "a block": (lambda: ParallelPlan.of({"a": plan_of(CURVES["pair"])}), "alone"),
    "named twice": (lambda: plan_of(*[CURVES["pair"]] * 2), "must differ"),
    "mechanisms": (lambda: PrivacyAccountant(1.0, mechanisms="all"), "must be one of"),
    "mechanisms as a flag": (lambda: PrivacyAccountant(1.0, mechanisms=True), "must"),
    "mechanisms alone": (lambda: PrivacyAccountant(mechanisms="any"), "needs epsilon"),
}


@pytest.mark.parametrize("name", BAD_MECHANISMS)
def test_bad_mechanisms_are_refused(name):
    make, message = BAD_MECHANISMS[name]
    with pytest.raises(ValueError, match=message):
        make()


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


def test_a_pair_may_not_claim_a_smaller_delta():
    with pytest.raises(ValueError, match="cost more"):
        PrivacyAccountant().charge(plan_of(CURVES["pair"], delta=1e-9))


# -- budgets -------------------------------------------------------------------


def test_a_budget_of_gaussians_stays_one():
    """Who may choose by results between two limits gets more than either."""
    accountant = PrivacyAccountant(3.0, DELTA)
    accountant.charge(fit_plan())
    left = accountant.remaining()
    with pytest.raises(LedgerError, match=r'mechanisms="any"'):
        accountant.charge_external(0.1, 1e-9, "late", **ROWS)
    with pytest.raises(LedgerError, match=r'mechanisms="any"'):
        accountant.check(plan_of(ApproximateDP("late", 0.1, 0.0), **ROWS))
    assert (len(accountant.ledger), accountant.remaining()) == (1, left)
    with pytest.raises(LedgerError, match="kept for mechanisms='gaussian'"):
        PrivacyAccountant(path=accountant.path, mechanisms="any")


def test_the_first_entry_says_what_a_budget_is_kept_for():
    accountant = PrivacyAccountant(3.0, DELTA)
    accountant.check(fit_plan())  # says nothing yet
    accountant.charge_external(0.1, 1e-9, "early", **ROWS)
    accountant.charge(fit_plan())
    accountant.charge_external(0.1, 1e-9, "late", **ROWS)
    assert len(accountant.ledger) == 3
    assert PrivacyAccountant(path=accountant.path, mechanisms="any").epsilon == 3.0


def test_a_first_entry_may_be_the_whole_budget():
    best = calibrate_selection("best", 1.0, DELTA, 20)
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


@pytest.mark.parametrize("name", CURVES)
def test_a_budget_is_never_exceeded_and_is_used(name):
    """What the filter lets in has cost less than the budget when it is full."""
    plan, budget = plan_of(CURVES[name]), 6.0
    accountant = PrivacyAccountant(budget, DELTA, mechanisms="any")
    count = 0
    with contextlib.suppress(PrivacyBudgetError):
        while count < 200:
            accountant.charge(plan)
            count += 1
    assert 2 <= count < 200
    assert len(accountant.ledger) == count
    assert 0.4 * budget < accountant.spent().epsilon <= budget


def test_remaining_is_what_may_be_charged():
    accountant = PrivacyAccountant(4.0, DELTA, mechanisms="any")
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
    with pytest.raises(PrivacyBudgetError, match="other tools"):
        accountant.charge_external(0.1, 1.0e-7, "too much", **ROWS)


@pytest.mark.parametrize("name", CURVES)
def test_many_kinds_are_few_that_cost_more(name):
    """No less than each of them costs, and little more."""
    base = CURVES[name]
    spread = {
        "subsampled": ("noise_multiplier", "sampling_probability"),
        "selection": ("run_mu", "gamma"),
        "poisson selection": ("run_mu", "mean"),
        "pair": ("epsilon", "delta"),
    }[name]
    first, second = (getattr(base, field) for field in spread)
    many = [
        replace(
            base, name="", **dict(zip(spread, (first * a, second * a), strict=True))
        )
        for a in np.linspace(0.7, 1.3, 100).tolist()
    ]
    counts = counted(*((one, 1) for one in many))
    few = few_kinds(counts)
    assert len(few) <= 24
    assert sum(n for _, n in few) == 100 * getattr(base, "steps", 1)
    orders = np.array([2.0, 5.0, 30.0, 200.0])
    exact = composed_divergences(0.0, dict(counts), orders)
    bound = composed_divergences(0.0, dict(few), orders)
    assert np.all(exact <= bound * (1.0 + 1e-9))
    assert np.all(bound <= 1.8 * exact)
    assert few_kinds(counts[:50]) == counts[:50]


# -- processes -----------------------------------------------------------------


def race_with_pairs(accountant, barrier):
    """One of several that charge at once: say how many charges were let in."""
    count = 0
    barrier.wait(PATIENCE)
    for number in range(3):
        with contextlib.suppress(PrivacyBudgetError):
            accountant.charge_external(1.0, 1e-8, f"{number}", **ROWS)
            count += 1
    return count


@pytest.mark.slow
def test_processes_race_with_entries_of_other_kinds():
    alone = PrivacyAccountant(6.0, DELTA, mechanisms="any")
    let_in = 0
    with contextlib.suppress(PrivacyBudgetError):
        while True:
            alone.charge_external(1.0, 1e-8, "alone", **ROWS)
            let_in += 1
    assert 3 <= let_in < 12
    accountant = PrivacyAccountant(6.0, DELTA, mechanisms="any")
    assert sum(in_processes(race_with_pairs, 4, accountant)) == let_in
    assert len(accountant.ledger) == let_in
    assert list(faults(accountant.ledger, accountant._curve_rows())) == []


def charge_pairs_for_ever(accountant):
    while True:
        accountant.charge_external(0.1, 1e-9, "often", **ROWS)


@pytest.mark.slow
def test_kills_leave_entries_with_their_curves():
    accountant = PrivacyAccountant()
    accountant.charge_external(0.1, 1e-9, "often", **ROWS)
    for kill in range(5):
        child = clean_context().Process(
            target=charge_pairs_for_ever, args=(accountant,)
        )
        child.start()
        before = len(accountant.ledger)
        while len(accountant.ledger) == before:
            time.sleep(0.01)
        time.sleep(0.011 * kill)
        child.kill()
        child.join(PATIENCE)
        assert list(faults(accountant.ledger, accountant._curve_rows())) == []
    with accountant._ledger().transaction(keep=False) as transaction:
        ((_, times),) = transaction.total().curves
    assert times == len(accountant.ledger) > 5
