"""What audits find and how often they cry wolf: computed, not simulated.

Errors of a test between two unit normals `mu` apart are binomial, and the bound is a
function of their two numbers. The tables of doc/contributing.rst are these numbers.
"""

import numpy as np
import pytest
from audit_cases import CASES, CONFIDENCE, FIRST_CONFIDENCE, FIRST_TRIALS
from audit_cases import StageCase as OfStages
from pca_tools import cost_of
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.audit._epsilon import _upper_limit

DELTA = 1e-6
LOW_NOISE, FORGOTTEN_ROOT = 1.0 / 0.9, np.sqrt(2.0)


def refuted(claimed, mu, n_trials, confidence):
    """Probability that an audit of a mechanism of cost `mu` refutes the claim."""
    alpha = 1.0 - confidence
    counts = np.arange(n_trials)
    limits = [_upper_limit(int(k), n_trials, alpha / 2.0) for k in counts]
    scores, weights = -ndtri(limits), binom.pmf(counts, n_trials, ndtr(-mu / 2.0))
    # Scores fall: the smallest numbers of the other error refute with each.
    below = np.concatenate([[0.0], np.cumsum(weights)])
    return weights @ below[np.searchsorted(-scores, scores - claimed)]


def claim_of(case):
    if isinstance(case, OfStages):
        plan = case.make(case.epsilon).plan_for(case.data()[0])
        return cost_of(plan, case.prefix)
    return gaussian_mu(case.epsilon, DELTA)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.tight])
def test_power_of_an_audit(name):
    """Noise 10 % low is refuted by whole fits, and a forgotten root of 2 by all.

    An audit that finds too little fails as well: noise a tenth or a quarter too much.
    """
    case = CASES[name]
    mu, look = claim_of(case), (case.n_trials, CONFIDENCE)
    least = gaussian_mu(case.power * gaussian_epsilon(mu, DELTA), DELTA)
    assert refuted(mu, mu, *look) < 2e-4
    assert refuted(least, mu, *look) > 0.9995
    assert refuted(mu, FORGOTTEN_ROOT * mu, *look) > 0.999
    if isinstance(case, OfStages):
        assert refuted(least, mu / 1.25, *look) < 1e-3
    else:
        assert refuted(mu, LOW_NOISE * mu, *look) > 0.99
        assert refuted(least, mu / LOW_NOISE, *look) < 0.02


def test_power_of_a_first_look():
    mu, look = gaussian_mu(16.0, DELTA), (FIRST_TRIALS, FIRST_CONFIDENCE)
    assert refuted(mu, mu, *look) < 2e-6
    assert refuted(mu, FORGOTTEN_ROOT * mu, *look) > 0.99


def test_the_table_is_that_of_simulated_audits():
    """Of 2000 simulated ones: at most 4.5 standard errors off, once in 150 000 runs."""
    from skdpspectral.audit import mu_lower_bound

    mu, n, confidence = 2.0, 400, 0.99
    rng = np.random.default_rng(0)
    found = [
        mu_lower_bound(
            rng.standard_normal(n),
            1.2 * mu + rng.standard_normal(n),
            threshold=0.6 * mu,
            confidence=confidence,
        )
        for _ in range(2000)
    ]
    expected = refuted(mu, 1.2 * mu, n, confidence)
    assert 0.05 < expected < 0.95
    error = np.sqrt(expected * (1.0 - expected) / len(found))
    assert abs(np.mean(np.array(found) > mu) - expected) < 4.5 * error
