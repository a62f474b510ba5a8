"""DPPCA(scale="ranks"): components of signs."""

import numpy as np
import pytest
from pca_tools import Replay
from release_tools import record_releases
from scipy import sparse
from sklearn.decomposition import PCA
from sliced_rows import SlicedTable

from skdpspectral import DPPCA, FederatedDPPCA, SparseDPPCA

pytestmark = pytest.mark.filterwarnings(
    "ignore:noise_seed:skdpspectral.PrivacyLeakWarning"
)
UNITS = np.array([1.0, 1e6, 1e-5, 30.0, 1.0, 1e9])


def table(n):
    """Two directions in standardized features, in units that hide them."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    X = rng.standard_normal((n, 6)) + 2.5 * rng.standard_normal((n, 2)) @ axes.T
    return X * UNITS


def captured(pca, X):
    """Share of the variance of standardized features, of what two axes can have."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    best = PCA(2).fit(Z).explained_variance_ratio_.sum()
    kept = np.linalg.norm(Z @ pca.components_.T) ** 2
    return kept / np.linalg.norm(Z) ** 2 / best


def names(plan):
    return {mechanism.name for mechanism in plan.releases()}


@pytest.mark.parametrize("n_samples", [2, 3, 40, 400, 3000, 20_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("bounds", [None, (-3e9, 3e9)])
def test_ranks_cost_one_release(n_samples, epsilon, bounds):
    settings = {"epsilon": epsilon, "bounds": bounds}
    plan = DPPCA(2, scale="ranks", **settings).privacy_plan(n_samples, 6)
    assert names(plan) == {"second_moment"}
    assert plan["second_moment"].mu == plan.mu
    assert "No scale of a feature was measured" in " ".join(plan.remarks)


def test_components_of_few_rows_need_no_scales():
    """No scale of 300 rows is seen at this budget, and no component is lost."""
    X = table(300)
    for seed in range(3):
        pca = DPPCA(2, scale="ranks", epsilon=4.0, noise_seed=seed).fit(X)
        assert captured(pca, X) > 0.9
        assert pca.components_ @ pca.components_.T == pytest.approx(np.eye(2))


def test_scores_of_ranks_are_in_units_of_public_bounds():
    X = table(300) / UNITS
    low, high = np.full(6, -9.0), np.array([9.0, 18.0, 9.0, 9.0, 9.0, 9.0])
    unit, middle = (high - low) / 2, (high + low) / 2
    pca = DPPCA(2, scale="ranks", bounds=(low, high), noise_seed=0).fit(X)
    assert np.array_equal(pca.scale_, unit)
    assert np.array_equal(pca.mean_, middle)
    expected = (X - middle) / unit @ pca.components_.T
    assert pca.transform(X) == pytest.approx(expected, abs=1e-12)
    pca = DPPCA(2, scale="ranks", noise_seed=0).fit(X)
    assert pca.scale_ is None
    assert pca.transform(X) == pytest.approx(X @ pca.components_.T, abs=1e-12)


FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int64),
    "slices": SlicedTable,
    "lists": lambda X: X.tolist(),
    "sparse": sparse.csr_array,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_few_rows_releases_the_same(form):
    X = np.rint(table(2000) / UNITS * 2.0)
    one, other = (
        DPPCA(2, scale="ranks", epsilon=2.0, noise_seed=0).fit(rows)
        for rows in (X, FORMS[form](X))
    )
    assert one.components_ == pytest.approx(other.components_, abs=1e-9)


@pytest.mark.parametrize("n_samples", [300, 2000])
def test_all_that_is_public_is_a_function_of_the_releases(n_samples):
    X = table(n_samples)
    other = np.random.default_rng(1).standard_cauchy(X.shape)
    other[:, 2:4] = 7.0
    pca = DPPCA(2, scale="ranks", epsilon=2.0)
    with record_releases() as released:
        pca.fit(X)
    for rows in (X, other):
        statistic = pca._statistic(*rows.shape)
        found = statistic.run(Replay(pca._planned(statistic), released), rows)[2][0]
        assert np.array_equal(found, 2.0 * released["second_moment"])


def with_rare_features(n, seed=0):
    """Features of two values, of which few rows have the second, among others."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, 1))
    X = 1.5 * factor + rng.standard_normal((n, 12))
    return np.column_stack([X[:, :6] * UNITS, X[:, 6:] > 3.6])


def test_rare_features_neither_vanish_nor_dominate():
    """2 % of ones each: without a division they have 1 % of the weight."""
    X = with_rare_features(20_000)
    with pytest.warns(UserWarning, match="without privacy"):
        pca = DPPCA(2, scale="ranks", epsilon=None).fit(X)
    assert captured(pca, X) > 0.99
    weights = np.linalg.norm(np.vstack([pca.components_, np.zeros(12)])[:, 6:])
    assert weights**2 > 0.7
    # Where noise hides their shares, a division by them would make it of all noise.
    X = with_rare_features(1000)
    for seed in range(4):
        pca = DPPCA(1, scale="ranks", epsilon=2.0, noise_seed=seed).fit(X)
        assert np.linalg.norm(pca.components_[0, 6:]) < 0.5
        assert np.abs(pca.components_[0, :6]).min() > 0.2


def test_increasing_maps_and_shifts_change_nothing():
    X = table(500)
    mapped = np.exp(X / UNITS) + 7.0
    mapped[:, 3] = -np.exp(-(X / UNITS)[:, 3])
    one, other = (
        DPPCA(2, scale="ranks", noise_seed=0).fit(rows) for rows in (X, mapped)
    )
    assert np.array_equal(one.components_, other.components_)


def test_without_noise_components_are_those_of_correlations():
    X = table(3000)
    with pytest.warns(UserWarning, match="without privacy"):
        pca = DPPCA(2, scale="ranks", epsilon=None).fit(X)
    values, vectors = np.linalg.eigh(np.corrcoef(X.T))
    assert np.linalg.norm(pca.components_ @ vectors[:, -2:]) ** 2 > 1.999
    # Variances of standardized features; Kendall's correlations have .37 and .22.
    ratio = values[:-3:-1] / values.sum()
    assert pca.explained_variance_ratio_ == pytest.approx(ratio, abs=0.02)
    assert pca.explained_variance_ == pytest.approx(values[:-3:-1], abs=0.1)


def test_a_center_that_ranks_have_no_use_for_is_refused():
    with pytest.raises(ValueError, match='center="none" is not used with scale="ranks'):
        DPPCA(1, scale="ranks", center="none").privacy_plan(1000, 6)


def test_what_knows_no_ranks_refuses_them():
    for kind in (FederatedDPPCA, SparseDPPCA):
        with pytest.raises((TypeError, ValueError), match="scale"):
            kind(1, scale="ranks").privacy_plan({"a": 100}, 6)
