"""Recall@20 of lists of DPMatrixFactorization that sees no rating, on MovieLens.

All ratings are taken for clicks. A random fifth of each user's is held out; recall is
among all that a user has not had in training; delta = 1e-6.
"""

import numpy as np
from list_scores import list_recall_score
from recommender import held_out
from recommender_ratings import EPSILONS, ratings_of

from skdpspectral import DPMatrixFactorization

NEEDS_DATA = True
HEADER = "Recall\\@20"
MODELS = {
    "**the default**": {},
    "no features": {"item_features": None},
    "genres and year alone (``n_components=0``)": {"n_components": 0},
    "released popularity": {"item_features": None, "n_components": 0},
}
DATA = {"1M": "ml-1m", "100K": "ml-100k"}
ROWS = {
    f"{data}: {title}": (name, model)
    for data, name in DATA.items()
    for title, model in MODELS.items()
}
SLOW = tuple(row for row in ROWS if row.startswith("1M"))
REPEATS = {row: 2 if row in SLOW else 10 for row in ROWS}


def measure(setting, seed):
    """Return the recall of one split at each epsilon."""
    name, parameters = setting
    ratings = ratings_of(name)
    X, features = ratings.data, np.asarray(ratings.item_features)
    train, test = held_out(ratings, seed)
    users, found = np.unique(X[test, 0]), {}
    for epsilon in EPSILONS:
        model = DPMatrixFactorization(
            items=ratings.item_ids,
            epsilon=epsilon,
            implicit=True,
            noise_seed=seed,
            **{"item_features": features, **parameters},
        ).fit(X[train])
        lists = model.recommend(users, 20)[0]
        title = f":math:`\\epsilon = {epsilon}`" if epsilon else "no privacy"
        found[title] = list_recall_score(X[test, 0], X[test, 1], users, lists)
    return found
