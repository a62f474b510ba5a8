"""Exact calibration of the Gaussian mechanism, against two independent oracles."""

import math

import mpmath as mp
import numpy as np
import pytest

from skdpspectral.accounting import (
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)

EPSILONS = [1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 100.0]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-5, 1e-3, 1e-2, 0.1, 0.3, 0.5]


def exact_delta(mu, epsilon):
    """Balle and Wang's curve in 50 digits."""
    with mp.workdps(50):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        near = mp.ncdf(mu / 2 - epsilon / mu)
        return near - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def relative_errors(mu, epsilon, delta):
    """Relative errors of the curve, of mu and of epsilon at one budget."""
    with mp.workdps(50):
        exact = exact_delta(mu, epsilon)
        curve = abs(gaussian_delta(mu, epsilon) / exact - 1)
        # Newton steps from the root: d delta / d mu = phi(epsilon/mu - mu/2).
        slope = mp.npdf(mp.mpf(epsilon) / mu - mp.mpf(mu) / 2)
        root = abs((delta - exact) / (slope * mu))
        inverse = abs(exact_delta(mu, gaussian_epsilon(mu, delta)) / delta - 1)
    return float(curve), float(root), float(inverse)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_calibration_against_fifty_digits(epsilon):
    for delta in DELTAS:
        mu = gaussian_mu(epsilon, delta)
        curve, root, inverse = relative_errors(mu, epsilon, delta)
        assert curve < 1e-12, (delta, curve)
        assert root < 1e-12, (delta, root)
        assert inverse < 1e-12, (delta, inverse)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_calibration_ends_on_the_private_side(epsilon):
    for delta in DELTAS:
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_delta(mu, epsilon) <= delta
        assert gaussian_delta(mu, gaussian_epsilon(mu, delta)) <= delta
        # and it is tight: the next larger mu is not private
        assert gaussian_delta(mu * (1 + 1e-10), epsilon) > delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_calibration_against_loss_distributions(epsilon, delta):
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    mu = gaussian_mu(epsilon, delta)
    accountant.compose(dp_accounting.GaussianDpEvent(1.0 / mu))
    # Its discretization is pessimistic: it may claim a little more, never less.
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, abs=2e-4, rel=1e-3)


def test_known_values():
    assert gaussian_mu(1.0, 1e-6) == pytest.approx(0.23670438066, rel=1e-10)
    assert gaussian_epsilon(math.sqrt(2) * gaussian_mu(1.0, 1e-6), 1e-6) == (
        pytest.approx(1.4546710777, rel=1e-10)
    )


def test_limits():
    assert gaussian_mu(math.inf, 1e-6) == math.inf
    assert gaussian_epsilon(math.inf, 1e-6) == math.inf
    assert gaussian_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_epsilon(1e-7, 1e-6) == 0.0
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_delta(math.inf, 5.0) == 1.0
    assert gaussian_delta(1.0, math.inf) == 0.0
    # Total variation of two unit normals at distance mu.
    assert gaussian_delta(1.0, 0.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)))
    # delta of epsilon = 0 is attained by the calibration too.
    assert gaussian_delta(gaussian_mu(0.0, 0.1), 0.0) == pytest.approx(0.1)


def test_curve_is_monotone_far_out():
    epsilons = np.geomspace(1e-3, 1e6, 200)
    for mu in (1e-4, 1e-2, 1.0, 30.0, 1e4):
        deltas = [gaussian_delta(mu, e) for e in epsilons]
        assert np.all(np.diff(deltas) <= 1e-13)
        assert min(deltas) >= 0.0
        assert max(deltas) <= 1.0


def test_classical_formula_is_looser_or_invalid():
    """The exact noise is below the classical one wherever that one is valid."""
    for epsilon in (0.1, 0.5, 0.9):
        classical = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
        assert 1.0 / gaussian_mu(epsilon, 1e-5) < classical
    # At epsilon = 20 it gives less noise than the truth needs.
    classical = math.sqrt(2 * math.log(1.25 / 0.1)) / 20.0
    assert 1.0 / gaussian_mu(20.0, 0.1) > classical


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("mu", [1e-4, 1e-2, 0.3, 5.0])
@pytest.mark.parametrize("order", [1, 10, 1000])
def test_calibrated_mechanism_charges_what_was_asked(order, mu, symmetric):
    mechanism = calibrate_gaussian(
        "m", 1e-3, mu, (order, order), symmetric=symmetric, summation_error=1e-13
    )
    assert mu * (1 - 1e-10) <= mechanism.mu <= mu
    assert mechanism.mu == mechanism.charged_sensitivity / mechanism.noise_std
    # Within one per cent of what the lemma alone would ask for.
    assert mechanism.sensitivity / mechanism.noise_std >= 0.99 * mu


def test_budget_below_the_grid_is_refused():
    with pytest.raises(ValueError, match="too small"):
        calibrate_gaussian("m", 1.0, 1e-13, (100, 100))
    for mu in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="mu must be"):
            calibrate_gaussian("m", 1.0, mu, (2,))
