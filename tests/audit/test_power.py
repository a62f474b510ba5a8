"""What audits find and how often they cry wolf: computed, not simulated.

The tables of doc/contributing.rst are these numbers.
"""

import numpy as np
import pytest
from audit_cases import (
    CASES,
    CONFIDENCE,
    FIRST_CONFIDENCE,
    FIRST_TRIALS,
    claim_of,
    early_look,
    early_loss,
    is_of_stages,
)
from audit_power import (
    DELTA,
    FORGOTTEN_ROOT,
    LOW_NOISE,
    STRONG,
    least_found,
    refuted,
)

from skdpspectral.accounting import gaussian_mu


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.tight])
def test_power_of_an_audit(name):
    """Noise 10 % low is refuted by whole fits, and a forgotten root of 2 by all.

    An audit that finds too little fails as well: noise a tenth or a quarter too much.
    """
    case = CASES[name]
    mu, look = claim_of(case), (case.n_trials, CONFIDENCE)
    least = least_found(mu, case.power)
    early = early_loss(case)
    assert refuted(mu, mu, *look) < 2e-4
    assert refuted(least, mu, *look) > 0.9995
    if is_of_stages(case):
        assert refuted(mu, FORGOTTEN_ROOT * mu, *look) - early > 0.999
        assert refuted(least, mu / STRONG, *look) + early < 1e-3
    else:
        assert refuted(mu, LOW_NOISE * mu, *look) - early > 0.995
        assert refuted(least, mu / LOW_NOISE, *look) + early < 0.02
        assert refuted(mu, FORGOTTEN_ROOT * mu, *look) > 0.9999


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_an_early_look_passes_no_mistake_that_all_fits_would_find(name):
    case = CASES[name]
    n_trials, least, largest = early_look(case)
    mu, look = claim_of(case), (n_trials, CONFIDENCE)
    mistake, strong = LOW_NOISE, LOW_NOISE
    if case.tight and is_of_stages(case):
        mistake, strong = FORGOTTEN_ROOT, STRONG
    assert n_trials <= case.n_trials / 2
    assert largest <= mu
    assert 1.0 - refuted(largest, mistake * mu, *look) <= early_loss(case)
    if case.tight:
        assert least >= least_found(mu, case.power)
        assert refuted(least, mu / strong, *look) <= early_loss(case)


def test_power_of_a_first_look():
    mu, look = gaussian_mu(16.0, DELTA), (FIRST_TRIALS, FIRST_CONFIDENCE)
    assert refuted(mu, mu, *look) < 2e-6
    assert refuted(mu, FORGOTTEN_ROOT * mu, *look) > 0.99


def test_the_table_is_that_of_simulated_audits():
    """Of 2000 simulated ones: at most 4.5 standard errors off, once in 150 000 runs."""
    from skdpspectral.audit._epsilon import mu_lower_bound

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
