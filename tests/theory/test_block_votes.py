"""Votes of blocks: the exponential mechanism by brute force, and sums of votes."""

import decimal
import itertools

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdpspectral._release.noise import Release, draw_option, noise_generator
from skdpspectral.accounting import calibrate_exponential
from skdpspectral.mechanisms import ExponentialMechanism, PrivacyPlan

LEVELS = np.linspace(0.0, 1.0, 200)


def law(mechanism, sums):
    """Law of the choice, in floating point."""
    exponents = mechanism.epsilon * np.asarray(sums) / (2.0 * mechanism.sensitivity)
    weights = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def trade_off(p, q):
    """Least type II error of tests of p against q, at all levels."""
    order = np.argsort(-q / p, kind="stable")
    first = np.append(0.0, np.cumsum(p[order]))
    second = np.append(0.0, np.cumsum(q[order]))
    return 1.0 - np.interp(LEVELS, first, second)


@pytest.mark.parametrize("n_options", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("moved", [1.0, 2.0])
def test_no_votes_beat_the_claim(n_options, mu, moved):
    """All moves of a grid, from sums of a grid; the sharpest comes up to the claim."""
    choice = calibrate_exponential("choice", mu, n_options, moved)
    bound = stats.norm.cdf(stats.norm.isf(LEVELS) - choice.mu)
    steps = [-moved, 0.0, moved] if n_options > 4 else np.linspace(-moved, moved, 5)
    starts = [np.zeros(n_options), np.arange(n_options) / n_options]
    starts.append(np.where(np.arange(n_options) == 0, 3.0 / mu, 0.0))
    least, closest = np.inf, 0.0
    for start, move in itertools.product(
        starts, itertools.product(steps, repeat=n_options)
    ):
        p, q = law(choice, start), law(choice, start + np.array(move))
        least = min(least, (trade_off(p, q) - bound).min())
        # Of a single option against the others: how far apart normal laws would be.
        apart = np.abs(stats.norm.ppf(p) - stats.norm.ppf(q))
        closest = max(closest, apart.max() / choice.mu)
    assert least > -1e-9
    assert closest < 1.0 + 1e-9
    assert choice.mu <= mu


@pytest.mark.parametrize("mu", [0.01, 0.1, 1.0, 4.0])
def test_the_claim_is_attained(mu):
    """Two options that change places: the pair in the middle of the range."""
    choice = calibrate_exponential("choice", mu, 2)
    p, q = law(choice, [0.5, -0.5]), law(choice, [-0.5, 0.5])
    found = stats.norm.ppf(p[0]) - stats.norm.ppf(q[0])
    assert found == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0, 300.0])
def test_the_cost_is_that_of_the_formula(epsilon):
    with mpmath.workdps(60):
        share = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon) / 2))
        exact = mpmath.findroot(
            lambda z: mpmath.log(mpmath.ncdf(z) / share), stats.norm.ppf(float(share))
        )
    found = ExponentialMechanism("choice", epsilon, 3).mu
    assert -2 * exact <= found <= -2 * exact * (1 + mpmath.mpf(2) ** -40) + 2**-47


@pytest.mark.slow
def test_options_are_drawn_by_their_law():
    """Chi-square tests of false-alarm rate 1e-4; 10 % more or less fail."""
    choice = ExponentialMechanism("choice", 0.8, 9)
    sums, generator = [*map(float, range(9))], noise_generator(0)
    drawn = [draw_option(choice, sums, generator) for _ in range(9000)]
    counts = np.bincount(drawn, minlength=9)

    def p_value(epsilon):
        expected = law(ExponentialMechanism("choice", epsilon, 9), sums)
        return stats.chisquare(counts, 9000 * expected).pvalue

    assert p_value(0.8) > 1e-4
    assert p_value(0.72) < 1e-4
    assert p_value(0.88) < 1e-4


@pytest.mark.parametrize(
    "user",
    [
        {"traps": [decimal.FloatOperation, decimal.Inexact]},
        {"Emin": 0, "Emax": 1},
        {"rounding": decimal.ROUND_UP, "clamp": 1},
    ],
)
def test_draws_do_not_depend_on_settings_of_decimals(user):
    choice = ExponentialMechanism("choice", 2.0, 3)

    def draws():
        generator = noise_generator(0)
        return [draw_option(choice, [0.0, 9.5, 8.0], generator) for _ in range(40)]

    expected = draws()
    with decimal.localcontext(decimal.Context(**user)):
        assert draws() == expected


def test_a_choice_of_large_sums_does_not_overflow():
    choice = ExponentialMechanism("choice", 1000.0, 2)
    generator = noise_generator(0)
    assert {draw_option(choice, [0.0, 1e9], generator) for _ in range(20)} == {1}


def test_a_release_chooses_once_among_what_was_planned():
    choice = calibrate_exponential("choice", 0.5, 3)
    release = Release(PrivacyPlan(1.0, 1e-6, (choice,), "Search"))
    for sums in ([1.0, 2.0], [1.0, 2.0, np.nan], [[1.0, 2.0, 3.0]]):
        with pytest.raises(ValueError, match="finite sums"):
            release.choose("choice", sums)
    assert release.choose("choice", [1.0, 2.0, 3.0]) in (0, 1, 2)
    with pytest.raises(KeyError):
        release.choose("choice", [1.0, 2.0, 3.0])


def test_a_plan_with_a_choice_is_written_and_read():
    choice = calibrate_exponential("choice", 0.5, 3)
    plan = PrivacyPlan(1.0, 1e-6, (choice,), "Search")
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    assert plan.mu == pytest.approx(0.5)
    assert "one of 3 options" in plan.details()


@pytest.mark.parametrize("mu", [0.0, -1.0, 50.0, np.nan, "1"])
def test_costs_out_of_range_are_refused(mu):
    with pytest.raises(ValueError, match="mu"):
        calibrate_exponential("choice", mu, 3)
