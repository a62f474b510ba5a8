"""
Fit one network per user
========================

Pal et al. (2023, appendix B.2) give each user of Jester a tanh network whose weights
are low rank plus sparse, and compare it with four simpler ways to personalize. This
page repeats that **without privacy** on one split, and adds what is tried first:
linear models, and an intercept a user. The benchmark ``personal_networks.py`` has
MovieLens too, and more splits.

It needs Jester in the folder of SKDPSPECTRAL_DATA, and takes a minute or so.
"""

# %%
# The data
# --------
# A hundred users who rated all hundred jokes: of 30, 40 and 30 users a tenth, a half
# and nine tenths of the ratings are for training. Jokes are embedded in 50 numbers,
# by the training ratings alone. Penalties are those that the benchmark chose, on a
# split of its own.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import LRSMLPRegressor, LRSRegressor, PrivacyLeakWarning
from skdpspectral.datasets import load_jester
from skdpspectral.neural_network import AlternatingAdam, UserNetwork, count_parameters

warnings.simplefilter("ignore", PrivacyLeakWarning)
try:
    ratings = np.asarray(load_jester().data, dtype=float)
except FileNotFoundError as error:
    print(f"Nothing to show: {error}")
    ratings = None


def split(ratings, rng):
    """Rows of users and jokes, and which of them are for training."""
    complete = ratings[(ratings != 0).all(axis=1)]
    table = complete[rng.choice(len(complete), 100, replace=False)]
    share = rng.permutation(np.repeat([0.1, 0.5, 0.9], (30, 40, 30)))
    known = (
        rng.permuted(np.tile(np.arange(100), (100, 1)), axis=1) < 100 * share[:, None]
    )
    centered = np.where(known, table - table[known].mean(), 0.0)
    jokes = np.linalg.svd(centered)[2][:50].T * 10.0
    user, joke = np.indices(table.shape).reshape(2, -1)
    return jokes[joke], table.ravel(), user, known.ravel()


# %%
# The models
# ----------
# All networks have one hidden layer of 50 units: 2,601 weights.

FIXED = {"shared_weights": "fixed"}
NETWORKS = {
    "single": ({"sparsity": 0}, FIXED, 10.0),
    "full": ({"n_components": 0, "sparsity": None}, {}, 100.0),
    "prompt": ({"sparsity": 0}, {**FIXED, "prompt_size": 50}, 100.0),
    "rep r=1": ({"sparsity": 0}, {}, 10.0),
    "LRS 1 %": ({"sparsity": 0.01}, {}, 100.0),
    "LRS 5 %": ({"sparsity": 0.05}, {}, 100.0),
    "LRS 20 %": ({"sparsity": 0.2}, {}, 100.0),
}
STEPS = AlternatingAdam(n_rounds=150, learning_rate=0.01, user_learning_rate=0.01)
LINEAR = {
    "ridge": {"n_components": 0, "sparsity": None},
    "linear rep r=1": {"sparsity": 0},
}


def models(level):
    """Return all models, with or without a level of each user."""
    found = {}
    for name, (given, own, ridge) in NETWORKS.items():
        user_network = UserNetwork(**own, fit_intercept=bool(level), ridge_sparse=ridge)
        if own != FIXED:
            user_network.set_params(ridge_shared=ridge)
        found[name] = LRSMLPRegressor(
            **given, epsilon=None, user_network=user_network, solver=STEPS
        )
    for name, given in LINEAR.items():
        found[name] = LRSRegressor(**given, epsilon=None, fit_intercept=level)
    return found


if ratings is not None:
    X, y, user, known = split(ratings, np.random.default_rng(0))
    errors = {}
    for level in (False, "user"):
        for name, model in models(level).items():
            model.fit(X[known], y[known], users=user[known])
            rest = model.predict(X[~known], users=user[~known]) - y[~known]
            errors[name, bool(level)] = np.sqrt(np.mean(rest**2))
    print(f"{'':16}{'numbers':>10}{'no level':>10}{'level':>8}")
    for name in [*NETWORKS, *LINEAR]:
        given, own, _ = NETWORKS.get(name, ({}, {}, None))
        count = count_parameters(50, 100, **given, **own) if name in NETWORKS else ""
        both = [errors[name, level] for level in (False, True)]
        print(f"{name:16}{count:>10}{both[0]:10.3f}{both[1]:8.3f}")

# %%
# What is seen
# ------------
# Without a level of the user's own, a few weights of their own help a network most of
# all to move its output: low rank plus sparse is far better than one network, and
# than a network for each user alone, at some hundredths of its numbers; more weights
# are not better than 1 %. A prompt does the same with 50 numbers, and better. With a
# level all of that is gone: one network and a hundred levels are as good as anything
# here, and a linear model is no worse.

if ratings is not None:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    names = [*NETWORKS, *LINEAR]
    for offset, level in ((-0.2, False), (0.2, True)):
        heights = [errors[name, level] for name in names]
        label = "with a level a user" if level else "no level"
        ax.bar(np.arange(len(names)) + offset, heights, 0.4, label=label)
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right")
    ax.set(ylabel="RMSE of ratings from -10 to 10", ylim=(4, None))
    ax.legend()
    plt.show()
