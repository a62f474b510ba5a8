"""
Error of a recommender against epsilon on MovieLens
===================================================

This page is for owners of ratings who ask what a budget buys on real data. The 6,040
users of MovieLens 1M are protected with all of their ratings. The pipeline uses the
public genres and years of the movies, and adds private components to them.

The page needs MovieLens in the folder of SKDPSPECTRAL_DATA (or downloaded by
``fetch_movielens(..., download_if_missing=True)``), and takes a few minutes. These
ratings have long been public. On private ratings, every score below would be a separate
release.
"""

# %%
# A random fifth of each user's ratings is held out. Each step uses the epsilon on the
# axis. Both together cost sqrt(2) times its mu. Genres and years are standardized over
# the catalog, which is public. There are two simple rules to compare with: each user's
# own mean, which the user computes and which costs nothing, and the movies' means,
# which are not private.

import warnings
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpspectral import DPItemEmbedding, LRSRegressor, PrivacyLeakWarning
from skdpspectral.datasets import fetch_movielens
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PerUserKFold

warnings.simplefilter("ignore", PrivacyLeakWarning)

exact_ndcg = make_private_scorer("ndcg", None, user_feature="user_id")
epsilons, components = [0.5, 1.0, 2.0, 8.0], [0, 1, 5]


def scores(ratings, test, predicted):
    """Return the RMSE of predictions clipped to the public range, and user NDCG@10."""
    y, given = ratings.target.to_numpy()[test], SimpleNamespace()
    given.predict = lambda X: predicted
    error = np.sqrt(np.mean((np.clip(predicted, 1, 5) - y) ** 2))
    return error, exact_ndcg(given, ratings.data.iloc[test], y)


def sweep(ratings, seed=0):
    """Return scores by number of components and epsilon (None: no privacy)."""
    X, y = ratings.data, ratings.target.astype(float)
    folds = PerUserKFold(5, shuffle=True, random_state=seed, user_feature="user_id")
    train, test = next(folds.split(X))
    features = StandardScaler().fit_transform(ratings.item_features)
    public = {"items": ratings.item_ids, "item_features": features}
    found = {}
    for column in ("user_id", "item_id"):
        mean = y.iloc[train].groupby(X[column].iloc[train]).mean()
        predicted = X[column].iloc[test].map(mean).fillna(y.iloc[train].mean())
        found[column] = scores(ratings, test, predicted.to_numpy())
    for k in components:
        for epsilon in [*epsilons, None]:
            model = make_pipeline(
                DPItemEmbedding(
                    k, method="moment", **public, epsilon=epsilon, rating_range=(1, 5)
                ),
                LRSRegressor(sparsity=2, epsilon=epsilon, user_feature=0),
            )
            model.fit(X.iloc[train], y.iloc[train])
            found[k, epsilon] = scores(ratings, test, model.predict(X.iloc[test]))
    for key, (error, ndcg) in found.items():
        print(f"{key!s:>14}: RMSE {error:.4f}, NDCG@10 {ndcg:.4f}")
    return found


def draw(found):
    _, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for column, (ax, name) in enumerate(zip(axes, ("RMSE", "NDCG@10"), strict=True)):
        for number, k in enumerate(components):
            curve = [found[k, epsilon][column] for epsilon in epsilons]
            ax.plot(epsilons, curve, "o-", color=f"C{number}", label=f"{k} private")
            ax.axhline(found[k, None][column], color=f"C{number}", linestyle=":")
        ax.axhline(found["user_id"][column], color="k", label="user's mean")
        ax.axhline(found["item_id"][column], color="k", ls="--", label="movie's mean")
        ax.set_xscale("log", base=2)
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        ax.set(xlabel="epsilon of each step", ylabel=name)
    axes[0].legend()
    axes[1].set_title("dotted: without privacy")


try:
    draw(sweep(fetch_movielens("ml-1m", as_frame=True)))
    plt.show()
except FileNotFoundError as error:
    print(f"Nothing to show: {error}")

# %%
# F. M. Harper and J. A. Konstan (2015), The MovieLens datasets: history and context,
# ACM Transactions on Interactive Intelligent Systems 5(4), 19.
