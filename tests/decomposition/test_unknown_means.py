"""Models that know no mean: rows are measured about their own."""

import numpy as np
import pytest
from scipy import sparse

from skdpspectral import DPPCA, FederatedDPPCA, PrivacyLeakWarning, SpikedPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition import SpikedModel
from skdpspectral.decomposition._spiked import centered_rows
from skdpspectral.federation import SpectralTask
from skdpspectral.metrics import subspace_distance
from skdpspectral.sensitivity import (
    spiked_moment_sensitivity,
    spiked_projector_sensitivity,
)

MODEL = {"signal_variance": 10.0, "noise_variance": 1.0, "mean": "unknown"}
OFFSET = np.linspace(-3e4, 7e4, 12)


@pytest.fixture(name="data")
def rows():
    return make_spiked_covariance(3000, 12, random_state=0)


def test_the_place_of_rows_does_not_matter(data):
    X, truth = data
    parameters = {**MODEL, "release": "covariance", "noise_seed": 1}
    here, there = (
        SpikedPCA(1, epsilon=2.0, **parameters).fit(rows) for rows in (X, X + OFFSET)
    )
    assert subspace_distance(here.components_, truth) < 0.2
    np.testing.assert_allclose(there.components_, here.components_, atol=1e-9)
    np.testing.assert_allclose(
        there.explained_variance_, here.explained_variance_, rtol=1e-9
    )
    np.testing.assert_array_equal(there.mean_, 0.0)
    assert "one unknown mean" in str(there.privacy_.remarks)


@pytest.mark.filterwarnings("ignore:epsilon=None")
def test_what_is_released_is_of_the_covariance(data):
    X, _ = data
    pca = SpikedPCA(1, epsilon=None, release="covariance", **MODEL)
    pca.fit(X + OFFSET)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    assert subspace_distance(pca.components_, vectors[:, -1:].T) < 1e-7
    np.testing.assert_allclose(pca.explained_variance_, values[-1:], rtol=1e-10)


def test_noise_is_that_of_the_lemma():
    known, unknown = (
        SpikedPCA(
            1, delta=1e-5, release="covariance", **{**MODEL, "mean": mean}
        ).privacy_plan(300, 12)
        for mean in ("zero", "unknown")
    )
    for name, bound in (
        ("projector", spiked_projector_sensitivity),
        ("model_moment", spiked_moment_sensitivity),
    ):
        model = ([10.0], 1.0, 300, 12, 0.5 * unknown.failure)
        assert known[name].sensitivity == pytest.approx(bound(*model), rel=1e-6)
        wanted = bound(*model, centered=True)
        assert unknown[name].sensitivity == pytest.approx(wanted, rel=1e-6)
        assert unknown[name].sensitivity > known[name].sensitivity


@pytest.mark.parametrize(
    ("n", "price"), [(200, 0.0193), (1_000, 0.0022), (10_000, 0.0002)]
)
def test_an_unknown_mean_costs_a_degree_of_freedom_and_a_share(n, price):
    """As the lemma says: with either alone it is half as dear or less."""
    model = ([10.0], 1.0, n, 20, 1e-6)
    grown = spiked_projector_sensitivity(*model, centered=True)
    # Roots are found up to 1e-4.
    grown /= spiked_projector_sensitivity(*model)
    assert grown - 1.0 == pytest.approx(price, rel=0.05, abs=5e-5)


def test_rows_on_disk_are_those_in_memory(data, tmp_path):
    X = data[0] + OFFSET
    file = np.memmap(tmp_path / "rows", np.float64, "w+", shape=X.shape)
    file[:] = X
    pca = SpikedPCA(1, noise_seed=2, **MODEL)
    in_memory = pca.fit(X).components_
    np.testing.assert_allclose(pca.fit(file).components_, in_memory, atol=1e-12)


def test_the_mean_is_taken_off_twice():
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(20_000, 3))
    # Eleven digits of place: one pass leaves an error that the second one finds.
    rows = spread + 1e11
    exact = rows - 1e11
    exact = exact - exact.mean(axis=0)
    centered = centered_rows(rows, lambda block: block)
    assert centered.shape == rows.shape
    np.testing.assert_allclose(centered[:], exact, atol=1e-9)
    np.testing.assert_allclose(centered[5:9], exact[5:9], atol=1e-9)


def test_clients_measure_from_their_own_means(data):
    X, truth = data
    clients = np.arange(len(X)) % 3
    X = X + OFFSET * clients[:, None]
    pca = FederatedDPPCA(
        1,
        epsilon=3.0,
        mechanism=SpikedModel(**MODEL, release="covariance"),
        noise_seed=3,
    ).fit(X, clients=clients)
    assert subspace_distance(pca.components_, truth) < 0.3
    assert pca.explained_variance_[0] == pytest.approx(11.0, abs=3.0)


def task_of(mean):
    model = SpikedModel(10.0, 1.0, mean=mean)
    return SpectralTask(FederatedDPPCA(1, mechanism=model), 12)


def test_tasks_say_which_mean():
    tasks = [task_of(mean) for mean in ("zero", "unknown")]
    read = [SpectralTask.from_json(task.to_json()) for task in tasks]
    assert read == tasks
    assert [task.model.mean for task in read] == ["zero", "unknown"]
    assert tasks[0].digest != tasks[1].digest


def test_what_has_no_use_is_refused(data):
    X, _ = data
    with pytest.raises(ValueError, match="mean"):
        task_of("mine")
    with pytest.raises(ValueError, match="mean"):
        SpikedPCA(1, **{**MODEL, "mean": "mine"}).fit(X)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        SpikedPCA(1, **MODEL).fit(sparse.csr_array(X))


def test_the_noise_of_the_papers_is_charged_by_the_lemma(data):
    paper = {**MODEL, "calibration": "paper", "delta": 1e-5}
    known = {**paper, "mean": "zero"}
    plans = [
        SpikedPCA(1, epsilon=0.5, **m).privacy_plan(200, 12) for m in (known, paper)
    ]
    assert plans[0]["projector"].noise_std == plans[1]["projector"].noise_std
    assert plans[1].epsilon > plans[0].epsilon
    with pytest.warns(PrivacyLeakWarning, match="epsilon"):
        SpikedPCA(1, **paper).fit(data[0][:200])


def skewed_counts():
    """Poisson counts of log-normal rates, and their covariance."""
    rng = np.random.default_rng(0)
    factors = 0.5 * rng.standard_normal((2, 30))
    X = rng.poisson(np.exp(rng.standard_normal((5000, 2)) @ factors + 1.0))
    return X, np.cov(X, rowvar=False)


def test_long_rows_of_skewed_counts_keep_their_lengths():
    """Unit rows keep a share of .83 here, with the same budget."""
    X, covariance = skewed_counts()
    best = np.linalg.eigvalsh(covariance)[-1]
    for seed in range(3):
        V = DPPCA(1, epsilon=4.0, noise_seed=seed).fit(X).components_
        assert np.sum((V @ covariance) * V) / best > 0.88
