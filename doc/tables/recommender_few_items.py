"""RMSE on 4,000 random users of Jester, by the method of DPItemEmbedding.

100 jokes without features, rated from -10 to 10; a random fifth of each user's ratings
is held out; models of users on all columns; delta = 1e-6.
"""

from functools import lru_cache

import numpy as np
from recommender import held_out
from recommender_ratings import EPSILONS
from recommender_sparsity import jester
from sklearn.pipeline import make_pipeline

from skdpspectral import DPItemEmbedding, LRSRegressor
from skdpspectral.linear_model import UserIntercept

NEEDS_DATA = True
HEADER = "``method``, components"
ROWS = {
    '``"offsets"``, 3': ("offsets", 3),
    '``"residuals"``, 3': ("residuals", 3),
    '``"residuals"``, 20': ("residuals", 20),
}
REPEATS = 10


@lru_cache(maxsize=1)
def table_of(seed):
    """Return the ratings of random users."""
    return jester(seed)


def measure(setting, seed):
    """Return the errors of one split at each epsilon."""
    method, n_components = setting
    table, found = table_of(seed), {}
    train, test = held_out(table, seed)
    for epsilon in EPSILONS:
        items = DPItemEmbedding(
            n_components,
            method=method,
            items=table.item_ids,
            rating_range=table.rating_range,
            epsilon=epsilon,
            noise_seed=seed,
        )
        intercept = UserIntercept(ridge=5.0, offset_feature=1)
        users = LRSRegressor(0, None, user_feature=0, fit_intercept=intercept)
        model = make_pipeline(items, users).fit(table.data[train], table.target[train])
        predicted = np.clip(model.predict(table.data[test]), *table.rating_range)
        title = f":math:`\\epsilon = {epsilon}`" if epsilon else "no privacy"
        found[title] = np.sqrt(np.mean((predicted - table.target[test]) ** 2))
    return found
