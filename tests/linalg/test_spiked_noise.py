"""The sampler of noisy projectors' eigenvectors, beside the dense matrix."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from skdpspectral._linalg import eigen
from skdpspectral.decomposition import _kernels


def sampled(components, spread, rng):
    normals, degrees = _kernels.band_shapes(components.shape[1], len(components))
    draws = [rng.standard_normal(shape) for shape in normals]
    chis = np.sqrt(rng.chisquare(degrees))
    return _kernels.noisy_projector_vectors(components, spread, draws, chis)


def dense(components, spread, rng):
    p = components.shape[1]
    noise = rng.standard_normal((p, p)) * spread / np.sqrt(2.0)
    noise = np.tril(noise, -1)
    noise += noise.T + np.diag(spread * rng.standard_normal(p))
    return eigen.top_eigh(components.T @ components + noise, len(components))[1]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("p", "rank", "spread"),
    [(30, 1, 0.12), (30, 3, 0.1), (31, 3, 0.3), (7, 3, 0.4), (4, 3, 0.5), (3, 1, 0.5)],
)
def test_the_law_is_that_of_the_dense_matrix(p, rank, spread):
    """Kolmogorov-Smirnov on four statistics; false alarms below 1e-4 each.

    1500 draws a side: a spread that is 10 % off moves the distance to the truth by
    10 %, which the first statistic shows in most settings (see the next test).
    """
    rng = np.random.default_rng([p, rank])
    truth = _kernels.orthonormal_rows(rng.standard_normal((rank, p)))
    probe, other = rng.standard_normal((2, p))
    statistics = [[], []]
    for side, draw in enumerate((sampled, dense)):
        for _ in range(1500):
            vectors = draw(truth, spread, rng)
            projector = vectors.T @ vectors
            statistics[side].append(
                (
                    np.linalg.norm(vectors @ truth.T),
                    np.linalg.norm(vectors @ probe),
                    probe @ projector @ other,
                    (vectors[0] @ probe) ** 2,
                )
            )
        assert np.allclose(vectors @ vectors.T, np.eye(rank), atol=1e-9)
    for first, second in zip(*map(np.transpose, statistics), strict=True):
        assert ks_2samp(first, second).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.dependencies
def test_the_test_sees_a_wrong_spread():
    rng = np.random.default_rng(0)
    truth = _kernels.orthonormal_rows(rng.standard_normal((2, 30)))
    overlaps = [
        [np.linalg.norm(sampled(truth, spread, rng) @ truth.T) for _ in range(1500)]
        for spread in (0.1, 0.11)
    ]
    assert ks_2samp(*overlaps).pvalue < 1e-4


def test_lanczos_and_dense_reduction_agree(monkeypatch):
    from skdpspectral.decomposition import _kernels as _spiked_noise

    rng = np.random.default_rng(1)
    truth = _kernels.orthonormal_rows(rng.standard_normal((3, 500)))
    normals, degrees = _kernels.band_shapes(500, 3)
    draws = [rng.standard_normal(shape) for shape in normals]
    chis = np.sqrt(rng.chisquare(degrees))
    found = _kernels.noisy_projector_vectors(truth, 0.01, draws, chis)
    monkeypatch.setattr(_spiked_noise, "_DENSE_ORDER", 1000)
    exact = _kernels.noisy_projector_vectors(truth, 0.01, draws, chis)
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_no_noise_gives_the_components_back():
    rng = np.random.default_rng(2)
    truth = _kernels.orthonormal_rows(rng.standard_normal((2, 900)))
    found = sampled(truth, 0.0, rng)
    np.testing.assert_allclose(found.T @ found, truth.T @ truth, atol=1e-12)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (500, 600)])
def test_top_right_vectors(shape):
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape)
    X[:, 0] *= 3.0
    expected = np.linalg.svd(X)[2][:2]
    found = _kernels.top_right_vectors(X, 2)
    np.testing.assert_allclose(np.abs(found @ expected.T), np.eye(2), atol=1e-6)


def test_moments_of_unit_rows():
    """Against a million draws: standard errors below 0.3 per cent."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1_000_000, 6)) * np.sqrt([5.0, 5.0, 1, 1, 1, 1])
    z = x / np.linalg.norm(x, axis=1, keepdims=True)
    gap, cross = _kernels.unit_row_moments(5.0, 1.0, 2, 4)
    assert gap == pytest.approx(np.mean(z[:, 0] ** 2 - z[:, 5] ** 2), rel=0.01)
    assert cross == pytest.approx(np.mean(z[:, 0] ** 2 * z[:, 5] ** 2), rel=0.01)
