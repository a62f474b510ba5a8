"""
Fit one network per user
========================

This page is for readers of Pal et al. (2023, appendix B.2), who give each user of
Jester a tanh network whose weights are low rank plus sparse, and compare it with four
simpler ways to personalize. The page repeats this **without privacy** on one split,
and adds models that you should try first: linear models, and an intercept per user. The
benchmark ``personal_networks.py`` also has MovieLens, and more splits.

The page needs Jester in the folder of SKDPSPECTRAL_DATA.
"""

# tags: quick

# %%
# The data
# --------
# A hundred users rated all hundred jokes. For 30, 40 and 30 users, a tenth, a half
# and nine tenths of the ratings are for training. Jokes are embedded in 50 numbers,
# computed only from the training ratings. The benchmark chose the penalties on a
# separate split.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import LRSMLPRegressor, LRSRegressor, PrivacyLeakWarning

warnings.simplefilter("ignore", PrivacyLeakWarning)
here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from personal_networks import errors_of, jester_rows

try:
    rows = jester_rows(0)
except FileNotFoundError as error:
    print(f"Nothing to show: {error}")
    rows = None

# %%
# The models
# ----------
# All networks have one hidden layer of 50 units, that is, 2,601 weights.

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
STEPS = {"n_rounds": 150, "learning_rate": 0.01, "user_learning_rate": 0.01}
LINEAR = {
    "ridge": {"n_components": 0, "sparsity": None},
    "linear rep r=1": {"sparsity": 0},
}


def models(level):
    """Return all models, with or without a level for each user."""
    found = {}
    for name, (given, own, ridge) in NETWORKS.items():
        own = {**own, "fit_intercept": bool(level), "ridge_sparse": ridge}
        if "prompt_size" in own or "shared_weights" not in own:
            own["ridge_shared"] = ridge
        found[name] = LRSMLPRegressor(**given, **own, **STEPS, epsilon=None)
    for name, given in LINEAR.items():
        found[name] = LRSRegressor(**given, epsilon=None, fit_intercept=level)
    return found


if rows is not None:
    errors = {
        (name, bool(level)): errors_of(model, rows)[1]
        for level in (False, "user")
        for name, model in models(level).items()
    }

# %%
# Results
# -------
# Without a level of the user's own, a few weights of their own mainly help a network to
# move its output. Low rank plus sparse is far better than one network, and than a
# separate network for each user, with a few hundredths of its numbers. More weights are
# not better than 1 %. A prompt does the same with 50 numbers, and does it better. With
# a level, all of this is gone: one network and a hundred levels are as good as anything
# here, and a linear model is no worse.

if rows is not None:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    names = [*NETWORKS, *LINEAR]
    for offset, level in ((-0.2, False), (0.2, True)):
        heights = [errors[name, level] for name in names]
        label = "with an intercept per user" if level else "without"
        ax.bar(np.arange(len(names)) + offset, heights, 0.4, label=label)
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right")
    ax.set(xlabel="model", ylabel="RMSE of ratings from -10 to 10", ylim=(4, None))
    ax.legend()
    plt.show()
