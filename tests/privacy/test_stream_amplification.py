"""Noise that is shaped by matrices that amplify rounding errors is refused.

Where rounding errors of the noise reach its grid, the noise of some steps lies on a
coarser lattice, and a released row can be read off modulo that lattice.
"""

import numpy as np
import pytest
from scipy.linalg import toeplitz

from skdpspectral import JMECovariance, PrivacyAccountant
from skdpspectral.factorizations import (
    Average,
    Exponential,
    Prefix,
    Window,
    factorize,
    run_filter,
)
from skdpspectral.mechanisms import CorrelatedGaussian

ROWS = np.random.default_rng(0).normal(size=(4, 2))


def weights(*first, n):
    """A lower-triangular Toeplitz array."""
    column = np.zeros(n)
    column[: len(first)] = first
    return toeplitz(column, np.zeros(n))


def uneven(n):
    """A matrix whose inverse has entries that cancel."""
    C = np.eye(n)
    C[1, 0] = C[2, 0] = 9e7
    C[2, 1] = 1.0
    return C


REFUSED = {
    "zeros inside the disc": {
        "workload": weights(1, 5, n=15),
        "factorization": "sqrt",
    },
    "many steps": {"workload": weights(1, 2, n=36), "factorization": "sqrt"},
    "an array": {"factorization": uneven(32)},
    "noise of very different sizes": {"factorization": np.diag([1.0, 1e-7, 1.0, 1.0])},
    "entries beyond float64": {
        "workload": weights(1, 1e30, n=40),
        "factorization": "sqrt",
    },
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:overflow")
def test_coarse_noise_is_refused_before_it_is_charged(name):
    accountant = PrivacyAccountant()
    stream = JMECovariance(accountant=accountant, **REFUSED[name])
    with pytest.raises(ValueError, match=r"factorization=.*(amplifies rounding|float64)"):
        stream.partial_fit(ROWS)
    assert len(accountant.ledger) == 0


@pytest.mark.parametrize(
    ("workload", "name", "n"),
    [
        (Prefix(), "trivial", 1000),
        (Prefix(), "sqrt", 20_000),
        (Prefix(), "bisr", 20_000),
        (Prefix(), "blt", 20_000),
        (Prefix(), "optimal", 200),
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
    W = run_filter(factorization.filter(1), Z)[:, 0]
    if name == "trivial":
        back = W
    elif name == "optimal":
        back = factorization.matrix(n) @ W
    else:
        column = factorization.matrix(min(n, 2000))[:, 0]
        W, Z = W[: len(column)], Z[: len(column)]
        back = np.convolve(column, W)[: len(column)]
    assert np.abs(back - Z[:, 0]).max() < 2.0**-26 * 2.0**-6


def test_column_norms_of_tiny_arrays_do_not_underflow():
    factorization = factorize(Prefix(), 2.72e-162 * np.eye(3))
    assert np.array_equal(factorization.matrix(3), np.eye(3))
    assert 1.0 <= factorization.column_norm < 1 + 1e-8


def test_a_norm_that_is_no_number_is_refused():
    from skdpspectral._stream_release import check_shaping

    mechanism = CorrelatedGaussian("x", 1.0, 1.0, (1,))
    factorization = factorize(Prefix(), "trivial")
    check_shaping(mechanism, factorization)
    factorization.column_norm = float("nan")
    with pytest.raises(ValueError, match="column norm"):
        check_shaping(mechanism, factorization)
