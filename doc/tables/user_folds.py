"""R squared in a cross-validation of three folds, by what the folds keep together.

epsilon = 1, delta = 1e-6. Simulated: 2,000 users of 20 rows, LRSRegressor(sparsity=2)
with penalties of 0.1. Ratings: DPMatrixFactorization on MovieLens 100K. Rows are sorted
by user.
"""

from functools import lru_cache

import numpy as np
from real_tables import fetch_movielens
from sklearn.model_selection import GroupKFold, cross_val_score

from skdpspectral import DPMatrixFactorization, LRSRegressor
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.model_selection import PrivateSplit

NEEDS_DATA = True
HEADER = "Folds"
ROWS = {
    "``PrivateSplit(3)`` by users": PrivateSplit(3, whole_users=False, random_state=0),
    "``GroupKFold(3)`` by users": GroupKFold(3),
    "``cv=3``, rows sorted by user": 3,
}
REPEATS = 10


def simulated(seed):
    """Return a model, rows sorted by user, and targets."""
    features, y, users = make_low_rank_sparse_tasks(
        2000, 20, 10, sparsity=2, noise=0.3, random_state=seed
    )
    model = LRSRegressor(
        sparsity=2,
        user_feature=0,
        ridge_shared=0.1,
        ridge_sparse=0.1,
        noise_seed=seed,
    )
    return model, np.column_stack([users, features]), y


@lru_cache
def ratings():
    """Return MovieLens 100K, sorted by user."""
    found = fetch_movielens("ml-100k")
    order = np.argsort(found.data[:, 0], kind="stable")
    return found, found.data[order], found.target[order].astype(float)


def rated(seed):
    """Return a recommender, ratings sorted by user, and stars."""
    found, X, y = ratings()
    model = DPMatrixFactorization(
        items=found.item_ids,
        item_features=found.item_features,
        noise_seed=seed,
        rating_range=(1, 5),
    )
    return model, X, y


def measure(folds, seed):
    """Return the means over three folds."""
    found = {}
    for name, make in (("simulated", simulated), ("ratings", rated)):
        model, X, y = make(seed)
        scores = cross_val_score(
            model, X, y, groups=X[:, 0], cv=folds, scoring="r2", error_score="raise"
        )
        found[name] = scores.mean()
    return found
