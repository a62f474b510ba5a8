"""Small federations for tests."""

import numpy as np

from skdpspectral import federation
from skdpspectral.federation import LocalClient, Request, Server

SESSION = bytes(range(16))
# Rows of a client; with a model of them as many as its bounds need, and more.
N_ROWS, N_MODEL_ROWS = 50, 700


def make_task(n_components=2, n_features=6, *, bounded=None, **parameters):
    # About the origin, or means of clients with bounds, unless a center is given.
    parameters = {**(bounded or {}), **parameters}
    parameters.setdefault("center", "private" if "bounds" in parameters else "none")
    return federation.make_task(n_components, n_features, **parameters)


def rows_needed(task):
    return N_MODEL_ROWS if task.mechanism.spiked else N_ROWS


def rows_of(seed, n=N_ROWS, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.linspace(3, 1, p)


def make_clients(task, names="abc", n=None, **parameters):
    n, p = n or rows_needed(task), task.rows.n_features
    return {
        name: LocalClient(name, rows_of(i, n, p), task, **parameters)
        for i, name in enumerate(names)
    }


def registered(clients):
    return {name: client.registration for name, client in clients.items()}


def make_server(task, clients="abc", **parameters):
    """A server of names, or of registrations by name."""
    if not isinstance(clients, dict):
        clients = list(clients)
    return Server(clients, task, session=SESSION, **parameters)


def ask(task, step, topic, basis=(), session=SESSION):
    """A request of a task, as a server might make it by hand."""
    return Request(session, task.digest, step, topic, basis)


def noise_std(task, n_samples=50, mu=0.2):
    """Deviation of the noise on the first release of a client, by its plan."""
    return task.mechanisms(n_samples, mu)[0].noise_std


def answers(clients, request):
    return {name: c.respond(request).to_bytes() for name, c in clients.items()}
