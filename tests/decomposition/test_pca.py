"""DPPCA: what it computes, beside scikit-learn's PCA, and how well."""

import math

import numpy as np
import pytest
from release_tools import record_releases
from scipy.stats import chi2, norm
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from skdpspectral import DPPCA, PrivacyLeakWarning
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition import PrivateMean
from skdpspectral.metrics import subspace_distance


def spiked(n=5000, p=12, rank=2, seed=0):
    signal = np.linspace(12.0, 8.0, rank)
    return make_spiked_covariance(
        n, p, n_components=rank, signal_variance=signal, random_state=seed
    )


def without_noise(X, **parameters):
    known = "bounds" not in parameters
    parameters.setdefault("center", "none" if known else PrivateMean())
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        return DPPCA(2, epsilon=None, **parameters).fit(X)


def test_without_noise_it_is_pca_of_unit_rows():
    X, _ = spiked()
    pca = without_noise(X)
    unit = normalize(X)
    values, vectors = np.linalg.eigh(unit.T @ unit / len(unit))
    np.testing.assert_allclose(pca.explained_variance_, values[::-1][:2], rtol=1e-10)
    assert subspace_distance(pca.components_, vectors.T[::-1][:2]) < 1e-7
    np.testing.assert_allclose(pca.explained_variance_ratio_.sum(), values[-2:].sum())
    np.testing.assert_array_equal(pca.mean_, np.zeros(12))
    assert pca.scale_ is None


def test_without_noise_and_wide_clip_it_is_pca():
    """Centered in a box that holds everything, clipped at a norm that holds it too."""
    X, _ = spiked()
    X += 3.0
    pca = without_noise(X, bounds=(-60, 60), clip_norm=1e4)
    plain = PCA(2).fit(X)
    n = len(X)
    np.testing.assert_allclose(
        pca.explained_variance_, plain.explained_variance_ * (n - 1) / n, rtol=1e-9
    )
    np.testing.assert_allclose(
        pca.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=1e-9
    )
    np.testing.assert_allclose(pca.mean_, plain.mean_, atol=1e-10)
    assert subspace_distance(pca.components_, plain.components_) < 1e-7
    np.testing.assert_allclose(
        np.abs(pca.transform(X)), np.abs(plain.transform(X)), atol=1e-6
    )
    np.testing.assert_allclose(
        pca.inverse_transform(pca.transform(X)),
        plain.inverse_transform(plain.transform(X)),
        atol=1e-6,
    )


def test_without_noise_per_feature_it_is_pca_of_scaled_features():
    X, _ = spiked()
    half = np.linspace(20.0, 80.0, 12)
    low, high = 3.0 - half, 3.0 + half
    X = np.clip(X + 3.0, low, high)
    pca = without_noise(
        X, bounds=(low, high), scale="bounds", clip_norm=100.0, center=PrivateMean()
    )
    plain = PCA(2).fit((X - 3.0) / half)
    assert subspace_distance(pca.components_, plain.components_) < 1e-7
    np.testing.assert_allclose(pca.scale_, half, rtol=1e-15)
    expected = plain.transform((X - 3.0) / half)
    np.testing.assert_allclose(np.abs(pca.transform(X)), np.abs(expected), atol=1e-8)
    back = plain.inverse_transform(expected) * half + 3.0
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), back, atol=1e-7)


def test_bounds_clip_and_shift():
    X = np.array([[100.0, 5.0], [0.0, 5.0], [8.0, -50.0], [8.0, 100.0]])
    pca = without_noise(X, bounds=(0, 16), center="none")
    boxed = np.clip(X, 0, 16) - 8
    unit = normalize(boxed)
    values = np.linalg.eigvalsh(unit.T @ unit / 4)
    np.testing.assert_allclose(pca.explained_variance_, values[::-1])
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
@pytest.mark.parametrize("parameters", [{}, {"clip_norm": 8.0}])
def test_released_noise_has_the_planned_variance(parameters):
    """Chi-square over 300 fits x 66 off-diagonal entries; false-alarm rate 2e-6.

    Their variance has a relative standard error of 1 %: noise 10 % off is 19 away.
    """
    X, _ = spiked(400, 12)
    with record_releases() as exact:
        without_noise(X, **parameters)
    rows, columns = np.tril_indices(12, -1)
    total, count = 0.0, 0
    for seed in range(300):
        with record_releases() as released:
            pca = DPPCA(2, center="none", noise_seed=seed, **parameters).fit(X)
        noise = (released["second_moment"] - exact["second_moment"])[rows, columns]
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
    X, _ = spiked(20_000, 12)
    exact = without_noise(X)
    values = np.linalg.eigvalsh(normalize(X).T @ normalize(X) / len(X))[::-1]
    distances = [
        subspace_distance(
            DPPCA(2, center="none", noise_seed=seed).fit(X).components_,
            exact.components_,
        )
        ** 2
        for seed in range(200)
    ]
    mu = DPPCA(center="none").privacy_plan(*X.shape).mu
    gaps = values[:2, None] - values[None, 2:]
    # Off-diagonal noise of variance s^2 / 2 turns each pair; s = sqrt 2 / (n mu).
    expected = np.sum((1.0 / (len(X) * mu) / gaps) ** 2) * 2
    assert np.mean(distances) == pytest.approx(expected, rel=0.1)


def test_rows_are_clipped_about_the_private_mean():
    """Far from the midpoint, a clip norm of the size of the spread must suffice."""
    X, components = spiked(20_000, 12)
    far = X + 40.0
    settings = {"bounds": (-60, 60), "clip_norm": 8.0, "center": PrivateMean()}
    pca = DPPCA(2, epsilon=4.0, noise_seed=0, **settings)
    assert subspace_distance(pca.fit(far).components_, components) < 0.1
    np.testing.assert_allclose(pca.mean_, far.mean(axis=0), atol=1.0)
    about_midpoint = pca.set_params(center="none").fit(far)
    assert subspace_distance(about_midpoint.components_, components) > 0.5


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
    X = np.full((5, 3), 15.9)
    for seed in range(20):
        settings = {"bounds": (0, 16), "center": PrivateMean()}
        pca = DPPCA(1, epsilon=0.01, noise_seed=seed, **settings).fit(X)
        assert np.all((pca.mean_ >= 0) & (pca.mean_ <= 16))


def test_rows_in_blocks_give_the_same_as_at_once(monkeypatch):
    from skdpspectral._linalg import walks as moments

    X, _ = spiked(3000, 5)
    whole = DPPCA(2, noise_seed=0).fit(X)
    monkeypatch.setattr(moments.blocked_second_moment, "__defaults__", (100,))
    blocked = DPPCA(2, noise_seed=0).fit(X)
    np.testing.assert_allclose(blocked.components_, whole.components_, atol=1e-6)


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
    plan = DPPCA(1, bounds=(0, 1), center=PrivateMean()).privacy_plan(10, 3)
    assert "no mean" not in str(plan)
    assert "in pairs, and half" in str(DPPCA(1, center="pairs").privacy_plan(10, 3))
    assert "in pairs: with so few rows" in str(DPPCA(1).privacy_plan(10, 3))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mechanism", ["gaussian", "two-stage", "auto"])
@pytest.mark.parametrize(("n", "p", "rank"), [(3000, 40, 1), (20_000, 60, 2)])
def test_expected_error_is_that_of_fits(mechanism, n, p, rank):
    """Means of 12 fits have a relative standard error below 4 %; 15 % is allowed."""
    model = {"n_components": rank, "epsilon": 2.0, "mechanism": mechanism}
    expected = DPPCA(**model).expected_error(n, p, signal_variance=10.0)
    distances = []
    for seed in range(12):
        X, truth = make_spiked_covariance(
            n, p, n_components=rank, signal_variance=10.0, random_state=seed
        )
        pca = DPPCA(**model, noise_seed=seed).fit(X)
        distances.append(subspace_distance(pca.components_, truth))
    assert np.mean(distances) == pytest.approx(expected, rel=0.15)


def test_expected_error_without_noise_and_at_most():
    plain = DPPCA(1, epsilon=None)
    assert 0 < plain.expected_error(1000, 20, signal_variance=5.0) < 0.2
    drowned = DPPCA(1, epsilon=1e-3)
    most = drowned.expected_error(100, 20, signal_variance=5.0)
    assert most == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("bounds", [None, (-60.0, 60.0)])
def test_without_noise_variances_are_those_of_pca(bounds):
    X, _ = spiked(20_000, 8)
    center, rtol = "none" if bounds is None else PrivateMean(), 1e-3
    pca = without_noise(X, bounds=bounds, center=center, clip_norm=30.0)
    plain = PCA(2).fit(X)
    np.testing.assert_allclose(
        pca.explained_variance_, plain.explained_variance_, rtol=rtol
    )
    np.testing.assert_allclose(
        pca.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=rtol
    )


def test_the_number_of_components_is_found():
    """Spikes above the edge: a seed a setting; 20 of 20 in the benchmark."""
    for rank, n, p in [(1, 20_000, 20), (3, 20_000, 50), (5, 50_000, 30)]:
        X, _ = make_spiked_covariance(
            n, p, n_components=rank, signal_variance=10.0, random_state=rank
        )
        for mechanism in ("gaussian", "auto"):
            pca = DPPCA("auto", mechanism=mechanism, noise_seed=rank).fit(X)
            assert pca.n_components_ == rank
            assert pca.components_.shape == (rank, p)


@pytest.mark.slow
@pytest.mark.dependencies
def test_auto_takes_the_better_branch():
    """Wide rows ask for a power step, few narrow ones for a second moment."""
    wide, truth = make_spiked_covariance(20_000, 200, random_state=0)
    narrow, _ = make_spiked_covariance(2000, 20, random_state=0)
    for X, name in ((wide, "cross_moment"), (narrow, "second_moment_again")):
        with record_releases() as released:
            DPPCA(1, mechanism="auto", noise_seed=0).fit(X)
        assert name in released
    errors = [
        subspace_distance(
            DPPCA(1, mechanism=m, noise_seed=1).fit(wide).components_, truth
        )
        for m in ("auto", "gaussian")
    ]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize("center", ["none", "pairs"])
@pytest.mark.parametrize("clip_norm", [None, 5.0])
def test_deviations_of_components_are_those_of_repeated_fits(center, clip_norm):
    """Coverage is of 300 fits x 20 entries; an error of .02 is 7 deviations or more."""
    X, _ = make_spiked_covariance(
        2000, 10, n_components=2, signal_variance=[10, 4], random_state=0
    )
    pca = DPPCA(2, center=center, clip_norm=clip_norm)
    with pytest.warns(match="without privacy"):
        exact = pca.set_params(epsilon=None).fit(X)
    assert not exact.components_std_.any()
    expected = exact.components_
    errors, stds = [], []
    for seed in range(300):
        fit = pca.set_params(epsilon=1.0, noise_seed=seed).fit(X)
        signs = np.sign(np.sum(fit.components_ * expected, axis=1))
        errors.append(fit.components_ * signs[:, None] - expected)
        stds.append(fit.components_std_)
    covered = np.mean(np.abs(errors) <= norm.ppf(0.975) * np.array(stds))
    assert covered == pytest.approx(0.95, abs=0.02)
    made = np.sqrt(np.mean(np.square(errors), axis=0))
    told = np.sqrt(np.mean(np.square(stds), axis=0))
    np.testing.assert_allclose(told, made, rtol=0.2)


@pytest.mark.filterwarnings("ignore:no mean was released")
def test_deviations_of_components_are_published_where_they_are_known():
    X, _ = make_spiked_covariance(2000, 6, random_state=0)
    pca = DPPCA(1).fit(X)
    assert pca.publish().components_std_.shape == (1, 6)
    assert not hasattr(pca.set_params(scale="ranks").fit(X), "components_std_")
