"""RMSE and NDCG@10 within users of DPMatrixFactorization on MovieLens.

A random fifth of each user's ratings is held out, and predictions are cut to 1 to 5;
delta = 1e-6. "features" are the genres and the year of each movie. Gains of the NDCG
are linear in the rating.
"""

from functools import lru_cache

import numpy as np
from real_tables import fetch_movielens
from recommender import held_out, scores

from skdpspectral import DPMatrixFactorization

NEEDS_DATA = True
HEADER = "RMSE"
MODELS = {
    "offsets, no features": {"n_components": 0, "item_features": None},
    "offsets, factors": {"item_features": None},
    "offsets, genres": {"n_components": 0, "genres": True},
    "offsets, genres, year": {"n_components": 0},
    "**offsets, genres, year, factors** (default)": {},
}
DATA = {"1M": "ml-1m", "100K": "ml-100k"}
ROWS = {
    f"{data}: {title}": (name, model)
    for data, name in DATA.items()
    for title, model in MODELS.items()
}
SLOW = tuple(row for row in ROWS if row.startswith("1M"))
REPEATS = {row: 2 if row in SLOW else 10 for row in ROWS}
EPSILONS = (0.5, 1, 2, 4, 8, None)


@lru_cache(maxsize=1)
def ratings_of(name):
    """Return the ratings."""
    return fetch_movielens(name)


def measure(setting, seed):
    """Return the errors of one split at each epsilon."""
    name, parameters = setting
    ratings = ratings_of(name)
    X, y = ratings.data, ratings.target.astype(float)
    features = np.asarray(ratings.item_features)
    parameters = {"item_features": features, **parameters}
    if parameters.pop("genres", False):
        parameters["item_features"] = features[:, :-1]
    train, test = held_out(ratings, seed)
    found = {}
    for epsilon in EPSILONS:
        model = DPMatrixFactorization(
            items=ratings.item_ids,
            epsilon=epsilon,
            noise_seed=seed,
            **{"rating_range": (1, 5), **parameters},
        ).fit(X[train], y[train])
        rmse, ndcg = scores(y[test], model.predict(X[test]), X[test, 0])
        title = f":math:`\\epsilon = {epsilon}`" if epsilon else "no privacy"
        found[title] = rmse
        if epsilon == 1:
            found["NDCG\\@10, :math:`\\epsilon = 1`"] = ndcg
    return found
