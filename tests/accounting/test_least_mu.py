"""The least mu of mechanisms, for a probability of failure."""

import math
from dataclasses import replace

import numpy as np
import pytest
from kinds_tools import composed_delta, counted
from scipy.special import log_ndtr, ndtri, ndtri_exp

from skdpspectral.accounting import calibrate_sampled, gaussian_delta, gaussian_mu
from skdpspectral.accounting._composition import (
    LossDistribution,
    _of_losses,
    composed_epsilon,
    least_mu,
    pure_mu,
)
from skdpspectral.mechanisms import ApproximateDP, SubsampledGaussian

FAILURE = 1e-7
RATES, NOISES, STEPS = (0.001, 0.01, 0.1), (0.6, 1.0, 3.0), (10, 1400, 20000)


def _mixture(x, q, sigma, center):
    """Logarithms of the tail above x of (1 - q) N(0) + q N(center)."""
    return np.logaddexp(
        math.log1p(-q) + log_ndtr(-x / sigma),
        math.log(q) + log_ndtr((center - x) / sigma),
    )


def _largest(log_yes, log_no, failure):
    """The least mu at thresholds whose tails are given."""
    yes = (np.exp(log_yes) - failure) / (1.0 - failure)
    kept = yes > 0.0
    no = log_no[kept] - math.log1p(-failure)
    return np.max(ndtri(yes[kept]) - ndtri_exp(np.minimum(no, 0.0)))


def _one_step(q, sigma, replaced, failure):
    """The least mu of one step, by its events, which are half-lines."""
    x = np.linspace(0.5, 1.0 + 12.0 * sigma, 400_001)
    if replaced:  # both directions are mirror images; the loss is positive above 0
        x = np.linspace(0.0, 1.0 + 12.0 * sigma, 400_001)
        yes, no = _mixture(x, q, sigma, 1.0), _mixture(x, q, sigma, -1.0)
        return _largest(yes, no, failure)
    leaving = _largest(_mixture(x, q, sigma, 1.0), log_ndtr(-x / sigma), failure)
    # Below 1/2 the loss of a unit that joins is positive, and below ln 1/(1-q).
    low = np.linspace(-12.0 * sigma, 0.5, 400_001)
    joining = _largest(log_ndtr(low / sigma), _mixture(-low, q, sigma, -1.0), failure)
    return max(leaving, joining)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("q", [*RATES, 0.5])
@pytest.mark.parametrize("sigma", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("failure", [1e-5, 1e-8])
def test_one_step_is_a_closed_form_in_both_orders(q, sigma, replaced, failure):
    curves = counted((SubsampledGaussian("", q, sigma, 1, replaced), 1))
    exact = _one_step(q, sigma, replaced, failure)
    # The grid of one step has 16 losses to a standard deviation.
    assert exact * (1.0 - 1e-8) <= least_mu(0.0, curves, failure) <= 1.03 * exact


def test_losses_without_limit_count():
    """Randomized response that fails: two losses, and one that is infinite."""
    yes, no = 0.7, 0.3
    masses = np.array([no, 0.0, yes - 1e-3])
    losses = LossDistribution(math.log(yes / no), -1, masses, 1e-3)
    for failure, lost in ((2e-3, 1e-3), (1e-2, 1e-3)):
        up = (yes - 1e-3 + lost - failure) / (1.0 - failure)
        down = (yes - 1e-3) * no / yes / (1.0 - failure)
        found = _of_losses(losses, failure, 0.0)
        assert found == pytest.approx(ndtri(up) - ndtri(down), rel=1e-4)
    assert _of_losses(losses, 0.9e-3, 0.0) == math.inf


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("sigma", NOISES)
@pytest.mark.parametrize("steps", STEPS)
def test_the_curve_of_a_failing_gaussian_is_above(q, sigma, steps, replaced):
    """Also where losses are compared that the maximum was not taken at."""
    curves = counted((SubsampledGaussian("", q, sigma, steps, replaced), 1))
    mu = least_mu(0.0, curves, FAILURE)
    for epsilon in (0.001, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        above = FAILURE + (1.0 - FAILURE) * gaussian_delta(mu, epsilon)
        assert composed_delta(0.0, curves, epsilon) <= above * (1.0 + 1e-4)


# Measured on 2^-k grids: what the stated pair costs over the true epsilon, at 1e-6.
PRICES = [
    (0.01, 1.0, 1400, 0.809, 1.01),
    (0.001, 1.0, 1400, 0.0819, 1.01),
    (0.01, 3.0, 10, 0.0215, 1.01),
    (0.001, 0.6, 10, 0.264, 1.46),  # large losses that are rare are dear
]


@pytest.mark.parametrize(("q", "sigma", "steps", "mu", "price"), PRICES)
def test_prices_that_the_theory_quotes(q, sigma, steps, mu, price):
    curves = counted((SubsampledGaussian("", q, sigma, steps, True), 1))
    found = least_mu(0.0, curves, FAILURE)
    assert found == pytest.approx(mu, rel=0.005)
    alone = composed_epsilon(0.0, curves, 1e-6)
    assert gaussian_mu(price * alone, (1e-6 - FAILURE) / (1.0 - FAILURE)) >= found


def test_what_is_planned_together_costs_less():
    curve = SubsampledGaussian("", 0.01, 1.0, 700, True)
    one, two = counted((curve, 1)), counted((curve, 2))
    alone = least_mu(0.0, one, FAILURE)
    both = least_mu(0.0, two, 2.0 * FAILURE)
    assert alone < both <= math.sqrt(2.0) * alone * (1.0 + 1e-6)
    beside = least_mu(0.5, one, FAILURE)
    assert beside <= math.hypot(0.5, alone) * (1.0 + 1e-6)
    assert least_mu(0.5, (), 0.0) == 0.5


@pytest.mark.parametrize("steps", [100, 1400])
def test_much_noise_is_no_worse_without_sampling(steps):
    """Whatever may fail: the same steps on everybody are a bound, and known exactly."""
    curve = SubsampledGaussian("", 0.5, 2.0, steps, True)
    whole = counted((replace(curve, sampling_probability=1.0), 1))
    exact = 2.0 * math.sqrt(steps) / 2.0
    assert least_mu(0.0, whole, 0.0) == pytest.approx(exact)
    assert least_mu(0.0, counted((curve, 1)), 0.0) == pytest.approx(exact)
    assert least_mu(0.0, counted((curve, 1)), 1e-9) < exact


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 30.0])
def test_pure_privacy_is_below_a_gaussian(epsilon):
    mu = pure_mu(epsilon)
    total_variation = math.tanh(0.5 * epsilon)
    assert gaussian_delta(mu, 0.0) == pytest.approx(total_variation, rel=1e-6)
    for share in np.linspace(0.0, 0.999, 50):
        yes = 1.0 / (1.0 + math.exp(-epsilon))
        delta = yes - math.exp(share * epsilon) * (1.0 - yes)
        assert delta <= gaussian_delta(mu, share * epsilon) * (1.0 + 1e-9)
    pair = counted((ApproximateDP("", epsilon, 1e-8), 3))
    assert least_mu(0.0, pair, 2e-8) == math.inf
    assert least_mu(0.0, pair, 3.1e-8) <= math.sqrt(3.0) * mu


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 3e-16, 1e-9, 3e-8, 9.9e-5, 1.1e-4])
def test_small_epsilons_cost_something(epsilon):
    """The quantile has no digits there; its tangent does, and is above."""
    line = math.sqrt(0.5 * math.pi) * epsilon
    assert line * (1.0 - epsilon**2) <= pure_mu(epsilon) <= line * (1.0 + 2e-9)


# -- calibration -----------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_noise_beside_gaussians_takes_what_they_leave(part):
    mu = part * gaussian_mu(1.0, 1e-6)
    sigma = calibrate_sampled(1.0, 1e-6, 0.01, 1400, "replace-one", mu=mu)
    curve = SubsampledGaussian("", 0.01, sigma, 1400, True)
    assert composed_epsilon(mu, counted((curve, 1)), 1e-6) <= 1.0
    less = replace(curve, noise_multiplier=0.998 * sigma)
    assert composed_epsilon(mu, counted((less, 1)), 1e-6) > 1.0
