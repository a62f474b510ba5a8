"""DPPCA(scale="private"): scales and components of one fit, with no bounds known."""

import numpy as np
import pytest
from pca_tools import Replay
from release_tools import record_releases
from scipy import sparse
from sklearn.decomposition import PCA
from sliced_rows import SlicedTable

from skdpspectral import DPPCA, DPStandardScaler
from skdpspectral.accounting import gaussian_mu
from skdpspectral.decomposition import PrivateMean

pytestmark = pytest.mark.filterwarnings(
    "ignore:noise_seed:skdpspectral.PrivacyLeakWarning",
    "ignore:this DPPCA is not private",
)
UNITS = np.array([1.0, 1e6, 1e-5, 30.0, 1.0, 1e9])


def table(n=20_000, shift=0.0):
    """Two directions in standardized features, in units that hide them."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    X = rng.standard_normal((n, 6)) + 2.5 * rng.standard_normal((n, 2)) @ axes.T
    return (X + shift) * UNITS


def captured(pca, X):
    """Share of the variance of standardized features, of what two axes can have."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    axes = np.linalg.qr((pca.components_ * (X.std(axis=0) / pca.scale_)).T)[0]
    best = PCA(2).fit(Z).explained_variance_ratio_.sum()
    return np.linalg.norm(Z @ axes) ** 2 / np.linalg.norm(Z) ** 2 / best


@pytest.mark.parametrize("shift", [0.0, 3.0, 2000.0])
def test_units_and_places_do_not_matter(shift):
    X = table(shift=shift)
    for seed in range(3):
        pca = DPPCA(2, scale="private", noise_seed=seed).fit(X)
        assert not pca.unseen_features_.any()
        assert captured(pca, X) > 0.98
    plain = DPPCA(2, noise_seed=0).fit(X)
    plain.scale_ = np.ones(6)
    assert captured(plain, X) < 0.9


def test_scores_and_the_way_back():
    X = table()
    pca = DPPCA(6, scale="private", epsilon=50.0, noise_seed=0).fit(X)
    back = pca.inverse_transform(pca.transform(X))
    assert back / UNITS == pytest.approx(X / UNITS, abs=1e-6)
    assert pca.components_ @ pca.components_.T == pytest.approx(np.eye(6), abs=1e-12)


def test_what_is_not_seen_is_in_no_component():
    X = np.column_stack([table(), np.full(20_000, 1e12), np.zeros(20_000)])
    pca = DPPCA(2, scale="private", noise_seed=1).fit(X)
    assert pca.unseen_features_.tolist() == [False] * 6 + [True] * 2
    assert not pca.components_[:, 6:].any()
    assert pca.components_ @ pca.components_.T == pytest.approx(np.eye(2), abs=1e-12)
    assert np.abs(pca.transform(X)).max() < 1e3
    few = DPPCA(3, scale="private", noise_seed=1).fit(X[:, 5:])
    assert few.components_above_noise_ <= 1
    # One feature is seen: the other rows are directions of what is not, and count for
    # nothing in scores.
    assert np.array_equal(np.abs(few.components_[0]), [1.0, 0.0, 0.0])
    assert few.components_ @ few.components_.T == pytest.approx(np.eye(3), abs=1e-12)
    assert not few.transform(X[:, 5:])[:, 1:].any()


@pytest.mark.parametrize("center", ["none", "pairs", "private"])
def test_what_is_not_seen_outweighs_nothing(center):
    X = table()
    rare = np.zeros((len(X), 1))
    rare[::500] = 1e12
    wide = np.column_stack([X, ALONE, rare])
    pca = DPPCA(2, scale="private", center=center, epsilon=4.0, noise_seed=0).fit(wide)
    assert pca.unseen_features_[6:].all()
    pca.components_, pca.scale_ = pca.components_[:, :6], pca.scale_[:6]
    assert captured(pca, X) > 0.98


ALONE = np.column_stack([np.full(20_000, 1e12), np.ones(20_000), np.zeros(20_000)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shift", [0.0, 50.0])
@pytest.mark.parametrize("unseen", [False, True])
def test_clipped_rows_have_a_mean_of_what_is_seen(shift, unseen):
    X = table(shift=shift)
    wide = np.column_stack([X, ALONE]) if unseen else X
    pca = DPPCA(2, scale="private", epsilon=8.0, noise_seed=0, clip_norm=9.0).fit(wide)
    assert np.array_equal(pca.unseen_features_[6:], [True] * (wide.shape[1] - 6))
    assert pca.mean_[:6] / UNITS == pytest.approx(np.full(6, shift), abs=0.5)


FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "slices": SlicedTable,
    "lists": lambda X: X.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_releases_the_same(form):
    X = np.rint(table(3000) / UNITS * 100.0)
    one, other = (
        DPPCA(2, scale="private", epsilon=5.0, noise_seed=0).fit(rows)
        for rows in (X, FORMS[form](X))
    )
    assert np.array_equal(one.scale_, other.scale_)
    assert one.components_ == pytest.approx(other.components_, abs=1e-9)


def test_sparse_rows_stay_sparse():
    rng = np.random.default_rng(0)
    X = table(5000) * (rng.random((5000, 6)) < 0.3)
    sparse_rows = sparse.csr_array(X)
    one, other = (
        DPPCA(2, scale="private", epsilon=5.0, noise_seed=0).fit(rows)
        for rows in (X, sparse_rows)
    )
    assert np.array_equal(sparse_rows.toarray(), X)
    # No means, which would fill them, are released or paid for.
    planned = {mechanism.name for mechanism in other.privacy_.releases()}
    assert not {"places", "moments"} & planned
    assert one.privacy_.mu == pytest.approx(other.privacy_.mu)
    assert one.scale_ == pytest.approx(other.scale_, rel=0.15)
    assert np.all(other.mean_ == 0.0)
    np.testing.assert_allclose(one.mean_ / one.scale_, X.mean(0) / one.scale_, atol=0.1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("center", ["auto", "none", "pairs", "private"])
@pytest.mark.parametrize("bounds", [None, (-3e9, 3e9)])
@pytest.mark.parametrize("mechanism", ["gaussian", "two-stage", "auto"])
def test_plan_costs_what_was_asked(center, bounds, mechanism):
    pca = DPPCA(2, scale="private", center=center, bounds=bounds, mechanism=mechanism)
    plan = pca.privacy_plan(10_000, 6)
    budget = gaussian_mu(1.0, 1e-6)
    assert budget * (1 - 1e-9) <= plan.mu <= budget
    names = ("differences", "places", "moments")
    share = sum(plan[name].mu ** 2 for name in names) / budget**2
    assert share == pytest.approx(0.5, rel=1e-6)
    assert pca.fit(table(10_000)).privacy_.mu == plan.mu


@pytest.mark.parametrize("parameters", [{}, {"bounds": (-3e9, 3e9)}])
def test_all_that_is_public_is_a_function_of_the_releases(parameters):
    X, other = table(2000), np.random.default_rng(1).standard_cauchy((2000, 6))
    other[:, 2:4] = 7.0
    pca = DPPCA(2, scale="private", epsilon=20.0, **parameters)
    with record_releases() as released:
        pca.fit(X)
    for rows in (X, other):
        statistic = pca._statistic(*rows.shape)
        found, law = statistic.run(Replay(pca._planned(statistic), released), rows)
        assert np.array_equal(found.vectors, pca.components_)
        assert np.array_equal(law.scale, pca.scale_)
        assert np.array_equal(~law.seen, pca.unseen_features_)


def test_an_earlier_fit_leaves_nothing_behind(tmp_path):
    X = table(3000)
    pca = DPPCA(2, scale="private", epsilon=5.0, noise_seed=0).fit(X)
    pca.save(tmp_path / "pca.npz")
    again = DPPCA.load(tmp_path / "pca.npz")
    assert np.array_equal(again.transform(X), pca.transform(X))
    pca.set_params(scale=None).fit(X)
    assert not hasattr(pca, "unseen_features_")
    assert pca.scale_ is None


def test_a_fit_that_sees_nothing_says_so():
    X, pca = table(200), DPPCA(2, scale="private", clip_norm=9.0)
    with pytest.warns(UserWarning, match="hides 6 of 6 features"):
        pca.fit(X)
    assert pca.components_ @ pca.components_.T == pytest.approx(np.eye(2), abs=1e-12)
    expected = (X - pca.mean_) @ pca.components_.T
    assert pca.transform(X) == pytest.approx(expected, rel=1e-6)


def test_what_has_no_scale_is_refused():
    with pytest.raises(ValueError, match="fit simulated rows"):
        DPPCA(1, scale="private").expected_error(1000, 5, signal_variance=2.0)
    with pytest.raises(ValueError, match="scale"):
        DPPCA(1, scale="deviation").privacy_plan(100, 3)
    ball = DPPCA(1, scale="private", center=PrivateMean(50.0), epsilon=5.0)
    assert ball.fit(table(5000)).mean_.shape == (6,)


def test_the_scales_are_those_of_the_scaler():
    X = table(5000)
    pca = DPPCA(2, scale="private", epsilon=None, center="none")
    scaler = DPStandardScaler(epsilon=None)
    with pytest.warns(match="without privacy"):
        assert np.array_equal(pca.fit(X).scale_, scaler.fit(X).scale_)
