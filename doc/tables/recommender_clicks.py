"""Recall@20 of lists of DPMatrixFactorization that sees no rating.

All ratings of MovieLens are taken for clicks, and those above 3 of Jester, which has no
features. A random fifth of each user's clicks is held out; recall is among all that a
user has not had in training; delta = 1e-6. NDCG@20 and the share of the catalog that is
in any list are at epsilon = 1. Two methods without privacy are in the last rows: a
linear autoencoder (EASE, penalty 400) and a singular value decomposition (PureSVD, 20
components).
"""

from functools import lru_cache

import numpy as np
from list_scores import catalog_coverage_score, list_ndcg_score, list_recall_score
from real_tables import load_jester
from recommender import held_out
from recommender_ratings import EPSILONS, ratings_of
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.utils import Bunch

from skdpspectral import DPMatrixFactorization

NEEDS_DATA = True
HEADER = "Recall\\@20"
FEATURES = "features alone (``n_components=0``)"
MODELS = {
    "**the default**": {},
    "no features": {"item_features": None},
    FEATURES: {"n_components": 0},
    "released popularity": {"popularity": 1e9},
    "EASE": "EASE",
    "PureSVD": "PureSVD",
}
DATA = {"1M": "ml-1m", "100K": "ml-100k", "Jester": "jester"}
ROWS = {
    f"{data}: {title}": (name, model)
    for data, name in DATA.items()
    for title, model in MODELS.items()
    if name == "ml-100k" or title not in ("no features", FEATURES)
}
SLOW = tuple(row for row in ROWS if not row.startswith("100K"))
ONCE = (*SLOW, "100K: EASE", "100K: PureSVD")
REPEATS = {row: 1 if row in ONCE else 3 for row in ROWS}
PRIVATE = [f":math:`\\epsilon = {epsilon}`" for epsilon in EPSILONS if epsilon]
NONE, NDCG, SHOWN = "no privacy", "NDCG\\@20", "Shown"


@lru_cache(maxsize=1)
def clicks_of(name):
    """Return pairs of users and items, the catalog, and its public features."""
    if name != "jester":
        ratings = ratings_of(name)
        features = np.asarray(ratings.item_features)
        items = np.asarray(ratings.item_ids)
        return Bunch(data=ratings.data, catalog=items, features=features)
    liked = np.argwhere(load_jester().data > 3)
    return Bunch(data=liked, catalog=np.arange(100), features=None)


def ease(X):
    """Return weights of items by which a linear autoencoder scores others."""
    inverse = np.linalg.inv((X.T @ X).toarray() + 400.0 * np.eye(X.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


def pure_svd(X):
    """Return weights of items by which leading components score others."""
    components = svds(X.astype(float), 20)[2]
    return components.T @ components


def lists_of(pairs, items, users, weights_of):
    """Return the 20 best items for each user, by a method without privacy."""
    rows, columns = np.searchsorted(users, pairs[:, 0]), np.argsort(items)
    columns = columns[np.searchsorted(items, pairs[:, 1], sorter=columns)]
    shape = len(users), len(items)
    X = sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=shape)
    scores = X @ weights_of(X)
    scores[X.nonzero()] = -np.inf
    return items[np.argsort(-scores, axis=1)[:, :20]]


def measure(setting, seed):
    """Return the recall of one split at each epsilon, and more at an epsilon of 1."""
    name, model = setting
    data = clicks_of(name)
    train, test = held_out(data, seed)
    users, found = np.unique(data.data[:, 0]), {}
    held = data.data[test].T
    methods = {"EASE": ease, "PureSVD": pure_svd}
    for title, epsilon in zip([*PRIVATE, NONE], EPSILONS, strict=True):
        if isinstance(model, str):
            if epsilon is not None:
                continue
            lists = lists_of(data.data[train], data.catalog, users, methods[model])
        else:
            parameters = {"item_features": data.features, **model}
            popularity = parameters.pop("popularity", None)
            fit = DPMatrixFactorization(
                items=data.catalog,
                epsilon=epsilon,
                implicit=True,
                noise_seed=seed,
                **parameters,
            ).fit(data.data[train])
            lists, _ = fit.recommend(users, 20, popularity=popularity)
        found[title] = list_recall_score(*held, users, lists)
        if epsilon == 1 or isinstance(model, str):
            found[NDCG] = list_ndcg_score(*held, users, lists)
            found[SHOWN] = catalog_coverage_score(lists, data.catalog)
    last = (NDCG, SHOWN)
    return {k: v for k, v in found.items() if k not in last} | {
        k: found[k] for k in last
    }
