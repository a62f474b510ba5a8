"""DPPCA: what it computes, beside scikit-learn's PCA, and how well."""

import math

import numpy as np
import pytest
from release_tools import record_releases
from scipy.stats import chi2
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from skdpspectral import DPPCA, PrivacyLeakWarning
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance


def spiked(n=5000, p=12, rank=2, seed=0):
    signal = np.linspace(12.0, 8.0, rank)
    return make_spiked_covariance(
        n, p, n_components=rank, signal_variance=signal, random_state=seed
    )


def without_noise(X, **parameters):
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        return DPPCA(2, epsilon=None, **parameters).fit(X)


def test_without_noise_it_is_pca_about_the_origin():
    X, _ = spiked()
    pca = without_noise(X, center="none")
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    assert subspace_distance(pca.components_, vectors.T[::-1][:2]) < 0.01
    shares = values[::-1][:2] / values.sum()
    np.testing.assert_allclose(pca.explained_variance_ratio_, shares, rtol=0.05)
    np.testing.assert_array_equal(pca.mean_, np.zeros(12))
    assert pca.scale_ is None


@pytest.mark.parametrize("bounds", [None, (-60, 60)])
def test_without_noise_it_is_pca(bounds):
    X, _ = spiked()
    X += 3.0
    pca, plain = without_noise(X, bounds=bounds), PCA(2).fit(X)
    assert subspace_distance(pca.components_, plain.components_) < 1e-3
    np.testing.assert_allclose(
        pca.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=1e-2
    )
    np.testing.assert_allclose(pca.mean_, plain.mean_, atol=0.1)
    scores = (X - pca.mean_) @ pca.components_.T
    np.testing.assert_allclose(pca.transform(X), scores, atol=1e-9)
    back = scores @ pca.components_ + pca.mean_
    np.testing.assert_allclose(pca.inverse_transform(scores), back, atol=1e-9)


def test_without_noise_per_feature_it_is_pca_of_scaled_features():
    X, _ = spiked()
    half = np.linspace(20.0, 80.0, 12)
    low, high = 3.0 - half, 3.0 + half
    X = np.clip(X + 3.0, low, high)
    pca = without_noise(X, bounds=(low, high), scale="bounds")
    plain = PCA(2).fit((X - 3.0) / half)
    assert subspace_distance(pca.components_, plain.components_) < 1e-3
    np.testing.assert_allclose(pca.scale_, half, rtol=1e-15)
    scores = ((X - pca.mean_) / half) @ pca.components_.T
    np.testing.assert_allclose(pca.transform(X), scores, atol=1e-9)
    back = scores @ pca.components_ * half + pca.mean_
    np.testing.assert_allclose(pca.inverse_transform(scores), back, atol=1e-9)


def test_bounds_clip_and_shift():
    X = np.array([[100.0, 5.0], [0.0, 5.0], [8.0, -50.0], [8.0, 100.0]])
    pca = without_noise(X, bounds=(0, 16), center="none")
    boxed = np.clip(X, 0, 16) - 8
    values = np.linalg.eigvalsh(boxed.T @ boxed)[::-1]
    np.testing.assert_allclose(
        pca.explained_variance_ratio_, values / values.sum(), atol=0.05
    )
    np.testing.assert_array_equal(pca.mean_, [8.0, 8.0])


def test_feature_without_extent_counts_for_nothing():
    X, _ = spiked(2000, 5)
    X[:, 2] = 7.0
    low, high = np.full(5, -30.0), np.full(5, 30.0)
    low[2] = high[2] = 7.0
    for scale in (None, "bounds"):
        pca = DPPCA(2, epsilon=50.0, bounds=(low, high), scale=scale).fit(X)
        assert np.abs(pca.components_[:, 2]).max() < 0.05
        assert pca.mean_[2] == 7.0


@pytest.mark.sampled(2)
def test_released_noise_has_the_planned_variance():
    """Chi-square over 300 fits x 66 off-diagonal entries; false-alarm rate 2e-6.

    Their variance has a relative standard error of 1 %: noise 10 % off is 19 away.
    """
    X, _ = spiked(400, 12)
    exact = normalize(X).T @ normalize(X) / len(X)
    rows, columns = np.tril_indices(12, -1)
    total, count = 0.0, 0
    for seed in range(300):
        with record_releases() as released:
            pca = DPPCA(2, center="none", noise_seed=seed).fit(X)
        noise = (released["second_moment"] - exact)[rows, columns]
        std = pca.privacy_["second_moment"].noise_std / math.sqrt(2)
        total += np.sum((noise / std) ** 2)
        count += noise.size
    assert chi2.ppf(1e-6, count) < total < chi2.ppf(1 - 1e-6, count)


@pytest.mark.slow
@pytest.mark.dependencies
def test_error_is_that_of_first_order_theory():
    """Mean squared distance to the noiseless components against 2 r (p-r) / (n mu g)^2.

    200 seeded fits: the mean has a relative standard error of 2 %; it must lie within
    10 %, where noise 10 % off (21 % in the square) would not.
    """
    X = normalize(spiked(20_000, 12)[0])  # of one length, to which all are clipped
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    values, exact = values[::-1], vectors.T[::-1][:2]
    distances = [
        subspace_distance(
            DPPCA(2, center="none", noise_seed=seed).fit(X).components_, exact
        )
        ** 2
        for seed in range(200)
    ]
    mu = DPPCA(center="none").privacy_plan(*X.shape).mu
    gaps = values[:2, None] - values[None, 2:]
    # Off-diagonal noise of variance s^2 / 2 turns each pair; s = sqrt 2 / (n mu).
    expected = np.sum((1.0 / (len(X) * mu) / gaps) ** 2) * 2
    assert np.mean(distances) == pytest.approx(expected, rel=0.1)


def test_two_spikes_are_found():
    """The true direction is found at a modest budget; the seed is fixed."""
    X, components = spiked(20_000, 12)
    pca = DPPCA(2, epsilon=1.0, noise_seed=0).fit(X)
    assert subspace_distance(pca.components_, components) < 0.2
    np.testing.assert_allclose(
        pca.components_ @ pca.components_.T, np.eye(2), atol=1e-10
    )
    assert np.all(np.diff(pca.explained_variance_) <= 0)
    assert pca.n_components_ == 2
    assert pca.n_samples_ == 20_000


def test_noise_alone_keeps_attributes_sane():
    for seed in range(20):
        pca = DPPCA(3, epsilon=1e-4, noise_seed=seed).fit(np.eye(5, 4))
        assert np.all(pca.explained_variance_ >= 0)
        assert np.all(pca.explained_variance_ratio_ >= 0)
        assert pca.explained_variance_ratio_.sum() <= 1 + 1e-12
        assert np.isfinite(pca.components_).all()


def test_released_mean_lies_in_the_box():
    X = np.full((200, 3), 15.9)
    for seed in range(20):
        pca = DPPCA(1, epsilon=4.0, bounds=(0, 16), noise_seed=seed).fit(X)
        assert np.all((pca.mean_ >= 0) & (pca.mean_ <= 16))


def test_delta_of_a_row_warns():
    X = np.eye(10, 3)
    with pytest.warns(PrivacyLeakWarning, match="delta=0.1 is at least"):
        DPPCA(1, delta=0.1).fit(X)


@pytest.mark.parametrize("epsilon", [None, math.inf])
def test_opting_out_is_loud_and_said(epsilon):
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        pca = DPPCA(1, epsilon=epsilon).fit(np.diag([9.0, 2.0, 1.0, 0.5, 0.1])[:, :3])
    assert pca.privacy_.epsilon == math.inf
    assert not pca.privacy_.private
    assert "no privacy" in str(pca.privacy_)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        pca.publish()


def test_center_is_said():
    plan = DPPCA(1, center="none").privacy_plan(10, 3)
    assert "about the origin" in str(plan)
    plan = DPPCA(1, bounds=(0, 1), center="none").privacy_plan(10, 3)
    assert "about the midpoint" in str(plan)
    assert "in pairs, and half" in str(DPPCA(1, center="pairs").privacy_plan(10, 3))
    assert "in pairs: with so few rows" in str(DPPCA(1).privacy_plan(10, 3))


def test_the_number_of_components_is_found():
    """Spikes above the edge: a seed a setting; 20 of 20 in the benchmark."""
    for rank, n, p in [(1, 20_000, 20), (3, 20_000, 50), (5, 50_000, 30)]:
        X, _ = make_spiked_covariance(
            n, p, n_components=rank, signal_variance=10.0, random_state=rank
        )
        pca = DPPCA("auto", noise_seed=rank).fit(X)
        assert pca.n_components_ == rank
        assert pca.components_.shape == (rank, p)
