"""JMECovariance: what it returns, for any batches, workloads and methods."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.covariance import EmpiricalCovariance

from skdpspectral import JMECovariance, PrivacyAccountant, PrivacyLeakWarning
from skdpspectral.covariance import BISR, Exponential, JointMoments, Window
from skdpspectral.covariance._moment_stream import project_spectrum
from skdpspectral.factorizations import Prefix

N, D = 120, 3
SETTINGS = {
    "default": {},
    "prefix": {"workload": "prefix"},
    "exponential": {"workload": Exponential(0.9)},
    "window": {"workload": Window(10)},
    "trivial": {"factorization": "trivial"},
    "sqrt": {"factorization": "sqrt"},
    "bisr": {"factorization": BISR(10)},
    "heavy": {"moments": JointMoments(weight=4.0)},
    "centered": {"moments": "assume-centered"},
}


def rows(n=N, d=D, seed=0):
    X = np.random.default_rng(seed).normal(0.2, 0.3, (n, d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]


def workload_of(parameters):
    kind = parameters.get("workload", "average")
    return Prefix() if isinstance(kind, str) else kind


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_without_noise_it_is_the_weighted_covariance(name):
    """Every workload and method, against weights written out."""
    parameters, X = SETTINGS[name], rows()
    model = JMECovariance(epsilon=None, **parameters).fit(X)
    weights = workload_of(parameters).core_matrix(N)[-1]
    share = weights / weights.sum()
    mean = np.zeros(D) if name == "centered" else share @ X
    second = (X * share[:, None]).T @ X
    covariance = second - np.outer(mean, mean)
    assert np.allclose(model.location_, mean, atol=1e-12)
    assert np.allclose(model.covariance_, covariance, atol=1e-9)
    assert model.n_samples_seen_ == N
    for step, location, *_ in JMECovariance(epsilon=None, **parameters).release_path(X):
        share = workload_of(parameters).core_matrix(N)[step - 1]
        mean = np.zeros(D) if name == "centered" else share @ X / share.sum()
        assert np.allclose(location, mean, atol=1e-10)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SETTINGS)
def test_batches_do_not_matter(name):
    """The same rows and the same seed give the same bits, however they arrive."""
    parameters, X = {"horizon": N, **SETTINGS[name]}, rows()
    whole = JMECovariance(noise_seed=7, **parameters).fit(X)
    path = list(JMECovariance(noise_seed=7, **parameters).release_path(X, every=7))
    for cuts in ([1, 2, 3], [33], range(1, N), [31, 32, 64, 65, 119]):
        stream = JMECovariance(noise_seed=7, **parameters)
        for batch in np.split(X, cuts):
            stream.partial_fit(batch)
            for step, location, covariance, _ in path:
                if step == stream.n_samples_seen_:
                    assert np.array_equal(location, stream.location_)
                    assert np.array_equal(covariance, stream.covariance_)
        for attribute in ("first_moment_", "second_moment_", "covariance_"):
            found = getattr(stream, attribute)
            assert np.array_equal(found, getattr(whole, attribute)), attribute
    assert path[-1].step == N


@pytest.mark.parametrize("name", SETTINGS)
def test_it_finds_the_moments(name):
    """At a large budget the estimate is the truth, from all methods alike."""
    parameters, X = SETTINGS[name], rows()
    noisy = JMECovariance(epsilon=1e6, noise_seed=0, **parameters).fit(X)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        exact = JMECovariance(epsilon=None, **parameters).fit(X)
    assert np.allclose(noisy.location_, exact.location_, atol=0.05)
    assert np.allclose(noisy.covariance_, exact.covariance_, atol=0.05)
    assert not np.array_equal(noisy.covariance_, exact.covariance_)


def test_covariances_are_covariances():
    """Little budget: mostly noise, yet in the set of covariances of clipped rows."""
    for c in (1e-3, 1.0, 50.0):
        for seed in range(20):
            model = JMECovariance(epsilon=0.01, clip_norm=c, noise_seed=seed)
            model.fit(rows(20))
            values = np.linalg.eigvalsh(model.covariance_) / c**2
            assert values.min() >= 1e-6 * (1 - 1e-6)
            assert values.sum() <= 1 + 1e-9
            assert np.array_equal(
                model.covariance_, model.covariance_.T
            ) or np.allclose(model.covariance_, model.covariance_.T, rtol=1e-12)


def test_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.normal(0.2, 0.5, 4)
        found = project_spectrum(values, 0.01, 1.0)
        assert found.min() >= 0.01 - 1e-15
        assert found.sum() <= 1 + 1e-12
        others = rng.dirichlet(np.ones(5), 3000)[:, :4] * (1 - 4 * 0.01) + 0.01
        distances = np.linalg.norm(others - values, axis=1)
        assert np.linalg.norm(found - values) <= distances.min() + 1e-12
    assert np.allclose(project_spectrum(np.zeros(4), 1.0, 1.0), 0.25)


def test_the_scale_of_the_data_does_not_matter():
    X = rows()
    small = JMECovariance(clip_norm=2.0**-20, noise_seed=1).fit(X * 2.0**-20)
    unit = JMECovariance(noise_seed=1).fit(X)
    assert np.allclose(small.location_ * 2.0**20, unit.location_, rtol=1e-9)
    assert np.allclose(small.covariance_ * 2.0**40, unit.covariance_, rtol=1e-6)


def test_the_interface_of_scikit_learn():
    X = rows(4000)
    model = JMECovariance(epsilon=50.0, noise_seed=0).fit(X)
    peer = EmpiricalCovariance().fit(X)
    peer.location_, peer.covariance_ = model.location_, model.covariance_
    peer.precision_ = np.linalg.inv(model.covariance_)
    assert np.allclose(model.precision_, peer.precision_)
    assert np.allclose(model.get_precision(), model.precision_)
    assert model.score(X) == pytest.approx(peer.score(X))
    assert model.score_samples(X).mean() == pytest.approx(model.score(X))
    assert np.allclose(model.mahalanobis(X), peer.mahalanobis(X))
    for options in ({}, {"norm": "spectral"}, {"scaling": False, "squared": False}):
        wanted = peer.error_norm(np.eye(D), **options)
        assert model.error_norm(np.eye(D), **options) == pytest.approx(wanted)


def test_all_that_scikit_learn_s_covariances_have_is_there():
    methods = {name for name in dir(EmpiricalCovariance) if not name.startswith("_")}
    # Of routing: no weights, no other covariances.
    absent = {"set_score_request"}
    assert methods - absent <= set(dir(JMECovariance))


def test_sparse_rows_are_refused():
    assert not JMECovariance().__sklearn_tags__().input_tags.sparse
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        JMECovariance().fit(sparse.eye_array(3, format="csr"))


def test_a_fit_begins_anew():
    X = rows()
    accountant = PrivacyAccountant()
    model = JMECovariance(horizon=200, accountant=accountant).fit(X)
    model.partial_fit(X[:10])
    assert model.n_samples_seen_ == 10
    model.partial_fit(X[:10])
    assert model.n_samples_seen_ == 20
    model.fit(X)
    assert model.n_samples_seen_ == N
    assert len(accountant.ledger) == 3


def test_rows_beyond_the_horizon_are_refused():
    with pytest.raises(ValueError, match="horizon"):
        JMECovariance(horizon=10).fit(rows())


def test_partial_fit_is_there_where_it_can_be():
    assert not hasattr(JMECovariance(), "partial_fit")
    assert not hasattr(
        JMECovariance(workload=Exponential(0.5), factorization="sqrt"), "partial_fit"
    )
    for parameters in (
        {"horizon": 10},
        {"factorization": "trivial"},
        {"workload": Exponential(0.5)},
        {"workload": Window(5)},
    ):
        assert hasattr(JMECovariance(**parameters), "partial_fit")


def test_endless_streams():
    """Workloads that forget run for any number of steps."""
    stream = JMECovariance(workload=Window(20), noise_seed=0)
    for seed in range(10):
        stream.partial_fit(rows(seed=seed))
    assert stream.n_samples_seen_ == 10 * N
    assert stream.privacy_.mechanisms[0].max_steps is None


@pytest.mark.parametrize("n_read", [0, 1, 300])
def test_a_path_beside_a_stream_and_a_fit(n_read):
    """No path changes the estimator, nor does the estimator change a path."""
    A, B = rows(600), rows(400, d=2, seed=1)
    model = JMECovariance(noise_seed=0, horizon=1000).partial_fit(B[:100])
    path = model.release_path(A)
    found = [next(path) for _ in range(n_read)]
    model.partial_fit(B[100:])
    kept = dict(vars(model))
    found += list(path)
    assert vars(model) == kept
    alone = JMECovariance(noise_seed=0, horizon=1000).partial_fit(B)
    assert np.array_equal(model.covariance_, alone.covariance_)
    wanted = JMECovariance(noise_seed=0, horizon=1000).release_path(A)
    for mine, other in zip(found, wanted, strict=True):
        assert mine.step == other.step
        assert np.array_equal(mine.covariance, other.covariance)
    new = JMECovariance(noise_seed=0)
    next(new.release_path(A))
    assert set(vars(new)) == set(vars(JMECovariance(noise_seed=0)))


@pytest.mark.parametrize("clip_norm", [1e-60, 1e-20, 1e20, 1e60])
def test_extreme_scales(clip_norm):
    X = rows() * clip_norm
    model = JMECovariance(1e6, clip_norm=clip_norm, noise_seed=0)
    model.fit(X)
    assert np.allclose(model.location_ / clip_norm, rows().mean(axis=0), atol=0.05)
    wanted = np.cov(rows().T, bias=True)
    assert np.allclose(model.covariance_ / clip_norm**2, wanted, atol=0.05)
