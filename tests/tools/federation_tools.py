"""Small federations for tests."""

import contextlib
import dataclasses
from hashlib import sha256

import numpy as np
import pytest

from skdpspectral import FederatedDPPCA, SparseDPPCA
from skdpspectral.decomposition._federated_client import run_in_process
from skdpspectral.federation import (
    FederationError,
    LocalClient,
    Request,
    Rounds,
    SpectralTask,
    _groups,
)

SESSION = bytes(range(16))
# Rows of a client; with a model of them as many as its bounds need, and more.
N_ROWS, N_MODEL_ROWS = 50, 700


def make_task(n_components=2, n_features=6, *, feature_names=None, **parameters):
    parameters.setdefault("center", "none")
    kind = SparseDPPCA if "n_rounds" in parameters else FederatedDPPCA
    estimator = kind(n_components, **parameters)
    return SpectralTask(estimator, n_features, feature_names=feature_names)


def rows_needed(task):
    return N_MODEL_ROWS if task.model else N_ROWS


def rows_of(seed, n=N_ROWS, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.linspace(3, 1, p)


def make_clients(task, names="abc", n=None, **parameters):
    n, p = n or rows_needed(task), task.n_features
    return {
        name: LocalClient(name, rows_of(i, n, p), task, **parameters)
        for i, name in enumerate(names)
    }


def registered(clients):
    return {name: client.registration for name, client in clients.items()}


def in_session(rounds):
    """Rounds of a session that is the same in all tests."""
    rounds._session = SESSION
    return rounds


def make_rounds(task, clients):
    return in_session(Rounds(registered(clients), task))


def ask(task, step, basis=(), session=SESSION):
    """A request of a task, as a server might make it by hand."""
    return Request(session, task.digest, step, basis)


def answers(clients, request):
    return {name: c.respond(request).to_bytes() for name, c in clients.items()}


def replies_to(rounds, clients):
    """Replies, as objects, of all clients that are left."""
    request = rounds.request().to_bytes()
    return {name: clients[name].respond(request) for name in rounds.clients}


def hold(rounds, clients):
    """Hold the rest of a session in this process; return its result."""
    run_in_process(rounds, clients)
    return rounds.result()


@contextlib.contextmanager
def session_ends(warned, error=None):
    """Check that a client is rejected, with a warning, and the session ends."""
    with (
        pytest.warns(UserWarning, match=warned),
        pytest.raises(FederationError, match=error),
    ):
        yield


def other(sent, name="b", **changes):
    """Replies, one of which has other content."""
    return {**sent, name: dataclasses.replace(sent[name], **changes)}


def keys_of(task, name):
    """Keys of a client of a task with masks, as an argument of `GroupClient`."""
    if task.masked is None:
        return {}
    pairs = {n: "-".join(sorted((n, name))).encode() for n in task.masked if n != name}
    return {"pair_keys": {n: sha256(pair).digest() for n, pair in pairs.items()}}


def show_parts(patch):
    """Leave masks out, so that a test may read what a client would mask."""
    patch.setattr(_groups, "masked", lambda values, *_: words_of(values))


def words_of(values):
    return values.astype(np.int64).astype(np.uint64)


def part_of(task, values):
    """Whole numbers of the values of a reply, of which no mask hides any."""
    if task.masked is None:
        return values
    return _groups.from_halves(values).astype(np.int64).astype(float)
