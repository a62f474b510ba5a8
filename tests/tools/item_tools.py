"""Tables of ratings, fits that end with their release, and what it would be."""

from dataclasses import dataclass

import numpy as np
from lrs_tools import scripted

from skdpspectral import DPItemEmbedding
from skdpspectral._release.release import Release

WHOLE = 2**11  # steps of a unit vector
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


def exact_moment(cls, users, seed=None, **parameters):
    """What a fit would release without noise."""
    X, y = table(users, seed)
    with scripted() as asked:
        cls(1, **parameters).fit(X, y)
    return asked["second_moment"]


@dataclass
class Ratio:
    """Log likelihood ratio of the released matrix, from means that are worked out.

    <M, D> over all entries weighs each off-diagonal twice, which is right: its
    variance is half of the diagonal's.
    """

    direction: np.ndarray
    middle: np.ndarray
    threshold: float = 0.0

    def __call__(self, model, released):
        return np.vdot(self.direction, released["second_moment"] - self.middle)


class ReleasesAlone(DPItemEmbedding):
    """Fits that end with the release, and sum the same users once."""

    def fit(self, X, y):
        if getattr(self, "_kept", (None,))[0] is not X:
            with scripted() as asked:
                super().fit(X, y)
            self._kept = X, self.privacy_, asked["second_moment"]
        _, plan, moment = self._kept
        Release(plan, None, self.noise_seed)("second_moment", moment)
        return self


# One ordinary user, and one with two ratings near both ends who joins or leaves.
OTHERS = {0: [(0, 4.99), (1, 4.99)]}
JOINED = OTHERS | {CANARY: [(0, 4.99), (1, 1.01)]}


def moment_by_hand(*signs):
    step = np.floor(WHOLE / np.sqrt(2.0)) / WHOLE
    rows = step * np.array(signs)
    return rows.T @ rows


MEANS = moment_by_hand([1, 1]), moment_by_hand([1, 1], [1, -1])
