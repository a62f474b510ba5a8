"""Small federations for tests."""

import numpy as np

from skdpspectral import federation
from skdpspectral.federation import LocalClient, Request, Server

SESSION = bytes(range(16))


def make_task(n_components=2, n_features=6, *, bounded=None, **parameters):
    return federation.make_task(
        n_components, n_features, **(bounded or {}), **parameters
    )


def rows_of(seed, n=50, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.linspace(3, 1, p)


def make_clients(task, names="abc", **parameters):
    return {
        name: LocalClient(name, rows_of(i, p=task.rows.n_features), task, **parameters)
        for i, name in enumerate(names)
    }


def make_server(task, names="abc", **parameters):
    return Server(list(names), task, session=SESSION, **parameters)


def ask(task, step, topic, basis=(), session=SESSION):
    """A request of a task, as a server might make it by hand."""
    return Request(session, task.digest, step, topic, basis)


def noise_std(task, n_samples=50, mu=0.2):
    """Deviation of the noise on the first release of a client, by its plan."""
    return task.mechanisms(n_samples, mu)[0].noise_std


def answers(clients, request):
    return {name: c.respond(request).to_bytes() for name, c in clients.items()}
