"""Correlations from a noisy moment of signs: each step against independent ways."""

import warnings

import numpy as np
import pytest
from scipy.special import ndtr

from skdpspectral.decomposition import _kernels as kernels


def moment_of_signs(X, n_pairs=400_000, seed=0):
    """Mean of z z' over random pairs, and shares of pairs that are no ties."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(len(X), size=(2, n_pairs))
    signs = np.sign(X[first] - X[second])
    counts = np.maximum((signs != 0).sum(axis=1, keepdims=True), 1)
    rows = signs / np.sqrt(counts)
    return rows.T @ rows / n_pairs


def noisy(matrix, spread, seed):
    noise = np.random.default_rng(seed).standard_normal(matrix.shape) * spread
    noise = np.tril(noise, -1)
    noise = noise + noise.T
    diagonal = np.random.default_rng((seed, 1)).standard_normal(len(matrix))
    return matrix + noise + np.diag(np.sqrt(2.0) * spread * diagonal)


def mixed_rows(n, seed=0):
    """Normal features, two of two values and one that is rare, of one factor."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 1)) + rng.standard_normal((n, 6))
    return np.column_stack([X[:, :3], X[:, 3:5] > 0.0, X[:, 5] > 2.5])


def test_bridge_is_exact_for_normal_and_for_two_valued_features():
    rho = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    kendall = 2.0 / np.pi * np.arcsin(rho)
    assert kernels.bridge(kendall, np.ones(3)) == pytest.approx(rho, abs=1e-12)
    assert np.array_equal(kernels.bridge(rho, np.full(3, 0.5)), rho)
    assert np.array_equal(kernels.bridge(rho, np.full(3, 0.01)), rho)
    assert np.array_equal(kernels.bridge(9.0 * rho, np.ones(3))[0], [1.0, 1.0, -1.0])


def test_bridge_of_a_normal_feature_and_a_median_split():
    """Of a normal x, and whether r x + noise is positive."""
    r, grid = 0.1, np.linspace(-8.0, 8.0, 4001)
    density = np.exp(-0.5 * grid**2)
    density /= density.sum()
    positive = ndtr(r * grid / np.sqrt(1.0 - r**2))
    pearson = np.sum(density * grid * positive) / 0.5
    others = 2.0 * density * (1.0 - positive)
    above = np.cumsum(others) - 0.5 * others
    # Pairs of a positive and another one are half of all.
    tau_a = 0.5 * (2.0 * np.sum(2.0 * density * positive * above) - 1.0)
    matrix = np.array([[1.0, 0.0], [tau_a / np.sqrt(0.5), 1.0]])
    found = kernels.bridge(matrix, np.array([1.0, 0.5]))[1, 0]
    assert found == pytest.approx(pearson, rel=0.01)
    assert matrix[1, 0] == pytest.approx(pearson / np.sqrt(np.pi / 2), rel=0.01)


def test_a_diagonal_is_found_among_its_noise():
    """Errors have less than a third of the noise where shares are few numbers."""
    for shares in (np.full(30, 1 / 30), np.repeat([0.04, 0.0025], [24, 16])):
        spread = 0.005 / np.sqrt(2.0)
        errors = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            released = shares + 0.005 * rng.standard_normal(len(shares))
            found = kernels.shrink_diagonal(released, spread)
            assert found.min() >= 0.0
            errors.append(np.mean((found - shares) ** 2))
        assert np.sqrt(np.mean(errors)) < 0.005 / 3


def test_a_diagonal_without_noise_is_kept():
    shares = np.random.default_rng(0).dirichlet(np.ones(20))
    assert kernels.shrink_diagonal(shares, 0.0) == pytest.approx(shares, abs=1e-15)
    assert kernels.shrink_diagonal(shares, 1e-6) == pytest.approx(shares, abs=1e-4)
    # Ties in all features of most pairs: the trace is far below 1, and is believed.
    assert kernels.shrink_diagonal(0.1 * shares, 1e-3).sum() < 0.12
    found = kernels.shrink_diagonal(shares, 0.1)
    assert found == pytest.approx(np.full(20, 0.05), rel=0.05)


def alternating_projections(matrix, diagonal, steps=3000):
    """Dykstra's algorithm, which is Higham's."""
    at = np.diag_indices_from(matrix)
    found, correction = matrix.copy(), np.zeros_like(matrix)
    for _ in range(steps):
        shifted = found - correction
        values, vectors = np.linalg.eigh(shifted)
        positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
        correction, found = positive - shifted, positive.copy()
        found[at] = diagonal
    return found


@pytest.mark.parametrize("order", [2, 6, 30])
def test_the_nearest_matrix_is_that_of_alternating_projections(order):
    rng = np.random.default_rng(order)
    X = rng.standard_normal((200, order)) + 2.0 * rng.standard_normal((200, 1))
    matrix = noisy(np.corrcoef(X.T), 0.4, order)
    diagonal = rng.uniform(0.5, 1.0, order)
    found = kernels.nearest_semidefinite(matrix, diagonal)
    expected = alternating_projections(matrix, diagonal)
    assert np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(matrix - expected)
    assert np.abs(np.diag(found) - diagonal).max() < 0.1
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    assert np.array_equal(found, found.T)


def test_a_correlation_matrix_is_its_own_nearest():
    matrix = np.corrcoef(np.random.default_rng(0).standard_normal((5, 50)))
    found = kernels.nearest_semidefinite(matrix, np.ones(5))
    assert found == pytest.approx(matrix, abs=1e-12)


def test_without_noise_correlations_are_pearsons():
    X = mixed_rows(50_000)
    moment = moment_of_signs(X)
    # What is above the diagonal is never read.
    moment[np.triu_indices(6, 1)] = np.nan
    found = kernels.correlations_of_signs(moment, 0.0)
    # The moment weighs pairs with few differences more, which is a bias of its own.
    assert found == pytest.approx(np.corrcoef(X.T), abs=0.05)
    assert np.diag(found) == pytest.approx(np.ones(6), abs=1e-12)


def test_features_that_noise_hides_have_a_variance_below_one():
    X = mixed_rows(50_000)
    moment, sums = moment_of_signs(X), np.zeros(6)
    for seed in range(20):
        found = kernels.correlations_of_signs(noisy(moment, 0.02, seed), 0.02)
        assert np.isfinite(found).all()
        assert np.diag(found).max() <= 1.0 + 1e-12
        sums += np.diag(found) / 20
    assert sums[:5].min() > 0.8
    # 4 % of ones: a share of 7 % of pairs, of which a tenth is in the moment.
    assert sums[5] < 0.5


@pytest.mark.parametrize("spread", [0.0, 1e-5, 0.1])
def test_features_without_values_that_differ_have_no_correlations(spread):
    X = mixed_rows(5000)
    X[:, [1, 4]] = 7.0
    found = kernels.correlations_of_signs(noisy(moment_of_signs(X), spread, 0), spread)
    assert np.isfinite(found).all()
    if spread < 0.1:
        assert np.abs(found[[1, 4]]).max() < 0.01
    for order in (1, 2, 5):
        found = kernels.correlations_of_signs(np.zeros((order, order)), spread)
        assert np.isfinite(found).all()


@pytest.mark.parametrize("spread", [0.0, 1e-300, 1e-3, 1e6])
@pytest.mark.parametrize("order", [1, 2, 5, 17])
def test_any_released_matrix_gives_numbers_without_a_warning(order, spread):
    one = np.zeros((order, order))
    one[0, 0] = 1.0
    draws = np.random.default_rng(0).standard_normal((order, order))
    matrices = [one, 0.0 * one, -np.eye(order), 1e6 * (draws + draws.T)]
    for matrix in matrices:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = kernels.correlations_of_signs(matrix, spread)
        assert found.shape == matrix.shape
        assert np.isfinite(found).all()


def test_wide_matrices_are_not_projected():
    """They are taken as they are where correlations would be mostly noise."""
    order = kernels._MOST_PROJECTED + 1
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((order, 1))
    covariance = loadings @ loadings.T + np.eye(order)
    deviations = np.sqrt(np.diag(covariance))
    pearson = covariance / deviations / deviations[:, None]
    moment = 2.0 / np.pi * np.arcsin(np.minimum(pearson, 1.0)) / order
    quiet, loud = 1e-3 / order, 0.1 / order
    found = kernels.correlations_of_signs(noisy(moment, quiet, 0), quiet)
    assert found == pytest.approx(pearson, abs=0.02)
    found = kernels.correlations_of_signs(noisy(moment, loud, 0), loud)
    off = ~np.eye(order, dtype=bool)
    assert found[off] == pytest.approx(order * noisy(moment, loud, 0)[off], abs=1e-12)
    assert np.diag(found) == pytest.approx(np.ones(order), abs=0.2)


def test_the_most_visible_feature_is_a_standardized_one():
    """Also where noise hides the shares, which then seem unlike."""
    X = np.random.default_rng(0).standard_normal((2000, 6))
    for spread in (0.0, 0.01, 0.3):
        moment = noisy(moment_of_signs(X), spread, 0)
        found = kernels.correlations_of_signs(moment, spread)
        assert np.diag(found).max() == pytest.approx(1.0)
        assert np.isfinite(found).all()
        assert spread == 0.3 or np.diag(found).min() > 0.9
