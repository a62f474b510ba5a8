"""
Error of a recommender against epsilon on MovieLens
===================================================

This page is for owners of ratings or clicks who ask what a budget buys on real data.
The 6,040 users of MovieLens 1M are protected with all of their ratings. The recommender
uses the public genres and years of the movies.

The page needs MovieLens in the folder of SKDPSPECTRAL_DATA (or downloaded by
``datasets.fetch_movielens(..., download_if_missing=True)``), and takes a few minutes.
These ratings have long been public. On private ratings, every score below would be a
separate release.
"""

# %%
# A random fifth of each user's ratings is held out. The left plot shows the error of
# predictions, beside two simple rules: each user's own mean, which costs nothing, and
# the movies' means, which are not private. The right plot is for clicks, which are all
# ratings without their values. It shows the share of held-out clicks in lists of 20.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPMatrixFactorization, PrivacyLeakWarning
from skdpspectral.model_selection import PrivateSplit

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from real_tables import fetch_movielens

warnings.simplefilter("ignore", PrivacyLeakWarning)
epsilons = [0.5, 1.0, 2.0, 8.0]
factors = {"features alone": 0, "with private factors": None}


def recall(held, users, lists):
    """Return the mean over users of the share of held-out items in their lists."""
    own = np.searchsorted(users, held[:, 0])
    hits = (lists[own] == held[:, 1:]).any(axis=1)
    return np.mean(np.bincount(own, hits) / np.bincount(own))


def sweep(ratings, seed=0):
    """Return errors and recalls by title and epsilon (None: no privacy)."""
    X, y = ratings.data, ratings.target.astype(float)
    folds = PrivateSplit(5, user_feature=0, whole_users=False, random_state=seed)
    train, test = next(folds.split(X))
    public = {"items": ratings.item_ids, "item_features": ratings.item_features}
    users, errors, recalls = np.unique(X[:, 0]), {}, {}

    def error(predicted):
        return np.sqrt(np.mean((np.clip(predicted, 1, 5) - y[test]) ** 2))

    for column, title in enumerate(("user's mean", "movie's mean")):
        sums = np.bincount(X[train, column], y[train], X[:, column].max() + 1)
        counts = np.bincount(X[train, column], minlength=len(sums))
        means = np.where(counts > 0, sums / np.maximum(counts, 1), y[train].mean())
        errors[title, None] = error(means[X[test, column]])
    for title, n_components in factors.items():
        for epsilon in [*epsilons, None]:
            given = {"n_components": n_components, "epsilon": epsilon, **public}
            model = DPMatrixFactorization(**given, rating_range=(1, 5))
            predicted = model.fit(X[train], y[train]).predict(X[test])
            errors[title, epsilon] = error(predicted)
            model = DPMatrixFactorization(**given, implicit=True).fit(X[train])
            lists = model.recommend(users, 20)[0]
            recalls[title, epsilon] = recall(X[test], users, lists)
            print(f"{title}, {epsilon}: RMSE {errors[title, epsilon]:.3f}", end=", ")
            print(f"recall {recalls[title, epsilon]:.3f}")
    return errors, recalls


def draw(errors, recalls):
    _, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for ax, found, name in zip(
        axes, (errors, recalls), ("RMSE", "Recall"), strict=True
    ):
        for number, title in enumerate(factors):
            curve = [found[title, epsilon] for epsilon in epsilons]
            ax.plot(epsilons, curve, "o-", color=f"C{number}", label=title)
            ax.axhline(found[title, None], color=f"C{number}", linestyle=":")
        ax.set_xscale("log", base=2)
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        ax.set(xlabel="epsilon", ylabel=name)
    for title, style in (("user's mean", "-"), ("movie's mean", "--")):
        axes[0].axhline(errors[title, None], color="k", ls=style, label=title)
    axes[0].legend()
    axes[1].set_title("dotted: without privacy")


try:
    draw(*sweep(fetch_movielens("ml-1m")))
    plt.show()
except FileNotFoundError as error:
    print(f"Nothing to show: {error}")

# %%
# F. M. Harper and J. A. Konstan (2015), The MovieLens datasets: history and context,
# ACM Transactions on Interactive Intelligent Systems 5(4), 19.
