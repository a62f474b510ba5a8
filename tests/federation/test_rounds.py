"""All steps of a server, for any transport: what estimators do, and in what order."""

import numpy as np
import pytest
from federation_tools import make_clients, make_task, registered, rows_needed, rows_of

from skdpspectral import FederatedDPPCA, PrivacyLeakWarning, SparseDPPCA
from skdpspectral.decomposition import ComponentCovariance, SpikedModel
from skdpspectral.federation import (
    FederationError,
    MessageError,
    Request,
    Rounds,
    Server,
    Topic,
)

BOX = {"bounds": (-20, 20), "center": "private"}
START = np.random.default_rng(0).normal(size=(2, 6))
MODEL = {"mechanism": SpikedModel(signal_variance=5.0, noise_variance=1.0)}
# Parameters of a task, of its rounds, and of the estimator that does the same.
FEDERATIONS = {
    "components": ({}, {}, FederatedDPPCA, {}),
    "matrices": (
        {"aggregation": "matrix"},
        {},
        FederatedDPPCA,
        {"aggregation": "matrix"},
    ),
    "means": (BOX, {}, FederatedDPPCA, BOX),
    "shared": ({"center": "shared"}, {}, FederatedDPPCA, {"center": "shared"}),
    "shared, covariance": (
        {"center": "shared", "aggregation": "matrix", "projection_norm": 9.0},
        {},
        FederatedDPPCA,
        {
            "center": "shared",
            "aggregation": "matrix",
            "release": ComponentCovariance(9.0),
        },
    ),
    "covariance": (
        {**BOX, "projection_norm": 9.0},
        {},
        FederatedDPPCA,
        {**BOX, "release": ComponentCovariance(9.0)},
    ),
    "model": (
        {**MODEL, "model_covariance": True},
        {},
        FederatedDPPCA,
        {**MODEL, "release": "covariance"},
    ),
    "rounds": (
        {**BOX, "n_rounds": 3, "aggregation": "matrix"},
        {"n_nonzero_features": 4},
        SparseDPPCA,
        {**BOX, "n_rounds": 3, "n_nonzero_features": 4},
    ),
    "rounds of projectors": (
        {"n_rounds": 2},
        {},
        SparseDPPCA,
        {"n_rounds": 2, "aggregation": "projector"},
    ),
    "public start": (
        {"n_rounds": 4, "start": False, "aggregation": "matrix", "clip_norm": 4.0},
        {"n_nonzero_features": 3, "init": START},
        SparseDPPCA,
        {"n_rounds": 4, "n_nonzero_features": 3, "init": START, "clip_norm": 4.0},
    ),
}
# Beside a parameter of that name.
RENAMED = {"weights": "client_weights"}
ATTRIBUTES = ("components", "mean", "explained_variance", "support", "weights")


def by_hand(task, clients, steps):
    """The loop of the documentation, with a transport of bytes."""
    rounds = Rounds(Server(registered(clients), task), **steps)
    while not rounds.done:
        request = rounds.request().to_bytes()
        names = rounds.server.clients
        rounds.collect({n: clients[n].respond(request).to_bytes() for n in names})
    return rounds.result()


@pytest.mark.parametrize("name", FEDERATIONS)
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_the_loop_does_what_the_estimator_does(name):
    """Without noise both are the same, number by number."""
    given, steps, cls, parameters = FEDERATIONS[name]
    task = make_task(**given)
    found = by_hand(task, make_clients(task, epsilon=None), steps)
    n = rows_needed(task)
    X = np.concatenate([rows_of(i, n) for i in range(3)])
    if "bounds" not in parameters:
        parameters = {"center": "none", **parameters}
    model = cls(2, epsilon=None, **parameters).fit(X, clients=np.repeat([*"abc"], n))
    for attribute in ATTRIBUTES:
        value = getattr(found, attribute)
        name = f"{RENAMED.get(attribute, attribute)}_"
        assert (value is None) == (not hasattr(model, name)), attribute
        if value is not None:
            np.testing.assert_allclose(value, getattr(model, name))
    if found.noise_variance is not None:
        assert found.noise_variance == pytest.approx(model.noise_variance_)
    assert found.clients == ("a", "b", "c")
    assert found.rejected == {}


@pytest.mark.parametrize("name", FEDERATIONS)
def test_with_noise_the_loop_ends_and_all_is_finite(name):
    given, steps, *_ = FEDERATIONS[name]
    task = make_task(**given)
    found = by_hand(task, make_clients(task, epsilon=1.0), steps)
    assert np.isfinite(found.components).all()
    assert np.allclose(found.components @ found.components.T, np.eye(2))
    assert found.mean.shape == (6,)


def test_topics_are_those_of_the_requests():
    task = make_task(n_rounds=2, **BOX, projection_norm=3.0)
    assert task.topics == (
        Topic.COMPONENTS,
        Topic.MEAN,
        Topic.POWER,
        Topic.POWER,
        Topic.COVARIANCE,
    )
    clients, rounds = make_clients(task), Rounds(Server([*"abc"], task))
    for step, topic in enumerate(task.topics):
        request = rounds.request()
        assert (request.step, request.topic, request.task) == (step, topic, task.digest)
        assert len(request.to_bytes()) <= task.longest()
        answers = {n: c.respond(request) for n, c in clients.items()}
        assert all(len(r.to_bytes()) <= task.longest(topic) for r in answers.values())
        rounds.collect(answers)
    found = rounds.result()
    assert found.support.all()
    assert found.explained_variance.shape == (2,)


def test_a_request_stays_the_same_until_it_is_answered():
    """A coordinator that loses its answers asks again, and nobody releases twice."""
    task = make_task(n_rounds=1)
    clients, rounds = make_clients(task), Rounds(Server([*"abc"], task))
    first = [rounds.request().to_bytes() for _ in range(3)]
    assert len(set(first)) == 1
    kept = [{n: c.respond(f).to_bytes() for n, c in clients.items()} for f in first]
    assert kept[0] == kept[1] == kept[2]
    rounds.collect(kept[0])
    assert Request.from_bytes(rounds.request().to_bytes()).step == 1


def test_what_is_out_of_turn_is_refused():
    task = make_task()
    clients, rounds = make_clients(task), Rounds(Server([*"abc"], task))
    with pytest.raises(MessageError, match="no request since"):
        rounds.collect({})
    with pytest.raises(MessageError, match="no result yet"):
        rounds.result()
    request = rounds.request()
    rounds.collect({n: c.respond(request) for n, c in clients.items()})
    with pytest.raises(MessageError, match="no request since"):
        rounds.collect({})
    with pytest.raises(MessageError, match="all requests of the task"):
        rounds.request()
    with pytest.raises(MessageError, match="no request yet"):
        Server(["a"], task).collect({})
    assert rounds.result().clients == ("a", "b", "c")


def test_a_client_that_fails_late_keeps_its_weight():
    """Components are sent back before the last step: they cannot be made without it."""
    task = make_task(projection_norm=4.0)
    clients, rounds = make_clients(task), Rounds(Server([*"abc"], task))
    request = rounds.request()
    rounds.collect({n: c.respond(request) for n, c in clients.items()})
    request = rounds.request()
    with pytest.warns(UserWarning, match="'b' was rejected"):
        rounds.collect({n: clients[n].respond(request) for n in "ac"})
    found = rounds.result()
    assert found.clients == ("a", "b", "c")
    assert found.weights.shape == (3,)
    assert list(found.rejected) == ["b"]


def test_too_few_clients_end_it():
    task = make_task()
    rounds = Rounds(Server([*"abc"], task, min_clients=3))
    rounds.request()
    with (
        pytest.warns(UserWarning, match="was rejected"),
        pytest.raises(FederationError),
    ):
        rounds.collect({})
    assert not rounds.done


BAD = {
    "require a task with rounds": ({}, {"n_nonzero_features": 3}),
    "init is required": ({"n_rounds": 1}, {"init": np.eye(2, 6)}),
    "init is required for": ({"n_rounds": 1, "start": False}, {}),
    "n_nonzero_features=1": ({"n_rounds": 1}, {"n_nonzero_features": 1}),
    "n_nonzero_features=7": ({"n_rounds": 1}, {"n_nonzero_features": 7}),
    "finite public numbers of shape": (
        {"n_rounds": 1, "start": False},
        {"init": np.eye(3, 6)},
    ),
}


@pytest.mark.parametrize(("says", "given"), BAD.items())
def test_bad_rounds(says, given):
    task, steps = given
    with pytest.raises(ValueError, match=says):
        Rounds(Server(["a"], make_task(**task)), **steps)


DEPENDENT = {
    "zero": np.zeros((2, 6)),
    "one row of zeros": np.eye(2, 6) * [[1.0], [0.0]],
    "equal rows": np.ones((2, 6)),
    "multiples": np.outer([1.0, -3e200], np.arange(6)),
    "but for rounding": np.ones((2, 6)) + [[0.0], [1e-13]] * np.eye(1, 6),
}


@pytest.mark.parametrize("init", DEPENDENT.values(), ids=DEPENDENT)
def test_dependent_rows_are_no_start(init):
    task = make_task(start=False, n_rounds=1)
    with pytest.raises(ValueError, match="linearly independent"):
        Rounds(Server(["a"], task), init=init)
    for scale in (1e-300, 1.0, 1e300):
        good = scale * np.array([[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1.001]])
        assert not Rounds(Server(["a"], task), init=good).done


def test_no_privacy_is_said():
    with pytest.warns(PrivacyLeakWarning):
        make_clients(make_task(), epsilon=None)
