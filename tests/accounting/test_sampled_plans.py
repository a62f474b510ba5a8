"""Plans of steps on Poisson samples: bounds, and what an empty ledger admits."""

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution
from kinds_tools import counted

from skdpspectral import DPAdamClassifier, PrivacyAccountant
from skdpspectral.accounting import calibrate_sampled, gaussian_mu
from skdpspectral.accounting._composition import (
    _known_delta,
    _known_epsilon,
    composed_delta,
    composed_epsilon,
)
from skdpspectral.accounting._curves import replaced_deltas
from skdpspectral.mechanisms import SubsampledGaussian
from skdpspectral.neural_network import Adam


def at_least(q, sigma, steps, epsilons, replaced):
    """Lower bounds of another library on the delta at each epsilon."""
    relations = NeighboringRelation
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        sigma,
        pessimistic_estimate=False,
        use_connect_dots=False,
        sampling_prob=q,
        value_discretization_interval=1e-3 / sigma,
        neighboring_relation=(
            relations.REPLACE_ONE if replaced else relations.ADD_OR_REMOVE_ONE
        ),
    ).self_compose(steps)
    return np.array([pld.get_delta_for_epsilon(epsilon) for epsilon in epsilons])


GRID = [
    (q, sigma, steps)
    for q in (0.005, 0.1, 0.6, 0.97)
    for sigma, steps in ((0.3, 1), (0.3, 30), (1.0, 30), (20.0, 30), (3000.0, 1))
]
EPSILONS = (1e-4, 0.01, 0.3, 2.0, 20.0, 150.0, 400.0)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("q", "sigma", "steps"), GRID)
def test_no_bound_is_below_another_librarys(q, sigma, steps, replaced):
    curves = counted((SubsampledGaussian("", q, sigma, steps, replaced), 1))
    true = at_least(q, sigma, steps, EPSILONS, replaced)
    for bound in (_known_delta, composed_delta):
        found = np.array([bound(0.0, curves, epsilon) for epsilon in EPSILONS])
        assert np.all(found >= true * (1.0 - 1e-6) - 1e-14)
    for delta in (1e-9, 1e-5, 0.1):
        epsilon = _known_epsilon(0.0, curves, delta)
        if 0.0 < epsilon < math.inf:
            assert at_least(q, sigma, steps, [epsilon], replaced)[0] <= delta + 1e-14


def test_one_replaced_step_is_a_closed_form():
    epsilons = np.array([1e-4, 0.1, 1.0, 10.0, 80.0, 400.0, 3000.0])
    for q in (1e-4, 0.1, 0.5, 0.99, 1.0):
        for sigma in (0.02, 0.1, 1.0, 50.0):
            curves = counted((SubsampledGaussian("", q, sigma, 1, True), 1))
            true = replaced_deltas(q, sigma, epsilons)
            found = [_known_delta(0.0, curves, e) for e in epsilons.tolist()]
            assert np.all(np.array(found) >= true)


def test_several_kinds_beside_gaussians():
    one, two = (SubsampledGaussian("", q, s, 40) for q, s in ((0.1, 0.8), (0.3, 2.0)))
    curves = counted((one, 2), (two, 1))
    for epsilon in (0.5, 4.0, 30.0, 200.0):
        least = at_least(0.1, 0.8, 80, [epsilon], False)[0]
        both = _known_delta(0.5, curves, epsilon)
        assert both >= composed_delta(0.5, curves, epsilon) >= least - 1e-14
        # More values of the sums would change little.
        assert both <= _known_delta(0.5, counted((one, 2), (two, 2)), epsilon)
    # Without sampling it is the Gaussian's own curve, up to rounding.
    whole = counted((SubsampledGaussian("", 1.0, 2.0, 4), 1))
    assert _known_epsilon(0.0, whole, 1e-6) == pytest.approx(5.0, rel=0.2)
    assert gaussian_mu(_known_epsilon(0.0, whole, 1e-6), 1e-6) >= 1.0


# Rows, batch size, epochs, epsilon, delta, and the most noise. The first three need the
# bound on known samples, and the fourth a window for rare losses (.592 without it,
# whose true epsilon is .57).
DEAR = [
    (10_000, 250, 10, 1e4, 1e-6, 0.0376),
    (4_000, 250, 10, 1e5, 1e-6, 0.0118),
    (1_000, 990, 1, 1e-3, 1e-9, 1.001 * 2.0 * math.sqrt(2) / gaussian_mu(1e-3, 1e-9)),
    (987_606, 12, 1, 2.785, 1.5e-9, 0.483),
]


@pytest.mark.parametrize(("n", "size", "epochs", "epsilon", "delta", "most"), DEAR)
def test_plans_are_not_dear(n, size, epochs, epsilon, delta, most):
    steps = epochs * math.ceil(n / size)
    sigma = calibrate_sampled(epsilon, delta, size / n, steps, "replace-one")
    assert sigma <= most


def admitted(seed, n_plans):
    """Plan random fits, each for a ledger of its own budget."""
    rng = np.random.default_rng(seed)
    for _ in range(n_plans):
        n = int(10 ** rng.uniform(1.0, 5.5))
        size = max(1, min(int(n * 10 ** rng.uniform(-3.0, 0.0)), n - 1))
        epochs = int(rng.integers(1, 6))
        epsilon = float(10 ** rng.uniform(-4.0, rng.choice([0.0, 1.5, 5.0])))
        delta = float(10 ** rng.uniform(-12.0, -2.0))
        neighbors = str(rng.choice(["replace-one", "zero-out-one"]))
        adam = DPAdamClassifier(
            classes=(0, 1),
            batch_size=size,
            n_epochs=epochs,
            epsilon=epsilon,
            delta=delta,
            optimizer=Adam(neighbors=neighbors),
        )
        plan = adam.privacy_plan(n, 3)
        ledger = PrivacyAccountant(epsilon=epsilon, delta=delta)
        ledger.charge(plan)
        (mechanism,) = plan.mechanisms
        curve = mechanism.curve(plan.neighbors)
        assert composed_epsilon(0.0, counted((curve, 1)), delta) <= epsilon


def test_no_plan_is_refused_by_an_empty_ledger_of_its_budget():
    admitted(0, 12)


@pytest.mark.slow
def test_no_plan_of_many_is_refused():
    admitted(1, 300)
