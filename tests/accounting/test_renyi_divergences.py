"""Renyi divergences, and their conversions."""

import numpy as np
import pytest

from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.accounting._curves import (
    ORDERS,
    gaussian_divergences,
    randomized_response_divergences,
    renyi_delta,
    renyi_epsilon,
)


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
