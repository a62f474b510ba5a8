"""Aggregation of subspaces and the truncated power step, against direct formulas."""

from itertools import combinations

import numpy as np
import pytest

from skdpspectral._linalg import eigen
from skdpspectral.decomposition import _kernels
from skdpspectral.metrics import subspace_distance

RNG = np.random.default_rng(0)


def bases(m, r, p, rng=RNG):
    return np.linalg.qr(rng.standard_normal((m, p, r)))[0].transpose(0, 2, 1)


@pytest.mark.parametrize(
    ("m", "r", "p"), [(1, 2, 5), (3, 2, 20), (40, 3, 7), (2, 4, 4)]
)
def test_top_of_projectors_is_the_top_of_their_weighted_sum(m, r, p):
    stack, weights = bases(m, r, p), RNG.random(m) + 0.1
    total = sum(w * U.T @ U for w, U in zip(weights, stack, strict=True))
    found = _kernels.top_of_projectors(stack, weights, r)
    values, vectors = np.linalg.eigh(total)
    assert np.allclose(found @ found.T, np.eye(r), atol=1e-12)
    assert np.trace(found @ total @ found.T) == pytest.approx(values[-r:].sum())
    assert subspace_distance(found, vectors[:, -r:].T) < 1e-6


def test_weights_are_those_of_the_least_variance():
    variances = np.array([0.5, 2.0, 1e-3, 7.0])
    weights = _kernels.inverse_variance_weights(variances)
    assert weights.sum() == pytest.approx(1.0)
    best = np.sum(weights**2 * variances)
    assert best == pytest.approx(1.0 / np.sum(1.0 / variances))
    for _ in range(200):
        other = RNG.dirichlet(np.ones(4))
        assert np.sum(other**2 * variances) >= best
    assert np.array_equal(_kernels.inverse_variance_weights([0.0, 1.0]), [1.0, 0.0])
    extreme = _kernels.inverse_variance_weights([1e-300, 1e300])
    assert np.array_equal(extreme, [1.0, 0.0])


def test_spike_strength_undoes_the_push_of_the_noise():
    """One eigenvalue above symmetric noise, and one below its edge."""
    p, s = 400, 0.1
    tau = s * np.sqrt(p / 2)
    noise = RNG.standard_normal((p, p)) * s / np.sqrt(2)
    noise = np.tril(noise) + np.tril(noise, -1).T
    for strength in (2.0 * tau, 4.0 * tau):
        matrix = noise.copy()
        matrix[0, 0] += strength
        top = np.linalg.eigvalsh(matrix)[-1]
        found = _kernels.spike_strength([top], [tau])[0]
        # The push has a closed form, to which one matrix comes close.
        assert top == pytest.approx(strength + tau**2 / strength, rel=0.04)
        assert top > 1.02 * strength
        assert found == pytest.approx(strength, rel=0.06)
    assert _kernels.spike_strength([0.3 * tau, -1.0], [tau, tau]) == pytest.approx(tau)
    assert _kernels.spike_strength([3.0], [0.0]) == pytest.approx(3.0)


def test_subspace_variances_are_the_measured_ones():
    """Mean squared distances over 300 draws; three standard errors are about 8 %."""
    p, n, signal, s, rank, repeats = 12, 2000, 11.0, 0.2, 2, 300
    truth, squares = np.eye(p)[:rank], []
    scales = np.sqrt(np.r_[np.full(rank, signal), np.ones(p - rank)])
    for _ in range(repeats):
        X = RNG.standard_normal((n, p)) * scales
        noise = RNG.standard_normal((p, p)) * s / np.sqrt(2)
        noise = np.tril(noise, -1) + np.tril(noise, -1).T
        found = eigen.top_eigh(X.T @ X / n + noise, rank)[1]
        squares.append(subspace_distance(found, truth) ** 2)
    said = _kernels.subspace_variances(signal, 1.0, [n], [s], rank, p)[0]
    assert np.mean(squares) == pytest.approx(said, rel=0.08)


def test_subspace_variances_are_capped():
    capped = _kernels.subspace_variances(2.0, 1.0, [1, 1e9], [1e3, 1e-9], 3, 4)
    assert capped[0] == 2.0
    assert capped[1] < 1e-6
    assert np.array_equal(
        _kernels.subspace_variances(1.0, 2.0, [9], [1.0], 1, 9), [2.0]
    )
    assert np.array_equal(
        _kernels.subspace_variances(2.0, 1.0, [9], [1.0], 4, 4), [1.0]
    )


AWKWARD = {
    "ten times too long": 10.0 * bases(1, 3, 8)[0].T,
    "zero": np.zeros((8, 3)),
    "equal columns": np.ones((8, 3)),
    "huge": 1e308 * RNG.uniform(-1, 1, (8, 3)),
    "tiny": 5e-324 * RNG.integers(-3, 4, (8, 3)),
    "of many sizes": RNG.standard_normal((8, 3)) * [1e-300, 1.0, 1e300],
}


@pytest.mark.parametrize("basis", AWKWARD.values(), ids=AWKWARD)
def test_whatever_is_sent_becomes_orthonormal(basis):
    columns, defect = _kernels.orthonormal_columns(basis)
    assert np.allclose(columns.T @ columns, np.eye(3), atol=1e-14)
    assert defect < 1e-14


def test_orthonormal_columns_keep_an_orthonormal_basis():
    basis = np.linalg.qr(RNG.standard_normal((9, 4)))[0]
    assert np.allclose(_kernels.orthonormal_columns(basis)[0], basis, atol=1e-14)
    doubled = _kernels.orthonormal_columns(2.0 * basis)[0]
    assert np.array_equal(doubled, _kernels.orthonormal_columns(basis)[0])


def test_largest_rows_of_equal_norms_are_the_first():
    assert _kernels.largest_rows(np.ones((4, 2)), 2).tolist() == [1, 1, 0, 0]
    assert _kernels.largest_rows(np.array([[1.0], [-3], [2]]), 1).tolist() == [0, 1, 0]


def test_truncated_basis():
    K = RNG.standard_normal((10, 3)) * np.linspace(3, 0.1, 10)[:, None]
    columns, values, kept = _kernels.truncated_basis(K, 4)
    assert kept.sum() == 4
    assert not columns[~kept].any()
    assert np.allclose(columns.T @ columns, np.eye(3), atol=1e-12)
    V = np.linalg.qr(K)[0]
    order = np.argsort(-np.linalg.norm(V, axis=1))
    assert set(np.flatnonzero(kept)) == set(order[:4])
    assert subspace_distance(columns.T, np.linalg.qr(V * kept[:, None])[0].T) < 1e-7
    assert np.allclose(np.linalg.svd(K[kept])[1], values)
    whole = _kernels.truncated_basis(K, 10)[0]
    assert subspace_distance(whole.T, V.T) < 1e-7


def test_sparse_subspace_is_the_best_of_all_supports():
    """By trying every support; 20 noisy matrices, a few of which may be hard."""
    rng, hits = np.random.default_rng(5), 0
    for _ in range(20):
        matrix = rng.standard_normal((8, 8))
        matrix = 0.3 * (matrix + matrix.T)
        matrix[:3, :3] += 2.0
        supports = [list(c) for c in combinations(range(8), 3)]
        values = [np.linalg.eigvalsh(matrix[np.ix_(c, c)])[-1] for c in supports]
        found = _kernels.sparse_subspace(matrix, 1, 3)[:, 0]
        assert np.count_nonzero(found) == 3
        assert found @ found == pytest.approx(1.0)
        hits += found @ matrix @ found > max(values) - 1e-6
    assert hits >= 18
    whole = _kernels.sparse_subspace(matrix, 2, 8)
    assert subspace_distance(whole.T, np.linalg.eigh(matrix)[1][:, -2:].T) < 1e-6
