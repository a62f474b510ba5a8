"""Users of every kind, and everything that a fit on their rows lets out.

Releases are replaced by fixed numbers. Whatever else depends on a user then shows in
the public attributes, in a warning, in the output, or in what was to be released.
"""

import contextlib
import functools
import io
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
from lrs_tools import alike, scripted, table

D = 4


def full(m, x, y):
    return np.full((m, D), x), np.full(m, y)


def signed(m, x, y):
    """Users whose values are large with both signs: their sums overflow."""
    signs = np.where(np.arange(m * D).reshape(m, D) % 3, 1.0, -1.0)
    return x * signs, y * signs[:, 0]


def one_large(m, x, y):
    rows, targets = alike(1, m, D, seed=3)[1]
    rows[0, 0], targets[-1] = x, y
    return rows, targets


_HEIGHTS = (1, 3, 5, 9, 2, 4, 9, 9, 9)
USERS = {user: alike(user, m, D)[user] for user, m in enumerate(_HEIGHTS, 1)}
# What one user may be like, whose id is 50.
STRANGERS = {
    "ordinary": alike(1, 6, D, seed=1)[1],
    "one row": alike(1, 1, D, seed=2)[1],
    "many rows": alike(1, 300, D, seed=2)[1],
    "zeros": full(3, 0.0, 0.0),
    "zero rows": full(2, 0.0, 3.0),
    "zero targets": full(3, 2.0, 0.0),
    "a row many times": full(40, 1.5, 2.5),
    "huge": full(2, 1e300, -1e300),
    "largest": signed(5, 1.7e308, 1.7e308),
    "subnormal": full(3, 5e-324, 5e-324),
    "subnormal signs": signed(4, 5e-324, 1e300),
    "tiny against huge": signed(3, 1e-200, 1.7e308),
    "huge against tiny": signed(3, 1.7e308, 1e-200),
    "one number is huge": one_large(6, 1e300, 1.0),
    "square root of the largest": one_large(4, 1.3e154, 1.3e154),
    # Padded to the height of users of one row less.
    "one row more": alike(1, 10, D, seed=4)[1],
}
PLACES = ("front", "middle", "end", "between the rows of others")


def data(stranger=None, place="end", users=USERS):
    """Rows of all users, and of one more at a place."""
    X, y = table(users) if users else (np.empty((0, D + 1)), np.empty(0))
    if stranger is None:
        return X, y
    rows, targets = stranger
    rows = np.column_stack([np.full(len(targets), 50.0), rows])
    at = {"front": 0, "middle": 4, "end": len(y)}.get(place)
    if at is None:
        at = np.arange(len(targets)) * max(len(y), 1) // len(targets)
    return np.insert(X, at, rows, axis=0), np.insert(y, at, targets)


def as_bytes(value):
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return type(value), repr(value)


def public(model):
    return {
        name: as_bytes(value)
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }


def observed(model, X, y, folder):
    """Everything that a fit lets out, releases apart."""
    printed, file = io.StringIO(), folder / "model.npz"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            model.fit(X, y)
    published = model.publish()
    published.save(file)
    return {
        "attributes": public(model),
        "published": {name: as_bytes(value) for name, value in vars(published).items()},
        "file": file.read_bytes(),
        "pickle": pickle.dumps(published),
        "shown": (repr(model), str(model.privacy_), model.privacy_.to_json()),
        "steps": model.n_iter_,
        "printed": printed.getvalue(),
        "warnings": [(w.category, str(w.message)) for w in caught],
    }


class Fits:
    """Fits of the models that ``make(name)`` returns, whose releases are scripted."""

    def __init__(self, make):
        self.make, self.fit_with = make, functools.cache(self._fit_with)

    def _fit_with(self, name, what=None):
        """Return what a fit with a stranger, or none, lets out and what it releases."""
        place = PLACES[list(STRANGERS).index(what) % len(PLACES)] if what else "end"
        X, y = data(STRANGERS.get(what), place)
        with scripted() as asked, tempfile.TemporaryDirectory() as folder:
            seen = observed(self.make(name), X, y, Path(folder))
        return seen, asked

    def check_that_releases_decide(self, name):
        alone, asked = self.fit_with(name)
        planned = [m.name for m in self.make(name).plan_for(data()[0]).mechanisms]
        assert list(asked) == planned
        for what in STRANGERS:
            seen, asked = self.fit_with(name, what)
            assert list(asked) == planned, what
            for key, value in seen.items():
                assert value == alone[key], (what, key)

    def moves(self, name):
        """Check, given one transcript, to the last bit: the sum with a user is the sum
        without plus what the user would release alone. Return a fit and lengths."""
        model, (_, without) = self.make(name).set_params(verbose=0), self.fit_with(name)
        moves = dict.fromkeys(without, 0.0)
        for what, stranger in STRANGERS.items():
            with scripted() as alone:
                model.fit(*data(stranger, users={}))
            for key, value in self.fit_with(name, what)[1].items():
                change, own = value - without[key], alone[key]
                np.testing.assert_array_equal(change, own, err_msg=f"{what} {key}")
                moves[key] = max(moves[key], np.linalg.norm(change))
        return model, moves
