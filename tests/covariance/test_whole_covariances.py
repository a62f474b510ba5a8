"""DPCovariance, and what follows from a covariance of all features."""

import warnings

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal
from sklearn.covariance import EmpiricalCovariance

from skdpspectral import DPCovariance, NoisyFitWarning, PrivacyLeakWarning


def correlated(n, p, seed=0):
    """Rows with variances from 1 to 1e-2 along directions of no axis, about a mean."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    root = turn * np.sqrt(np.geomspace(1.0, 1e-2, p))
    return rng.standard_normal((n, p)) @ root.T, root @ root.T


@pytest.fixture(scope="module")
def fitted():
    X, truth = correlated(20_000, 8)
    return DPCovariance(epsilon=2.0, noise_seed=0).fit(X), X, truth


def test_covariance_is_whole_and_positive_definite(fitted):
    model, _, truth = fitted
    found = model.covariance_
    assert found.shape == (8, 8)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found)[0] > 0.005
    assert np.linalg.norm(found - truth) < 0.03 * np.linalg.norm(truth)


def test_methods_are_those_of_an_empirical_covariance(fitted):
    model, X, truth = fitted
    X = X[:200] + 0.3
    peer = EmpiricalCovariance()
    peer.covariance_, peer.location_ = model.covariance_, model.location_
    peer.precision_ = np.linalg.inv(model.covariance_)
    np.testing.assert_allclose(model.get_precision(), model.precision_)
    np.testing.assert_allclose(model.precision_, peer.precision_, rtol=1e-8)
    np.testing.assert_allclose(model.mahalanobis(X), peer.mahalanobis(X))
    law = multivariate_normal(model.location_, model.covariance_)
    np.testing.assert_allclose(model.score_samples(X), law.logpdf(X))
    assert model.score(X) == pytest.approx(law.logpdf(X).mean())
    for norm in ("frobenius", "spectral"):
        expected = peer.error_norm(truth, norm=norm)
        assert model.error_norm(truth, norm=norm) == pytest.approx(expected)


def test_units_of_features_do_not_matter_to_distances(fitted):
    """Features between 1e-9 and 1e9: precision and densities keep their digits."""
    model, X, _ = fitted
    units = 10.0 ** np.array([-9, 0, 3, 9, 0, 1, 2, -5])
    scaled = DPCovariance()
    vars(scaled).update(vars(model))
    scaled.covariance_ = model.covariance_ * np.outer(units, units)
    scaled.location_ = model.location_ * units
    found = scaled.mahalanobis(X * units)
    np.testing.assert_allclose(found, model.mahalanobis(X), rtol=1e-6)
    inverse = np.outer(1.0 / units, 1.0 / units)
    np.testing.assert_allclose(scaled.precision_, model.precision_ * inverse)
    moved = scaled.score_samples(X * units) + np.log(units).sum()
    np.testing.assert_allclose(moved, model.score_samples(X), rtol=1e-6)


def test_bounds_are_in_units_of_the_data():
    X, truth = correlated(20_000, 6)
    factors = []
    for unit in (1.0, 1e6):
        bounds = (-4.0 * unit + 1e3, 4.0 * unit + 1e3)
        model = DPCovariance(epsilon=4.0, bounds=bounds, noise_seed=0)
        model.fit(unit * X + 1e3)
        factors.append(model.covariance_ / unit**2)
        assert np.abs(model.location_ - 1e3).max() < 0.05 * unit
    np.testing.assert_allclose(*factors, rtol=1e-4)
    assert np.linalg.norm(factors[0] - truth) < 0.05 * np.linalg.norm(truth)


@pytest.mark.parametrize("center", ["none", "pairs"])
def test_without_noise_it_is_the_second_moment(center):
    """Of rows that are all about as long: the number of rows would show in it."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (4096, 4)) * [3.0, 2.0, 2.0, 1.0]
    with pytest.warns(PrivacyLeakWarning):
        model = DPCovariance(epsilon=None, center=center).fit(X)
    exact = X.T @ X / len(X) if center == "none" else np.cov(X, rowvar=False)
    rtol = 0.01 if center == "none" else 0.03  # of pairs, the shifts are a sample
    error = np.linalg.norm(model.covariance_ - exact)
    assert error < rtol * np.linalg.norm(exact)


@pytest.mark.parametrize("n_features", [5, 10])
def test_few_rows_have_variances_of_their_own_scale(n_features):
    """300 unit normal rows at epsilon 1: a clip of noise alone once made it 1e10."""
    X = np.random.default_rng(0).standard_normal((300, n_features))
    for seed in range(10):
        model = DPCovariance(epsilon=1.0, noise_seed=seed).fit(X)
        values = np.linalg.eigvalsh(model.covariance_)
        assert 0.3 < np.median(values) < 2.0
        assert values[-1] < 4.0


def test_too_few_rows_are_told_before_they_are_read():
    X = np.random.default_rng(0).standard_normal((40, 5))
    model = DPCovariance(epsilon=0.5, noise_seed=0)
    with pytest.warns(UserWarning, match="too few for private lengths"):
        model.fit(X)
    assert "larger epsilon" in model.privacy_plan(40, 5).details()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.filterwarnings("ignore", "no mean was released")
        model.set_params(epsilon=None).fit(X)
        model.set_params(epsilon=5.0).fit(np.tile(X, (20, 1)))


def test_distances_of_inliers_and_outliers():
    X, _ = correlated(30_000, 10, seed=1)
    model = DPCovariance(epsilon=1.0, noise_seed=0).fit(X)
    inliers, _ = correlated(20_000, 10, seed=1)
    limit = chi2.ppf(0.99, 10)
    assert 0.004 < np.mean(model.mahalanobis(inliers) > limit) < 0.02
    least = np.linalg.eigh(model.covariance_)[1][:, 0]
    assert np.all(model.mahalanobis(np.outer([-0.8, 0.8], least)) > limit)


def test_the_same_of_files_and_published_copies(tmp_path):
    X, _ = correlated(3000, 6)
    model = DPCovariance(epsilon=3.0, center="none", noise_seed=0)
    covariance = model.fit(X).covariance_
    np.save(tmp_path / "rows.npy", X)
    model.fit(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    np.testing.assert_allclose(model.covariance_, covariance, rtol=1e-8)
    with pytest.warns(PrivacyLeakWarning):
        published = model.publish()
    with pytest.warns(PrivacyLeakWarning):
        published.save(tmp_path / "model.npz")
    for other in (published, DPCovariance.load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(other.mahalanobis(X), model.mahalanobis(X))


def test_a_covariance_of_pairs_says_that_it_has_no_mean():
    """Else all inliers of rows far from the origin would be taken for outliers."""
    X = np.random.default_rng(0).standard_normal((4000, 5)) + 50.0
    said = "no mean was released"
    with pytest.warns(UserWarning, match=said):
        model = DPCovariance(center="pairs", noise_seed=0).fit(X)
    assert not model.location_.any()
    with pytest.warns(UserWarning, match=said):
        DPCovariance(noise_seed=0).fit(X[:100])
    for center in ("none", "auto"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = DPCovariance(center=center, noise_seed=0).fit(X)
        assert not any(said in str(warning.message) for warning in caught)
    assert np.abs(model.location_ - 50.0).max() < 1.0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_equal_rows_hide_no_unit(unit):
    """Four rows in five are equal: lengths of the others are still those of pairs."""
    X = unit * np.random.default_rng(0).standard_normal((20_000, 5))
    X[:16_000] = 0.0
    found = DPCovariance(noise_seed=0).fit(X).covariance_
    assert 0.8 < np.trace(found) / np.trace(np.cov(X.T)) < 1.25


def test_lengths_that_are_hidden_or_clipped_are_told():
    X = np.random.default_rng(0).standard_normal((20_000, 5))
    X[:14_000] *= 1e-3
    with pytest.warns(NoisyFitWarning, match="far too small"):
        DPCovariance(noise_seed=0).fit(X)
    X = np.zeros((2000, 5))
    with pytest.warns(NoisyFitWarning, match="noise hides how long rows are"):
        DPCovariance(noise_seed=0).fit(X)
