"""
Error of a recommender against epsilon on MovieLens
===================================================

How much privacy do real ratings afford? MovieLens 100K has 943 users, MovieLens 1M
has 6,040. Each user's ratings are protected together. The pipeline has the public
genres and years of the movies, and adds private components to them.

The page needs MovieLens in the folder of SKDPSPECTRAL_DATA (or downloaded by
``fetch_movielens(..., download_if_missing=True)``), and takes some minutes. The
ratings have been public for long; on private ones, every score below would be a
release of its own.
"""

# %%
# A newcomer's five lines
# -----------------------
# Two steps a fit, of which the second releases nothing, and five folds: the ledger has
# ten entries, five of which cost something.

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpspectral import (
    DPItemEmbedding,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdpspectral.datasets import fetch_movielens
from skdpspectral.linear_model import UserIntercept
from skdpspectral.metrics import user_ndcg_score
from skdpspectral.model_selection import PerUserKFold

warnings.simplefilter("ignore", PrivacyLeakWarning)


def load(variant):
    try:
        return fetch_movielens(variant, as_frame=True)
    except FileNotFoundError as error:
        print(f"{variant} is left out. {error}")
        return None


small = load("ml-100k")
if small is not None:
    with PrivacyAccountant() as accountant:
        start = time.perf_counter()
        model = make_pipeline(
            DPItemEmbedding(items=small.item_ids),
            # Pipelines hand arrays on: users come first, expected ratings second.
            LRSRegressor(
                0,
                None,
                user_feature=0,
                fit_intercept=UserIntercept(ridge=5.0, offset_feature=1),
            ),
        )
        folds = PerUserKFold(user_feature="user_id")
        scoring = "neg_root_mean_squared_error"
        errors = -cross_val_score(
            model, small.data, small.target, cv=folds, scoring=scoring
        )
        seconds = time.perf_counter() - start
    print(f"RMSE {errors.mean():.3f} in {seconds:.0f} s, {accountant}")

# %%
# The whole of MovieLens 1M, against epsilon
# ------------------------------------------
# A random fifth of each user's ratings is held out. Each step has the epsilon on the
# axis; both together cost sqrt(2) of its mu. Genres and year are standardized over the
# catalog, which is public. Rules to compare with: each user's own
# mean, which is computed by the user and costs nothing; and the movies' means, which
# are not private.

epsilons, components = [0.5, 1.0, 2.0, 8.0], [0, 1, 5]


def scores(ratings, test, predicted):
    """RMSE of predictions clipped to the public range, and NDCG@10 within users."""
    y, users = ratings.target.to_numpy()[test], ratings.data["user_id"].to_numpy()
    error = np.sqrt(np.mean((np.clip(predicted, 1, 5) - y) ** 2))
    return error, user_ndcg_score(y, predicted, users[test], k=10)


def sweep(ratings, seed=0):
    """Scores by number of components and epsilon, None for no privacy."""
    X, y = ratings.data, ratings.target.astype(float)
    folds = PerUserKFold(5, shuffle=True, random_state=seed, user_feature="user_id")
    train, test = next(folds.split(X))
    features = StandardScaler().fit_transform(ratings.item_features)
    found = {}
    for column in ("user_id", "item_id"):
        mean = y.iloc[train].groupby(X[column].iloc[train]).mean()
        predicted = X[column].iloc[test].map(mean).fillna(y.iloc[train].mean())
        found[column] = scores(ratings, test, predicted.to_numpy())
    for k in components:
        for epsilon in [*epsilons, None]:
            model = make_pipeline(
                DPItemEmbedding(
                    k,
                    method="moment",
                    items=ratings.item_ids,
                    item_features=features,
                    epsilon=epsilon,
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
        for line, (key, label) in zip(
            ("-", "--"),
            {"user_id": "user's mean", "item_id": "movie's mean (exact)"}.items(),
            strict=True,
        ):
            ax.axhline(found[key][column], color="k", linestyle=line, label=label)
        ax.set_xscale("log", base=2)
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        ax.set(xlabel="epsilon of each step", ylabel=name)
    axes[0].legend()
    axes[1].set_title("dotted: without privacy")


large = load("ml-1m")
if large is not None:
    found = sweep(large)
    draw(found)
    plt.show()

# %%
# F. M. Harper and J. A. Konstan (2015), The MovieLens datasets: history and context,
# ACM Transactions on Interactive Intelligent Systems 5(4), 19.
