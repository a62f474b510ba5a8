"""DPPCA with a covariance of all features, and what follows from it."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chi2, multivariate_normal

from skdpspectral import DPPCA, PrivacyLeakWarning
from skdpspectral.accounting import compose_mu
from skdpspectral.decomposition import Gaussian


def correlated(n, p, seed=0):
    """Rows with variances from 1 to 1e-2 along directions of no axis, about a mean."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    root = turn * np.sqrt(np.geomspace(1.0, 1e-2, p))
    return rng.standard_normal((n, p)) @ root.T, root @ root.T


@pytest.fixture(scope="module")
def fitted():
    X, truth = correlated(20_000, 8)
    pca = DPPCA(3, epsilon=2.0, release="covariance", noise_seed=0).fit(X)
    return pca, X, truth


def test_covariance_is_whole_and_positive_definite(fitted):
    pca, _, truth = fitted
    found = pca.get_covariance()
    assert found.shape == (8, 8)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found)[0] > 0.005
    assert np.linalg.norm(found - truth) < 0.03 * np.linalg.norm(truth)
    values, vectors = np.linalg.eigh(found)
    np.testing.assert_allclose(pca.explained_variance_, values[::-1][:3])
    alignment = np.abs(np.sum(pca.components_ * vectors[:, ::-1][:, :3].T, axis=1))
    np.testing.assert_allclose(alignment, 1.0)
    total = pca.explained_variance_.sum() + 5 * pca.noise_variance_
    assert total == pytest.approx(np.trace(found))
    # What is handed out is a copy.
    found[:] = 0.0
    assert pca.covariance_.any()


def test_correlation_precision_distances_and_densities(fitted):
    pca, X, _ = fitted
    covariance, X = pca.get_covariance(), X[:200] + 0.3
    correlation = pca.get_correlation()
    np.testing.assert_array_equal(np.diag(correlation), np.ones(8))
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(correlation, covariance / np.outer(*[deviations] * 2))
    precision = pca.get_precision()
    np.testing.assert_allclose(precision @ covariance, np.eye(8), atol=1e-10)
    off = X - pca.mean_
    expected = np.einsum("ij,jk,ik->i", off, precision, off)
    np.testing.assert_allclose(pca.mahalanobis(X), expected)
    law = multivariate_normal(pca.mean_, covariance)
    np.testing.assert_allclose(pca.score_samples(X), law.logpdf(X))
    assert pca.score(X) == pytest.approx(law.logpdf(X).mean())


def test_units_of_features_do_not_matter_with_bounds():
    """Features between 1e-9 and 1e9: precision and densities keep their digits."""
    X, _ = correlated(5000, 4)
    units, bounds = 10.0 ** np.array([-9, 0, 3, 9]), (-5.0, 5.0)
    common = {"epsilon": 4.0, "scale": "bounds", "release": "covariance"}
    plain = DPPCA(2, bounds=bounds, noise_seed=0, **common).fit(X)
    scaled = DPPCA(
        2, bounds=tuple(b * units for b in bounds), noise_seed=0, **common
    ).fit(X * units)
    np.testing.assert_allclose(
        scaled.get_covariance(), plain.get_covariance() * np.outer(units, units)
    )
    np.testing.assert_allclose(
        scaled.mahalanobis(X * units), plain.mahalanobis(X), rtol=1e-6
    )
    np.testing.assert_allclose(scaled.get_correlation(), plain.get_correlation())


@pytest.mark.parametrize("n_features", [5, 10])
def test_few_rows_have_variances_of_their_own_scale(n_features):
    """300 unit normal rows at epsilon 1: a clip of noise alone once made it 1e10."""
    X = np.random.default_rng(0).standard_normal((300, n_features))
    for seed in range(10):
        pca = DPPCA(epsilon=1.0, release="covariance", noise_seed=seed).fit(X)
        assert 0.3 < pca.noise_variance_ < 2.0
        assert pca.explained_variance_.max() < 4.0


def test_too_few_rows_are_told_before_they_are_read():
    X = np.random.default_rng(0).standard_normal((40, 5))
    pca = DPPCA("auto", epsilon=0.5, release="covariance", noise_seed=0)
    with pytest.warns(UserWarning, match="too few for private lengths"):
        pca.fit(X)
    assert "clip_norm" in pca.privacy_plan(40, 5).details()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.filterwarnings("ignore", "Components above the noise")
        warnings.filterwarnings("ignore", "no mean was released")
        pca.set_params(epsilon=None).fit(X)
        pca.set_params(clip_norm=3.0, epsilon=0.5).fit(X)
        pca.set_params(clip_norm=None, epsilon=5.0).fit(np.tile(X, (20, 1)))


def test_distances_of_inliers_and_outliers():
    X, _ = correlated(30_000, 10, seed=1)
    pca = DPPCA(epsilon=1.0, release="covariance", noise_seed=0).fit(X)
    inliers, _ = correlated(20_000, 10, seed=1)
    limit = chi2.ppf(0.99, 10)
    assert 0.004 < np.mean(pca.mahalanobis(inliers) > limit) < 0.02
    least = np.linalg.eigh(pca.get_covariance())[1][:, 0]
    assert np.all(pca.mahalanobis(np.outer([-0.8, 0.8], least)) > limit)


def test_the_same_of_sparse_rows_files_and_models(tmp_path):
    X, _ = correlated(3000, 6)
    X[np.abs(X) < 0.3] = 0.0
    common = {"epsilon": 3.0, "release": "covariance", "noise_seed": 0}
    common["center"] = "none"
    pca = DPPCA(**common).fit(X)
    np.save(tmp_path / "rows.npy", X)
    for other in (sparse.csr_array(X), np.load(tmp_path / "rows.npy", mmap_mode="r")):
        found = DPPCA(**common).fit(other)
        np.testing.assert_allclose(found.covariance_, pca.covariance_, rtol=1e-8)
    with pytest.warns(PrivacyLeakWarning):
        published = pca.publish()
    np.testing.assert_array_equal(published.get_covariance(), pca.get_covariance())
    np.testing.assert_allclose(published.mahalanobis(X), pca.mahalanobis(X))


def test_a_model_has_distances_too_and_leaves_no_covariance_behind():
    X, _ = correlated(5000, 6)
    pca = DPPCA(epsilon=3.0, release="covariance", noise_seed=0).fit(X)
    pca.set_params(mechanism=Gaussian(noise_variance=0.05)).fit(X)
    assert not hasattr(pca, "covariance_")
    off = X[:50] - pca.mean_
    expected = np.einsum("ij,jk,ik->i", off, pca.get_precision(), off)
    np.testing.assert_allclose(pca.mahalanobis(X[:50]), expected)
    pca.set_params(mechanism="gaussian", release="components").fit(X)
    with pytest.raises(AttributeError, match="mahalanobis"):
        pca.mahalanobis(X)


def test_rank_and_expected_error():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 20)) * np.r_[5.0, 4.0, np.ones(18)]
    common = {"epsilon": 1.0, "release": "covariance"}
    for seed in range(3):
        pca = DPPCA("auto", noise_seed=seed, **common).fit(X)
        assert pca.n_components_ == 2
    X = rng.standard_normal((5000, 20)) * np.r_[4.0, np.ones(19)]
    expected = DPPCA(1, **common).expected_error(5000, 20, signal_variance=15.0)
    errors = []
    for seed in range(8):
        pca = DPPCA(1, noise_seed=seed, **common).fit(X)
        errors.append(2.0 * (1.0 - pca.components_[0, 0] ** 2))
    assert np.sqrt(np.mean(errors)) == pytest.approx(expected, rel=0.35)


@pytest.mark.parametrize("mechanism", ["two-stage", "auto"])
def test_few_rows_have_quantiles_of_their_own_scale(mechanism):
    """300 unit normal rows: variances were 1e-4 or 1e6 in two fits of three."""
    X = np.random.default_rng(0).standard_normal((300, 10))
    common = {"mechanism": mechanism, "release": "covariance", "center": "none"}
    for seed in range(6):
        pca = DPPCA(epsilon=1.0, noise_seed=seed, **common).fit(X)
        assert 0.3 < pca.noise_variance_ < 3.0
        assert pca.explained_variance_.max() < 10.0
    # What that costs is taken from the other releases, and only where rows are few.
    for n, share in ((300, 0.35), (1000, 0.04)):
        plan = DPPCA(**common).privacy_plan(n, 10)
        votes = [m for m in plan.mechanisms if m.name[:5] in ("quant", "reach")]
        cost = sum(m.mu**2 for m in votes) / plan.mu**2
        assert cost == pytest.approx(share, rel=0.02)
        assert compose_mu(m.mu for m in plan.mechanisms) == pytest.approx(plan.mu)
    with pytest.warns(UserWarning, match="too few for private lengths"):
        DPPCA(epsilon=1.0, noise_seed=0, **common).fit(X[:100])


def test_a_covariance_of_pairs_says_that_it_has_no_mean():
    """Else all inliers of rows far from the origin would be taken for outliers."""
    X = np.random.default_rng(0).standard_normal((4000, 5)) + 50.0
    kind = {"release": "covariance", "noise_seed": 0}
    said = "no mean was released"
    with pytest.warns(UserWarning, match=said):
        pca = DPPCA(1, center="pairs", **kind).fit(X)
    assert not pca.mean_.any()
    with pytest.warns(UserWarning, match=said):
        DPPCA(1, **kind).fit(X[:100])
    with pytest.warns(UserWarning, match=said):
        DPPCA(1, center="pairs", clip_norm=3.0, noise_seed=0).fit(X)
    silent = (
        {"center": "private", **kind},
        {"center": "none", **kind},
        {"center": "pairs", "noise_seed": 0},
        {"center": "auto", **kind},
    )
    for parameters in silent:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pca = DPPCA(1, **parameters).fit(X)
        assert not any(said in str(warning.message) for warning in caught)
    assert pca.mean_.any()
