"""Workloads and factorizations against dense matrices, and the errors they leave."""

import functools
import math

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, logit

from skdpspectral.factorizations import (
    BISR,
    Average,
    Custom,
    Exponential,
    NoiseGain,
    Prefix,
    Window,
    factorize,
    workload_error,
)
from skdpspectral.factorizations._choices import needs_steps
from skdpspectral.factorizations._errors import GappedGain
from skdpspectral.factorizations._factorizations import Buffers, prefix_buffers
from skdpspectral.factorizations._workloads import check_triangular

N = 300
# Means in which rows count differently.
WEIGHTS = np.tril(np.ones((N, N)) * (2 + np.sin(np.arange(N))))
WEIGHTS /= WEIGHTS.sum(axis=1, keepdims=True)
TOEPLITZ = Custom(
    np.tril(1.0 / (1.0 + np.subtract.outer(np.arange(N), np.arange(N)) ** 2))
)
WORKLOADS = [Prefix(), Average(), Exponential(0.9), Window(10), Window(1), TOEPLITZ]
NAMES = ["trivial", "sqrt", "bisr", "blt"]
CASES = [(w, name) for w in WORKLOADS for name in NAMES]
CASES += [(Prefix(), "optimal"), (Custom(WEIGHTS), "optimal"), (Custom(WEIGHTS), "blt")]
CASES += [(Window(10), np.tril(WEIGHTS) + 5 * np.eye(N))]


def label(value):
    return value if isinstance(value, str) else type(value).__name__


def make(workload, name, n=N):
    return factorize(workload, BISR(20) if str(name) == "bisr" else name, n)


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
    squares = workload.core_matrix(N) @ (inverse**2).sum(axis=1)
    gain = NoiseGain(workload, C)
    parts = [gain.push(steps) for steps in (1, 40, 200, N - 241)]
    found = [np.concatenate(part) for part in zip(*parts, strict=True)]
    assert np.allclose(found[0], core, rtol=1e-9)
    assert np.allclose(found[1], squares, rtol=1e-9)


@pytest.mark.parametrize("workload", [Prefix(), Exponential(0.9)], ids=label)
@pytest.mark.parametrize("name", ["trivial", "blt", "sqrt", "optimal"])
def test_gain_over_restarts(workload, name):
    """Blocks of fresh noise: the matrix is block-diagonal."""
    size, blocks = 7, 3
    C = factorize(workload, name, size).matrix(size)
    inverse = np.kron(np.eye(blocks), np.linalg.inv(C))
    core = ((workload.core_matrix(size * blocks) @ inverse) ** 2).sum(axis=1)
    gain = NoiseGain(workload, factorize(workload, name, size), size)
    found = np.concatenate([gain.push(steps)[0] for steps in (3, 10, 8)])
    assert np.allclose(found, core, rtol=1e-9)


GAPPED = [Prefix(), Average(), Exponential(0.9), Window(10), TOEPLITZ]
GAPPED += [Custom(WEIGHTS)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("workload", GAPPED, ids=label)
@pytest.mark.parametrize("name", [*NAMES, "optimal", "array"])
@pytest.mark.parametrize("block", [None, 13])
def test_gain_of_sums_with_gaps(workload, name, block):
    """Against the dense matrix, with zeros for the weights of two gaps."""
    n, first, second = 60, (20, 27), (40, 41)
    if workload.name == "custom":
        workload = Custom(workload.weights[:n, :n])
    if block and (workload.name in ("custom", "window") or name == "array"):
        pytest.skip("noise of these is not renewed")
    if name == "sqrt" and not workload.toeplitz:
        pytest.skip("no square root")
    if name == "array":
        name = np.tril(np.random.default_rng(0).uniform(0, 0.3, (n, n))) + np.eye(n)
    factorization = factorize(workload, name, block or n)
    C = factorization.matrix(block or n)
    if block:
        C = np.kron(np.eye(5), C)[:n, :n]
    inverse = np.linalg.inv(C)
    plain = NoiseGain(workload, factorization, block)
    plain.push(20)
    gain = GappedGain(workload, factorization, block, plain, 20)
    gain.skip(7)
    found = [gain.push(5), gain.push(8)]
    core = [*found[0][0][[1, 4]], *found[1][0][[-1]]]
    gain.skip(1)
    found.append(gain.push(19))
    core += [*found[2][0][[0, 8, 9, 10, -1]]]
    for step, value in zip((29, 32, 40, 42, 50, 51, 52, 60), core, strict=True):
        weights = workload.core_matrix(n)[step - 1].copy()
        for start, stop in (first, second):
            begun = 0 if workload.name == "window" else start
            weights[begun : stop if step > stop else begun] = 0.0
        assert value == pytest.approx(((weights @ inverse) ** 2).sum(), rel=1e-9)
        if step in (40, 60):
            squares = found[1 if step == 40 else 2][1][-1]
            wanted = weights @ (inverse**2).sum(axis=1)
            assert squares == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", ["trivial", "blt"])
def test_gaps_of_long_streams_cost_no_time(name):
    """Steps are passed over by doubling: 10**12 of them are as quick as ten."""
    workload = Exponential(0.99)
    factorization = factorize(workload, name)
    plain = NoiseGain(workload, factorization)
    plain.push(5000)
    gain = GappedGain(workload, factorization, None, plain, 5000)
    before = gain._variance.at(5000)
    gain._variance.skip(10**12)
    assert gain._variance.at(5000 + 10**12) == 0.0
    # Where the gap is forgotten, it is as if there had been none.
    assert gain._variance.at(10_000 + 10**12) == pytest.approx(before, rel=1e-9)


def test_the_scale_of_arrays_is_arbitrary():
    """The same matrix to the last bit, by powers of two, and nearly so by others."""
    rng = np.random.default_rng(0)
    C = np.tril(rng.uniform(0.1, 1.0, (20, 20))) + np.eye(20)
    unit = factorize(Prefix(), C)
    assert 1.0 <= unit.column_norm <= 1 + 1e-8
    assert np.linalg.norm(unit.matrix(20), axis=0).max() <= unit.column_norm
    for power in (-1000, -40, 40, 1000):
        other = factorize(Prefix(), np.ldexp(C, power))
        assert np.array_equal(other.matrix(20), unit.matrix(20))
    for scale in (1e-300, 1e-18, 1e12, 1e300):
        other = factorize(Prefix(), scale * C)
        assert np.allclose(other.matrix(20), unit.matrix(20), rtol=1e-12)
    weights = np.tril(rng.uniform(0.5, 1.0, (20, 20)))
    for name in ("sqrt", "optimal", "bisr", "blt"):
        core = np.tril(np.ones((20, 20))) if name == "sqrt" else weights
        for scale in (1e-300, 1e-18, 1e300):
            other = factorize(Custom(scale * core), name)
            whole = factorize(Custom(core), name)
            assert np.allclose(other.matrix(20), whole.matrix(20), rtol=1e-6)
            assert 1.0 <= other.column_norm < 10.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["trivial", "blt", "sqrt", "bisr", "optimal"])
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
        # The paper divides by ten from the first step on.
        (Custom(Window(10).core_matrix(1000) / 10), 1000, "trivial", 0.3155),
        (Custom(Window(10).core_matrix(1000) / 10), 1000, "sqrt", 0.1921),
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
    assert blt == pytest.approx(prefix_error(prefix_buffers(n), n), rel=1e-6)


def prefix_error(buffers, n):
    """The closed form of ``workload_error(Prefix(), buffers, n)``, at any n."""
    r, roots = buffers.inverse_parts()
    weights = np.concatenate([[1.0 - np.sum(r / (1.0 - roots))], r / (1.0 - roots)])
    bases = np.concatenate([[1.0], roots])
    total = np.real(weights @ falling_sums(np.outer(bases, bases), n) @ weights)
    return buffers.column_norm(n) * math.sqrt(max(total, 0.0) / n)


def falling_sums(ratio, n):
    """Sums of (n - j) ratio**j over j < n."""
    gap = 1.0 - ratio
    near = np.abs(gap) * n < 1e-3
    gap = np.where(near, 1.0, gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = (n + ratio * np.expm1(n * np.log(ratio + 0j)) / gap) / gap
    close = 0.5 * n * (n + 1.0) - (1.0 - ratio) * n * (n + 1.0) * (n - 1.0) / 6.0
    return np.where(near, close, far)


def optimized_buffers(n, start):
    """Buffers with the least error of prefix sums over n >= 1000 steps."""
    free = np.r_[logit(start.decay), np.log(start.weight)]

    def buffers(values):
        decay, weight = np.split(values, 2)
        return Buffers(expit(decay), np.exp(weight))

    def loss(values):
        with np.errstate(all="ignore"):
            error = prefix_error(buffers(values), n)
        return math.log(error) if 0.0 < error < math.inf else 50.0

    for method in ("BFGS", "Nelder-Mead", "BFGS"):
        free = minimize(loss, free, method=method).x
    return buffers(free)


@pytest.mark.slow
@pytest.mark.dependencies
def test_the_table_is_optimal():
    """An optimization from elsewhere ends where the table is."""
    start = prefix_buffers(3000)
    found = prefix_error(optimized_buffers(1000, start), 1000)
    assert prefix_error(prefix_buffers(1000), 1000) <= found * (1 + 1e-6)
    assert found <= prefix_error(prefix_buffers(3000), 1000)


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("workload", [Exponential(0.9), Window(10)], ids=label)
def test_endless_norms_bound_all_lengths(workload):
    endless = factorize(workload, "blt")
    assert endless.max_steps is None
    for n in (1, 10, 5000):
        assert endless.column_norm >= np.linalg.norm(endless.matrix(n)[:, 0])
    long = np.linalg.norm(endless.buffers.column(20_000))
    assert endless.column_norm == pytest.approx(long, rel=1e-8)


def test_optimum_is_the_least():
    errors = {n: workload_error(Prefix(), make(Prefix(), n, 64), 64) for n in NAMES}
    best = workload_error(Prefix(), make(Prefix(), "optimal", 64), 64)
    assert best < min(errors.values())
    C = make(Prefix(), "optimal", 64).matrix(64)
    # The optimality condition: all columns are equally long.
    assert np.allclose(np.linalg.norm(C, axis=0), 1.0, atol=1e-4)
    assert np.array_equal(C, np.tril(C))


def test_who_needs_a_horizon():
    assert needs_steps(Prefix(), "blt")
    assert needs_steps(Average(), "sqrt")
    assert needs_steps(Exponential(0.9), "sqrt")
    assert not needs_steps(Exponential(0.9), "blt")
    assert not needs_steps(Prefix(), "trivial")
    assert not needs_steps(Custom(WEIGHTS), "blt")
    with pytest.raises(ValueError, match="n_steps"):
        factorize(Prefix(), "sqrt")


@pytest.mark.slow
def test_an_optimum_that_is_singular_is_refused():
    singular = np.tril(np.random.default_rng(1).uniform(0.1, 1.0, (250, 250)))
    with pytest.raises(ValueError, match="singular"):
        factorize(Custom(singular), "optimal")


@pytest.mark.parametrize("exponent", [-150, 150, 300])
def test_an_optimum_beyond_float64_is_refused_in_own_words(exponent):
    diagonal = np.ones(8)
    diagonal[:4] = 10.0 ** -abs(exponent)
    weights = np.diag(diagonal * 10.0 ** max(exponent - 8, 0))
    with pytest.raises(ValueError, match="too close to a singular matrix"):
        factorize(Custom(weights), "optimal")


def test_arrays_are_checked():
    for bad, word in (
        (np.ones((2, 3)), "square"),
        (np.ones((2, 2)), "lower-triangular"),
        (np.array([[1.0, 0.0], [1.0, 0.0]]), "singular"),
        (np.array([[1.0, 0.0], [np.nan, 1.0]]), "finite"),
        ([["a"]], "numbers"),
    ):
        with pytest.raises(ValueError, match=word):
            check_triangular("C", bad)
    with pytest.raises(ValueError, match="age"):
        factorize(Custom(WEIGHTS), "sqrt")
    with pytest.raises(ValueError, match="at most"):
        factorize(Prefix(), "optimal", 6000)
    with pytest.raises(ValueError, match="factorization"):
        factorize(Prefix(), "tree", 10)
