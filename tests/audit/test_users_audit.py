"""Users who are replaced under another id, with other rows in other places.

Coins are coupled as in the proof of :ref:`lemma-one-row-of-each`, and all releases are
replayed: none moves further than is charged, and all else is the same to the byte.
"""

import itertools

import numpy as np
import pytest
from coupled_users import coupled, replaced
from replay import Case, Closest, compare, leaving
from sklearn.base import clone

import skdpspectral as sk
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import make_private_pipeline

N, P = 12, 3
IN_TURN = Adam(sampling="in-turn")
MODELS = {
    "pairs": sk.DPPCA(1, center="pairs", epsilon=8.0),
    "rows": sk.DPPCA(1, center="none", epsilon=8.0),
    "ranks": sk.DPPCA(1, scale="ranks", epsilon=8.0),
    "covariance": sk.DPCovariance(epsilon=8.0),
    "scaler": sk.DPStandardScaler(epsilon=8.0),
    "bounds": sk.DPStandardScaler(bounds=(-3, 3), epsilon=8.0),
    "ridge": sk.DPRidge(epsilon=8.0),
    "ridge in bounds": sk.DPRidge(bounds=(-3, 3), target_bounds=(-3, 3), epsilon=8.0),
    "classifier": sk.DPRidgeClassifier(classes=[False, True], epsilon=8.0),
    "vectorizer": sk.DPTableVectorizer(epsilon=8.0),
    "rounds": sk.SparseDPPCA(1, n_rounds=2, epsilon=8.0),
    "adam": sk.DPAdamRegressor(
        target_bounds=(-3, 3), batch_size=4, n_epochs=2, optimizer=IN_TURN
    ),
    "sampled adam": sk.DPAdamClassifier(
        classes=[False, True], batch_size=4, n_epochs=2, hidden_layer_sizes=2
    ),
}
MODELS["pipeline"] = make_private_pipeline(
    sk.DPStandardScaler(), sk.DPRidge(), epsilon=8.0, user_feature=0
)
MODELS["network behind a scaler"] = make_private_pipeline(
    sk.DPStandardScaler(), MODELS["adam"], epsilon=8.0, user_feature=0
)
# What the stranger has: rows, and the size of their numbers.
STRANGERS = {
    "one": (1, 1.0),
    "many": (60, 1.0),
    "zeros": (4, 0.0),
    "huge": (5, 1e300),
    "tiny": (3, 1e-300),
}
IDS = {"first": -1, "between": 4, "last": 99}


def table(seed):
    """Rows of users whose ids are the even numbers from 0."""
    rng = np.random.default_rng(seed)
    users = rng.permutation(np.repeat(2 * np.arange(N), rng.integers(1, 5, N)))
    X = rng.normal(size=(N, P))[users // 2] + rng.normal(size=(len(users), P))
    return X, X.sum(axis=1), users


def cases(name, seed, strangers=STRANGERS, ids=IDS):
    """Return a fit of a table, and neighbors of it."""
    model, rng = MODELS[name], np.random.default_rng(seed)
    X, y, users = table(seed)
    user = int(rng.choice(users))
    neighbors = {}
    for kind, own, at in itertools.product(strangers, ids, ("front", "spread", "end")):
        (m, size), stranger = strangers[kind], ids[own] + user % 2
        rows = size * rng.normal(size=(m, P))
        stranger = stranger + 1 if own == "between" else stranger
        new = replaced(X, y, users, user, stranger, rows, rows[:, 0], at, seed)
        neighbors[f"{kind} {own} {at}"] = (*new, {stranger: user})
    return Case(
        f"{name} {seed}", lambda data: act(model, data), (X, y, users, {}), neighbors
    )


def act(model, data):
    X, y, users, same = data
    model = clone(model)
    targets = ()
    if hasattr(model, "classes"):
        targets = (y > 0,)
    elif hasattr(model, "predict"):
        targets = (y,)
    with coupled(lambda one: same.get(one, one)):
        if hasattr(model, "steps"):
            X = np.column_stack([users, X])
            return leaving(model.fit(X, *targets).pipeline_)
        return leaving(model.fit(X, *targets, users=users))


@pytest.mark.parametrize("name", MODELS)
def test_a_user_moves_releases_as_a_row_does(name):
    closest = Closest()
    for seed in range(2):
        compare(cases(name, seed), closest)
    assert not closest.unfit
    assert not closest.found, closest.found[:3]
    assert closest.n_pairs >= 90
    assert closest.n_releases >= closest.n_pairs
    assert 0.0 < closest.ratio <= 1.0 + 1e-12
