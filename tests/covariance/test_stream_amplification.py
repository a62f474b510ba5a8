"""Noise that is shaped by matrices that amplify rounding errors is refused.

Where rounding errors of the noise reach its grid, the noise of some steps lies on a
coarser lattice, and a released row can be read off modulo that lattice.
"""

import numpy as np
import pytest
from release_tools import record_releases
from scipy.linalg import toeplitz

from skdpspectral import JMECovariance, PrivacyAccountant
from skdpspectral.accounting import gaussian_mu
from skdpspectral.factorizations import Average, Exponential, Prefix, Window, factorize
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
    with pytest.raises(
        ValueError, match=r"factorization=.*(amplifies rounding|float64)"
    ):
        stream.partial_fit(ROWS)
    assert len(accountant.ledger) == 0


@pytest.mark.sampled(4)
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
    W = factorization.filter(1).push(Z)[:, 0]
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
    from skdpspectral._release.streams import check_shaping

    mechanism = CorrelatedGaussian("x", 1.0, 1.0, (1,))
    factorization = factorize(Prefix(), "trivial")
    check_shaping(mechanism, factorization)
    factorization.column_norm = float("nan")
    with pytest.raises(ValueError, match="column norm"):
        check_shaping(mechanism, factorization)


TRIL = np.tril(np.ones((8, 8)))
SCALED = {
    "one tiny entry": {"factorization": [[1e-9]]},
    "tiny weights": {"workload": 1e-18 * TRIL, "factorization": "sqrt"},
    "tiny weights, optimal": {"workload": 1e-200 * TRIL, "factorization": "optimal"},
    "huge entries": {"factorization": 1e12 * np.eye(8)},
    "entries near the end of float64": {"factorization": 1e300 * TRIL},
    "subnormal entries": {"factorization": 5e-324 * np.eye(8)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALED)
def test_the_scale_of_a_matrix_does_not_matter(name):
    """The noise of each step is what brute force makes of the unscaled matrix.

    400 x 8 x 5 draws (or an eighth): a variance 10 % off is 9 (3) standard errors; 4.5
    is the limit, which is passed by chance with a probability below 1e-5. Numbers of
    the grid stay where float64 has all integers, so that no row can be told by parity.
    """
    parameters = SCALED[name]
    n = len(parameters.get("workload", parameters["factorization"]))
    rows, whitened = np.zeros((n, 2)), []
    for seed in range(400):
        model = JMECovariance(noise_seed=seed, **parameters)
        with record_releases() as released:
            model.fit(rows)
        mechanism = model.privacy_["moments"]
        whole = released["moments"] / mechanism.grid
        assert np.abs(whole).max() < 2.0**44
        assert np.array_equal(whole, np.rint(whole))
        whitened.append(released["moments"])
    if "workload" in parameters:
        C = factorize(Prefix(), parameters["factorization"], n).matrix(n)
    else:
        C = np.array(parameters["factorization"])
    C = C / np.abs(C).max()
    C /= np.linalg.norm(C, axis=0).max()
    # 2 c |C| over mu, with |C| = 1, and c = 1.
    planned = 2.0 / gaussian_mu(1.0, 1e-6)
    Z = np.einsum("ij,sjk->sik", C, np.array(whitened)) / planned
    assert abs(Z.var() - 1.0) < 4.5 * np.sqrt(2.0 / Z.size)
    assert np.isfinite(model.covariance_).all()
    # Odd and even numbers of steps are as frequent.
    odd = (np.array(whitened) / mechanism.grid) % 2
    assert abs(odd.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(odd.size)


def test_scaled_matrices_give_the_same_bits():
    rows = ROWS[:, :1]
    for power in (-40, 40):
        found = [
            JMECovariance(noise_seed=0, factorization=C).fit(rows).covariance_
            for C in (np.tril(np.ones((4, 4))), 2.0**power * np.tril(np.ones((4, 4))))
        ]
        assert np.array_equal(*found)


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
    """An array that is good at any other budget: the advice is about the budget."""
    C = np.tril(np.ones((200, 200)))
    JMECovariance(1e-3, 1e-6, factorization=C).privacy_plan(200, 3)
    with pytest.raises(ValueError, match="raise epsilon or delta"):
        JMECovariance(1e-9, 1e-14, factorization=C).privacy_plan(200, 3)
