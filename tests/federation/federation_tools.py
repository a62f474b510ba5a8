"""Small federations for tests."""

import numpy as np

from skdpspectral._bounded_moments import RowBounds
from skdpspectral.federation import LocalClient, Server, SpectralTask

SESSION = bytes(range(16))
UNBOUNDED = {
    "bounds": None,
    "clip_norm": None,
    "center": "auto",
    "scale_by_bounds": False,
    "center_clip_norm": None,
}


def make_task(n_components=2, n_features=6, *, bounded=None, **parameters):
    rows = RowBounds(n_features, **{**UNBOUNDED, **(bounded or {})})
    return SpectralTask(n_components, rows, **parameters)


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


def answers(clients, request):
    return {name: c.respond(request).to_bytes() for name, c in clients.items()}
