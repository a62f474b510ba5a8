"""Budgets that hold whatever charges are chosen by: the best strategy, by search."""

import functools
import math

import numpy as np
import pytest

from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.accounting._composition import Total
from skdpspectral.accounting._curves import (
    ORDERS,
    composed_divergences,
    gaussian_divergences,
    randomized_response_divergences,
    renyi_delta,
    renyi_epsilon,
)
from skdpspectral.accounting._ledger.budget import (
    _ADDITIVE_SHARE,
    _GAUSSIAN_SHARE,
    _ORDERS_SHARE,
    MixedFilter,
)
from skdpspectral.mechanisms import ApproximateDP, PrivateSelection


def total_of(counts, kinds):
    curves = tuple((kind, n) for kind, n in zip(kinds, counts, strict=True) if n)
    return Total(0.0, 0.0, curves)


def worst_delta(epsilon, admits, kinds, unit):
    """Delta of the best strategy that may choose each charge by all earlier losses.

    Its value at a state is E[(1 - exp(epsilon - L))+] under P, where the losses of the
    pairs are those of randomized response that fails: nothing is worse.
    """

    @functools.cache
    def value(counts, loss):
        best = max(1.0 - math.exp(epsilon - loss * unit), 0.0)
        for k, kind in enumerate(kinds):
            after = tuple(n + (i == k) for i, n in enumerate(counts))
            if admits(after):
                yes = 1.0 / (1.0 + math.exp(-kind.epsilon))
                steps = round(kind.epsilon / unit)
                kept = yes * value(after, loss + steps)
                kept += (1.0 - yes) * value(after, loss - steps)
                best = max(best, kind.delta + (1.0 - kind.delta) * kept)
        return best

    return value((0,) * len(kinds), 0)


CASES = [
    (1.0, 0.05, [(0.1, 0.0), (0.4, 0.0)]),
    (1.0, 0.05, [(0.2, 0.0), (0.0, 0.004)]),
    (2.0, 0.02, [(0.3, 0.001), (0.6, 0.0), (0.0, 0.003)]),
    (0.5, 0.2, [(0.1, 0.01), (0.2, 0.0)]),
]


@pytest.mark.parametrize(("epsilon", "delta", "pairs"), CASES)
def test_no_strategy_gets_more_than_the_budget(epsilon, delta, pairs):
    kinds = [ApproximateDP("", *pair) for pair in pairs]
    limit, unit = MixedFilter(epsilon, delta), 0.1

    @functools.cache
    def admits(counts):
        return limit.admits(total_of(counts, kinds))

    worst = worst_delta(epsilon, admits, kinds, unit)
    assert 0.01 * delta < worst <= delta

    # What a filter that forgets the shares lets in is too much.
    @functools.cache
    def careless(counts):
        total = total_of(counts, kinds)
        orders = 1.0 + np.exp2(np.arange(-4.0, 8.0, 0.25))
        curve = composed_divergences(0.0, total.curves, orders)
        by_orders = renyi_delta(orders, curve, epsilon) <= delta
        return by_orders and total.additive <= delta

    if any(pair[0] == 0.0 for pair in pairs):
        assert worst_delta(epsilon, careless, kinds, unit) > delta


def test_shares_leave_nothing_over_and_are_no_more_than_all():
    shares = _ADDITIVE_SHARE + _GAUSSIAN_SHARE + _ORDERS_SHARE
    assert shares == 1.0


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_limits_of_orders_are_the_inverse_of_the_conversion(epsilon, delta):
    limit = MixedFilter(epsilon, delta)
    orders, limits = limit.orders(), limit.limits()
    assert np.all(np.diff(orders) >= 0.0)
    assert orders[0] > 1.0
    for order, divergence in zip(orders, limits, strict=True):
        if divergence >= 0.0:
            found = renyi_delta([order], [divergence], epsilon)
            share = _ORDERS_SHARE * delta / len(orders)
            assert found == pytest.approx(share, rel=1e-9)
    assert np.any(limits > 0.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6])
def test_what_a_mixed_budget_costs_gaussians(epsilon, delta):
    """A ledger that stays Gaussian has nearly all; one that does not has most."""
    limit = MixedFilter(epsilon, delta)
    alone = limit.spare_mu(Total(0.0)) / gaussian_mu(epsilon, delta)
    assert 0.88 < alone < 0.98
    pair = ((ApproximateDP("", 1e-6, 0.0), 1),)
    beside = limit.spare_mu(Total(0.0, 0.0, pair)) / gaussian_mu(epsilon, delta)
    assert 0.72 < beside < alone


def test_what_is_admitted_shrinks_as_costs_grow():
    limit = MixedFilter(3.0, 1e-6)
    best = PrivateSelection("", 0.15, gamma=0.02)
    spare = [limit.spare_mu(Total(0.0, 0.0, ((best, count),))) for count in range(1, 8)]
    assert spare[0] > 0.2
    assert spare[-1] == 0.0
    assert np.all(np.diff(spare) <= 0.0)
    assert not limit.admits(Total(0.0, 0.6e-6))
    assert limit.admits(Total(0.0, 0.4e-6))
    assert not limit.admits(Total(math.inf))


# -- Renyi divergences ---------------------------------------------------------


@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
def test_conversions_of_gaussians_are_bounds_and_near(mu):
    curve = gaussian_divergences(mu, ORDERS)
    for delta in (1e-12, 1e-6, 1e-3):
        bound, exact = renyi_epsilon(ORDERS, curve, delta), gaussian_epsilon(mu, delta)
        assert exact <= bound <= 1.35 * exact + 0.05 * mu
        assert renyi_delta(ORDERS, curve, bound) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_divergences_of_randomized_response(epsilon):
    """Against the sum itself, in 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    orders = np.array([1.01, 1.5, 2.0, 17.0, 300.0])
    with mpmath.workdps(50):
        yes = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
        exact = [
            mpmath.log(yes**a * (1 - yes) ** (1 - a) + (1 - yes) ** a * yes ** (1 - a))
            / (a - 1)
            for a in map(mpmath.mpf, orders.tolist())
        ]
    found = randomized_response_divergences(epsilon, orders)
    np.testing.assert_allclose(found, np.array(exact, dtype=float), rtol=1e-9)
    assert np.all(found[1:] <= epsilon * (1.0 + 1e-9))
