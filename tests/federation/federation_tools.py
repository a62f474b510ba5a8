"""Small federations for tests."""

import numpy as np

from skdpspectral import federation
from skdpspectral.federation import LocalClient, Server

SESSION = bytes(range(16))


def make_task(n_components=2, n_features=6, *, bounded=None, **parameters):
    return federation.make_task(
        n_components, n_features, **(bounded or {}), **parameters
    )


def rows_of(seed, n=50, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.linspace(3, 1, p)


def make_clients(task, names="abc", n=50, **parameters):
    p = task.rows.n_features
    return {
        name: LocalClient(name, rows_of(i, n, p), task, **parameters)
        for i, name in enumerate(names)
    }


def make_server(task, names="abc", **parameters):
    return Server(list(names), task, session=SESSION, **parameters)


def answers(clients, request):
    return {name: c.respond(request).to_bytes() for name, c in clients.items()}
