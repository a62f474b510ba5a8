"""Errors of the private directions of LRSRegressor by the number of users.

The root mean square sine of the angles between released and true directions. 15 rows
per user, k = 2, normal weights and features, noise of standard deviation 0.3,
epsilon = 1, delta = 1e-6, three releases, penalties of 0.1.
"""

import numpy as np

from skdpspectral import LRSRegressor
from skdpspectral.accounting import gaussian_mu
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.metrics import subspace_distance

HEADER = ":math:`t / t_0`"
ROWS = {str(ratio): ratio for ratio in (1, 2, 4, 8, 16, 32)}
REPEATS = 10
DIGITS = 2
SLOW = ("16", "32")
SIZES = {"d = 10, r = 1": (10, 1), "d = 20, r = 1": (20, 1), "d = 10, r = 3": (10, 3)}


def measure(ratio, seed):
    """Return the errors of one draw of users."""
    found = {}
    for name, (d, r) in SIZES.items():
        needed = d * r**1.5 * np.sqrt(6.0) / gaussian_mu(1.0, 1e-6)
        X, y, users, truth = make_low_rank_sparse_tasks(
            round(ratio * needed),
            15,
            d,
            rank=r,
            sparsity=2,
            noise=0.3,
            random_state=seed,
            return_coef=True,
        )
        model = LRSRegressor(
            r,
            2,
            epsilon=1.0,
            ridge_shared=0.1,
            ridge_sparse=0.1,
            solver=PrivateRounds(3),
            noise_seed=seed,
        ).fit(X, y, users=users)
        distance = subspace_distance(model.components_, truth.components)
        found[name] = distance / np.sqrt(2.0 * r)
    return found
