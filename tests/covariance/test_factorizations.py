"""Workloads and factorizations against dense matrices, and the errors they leave."""

import functools

import numpy as np
import pytest
from benchmark_scripts import ROOT, load
from scipy.linalg import solve_triangular

from skdpspectral.factorizations import (
    BISR,
    Average,
    Exponential,
    NoiseGain,
    Prefix,
    Window,
    factorize,
    needs_steps,
)

TABLE = load(ROOT / "doc" / "tables" / "stream_factorizations.py")
workload_error = TABLE.workload_error
N = 300
WORKLOADS = [Prefix(), Average(), Exponential(0.9), Window(10), Window(1)]
NAMES = ["trivial", "sqrt", "bisr", "blt"]
CASES = [(w, name) for w in WORKLOADS for name in NAMES]


def label(value):
    return value if isinstance(value, str) else type(value).__name__


def make(workload, name, n=N):
    return factorize(workload, BISR(20) if name == "bisr" else name, n)


@functools.cache
def made(case):
    return CASES[case][0], make(*CASES[case])


@pytest.fixture(params=range(len(CASES)), ids=lambda c: "-".join(map(label, CASES[c])))
def made_of_case(request):
    """A workload and a factorization of it; what is made of it once serves all."""
    return made(request.param)


@pytest.mark.sampled(4)
def test_streaming_is_the_dense_product(made_of_case):
    """Rows of C^{-1} Z, in the blocks of the filter, to 1e-12 of their size."""
    workload, C = made_of_case
    Z = np.random.default_rng(0).normal(size=(N, 3))
    dense = np.linalg.solve(C.matrix(N), Z)
    streamed = C.filter(3).push(Z.copy())
    assert np.abs(streamed - dense).max() <= 1e-12 * np.abs(dense).max()
    sums = workload.sums(3)
    parts = [sums.push(rows.copy()) for rows in np.split(streamed, [1, 2, 50, 51, 290])]
    wanted = workload.core_matrix(N) @ dense
    assert np.abs(np.concatenate(parts) - wanted).max() <= 1e-12 * np.abs(dense).sum()


@pytest.mark.parametrize("name", ["sqrt", "bisr", "blt"])
@pytest.mark.parametrize("workload", [Prefix(), Window(10)], ids=label)
def test_long_streams_stay_exact(workload, name):
    n = 2000
    C = factorize(workload, name, n)
    Z = np.random.default_rng(0).normal(size=(n, 2))
    dense = solve_triangular(C.matrix(n), Z, lower=True)
    streamed = C.filter(2).push(Z.copy())
    assert np.abs(streamed - dense).max() <= 1e-12 * np.abs(dense).max()


@pytest.mark.sampled(4)
def test_column_norm_is_the_largest(made_of_case):
    _, C = made_of_case
    largest = np.linalg.norm(C.matrix(N), axis=0).max()
    # Rounded up, never down.
    assert largest <= C.column_norm <= largest * (1 + 1e-8)


@pytest.mark.slow
def test_gain_is_the_variance(made_of_case):
    workload, C = made_of_case
    inverse = np.linalg.inv(C.matrix(N))
    core = ((workload.core_matrix(N) @ inverse) ** 2).sum(axis=1)
    gain = NoiseGain(workload, C)
    parts = [gain.push(steps) for steps in (1, 40, 200, N - 241)]
    assert np.allclose(np.concatenate(parts), core, rtol=1e-9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["trivial", "blt", "sqrt", "bisr"])
def test_bounds_of_the_noise_of_a_step(name):
    workload = Prefix()
    factorization = factorize(workload, name, 200)
    inverse = np.linalg.inv(factorization.matrix(200))
    largest = np.linalg.norm(inverse, axis=1).max()
    assert largest * (1 - 1e-12) <= factorization.noise_gain <= largest * 1.01


@pytest.mark.parametrize(
    ("workload", "n", "name", "error"),
    [
        (Prefix(), 1000, "trivial", 22.37),
        (Prefix(), 1000, "sqrt", 3.102),
        (Prefix(), 10_000, "trivial", 70.71),
        (Prefix(), 10_000, "sqrt", 3.836),
        (Exponential(0.9), 1000, "trivial", 2.29),
        (Exponential(0.9), 1000, "sqrt", 1.451),
        (Exponential(0.99), 1000, "trivial", 6.91),
        (Exponential(0.99), 1000, "sqrt", 2.129),
        (Average(), 1000, "trivial", 0.0865),
    ],
    ids=str,
)
def test_known_errors(workload, n, name, error):
    """Figures of an independent implementation, to the digits given."""
    found = workload_error(workload, factorize(workload, name, n), n)
    digits = len(str(error).split(".")[1])
    assert round(found, digits) == error


@pytest.mark.parametrize(
    ("workload", "n", "error", "slack"),
    [
        (Prefix(), 1000, 3.050, 0.001),
        (Prefix(), 10_000, 3.784, 0.001),
        (Exponential(0.9), 1000, 1.451, 0.001),
        (Exponential(0.99), 1000, 2.129, 0.001),
        # No buffered matrix that fades is as good as the root of a window.
        (Window(10), 1000, 0.2000, 0.06),
        (Average(), 1000, 0.0802, 0.02),
    ],
    ids=str,
)
def test_buffers_come_close_to_the_root(workload, n, error, slack):
    found = workload_error(workload, factorize(workload, "blt", n), n)
    assert found <= error * (1 + slack)


@pytest.mark.parametrize("n", [1, 2, 10, 100, 2000, 5000, 30_000, 300_000])
def test_interpolated_buffers(n):
    """Between powers of ten they lose no more than 2 % to the root."""
    blt = workload_error(Prefix(), factorize(Prefix(), "blt", n), n)
    assert blt <= 1.02 * workload_error(Prefix(), factorize(Prefix(), "sqrt", n), n)


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("workload", [Exponential(0.9), Window(10)], ids=label)
def test_endless_norms_bound_all_lengths(workload):
    endless = factorize(workload, "blt")
    assert endless.max_steps is None
    for n in (1, 10, 5000):
        assert endless.column_norm >= np.linalg.norm(endless.matrix(n)[:, 0])
    long = np.linalg.norm(endless.column(20_000))
    assert endless.column_norm == pytest.approx(long, rel=1e-8)


def test_who_needs_a_horizon():
    assert needs_steps(Prefix(), "blt")
    assert needs_steps(Average(), "sqrt")
    assert needs_steps(Exponential(0.9), "sqrt")
    assert not needs_steps(Exponential(0.9), "blt")
    assert not needs_steps(Prefix(), "trivial")
    with pytest.raises(ValueError, match="n_steps"):
        factorize(Prefix(), "sqrt")


@pytest.mark.parametrize("name", ["optimal", "tree", None, np.eye(10)], ids=str)
def test_other_factorizations_are_refused(name):
    with pytest.raises(ValueError, match="factorization must be"):
        factorize(Prefix(), name, 10)
