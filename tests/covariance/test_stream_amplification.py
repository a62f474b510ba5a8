"""Noise that is shaped by matrices that amplify rounding errors is refused.

Where rounding errors of the noise reach its grid, the noise of some steps lies on a
coarser lattice, and a released row can be read off modulo that lattice.
"""

import numpy as np
import pytest

from skdpspectral import JMECovariance, PrivacyAccountant
from skdpspectral.accounting import gaussian_mu
from skdpspectral.factorizations import (
    Average,
    Banded,
    Exponential,
    Prefix,
    Window,
    factorize,
)
from skdpspectral.mechanisms import CorrelatedGaussian

ROWS = np.random.default_rng(0).normal(size=(4, 2))


def test_coarse_noise_is_refused_before_it_is_charged():
    accountant = PrivacyAccountant()
    stream = JMECovariance(
        workload=Window(2), factorization="sqrt", horizon=10**7, accountant=accountant
    )
    with pytest.raises(ValueError, match=r"factorization=.*amplifies rounding"):
        stream.partial_fit(ROWS)
    assert len(accountant.ledger) == 0


@pytest.mark.parametrize(
    ("inverse", "column", "said"),
    [
        ([1.0, -5.0, 25.0, -125.0, 625.0], [1.0, 5.0, 0.0, 0.0, 0.0], "float64"),
        ([1.0, 90.0], [1.0, 90.0], "amplifies rounding"),
    ],
)
def test_matrices_beyond_float64_are_refused(inverse, column, said):
    """By their sums where errors reach the grid, by their norm where integers end."""
    matrix = Banded("sqrt", np.array(inverse), np.array(column))
    matrix.check_precision(2.0**25)
    if said == "float64":
        assert matrix.noise_gain == pytest.approx(np.linalg.norm(inverse))
        matrix.amplification = 1.0
        matrix.check_precision(2.0**37)
        steps = 2.0**38
    else:
        steps = 2.0**27
    with pytest.raises(ValueError, match=said):
        matrix.check_precision(steps)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("workload", "name", "n"),
    [
        (Prefix(), "trivial", 1000),
        (Prefix(), "sqrt", 20_000),
        (Prefix(), "bisr", 20_000),
        (Prefix(), "blt", 20_000),
        (Average(), "sqrt", 20_000),
        (Exponential(0.99), "sqrt", 5000),
        (Exponential(0.99), "bisr", 5000),
        (Exponential(0.99), "blt", 5000),
        (Window(10), "sqrt", 5000),
        (Window(10), "blt", 5000),
    ],
    ids=str,
)
def test_errors_of_accepted_noise_are_far_below_the_grid(workload, name, n):
    """C W - Z in units of the standard deviation; a step of the grid is 2**-26."""
    factorization = factorize(workload, name, n)
    assert factorization.amplification <= 2.0**13
    Z = np.random.default_rng(1).normal(size=(n, 1))
    W = factorization.filter(1).push(Z)[:, 0]
    if name == "trivial":
        back = W
    else:
        column = factorization.matrix(min(n, 2000))[:, 0]
        W, Z = W[: len(column)], Z[: len(column)]
        back = np.convolve(column, W)[: len(column)]
    assert np.abs(back - Z[:, 0]).max() < 2.0**-26 * 2.0**-6


def test_a_norm_that_is_no_number_is_refused():
    from skdpspectral._release.noise import check_shaping

    mechanism = CorrelatedGaussian("x", 1.0, 1.0, (1,))
    factorization = factorize(Prefix(), "trivial")
    check_shaping(mechanism, factorization)
    factorization.column_norm = float("nan")
    with pytest.raises(ValueError, match="column norm"):
        check_shaping(mechanism, factorization)


@pytest.mark.parametrize("name", ["trivial", "blt"])
def test_tiny_budgets_take_a_grid_that_the_noise_can_fill(name):
    """Budgets that want the finest grids: charged in full, and on the grid."""
    for epsilon, delta in ((1e-9, 1e-12), (1e-6, 1e-9)):
        model = JMECovariance(epsilon, delta, factorization=name, horizon=100)
        plan = model.privacy_plan(n_features=3)
        assert plan.mu <= gaussian_mu(epsilon, delta)
        mechanism = plan["moments"]
        factorization = model._moment_stream(None, 3).factorization
        steps = mechanism.noise_std / mechanism.grid
        assert factorization.amplification * steps <= 2.0**39
        model.fit(np.zeros((100, 3)))


def test_budgets_that_are_too_small_say_so():
    """A factorization that is good at any other budget: the advice is about it."""
    given = {"factorization": "sqrt", "workload": "prefix"}
    JMECovariance(1e-3, 1e-6, **given).privacy_plan(10**5, 3)
    with pytest.raises(ValueError, match="raise epsilon or delta"):
        JMECovariance(1e-9, 1e-14, **given).privacy_plan(10**5, 3)
