"""SparseDPPCA: components that share few features."""

import numpy as np
import pytest

from skdpspectral import PrivacyLeakWarning, SparseDPPCA
from skdpspectral.accounting import gaussian_mu
from skdpspectral.federation import LocalClient
from skdpspectral.metrics import subspace_distance


def spiked(seed, n=8000, p=40, s=6, k=1, strength=10.0):
    rng = np.random.default_rng(seed)
    support = np.sort(rng.choice(p, s, replace=False))
    U = np.zeros((k, p))
    U[:, support] = np.linalg.qr(rng.standard_normal((s, k)))[0].T
    X = rng.standard_normal((n, p)) + strength**0.5 * rng.standard_normal((n, k)) @ U
    return X, U, support


X, TRUTH, SUPPORT = spiked(0)
CLIENTS = np.repeat(np.arange(4), 2000)


def test_few_features_are_found():
    """Components on small entries may be missed: three quarters must be found."""
    model = SparseDPPCA(
        1, center="none", n_nonzero_features=6, epsilon=4.0, noise_seed=0
    )
    model.fit(X, clients=CLIENTS)
    assert model.support_.sum() == 6
    assert not model.components_[:, ~model.support_].any()
    assert model.support_[SUPPORT].mean() > 0.7
    assert subspace_distance(model.components_, TRUTH) < 0.2
    assert model.n_rounds_ == 1
    assert model.explained_variance_.shape == (1,)


@pytest.mark.parametrize("k", [1, 3])
def test_without_privacy_it_is_truncated_power_iteration(k):
    X, U, support = spiked(1, k=k)
    model = SparseDPPCA(
        k, center="none", n_nonzero_features=6, n_rounds=30, epsilon=None
    )
    with pytest.warns(PrivacyLeakWarning):
        model.fit(X)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    S = rows.T @ rows / len(rows)
    # A fixed point of the iteration, on the best features.
    _values, vectors = np.linalg.eigh(S[np.ix_(model.support_, model.support_)])
    inside = model.components_[:, model.support_]
    assert subspace_distance(inside, vectors[:, -k:].T) < 1e-4
    assert np.allclose(inside @ inside.T, np.eye(k), atol=1e-10)
    assert model.support_[support].mean() > 0.8
    assert subspace_distance(model.components_, U) < 0.1


def test_all_features_are_kept_by_default():
    model = SparseDPPCA(2, center="none", epsilon=100.0, n_rounds=3).fit(X)
    assert model.support_.all()
    assert model.n_components_ == 2
    assert np.allclose(model.components_ @ model.components_.T, np.eye(2))


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("n_rounds", [1, 3, 10, 20])
def test_noise_is_that_of_exact_composition(k, n_rounds):
    """Product noise of k=1 is one over n, of more columns the root of two over n."""
    model = SparseDPPCA(k, center="none", n_rounds=n_rounds, delta=1e-5)
    plan = model.privacy_plan(2000, 40)
    factor = 1.0 if k == 1 else 2**0.5
    expected = factor * (n_rounds + 1) ** 0.5 / (2000 * gaussian_mu(1.0, 1e-5))
    assert len(plan.mechanisms) == n_rounds + 1
    for mechanism in plan.mechanisms[1:]:
        assert mechanism.noise_std == pytest.approx(expected, rel=1e-3)


def test_the_printed_noise_is_6_to_13_times_as_large():
    """Sensitivity 2, the classical constant, budgets split by rounds and the start."""
    ratios = {}
    for k in (1, 2):
        for n_rounds in (10, 20):
            model = SparseDPPCA(k, center="none", n_rounds=n_rounds - 1, delta=1e-5)
            std = model.privacy_plan(2000, 40)["power_1"].noise_std
            printed = 2 * np.sqrt(2 * np.log(2 * n_rounds / 1e-5)) * n_rounds / 2000
            ratios[k, n_rounds] = printed / std
    assert 6.4 < min(ratios.values()) < 6.5
    assert 13.0 < max(ratios.values()) < 13.5


@pytest.mark.slow
def test_noise_averages_over_clients():
    """Four clients of 2000 rows: half the noise of one, and not four times as much."""
    spread = {}
    for clients in (np.zeros(2000), CLIENTS):
        rows, found = np.zeros((len(clients), 40)), []
        rows[:, 0] = 1.0
        for seed in range(300):
            model = SparseDPPCA(1, center="none", noise_seed=seed)
            model.fit(rows, clients=clients)
            first = model.components_[0] * model.explained_variance_[0]
            found.append(first[1:] * np.sign(first[0]))
        spread[len(clients)] = np.std(found)
    plan = SparseDPPCA(1, center="none").privacy_plan(2000, 40)
    planned = plan["power_1"].noise_std
    # 300 x 39 draws: three standard errors are 2 %.
    assert spread[2000] == pytest.approx(planned, rel=0.03)
    assert spread[8000] == pytest.approx(planned / 2, rel=0.03)


def test_rounds_send_what_was_planned_and_no_more(monkeypatch):
    sent, respond = [], LocalClient.respond

    def kept(self, request):
        reply = respond(self, request)
        sent.append((reply.client, reply.values.shape, len(reply.to_bytes())))
        return reply

    monkeypatch.setattr(LocalClient, "respond", kept)
    SparseDPPCA(2, n_rounds=2, bounds=(-9, 9)).fit(X, clients=CLIENTS)
    for client in "0123":
        own = [(shape, size) for name, shape, size in sent if name == client]
        assert [shape for shape, _ in own] == [(820,), (40, 2), (40, 2)]
        assert all(size <= 8 * 80 + 600 for _, size in own[1:])
