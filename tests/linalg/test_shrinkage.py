"""Eigenvalues without the bias of noise, against what the eigenvectors really have."""

import numpy as np
import pytest

from skdpspectral._linalg.eigen import (
    edge_of_noise,
    join_layers,
    keep_outliers,
    shrink_eigenvalues,
    shrink_noise,
)

SPECTRA = {
    "flat": lambda p: np.ones(p),
    "one spike": lambda p: np.r_[np.ones(p - 1), 11.0],
    "decay": lambda p: 10.0 / np.arange(p, 0, -1.0),
    "mostly zero": lambda p: np.r_[np.zeros(p - p // 4), np.linspace(1, 5, p // 4)],
}


def noise(rng, p, spread):
    """Symmetric Gaussian noise: sqrt(2) times as loud on the diagonal."""
    half = rng.normal(size=(p, p)) * spread / np.sqrt(2.0)
    return half + half.T


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("ratio", [0.1, 0.5, 2.0])
def test_comes_near_the_best_that_the_eigenvectors_allow(name, ratio):
    """The oracle u'Su is known here; the noise alone would be `ratio` of the signal."""
    rng, p = np.random.default_rng(0), 60
    true = SPECTRA[name](p)
    size = np.linalg.norm(true)
    spread = ratio * size / p
    losses = []
    for _ in range(5):
        noisy = np.diag(true) + noise(rng, p, spread)
        values, vectors = np.linalg.eigh(noisy)
        best = np.einsum("ij,i,ij->j", vectors, true, vectors)
        found = shrink_eigenvalues(values, spread)
        assert np.all(np.diff(found) >= 0.0)
        rest = max(size**2 - np.sum(best**2), 0.0)
        pair = [rest + np.sum((x - best) ** 2) for x in (found, values)]
        losses.append([rest, *pair])
    oracle, shrunk, raw = np.sqrt(np.mean(losses, axis=0)) / size
    assert shrunk < oracle + 0.13 * ratio
    assert shrunk < 0.97 * raw or raw < 1.05 * oracle


@pytest.mark.slow
def test_a_spike_near_the_edge_gets_what_its_vector_has():
    """10 % more or less noise than there is would move the mean by 10 % or more.

    The mean of 200 draws has a deviation below 2 %.
    """
    rng, p, spread = np.random.default_rng(1), 80, 1.0
    true = np.zeros(p)
    true[-1] = 2.2 * np.sqrt(p)
    found, best, wrong = [], [], []
    for _ in range(200):
        values, vectors = np.linalg.eigh(np.diag(true) + noise(rng, p, spread))
        found.append(shrink_eigenvalues(values, spread)[-1])
        wrong.append(shrink_eigenvalues(values, 1.1 * spread)[-1])
        best.append(vectors[-1, -1] ** 2 * true[-1])
    assert np.mean(found) == pytest.approx(np.mean(best), rel=0.08)
    assert np.mean(wrong) < 0.9 * np.mean(found)


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_sampling_is_corrected_too(spread):
    """Against u' Sigma u for eigenvectors of the second moment of normal rows."""
    rng, p, n = np.random.default_rng(2), 60, 180
    true = np.r_[np.ones(p // 2), np.full(p // 2, 4.0)]
    losses = []
    for _ in range(10):
        rows = rng.normal(size=(n, p)) * np.sqrt(true)
        noisy = rows.T @ rows / n + noise(rng, p, spread)
        values, vectors = np.linalg.eigh(noisy)
        best = np.einsum("ij,i,ij->j", vectors, true, vectors)
        tried = [shrink_eigenvalues(values, spread, a) for a in (p / n, 0.0)]
        losses.append([np.mean((x - best) ** 2) for x in tried])
    corrected, biased = np.sqrt(np.mean(losses, axis=0))
    assert corrected < 0.4 * biased


def test_many_matrices_at_once_in_any_unit():
    rng = np.random.default_rng(3)
    values = np.sort(rng.normal(size=(4, 7)), axis=1)
    spreads = np.array([0.0, 0.1, 0.3, 2.0])
    together = shrink_eigenvalues(values, spreads, 0.2)
    for row, spread, found in zip(values, spreads, together, strict=True):
        np.testing.assert_allclose(shrink_eigenvalues(row, spread, 0.2), found)
        scaled = shrink_eigenvalues(1e150 * row, 1e150 * spread, 0.2)
        np.testing.assert_allclose(scaled, 1e150 * found)


def test_nothing_to_shrink():
    values = np.array([-1.0, 0.0, 0.0, 2.0])
    np.testing.assert_allclose(shrink_eigenvalues(values, 0.0), values)
    np.testing.assert_array_equal(shrink_eigenvalues(np.zeros(3), 0.0), np.zeros(3))
    assert shrink_eigenvalues(np.array([3.0]), 0.5) == pytest.approx(3.0)


def test_matrices_are_positive_definite_with_a_floor():
    rng = np.random.default_rng(4)
    matrix = noise(rng, 30, 1.0)
    made = shrink_noise(matrix, 1.0, 0.0, 0.5)
    np.testing.assert_array_equal(made, made.T)
    assert np.linalg.eigvalsh(made)[0] == pytest.approx(0.5, abs=1e-12)


def test_pure_noise_has_no_outliers():
    """One in a thousand draws has one; none of these has."""
    rng = np.random.default_rng(5)
    for p in (20, 60, 100):
        for _ in range(10):
            assert not keep_outliers(noise(rng, p, 3.0), 3.0).any()
    assert edge_of_noise(3.0, 100) == 60.0


def test_outliers_of_either_sign_are_kept_at_their_best_size():
    rng, p = np.random.default_rng(6), 100
    true = np.zeros(p)
    true[[0, -1]] = -4.0 * np.sqrt(p), 5.0 * np.sqrt(p)
    kept = keep_outliers(np.diag(true) + noise(rng, p, 1.0), 1.0)
    values = np.linalg.eigvalsh(kept)
    assert np.linalg.matrix_rank(kept, tol=1e-6) == 2
    # y = t + p/t is seen, and t - p/t the vector has.
    assert values[0] == pytest.approx(-40.0 + 2.5, rel=0.1)
    assert values[-1] == pytest.approx(50.0 - 2.0, rel=0.1)


def test_a_second_layer_of_noise_adds_nothing():
    """However loud: a radius that went astray must not drown what is known."""
    rng, p = np.random.default_rng(7), 30
    near = np.diag(np.linspace(1.0, 4.0, p))
    alone = shrink_noise(near, 0.01, 0.0, 0.01)
    for loud in (0.1, 1e3, 1e9):
        joined = join_layers(near, noise(rng, p, loud), 0.01, loud, 0.01)
        np.testing.assert_allclose(joined, alone, rtol=1e-9, atol=1e-12)


def test_a_second_layer_is_of_the_first_ones_shape_or_stands_out():
    """A third of the same shape and one direction more: both are found apart."""
    rng, p = np.random.default_rng(8), 50
    near = np.eye(p)
    near[0, 0] = 1.2
    far = 0.3 * near
    far[0, 0] += 20.0
    for _ in range(5):
        loud = 0.1
        layer = far + noise(rng, p, loud)
        joined = join_layers(near + noise(rng, p, 1e-3), layer, 1e-3, loud, 1e-3)
        assert joined[0, 0] == pytest.approx(21.56, rel=0.02)
        rest = np.linalg.eigvalsh(joined[1:, 1:])
        assert np.median(rest) == pytest.approx(1.3, rel=0.03)
        assert np.mean(rest) == pytest.approx(1.3, rel=0.05)
