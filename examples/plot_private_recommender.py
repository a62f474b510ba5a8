"""
Recommend with one readable model per user
==========================================

:class:`~skdpspectral.DPItemEmbedding` puts private features of items in the place of
their ids, and :class:`~skdpspectral.LRSRegressor` fits every user on them, beside
whatever else is known of a rating. Released are features of items alone, private for a
**user with all of their ratings**; everything personal stays with the person.
"""

# tags: quick

# %%
# A table of one's own
# --------------------
# One row a rating, in columns of any names. The ratings are simulated, hence public:
# scores may be looked at here. Public in practice are the catalog, features of its
# items, and the range of ratings, 1 to 5.

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from skdpspectral import (
    DPItemEmbedding,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdpspectral.datasets import make_ratings
from skdpspectral.linear_model import UserIntercept, personalize
from skdpspectral.model_selection import PerUserKFold

data = make_ratings(3000, 100, n_ratings_per_user=25, random_state=0, as_frame=True)
ratings = data.data.rename(columns={"user_id": "person", "item_id": "movie"})
ratings["stars"] = data.target
genres = data.item_features
print(ratings.head(3))

# %%
# Five lines
# ----------
# Columns that are not named are dropped, with a warning: were the stars left in the
# table, they would predict themselves. The second step releases nothing: the budget is
# the first one's.

columns = ["person", "movie"]
accountant = PrivacyAccountant(epsilon=1.0, delta=1e-6)
items = DPItemEmbedding(
    user_feature="person",
    item_feature="movie",
    items=data.item_ids,
    item_features=genres,
    epsilon=1.0,
    accountant=accountant,
)
users = LRSRegressor(
    0,
    None,
    user_feature="person",
    fit_intercept=UserIntercept(ridge=5.0, offset_feature="movie_mean"),
)
model = make_pipeline(items, users).set_output(transform="pandas")
model.fit(ratings[columns], ratings["stars"])
print(accountant)
print(items.get_feature_names_out().tolist())

# %%
# Lists, before and after
# -----------------------
# A list is the best of a person's predictions for what they have not rated. Who was not
# in the fit is predicted as the average person, until a few ratings are there; no
# budget is spent on them.


def top(model, person, n=10, seen=()):
    """Return the best unseen items of one person, and their expected ratings."""
    table = pd.DataFrame({"person": person, "movie": data.item_ids})
    table = table[~table["movie"].isin(seen)]
    table["expected"] = model.predict(table[columns])
    best = table.nlargest(n, "expected").reset_index(drop=True)
    return best[["movie", "expected"]].round(2)


mine = pd.DataFrame({"person": -1, "movie": [3, 14, 15, 92, 65, 35]})
with warnings.catch_warnings():
    # It warns of rows of users who were not in the fit: who that is, is private.
    warnings.simplefilter("ignore", UserWarning)
    before = top(model, -1, seen=mine["movie"])
personalize(model, mine, [5, 4, 2, 5, 3, 1])
after = top(model, -1, seen=mine["movie"])
print(pd.concat({"before": before, "after": after}, axis=1).to_string())
for person in (2, 3):
    seen = ratings.loc[ratings["person"] == person, "movie"]
    print(f"person {person}:", top(model, person, seen=seen)["movie"].tolist())

# %%
# A file for a device
# -------------------
# Of each step a copy may be handed on that holds nothing of a user; with ``user=`` the
# file holds the model of that user alone beside it.

with tempfile.TemporaryDirectory() as folder:
    items.save(Path(folder, "items.npz"))
    users.save(Path(folder, "mine.npz"), user=-1)
    device = make_pipeline(
        DPItemEmbedding.load(Path(folder, "items.npz")),
        LRSRegressor.load(Path(folder, "mine.npz")),
    )
    print("on the device:", top(device, -1, seen=mine["movie"])["movie"].tolist())

# %%
# Models that can be read, and other columns
# ------------------------------------------
# Here is what the recommender of :class:`~skdpspectral.DPMatrixFactorization` does not
# do. Other columns may be features, if they are asked for, and a sparse model says in a
# few numbers what somebody likes. Some people rate lower at night.

rng = np.random.default_rng(0)
night = rng.random(len(ratings)) < 0.3
strict = ratings["person"] % 4 == 0
later = ratings.assign(night=5.0 * night)  # on a scale like that of the other features
stars = ratings["stars"] - 1.0 * (night & strict)
sparse_model = make_pipeline(
    DPItemEmbedding(
        **{**items.get_params(), "accountant": None, "remainder": ["night"]}
    ),
    LRSRegressor(
        0,
        3,
        user_feature="person",
        fit_intercept=UserIntercept(offset_feature="movie_mean"),
    ),
).set_output(transform="pandas")
sparse_model.fit(later[[*columns, "night"]], stars)
names = sparse_model[0].get_feature_names_out()[2:]
for person in (8, 9):
    coef = sparse_model[-1].get_coef(person)
    own = {name: round(float(c), 2) for name, c in zip(names, coef, strict=True) if c}
    print(f"person {person}:", own)

# %%
# What it costs
# -------------
# RMSE on a fifth of each user's ratings, against epsilon. On private ratings each of
# these scores would be a release that no ledger shows.

train, test = next(PerUserKFold(5, user_feature="person").split(ratings))
# Users of a single row have none to be fitted to; predictions warn of them.
warnings.filterwarnings("ignore", ".*neither in the fit nor personalized")


def rmse(predicted):
    """Return the error of predictions within the public range."""
    error = np.clip(predicted, 1, 5) - ratings["stars"].iloc[test]
    return np.sqrt(np.mean(error**2))


def error_at(epsilon):
    """Return the error of the pipeline for one budget."""
    items.set_params(epsilon=epsilon, accountant=None)
    model.fit(ratings[columns].iloc[train], ratings["stars"].iloc[train])
    return rmse(model.predict(ratings[columns].iloc[test]))


epsilons = [0.5, 1.0, 2.0, 8.0]
private = [error_at(epsilon) for epsilon in epsilons]
with warnings.catch_warnings():
    # epsilon=None warns that nothing is private; the ratings are simulated.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    exact = error_at(None)
known = ratings.iloc[train].groupby("person")["stars"].mean()
own_mean = rmse(known.reindex(ratings["person"].iloc[test]).fillna(3.0).to_numpy())

fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
ax.plot(epsilons, private, "o-", label="items, then users")
ax.axhline(exact, color="k", linestyle="--", label="no privacy")
ax.axhline(own_mean, color="C2", label="each user's mean")
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(xlabel="epsilon", ylabel="RMSE on held-out ratings")
ax.legend()
plt.show()
for epsilon, error in zip(epsilons, private, strict=True):
    print(f"epsilon {epsilon:4}: RMSE {error:.3f}")
print(f"no privacy {exact:.3f}, each user's mean {own_mean:.3f}")
