"""Weights of one's own for clients."""

import numpy as np
import pytest
from ledger_tools import refused

from skdpspectral import FederatedDPPCA, SparseDPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.federation import FederationError, LocalClient, Rounds, SpectralTask

NAMES = ["west", "east", "north"]
NOT_PRIVATE = pytest.mark.filterwarnings("ignore:epsilon=None")
COVARIANCE = {"projection_norm": 1e3, "center": "none"}


@pytest.fixture(name="data")
def rows():
    X, truth = make_spiked_covariance(3000, 6, random_state=0)
    return X, np.repeat(NAMES, 1000), truth


def parts(X, clients):
    return {name: X[clients == name] for name in NAMES}


@NOT_PRIVATE
def test_weights_are_those_of_averages(data):
    X, clients, _ = data
    weights = {"west": 1, "east": 3.0, "north": 0}
    model = FederatedDPPCA(
        2, epsilon=None, weights=weights, aggregation="matrix", center="none"
    ).fit(X, clients=clients)
    np.testing.assert_allclose(model.client_weights_, [0.25, 0.75, 0.0])
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    west, east, _ = (u.T @ u / 1000 for u in parts(unit, clients).values())
    vectors = np.linalg.eigh(0.25 * west + 0.75 * east)[1][:, -2:]
    overlap = np.linalg.svd(model.components_ @ vectors)[1]
    np.testing.assert_allclose(overlap, 1.0, atol=1e-10)


@NOT_PRIVATE
def test_weights_are_those_of_projectors_covariances_and_products(data):
    X, clients, _ = data
    parameters = {"epsilon": None, "weights": {"west": 1, "east": 0, "north": 0}}
    model = FederatedDPPCA(1, **parameters, **COVARIANCE).fit(X, clients=clients)
    west = parts(X, clients)["west"]
    alone = FederatedDPPCA(1, epsilon=None, **COVARIANCE).fit(west)
    np.testing.assert_allclose(model.components_, alone.components_, atol=1e-12)
    np.testing.assert_allclose(
        model.explained_variance_, alone.explained_variance_, rtol=1e-12
    )
    rounds = {"n_rounds": 2, "center": "none"}
    model = SparseDPPCA(1, **parameters, **rounds).fit(X, clients=clients)
    alone = SparseDPPCA(1, epsilon=None, **rounds).fit(west)
    np.testing.assert_allclose(model.components_, alone.components_, atol=1e-12)


def test_weights_of_large_numbers_are_shares(data):
    X, clients, _ = data
    model = FederatedDPPCA(1, weights=dict.fromkeys(NAMES, 1e308)).fit(
        X, clients=clients
    )
    np.testing.assert_allclose(model.client_weights_, 1 / 3)


@pytest.mark.parametrize(
    "weights",
    [
        [1.0, 2.0],
        [[1.0, 2.0, 3.0]],
        ["a", "b", "c"],
        {"west": 1, "east": 1},
        {"west": 1, "east": 1, "south": 1, "north": 1},
        {"west": 1, "east": 1, "north": -1},
        {"west": 0, "east": 0, "north": 0},
        {"west": 1, "east": 1, "north": np.inf},
        {"west": 1, "east": 1, "north": "2"},
        {"west": 1, "east": 1, "north": np.nan},
        np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]),
    ],
)
def test_bad_weights_are_named_before_the_charge(data, weights):
    X, clients, _ = data
    with refused("weights") as accountant, accountant:
        FederatedDPPCA(1, weights=weights).fit(X, clients=clients)


def test_servers_take_weights_by_name(data):
    X, clients, _ = data

    def asked(weights):
        pca = FederatedDPPCA(1, center="none", weights=weights)
        task = SpectralTask(pca, 6)
        members = {n: LocalClient(n, own, task) for n, own in parts(X, clients).items()}
        rounds = Rounds({n: one.registration for n, one in members.items()}, task)
        request = rounds.request()
        return rounds, {n: one.respond(request) for n, one in members.items()}

    rounds, answers = asked({"west": 2, "east": 2, "north": 0})
    rounds.collect(answers)
    np.testing.assert_allclose(rounds.result().client_weights_, [0.5, 0.5, 0.0])
    with pytest.raises(ValueError, match="no entry for the client 'north'"):
        asked({"west": 1, "east": 1})
    # Who counts may fail: nothing is made of those who do not.
    rounds, answers = asked({"west": 0, "east": 0, "north": 1})
    with pytest.warns(UserWarning, match="north"):
        rounds.collect({**answers, "north": None})
    with pytest.raises(FederationError, match="have weight 0"):
        rounds.result()


def test_files_keep_weights(data, tmp_path):
    X, clients, _ = data
    weights = {"west": 1.0, "east": 2.0, "north": 0.5}
    model = FederatedDPPCA(1, weights=weights).fit(X, clients=clients)
    model.save(tmp_path / "model.npz")
    loaded = FederatedDPPCA.load(tmp_path / "model.npz")
    assert loaded.weights == weights
    np.testing.assert_array_equal(loaded.client_weights_, model.client_weights_)
    np.testing.assert_array_equal(loaded.components_, model.components_)
