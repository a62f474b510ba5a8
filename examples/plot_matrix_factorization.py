"""
Recommend items from ratings
============================

This page is for a shop or a library with a table of ratings.
:class:`~skdpspectral.DPMatrixFactorization` releases features of items. The guarantee
protects a user with all of their ratings. A user's own model stays with the user.
"""

# tags: quick

# %%
# Five lines
# ----------
# The input is a table of users and items, and the ratings beside it. These are public:
# the catalog, genres or other features of its items, and the range of ratings, 1 to 5.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpspectral import DPMatrixFactorization, PrivacyLeakWarning
from skdpspectral.datasets import make_ratings
from skdpspectral.model_selection import PrivateSplit

ratings = make_ratings(3000, 100, n_ratings_per_user=25, random_state=0, as_frame=True)
model = DPMatrixFactorization(
    items=ratings.item_ids,
    item_features=ratings.item_features,
    epsilon=1.0,
    rating_range=(1, 5),
)
model.fit(ratings.data, ratings.target)
items, scores = model.recommend([2, 3], n=5)
print(items)
print(model.privacy_)

# %%
# What you may publish, and what a new user does with it
# ------------------------------------------------------
# The copy holds levels, offsets and factors of items. Anyone who has it can compute a
# list from their own ratings, on their own device. No budget is spent.

published = model.publish()
newcomer = pd.DataFrame({"user_id": 0, "item_id": [3, 14, 15, 92]})
with warnings.catch_warnings():
    # Before ``personalize``, it warns that everybody gets the average user's list.
    warnings.simplefilter("ignore", UserWarning)
    before = published.recommend([0], n=5)[0]
after = published.personalize(newcomer, [5, 4, 2, 5]).recommend([0], n=5)[0]
print("before:", before[0], "after:", after[0])

# %%
# The cost of privacy
# -------------------
# The plot shows the RMSE on a fifth of each user's ratings against epsilon, which
# covers all releases together. These ratings are simulated, hence public. On private
# ratings, each of these scores would be a release that no ledger shows.

X, y = ratings.data.to_numpy(), ratings.target.to_numpy().astype(float)
train, test = next(
    PrivateSplit(5, user_feature=0, whole_users=False, random_state=0).split(X)
)
# If a user's only row is held out, no row is left to fit. Predictions warn about this.
warnings.filterwarnings("ignore", ".*neither in the fit nor personalized")


def rmse(predicted):
    return np.sqrt(np.mean((predicted - y[test]) ** 2))


def error(epsilon, **parameters):
    fitted = DPMatrixFactorization(
        items=ratings.item_ids,
        epsilon=epsilon,
        **{"rating_range": (1, 5), **parameters},
    ).fit(X[train], y[train])
    return rmse(fitted.predict(X[test]))


epsilons = [0.5, 1.0, 2.0, 4.0, 8.0]
features = ratings.item_features.to_numpy()
with_features = [error(epsilon, item_features=features) for epsilon in epsilons]
without = [error(epsilon) for epsilon in epsilons]
with warnings.catch_warnings():
    # epsilon=None warns that nothing is private. The ratings are simulated.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    exact = error(None, item_features=features)
counts = np.maximum(np.bincount(X[train, 0]), 1)
own_mean = rmse((np.bincount(X[train, 0], y[train]) / counts)[X[test, 0]])

fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
ax.plot(epsilons, with_features, "o-", label="with public features")
ax.plot(epsilons, without, "s-", label="without")
ax.axhline(exact, color="k", linestyle="--", label="no privacy")
ax.axhline(own_mean, color="C2", label="each user's mean")
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(xlabel="epsilon", ylabel="RMSE on held-out ratings")
ax.legend()
plt.show()
for epsilon, one, other in zip(epsilons, with_features, without, strict=True):
    print(f"epsilon {epsilon}: {one:.3f} with features, {other:.3f} without")
print(f"no privacy {exact:.3f}, each user's mean {own_mean:.3f}")

# %%
# Clicks without ratings
# ----------------------
# With ``implicit=True``, only the pairs of users and items count: here, what users
# rated 4 or more. Two rounds release how popular items are and which pairs of them
# users have beyond that.

clicks = DPMatrixFactorization(items=ratings.item_ids, implicit=True, epsilon=2.0)
lists, _ = clicks.fit(X[train][y[train] >= 4]).recommend([2, 3], n=5)
print(lists)
print(clicks.privacy_)
