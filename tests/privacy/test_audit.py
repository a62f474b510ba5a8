"""Audits of every private estimator: below the claim, and not for lack of power.

Clopper-Pearson bounds at 99 %: an honest mechanism is refuted in at most 1 of 100
audits. Seeds are fixed.
"""

import numpy as np
import pytest
from audit_cases import CASES, audit
from sklearn.base import BaseEstimator

import skdpspectral
from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral._base import PrivateEstimator
from skdpspectral.audit import audit_epsilon, mu_lower_bound


@pytest.mark.parametrize("name", CASES)
def test_audit_stays_below_the_claim(name):
    tight = CASES[name].tight
    result = audit(name, epsilon=4.0, n_trials=16_000 if tight else 4_000, n_jobs=2)
    assert not result.violated, str(result)
    assert result.epsilon <= result.claimed_epsilon <= 4.0
    if tight:
        assert result.epsilon > 0.9 * result.claimed_epsilon, str(result)


def test_every_private_estimator_is_audited():
    public = [getattr(skdpspectral, name) for name in skdpspectral.__all__]
    private = {
        c for c in public if isinstance(c, type) and issubclass(c, PrivateEstimator)
    }
    assert private == {type(case.make(1.0)) for case in CASES.values()}
    assert all(issubclass(c, BaseEstimator) for c in private)


def test_audit_of_the_components_alone():
    """Any statistic of a fitted estimator will do; post-processing loses power."""
    X, neighbour = CASES["pca"].data()
    result = audit_epsilon(
        lambda: DPPCA(1, epsilon=6.0),
        X,
        neighbour,
        lambda pca, released: abs(pca.components_[0, 1]) - abs(pca.components_[0, 0]),
        3000,
        random_state=0,
        n_jobs=2,
    )
    assert 0.5 < result.epsilon < result.claimed_epsilon


def test_audit_sees_what_is_really_drawn():
    """Without a seed, the audit judges fresh noise: a quick smoke of that path."""
    X, neighbour = CASES["pca"].data()
    result = audit_epsilon(lambda: DPPCA(1, epsilon=8.0), X, neighbour, n_trials=300)
    assert 0.0 < result.mu < 2 * result.claimed_mu


def test_audit_charges_no_ledger():
    """Its data are made up; its fits without noise must not void a real ledger."""
    own, block = PrivacyAccountant(100.0, 1e-6), PrivacyAccountant(0.1, 1e-6)
    X, neighbour = CASES["pca"].data()
    with block:
        for jobs in (1, 2):
            audit_epsilon(
                DPPCA(1, accountant=own), X, neighbour, n_trials=16, n_jobs=jobs
            )
        with pytest.raises(PrivacyBudgetError):
            DPPCA(1).fit(X)
    assert len(own.ledger) == len(block.ledger) == 0


def test_audit_does_not_depend_on_the_number_of_jobs():
    results = [audit("pca", 4.0, 200, n_jobs=jobs) for jobs in (1, 2)]
    assert results[0] == results[1]


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("threshold", [None, "middle"])
def test_bound_holds_and_is_sharp(mu, threshold):
    """Of 200 bounds on a known mu at 95 %, at most 22 may exceed it.

    Binomial(200, .05) exceeds 22 with probability 2e-4.
    """
    rng = np.random.default_rng(0)
    middle = mu / 2 if threshold else None
    bounds = [
        mu_lower_bound(
            rng.standard_normal(4000),
            mu + rng.standard_normal(4000),
            threshold=middle,
            confidence=0.95,
        )
        for _ in range(200)
    ]
    assert sum(bound > mu for bound in bounds) <= 22
    # Half of the trials choose the threshold where none is given.
    assert np.median(bounds) > mu - (0.2 if threshold else 0.3)


def test_bound_of_nothing_is_nothing():
    same = np.random.default_rng(0).standard_normal((2, 1000))
    assert mu_lower_bound(*same) < 0.2
    assert mu_lower_bound(same[0], same[0] - 100.0, threshold=0.0) == 0.0


def test_likelihood_ratio_finds_a_leak_that_needs_no_noise():
    """Perfectly separated releases give the largest bound that the trials allow."""
    scores = np.zeros(1000)
    assert mu_lower_bound(scores, scores + 1, threshold=0.5, confidence=0.99) > 5.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_trials": 2}, "n_trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"X_neighbour": np.zeros((3, 2))}, "same shape"),
        ({"X_neighbour": -np.ones((4, 2))}, "differ in one row, but differ in 4"),
        ({"X_neighbour": CASES["pca"].data()[0]}, "but differ in 0"),
        ({"factory": lambda: DPPCA(1, epsilon=None)}, "claims nothing"),
    ],
)
def test_bad_arguments(arguments, message):
    X, neighbour = CASES["pca"].data()
    defaults = {"factory": lambda: DPPCA(1), "X": X, "X_neighbour": neighbour}
    with pytest.raises(ValueError, match=message):
        audit_epsilon(**{**defaults, **arguments})
