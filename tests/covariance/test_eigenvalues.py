"""Covariances of a stream without the bias of their noise, and distances by them."""

import numpy as np
import pytest
from scipy.stats import chi2

from skdpspectral import JMECovariance, PrivacyLeakWarning
from skdpspectral.covariance import Exponential, JointMoments, Window


def rows_of(spectrum, n, seed=0, shift=0.2):
    """Rows with given relative variances, nearly all within the unit ball."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, len(spectrum))) * np.sqrt(spectrum)
    rows *= 0.7 / np.quantile(np.linalg.norm(rows, axis=1), 0.99)
    rows[:, 0] += shift
    return rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("spectrum", "before"),
    [
        (np.ones(10), 0.0),
        (1.0 / np.arange(1.0, 11), 0.0),
        (1.0 / np.arange(1.0, 11) ** 2, 0.5),
        (10.0 ** -np.linspace(0.0, 3.0, 10), 0.5),
    ],
)
def test_inliers_are_no_outliers(spectrum, before):
    """Share beyond the 99 % quantile at epsilon 1: about 1 %, and was up to all.

    Means over five fits, of which each is below 8 %.
    """
    X = rows_of(spectrum, 30_000)
    shares = {"auto": [], 1e-6: []}
    for floor, found in shares.items():
        for seed in range(5):
            model = JMECovariance(min_eigenvalue=floor, noise_seed=seed).fit(X)
            distances = model.mahalanobis(X)
            found.append(np.mean(distances > chi2.ppf(0.99, 10)))
    assert 0.002 < np.mean(shares["auto"]) < 0.03
    assert np.max(shares["auto"]) < 0.08
    assert np.mean(shares[1e-6]) > before


@pytest.mark.slow
@pytest.mark.dependencies
def test_covariance_is_nearer():
    X = rows_of(1.0 / np.arange(1.0, 11), 30_000)
    exact = np.cov(X, rowvar=False)
    errors = {"auto": [], 1e-6: []}
    for floor, found in errors.items():
        for seed in range(5):
            model = JMECovariance(min_eigenvalue=floor, noise_seed=seed).fit(X)
            found.append(np.linalg.norm(model.covariance_ - exact))
    assert np.mean(errors["auto"]) < 0.85 * np.mean(errors[1e-6])


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"moments": "assume-centered"},
        {"workload": "prefix"},
        {"workload": Window(2000)},
        {"workload": Exponential(0.999)},
        {"moments": JointMoments(weight=0.2)},
        {"clip_norm": 2.0, "factorization": "trivial"},
    ],
)
def test_spread_is_that_of_the_noise(parameters):
    """Of entries off the diagonal, over 40 fits: their deviation is known to 3 %."""
    X = rows_of(np.ones(8), 6000, shift=0.5)
    found, spreads = [], []
    for seed in range(40):
        model = Recorded(epsilon=2.0, noise_seed=seed, **parameters).fit(X)
        found.append(model.moments.at([-1]).covariance[0])
        spreads.append(float(model.moments.at([-1]).spread[0]))
    lower = np.tril_indices(8, -1)
    off = np.array(found)[:, lower[0], lower[1]]
    deviation = np.sqrt(np.mean(off.var(axis=0, ddof=1)))
    assert np.mean(spreads) == pytest.approx(deviation, rel=0.12)


class Recorded(JMECovariance):
    """Keeps the moments that a fit ends with."""

    def _released(self, moments, places):
        self.moments = moments
        return super()._released(moments, places)


def test_every_step_has_its_own_floor():
    X = rows_of(np.ones(4), 400)
    model = JMECovariance(epsilon=1.0, noise_seed=0)
    least = [
        np.linalg.eigvalsh(release.covariance)[0]
        for release in model.release_path(X, every=1)
    ]
    assert np.all(np.array(least) >= 1e-6)
    np.testing.assert_allclose(least[:3], 0.25)


def test_without_noise_nothing_is_shrunk():
    X = rows_of(np.ones(4), 2000)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    with pytest.warns(PrivacyLeakWarning):
        exact = JMECovariance(epsilon=None).fit(X)
    np.testing.assert_allclose(exact.covariance_, np.cov(X.T, bias=True), atol=1e-12)
