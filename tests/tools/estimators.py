"""Every estimator once: how it is made, a table that it fits, and what it needs."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import skdpspectral as sk

# A value and an id that no message may quote.
SECRET = 7321.0625
ROWS = np.random.default_rng(0).normal(size=(60, 4))
ROWS[3, 1] = SECRET
IDS = np.repeat([7321, 2, 3], 20)
SITES = np.repeat([1, 2, 3], 20)  # whose names are public
RATINGS = np.column_stack([IDS, np.arange(60) % 5])
STARS = 1.0 + np.arange(60) % 5
TARGETS = ROWS[:, 1].copy()
LABELS = np.arange(60) % 2
OWN = {"n_rounds": 1, "n_own_steps": 1}


class Entry(NamedTuple):
    """An estimator with its required parameters, and data that it fits."""

    estimator: Any
    X: np.ndarray = ROWS
    y: np.ndarray | None = None
    ids: dict = {}  # noqa: RUF012, which is never changed
    unit: str = "row"

    def make(self, **parameters):
        """Return an unfitted estimator with these parameters."""
        return clone(self.estimator).set_params(**parameters)

    def fit(self, model, X=None, y=None, **ids):
        """Fit the table of the entry, or another."""
        data = [self.X if X is None else X]
        if y is not None or self.y is not None:
            data.append(self.y if y is None else y)
        return model.fit(*data, **(ids or self.ids))


USERS, CLIENTS = {"users": IDS}, {"clients": SITES}
ENTRIES = {
    type(entry.estimator).__name__: entry
    for entry in (
        Entry(sk.DPPCA()),
        Entry(sk.SpikedPCA(1, signal_variance=1e6, noise_variance=1.0)),
        Entry(sk.DPCovariance()),
        Entry(sk.DPStandardScaler()),
        Entry(sk.DPTableVectorizer()),
        Entry(sk.DPRidge(), y=TARGETS),
        Entry(sk.DPRidgeClassifier(classes=[0, 1]), y=LABELS),
        Entry(sk.DPAdamClassifier(classes=[0, 1]), y=LABELS),
        Entry(sk.DPAdamRegressor(target_bounds=(-1, 1)), y=TARGETS),
        Entry(sk.LRSRegressor(), ROWS, TARGETS, USERS, "user"),
        Entry(
            sk.LRSMLPRegressor(hidden_layer_sizes=2, **OWN),
            ROWS,
            TARGETS,
            USERS,
            "user",
        ),
        Entry(
            sk.DPItemEmbedding(items=range(5), rating_range=(1, 5)),
            RATINGS,
            STARS,
            unit="user",
        ),
        Entry(
            sk.DPMatrixFactorization(items=range(5), rating_range=(1, 5)),
            RATINGS,
            STARS,
            unit="user",
        ),
        Entry(sk.JMECovariance()),
        Entry(sk.FederatedDPPCA(), ROWS, None, CLIENTS),
        Entry(sk.SparseDPPCA(2), ROWS, None, CLIENTS),
    )
}
CLASSES = [type(entry.estimator) for entry in ENTRIES.values()]
