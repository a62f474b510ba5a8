"""Tables of ratings, and what a fit would release of them without noise."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
from lrs_tools import scripted

import skdpspectral

PACKAGE = Path(skdpspectral.__file__).parent
CANARY = 77


def table(users, seed=None):
    """Rows of users {id: [(item, rating), ...]}, one user after another or mixed."""
    rows = [(user, item, y) for user, rated in users.items() for item, y in rated]
    order = np.arange(len(rows))
    if seed is not None:  # mixed, each user's rows in their order
        owners = np.array([list(users).index(user) for user, _, _ in rows])
        places = np.random.default_rng(seed).permutation(len(rows))
        for owner in range(len(users)):
            places[owners == owner] = np.sort(places[owners == owner])
        order = np.argsort(places)
    X = np.empty((len(rows), 2), dtype=object)
    for place, row in enumerate(order):
        X[place] = rows[row][:2]
    return X, np.array([rows[row][2] for row in order], dtype=float)


# -- models of items -------------------------------------------------------------------


def exact_answers(cls, users, seed=None, **parameters):
    """What a fit would release without noise, every release given scripted ones."""
    X, y = table(users, seed)
    with scripted() as asked:
        cls(**{"rating_range": (1, 5), **parameters}).fit(X, y)
    return asked


# -- planted mistakes ------------------------------------------------------------------


def mutated(monkeypatch, modules, module, *edits):
    """Return the last of some modules as it is after edits of one of their sources."""
    for name in modules:
        path = PACKAGE / (name.replace(".", "/") + ".py")
        source = path.read_text()
        if name == module:
            for old, new in edits:
                assert source.count(old) == 1, f"{old!r} must occur once in {path}"
                source = source.replace(old, new)
        full = f"skdpspectral.{name}"
        spec = importlib.util.spec_from_file_location(full, path)
        new_module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, full, new_module)
        parent = sys.modules[full.rpartition(".")[0]]
        monkeypatch.setattr(parent, name.rpartition(".")[2], new_module)
        exec(compile(source, str(path), "exec"), new_module.__dict__)
    return new_module
