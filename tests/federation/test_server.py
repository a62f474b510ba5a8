"""A server uses what is whole, and says by name what is not."""

import hashlib
import warnings

import numpy as np
import pytest
from federation_tools import (
    SESSION,
    answers,
    make_clients,
    make_server,
    make_task,
    noise_std,
)

from skdpspectral.decomposition import _kernels
from skdpspectral.federation import FederationError, MessageError, Reply, Server, Topic
from skdpspectral.metrics import subspace_distance

TASK = make_task(n_rounds=1)
NAMES = "abc"


@pytest.fixture
def good():
    server, clients = make_server(TASK), make_clients(TASK)
    request = server.request()
    return server, answers(clients, request)


def forged(name="b", shape=(2, 6), of=TASK, **changes):
    """A reply that is right, but for the changes."""
    values = np.linalg.qr(np.random.default_rng(0).normal(size=shape[::-1]))[0].T
    content = {
        "session": SESSION,
        "task": of.digest,
        "step": 0,
        "topic": Topic.COMPONENTS,
        "client": name,
        "n_samples": 50,
        "mu": 0.2,
        "values": values,
    }
    content |= changes
    noise = 1.0
    if "numbers" not in changes:
        noise = noise_std(of, content["n_samples"], content["mu"])
    numbers = (noise, 0.4, 0.1) if content["topic"] is Topic.COMPONENTS else (noise,)
    return Reply(**{"numbers": numbers, **content})


def without_finite(data):
    """A valid message but for one value, with a digest of its own."""

    body = bytearray(data[:-16])
    body[-8:] = np.array([np.nan]).tobytes()
    return bytes(body) + hashlib.blake2b(bytes(body), digest_size=16).digest()


BAD = {
    "did not answer in time": lambda data: None,
    "failed with RuntimeError": lambda data: RuntimeError("row 7 is 3.25"),
    "failed with TimeoutError": lambda data: TimeoutError(),
    "was damaged": lambda data: data[:-8],
    "not a reply of": lambda data: b"x" * len(data),
    "damaged": lambda data: data[:-20] + bytes(20),
    "at most": lambda data: data + bytes(10_000),
    "must be bytes": lambda data: 3,
    "must be finite": without_finite,
    "another session": lambda data: forged(session=bytes(16)).to_bytes(),
    "not for step 0": lambda data: forged(step=1).to_bytes(),
    "name or topic": lambda data: forged(
        topic=Topic.POWER, numbers=(0.1,), shape=(6, 2)
    ),
    "another client's name": lambda data: forged("a").to_bytes(),
    "shape": lambda data: forged(shape=(2, 5)).to_bytes(),
    "shape (1, 6)": lambda data: forged(shape=(1, 6)).to_bytes(),
    "not orthonormal": lambda data: forged(values=10 * np.eye(2, 6)),
    "are not orthonormal": lambda data: forged(values=np.ones((2, 6)) / 6**0.5),
    "has a standard deviation of -0.1": lambda data: forged(numbers=(-0.1, 0.5, 0.1)),
    "has a standard deviation of 0,": lambda data: forged(numbers=(0.0, 0.5, 0.1)),
    "eigenvalues": lambda data: forged(numbers=(noise_std(TASK), 1e9, 0.1)),
    "another task": lambda data: forged(of=make_task(n_rounds=2)),
    "no plan of the task": lambda data: forged(numbers=(1.0, 0.5, 0.1), mu=1e-300),
    "below n_components": lambda data: forged(n_samples=1),
}


@pytest.mark.parametrize(("reason", "spoil"), BAD.items())
def test_a_bad_answer_is_rejected_by_name_and_the_rest_is_used(good, reason, spoil):
    server, found = good
    found["b"] = spoil(found["b"])
    with pytest.warns(UserWarning, match="client 'b' was rejected"):
        replies = server.collect(found)
    assert [reply.client for reply in replies] == ["a", "c"]
    assert server.clients == ("a", "c")
    assert reason in server.rejected["b"]
    assert "3.25" not in server.rejected["b"]  # an error may speak of the data
    components, weights = server.averages.aggregate(replies)
    assert components.shape == (2, 6)
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("reason", "spoil"), list(BAD.items())[:4])
def test_too_few_clients_are_an_error(reason, spoil):
    server, clients = make_server(TASK, min_clients=3), make_clients(TASK)
    found = answers(clients, server.request())
    found["b"] = spoil(found["b"])
    with (
        pytest.warns(UserWarning, match="'b'"),
        pytest.raises(FederationError, match=f"min_clients=3.*'b'.*{reason}"),
    ):
        server.collect(found)


def test_strangers_and_replays_are_not_used(good):
    server, found = good
    first = dict(found)
    stranger = {**found, "d": found["a"]}
    assert len(server.collect(stranger)) == 3
    assert "not a client" in server.rejected["d"]
    server.request(np.eye(6, 2))
    # The answers to the first request, again.
    with (
        pytest.warns(UserWarning, match="was rejected"),
        pytest.raises(FederationError, match="step 1"),
    ):
        server.collect(first)


def test_a_client_that_failed_stays_out(good):
    server, found = good
    with pytest.warns(UserWarning, match="was rejected"):
        server.collect({**found, "a": None})
    clients = make_clients(TASK)
    server = make_server(TASK)
    request = server.request()
    found = answers(clients, request)
    with pytest.warns(UserWarning, match="was rejected"):
        server.collect({**found, "a": None})
    request = server.request(np.eye(6, 2))
    replies = server.collect(answers(clients, request))
    assert [reply.client for reply in replies] == ["b", "c"]


@pytest.mark.parametrize("changes", [{"n_samples": 51}, {"mu": 0.3}])
def test_a_client_does_not_change_its_size_or_budget(changes):
    server = make_server(TASK, "b")
    server.request()
    server.collect({"b": forged()})
    server.request(np.eye(6, 2))
    power = {"topic": Topic.POWER, "step": 1}
    answer = forged(values=np.ones((6, 2)), **power, **changes)
    with (
        pytest.warns(UserWarning, match="was rejected"),
        pytest.raises(FederationError, match="its number of rows or its budget"),
    ):
        server.collect({"b": answer})


def test_requests_end_with_the_task(good):
    server, _ = good
    server.request(np.eye(6, 2))
    with pytest.raises(MessageError, match="all requests of the task"):
        server.request(np.eye(6, 2))


BAD_SERVERS = {
    "different names": {"clients": ["a", "b", "a"]},
    "min_clients=4": {"min_clients": 4},
    "min_clients": {"min_clients": 0},
    "weights": {"weights": "best"},
    "eigengap": {"eigengap": 0.0},
    "session": {"session": b"1"},
    "number of clients": {"clients": []},
    "printable": {"clients": [1]},
}


@pytest.mark.parametrize(("says", "changes"), BAD_SERVERS.items())
def test_bad_servers(says, changes):
    arguments = {"clients": list(NAMES), "task": TASK, **changes}
    with pytest.raises(ValueError, match=says):
        Server(**arguments)


def test_weights_are_one_over_the_variance():
    """By the formula, from what was sent; an uninformative client counts little."""
    task = make_task(1)
    server = make_server(task, "ab", eigengap=0.4)
    server.request()
    sizes = {"a": (1000, 0.1), "b": (100, 0.5)}
    sent = [forged(k, (1, 6), task, n_samples=n, mu=mu) for k, (n, mu) in sizes.items()]
    replies = server.collect({"a": sent[0], "b": sent[1].to_bytes()})
    expected = [
        2 * 0.5 * 0.1 / n + noise_std(task, n, mu) ** 2 for n, mu in sizes.values()
    ]
    expected = _kernels.inverse_variance_weights(expected)
    assert np.allclose(server.averages.subspace_weights(replies), expected)
    equal = make_server(task, "ab", weights="equal")
    assert np.array_equal(equal.averages.subspace_weights(replies), [0.5, 0.5])


def test_the_gap_is_taken_from_what_was_sent():
    """Large clients without noise say what the spectrum is."""
    task = make_task(1)
    given = make_server(task, "ab", eigengap=0.3)
    taken = make_server(task, "ab")
    replies = [
        forged(n, (1, 6), task, n_samples=10**k, mu=mu)
        for n, k, mu in (("a", 6, 10.0), ("b", 2, 1.0))
    ]
    weights = [server.averages.subspace_weights(replies) for server in (given, taken)]
    assert np.allclose(*weights, rtol=1e-3)


def test_products_are_averaged_by_rows_and_noise():
    task = make_task(2, start=False, n_rounds=1)
    server = make_server(task, "ab")
    server.request(np.eye(6, 2))
    values = 0.1 * np.random.default_rng(1).normal(size=(2, 6, 2))
    sizes = {"a": (100, 0.1), "b": (300, 0.5)}
    replies = [
        forged(k, values=v, of=task, n_samples=n, mu=mu, topic=Topic.POWER)
        for v, (k, (n, mu)) in zip(values, sizes.items(), strict=True)
    ]
    replies = server.collect({r.client: r for r in replies})
    variances = [1 / (6 * n) + noise_std(task, n, mu) ** 2 for n, mu in sizes.values()]
    weights = 1 / np.array(variances)
    weights /= weights.sum()
    expected = weights[0] * values[0] + weights[1] * values[1]
    assert np.allclose(server.averages.aggregate_products(replies), expected)


def test_matrices_and_projectors_agree_without_noise():
    """Of clients with the same rows the result is that of one."""
    for aggregation in ("projector", "matrix"):
        task = make_task(2, aggregation=aggregation)
        server, clients = make_server(task), make_clients(task, epsilon=1e8)
        for client in clients.values():
            client._X = clients["a"]._X
        replies = server.collect(answers(clients, server.request()))
        rows = clients["a"]._X
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        top = np.linalg.eigh(rows.T @ rows)[1][:, -2:].T
        assert subspace_distance(server.averages.aggregate(replies)[0], top) < 1e-3


@pytest.mark.parametrize("aggregation", ["matrix", "projector"])
@pytest.mark.parametrize("numbers", [None, (1e200, 0.5, 0.1)])
def test_no_client_makes_a_result_overflow(aggregation, numbers):
    """A liar may spoil a result, but not make it one of infinities."""
    task = make_task(aggregation=aggregation)
    server, clients = make_server(task), make_clients(task)
    found = answers(clients, server.request())
    topic, values = Topic.COMPONENTS, np.eye(2, 6)
    if aggregation == "matrix":
        topic, values = Topic.MATRIX, np.full(21, 1e300)
    elif numbers is None:
        values = 1e300 * values
    numbers = numbers or (noise_std(task), 0.4, 0.1)
    found["b"] = forged(of=task, topic=topic, values=values, numbers=numbers)
    with pytest.warns(UserWarning, match="'b' was rejected: its"):
        replies = server.collect(found)
    assert np.isfinite(server.averages.aggregate(replies)[0]).all()


def test_two_sessions_have_different_names():
    requests = [Server(["a"], TASK).request().session for _ in range(2)]
    assert requests[0] != requests[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Server(["a"], TASK)
