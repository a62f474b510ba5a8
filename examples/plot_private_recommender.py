"""
A recommender that is private for its users
===========================================

Ratings tell who we are. This page fits a recommender whose shared part is
differentially private for a **user with all of their ratings**, and in which
everything personal stays with the person: :class:`~skdpspectral.DPItemEmbedding` and
:class:`~skdpspectral.LRSRegressor` in one pipeline.
"""

# tags: quick

# %%
# A table of ratings
# ------------------
# One row a rating: user and item. The ratings are simulated, hence public: scores may
# be looked at here. Catalog, features of the items and the range 1 to 5 are public
# in practice too, and that is what the private fit builds upon.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from skdpspectral import (
    DPItemEmbedding,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdpspectral.datasets import make_ratings
from skdpspectral.metrics import make_user_scorer, user_ndcg_score
from skdpspectral.model_selection._per_user import PerUserKFold

ratings = make_ratings(3000, 100, n_ratings_per_user=25, random_state=0)
X, y = ratings.data, ratings.target
print(X[:3], y[:3])

# %%
# Five lines
# ----------
# The pipeline hands arrays on, so that the regressor is told the users by position.
# Each step has a budget of its own, and the ledger of the enclosing block holds both.

with PrivacyAccountant(epsilon=2.0, delta=1e-6) as accountant:
    embedding = DPItemEmbedding(
        2, items=ratings.item_ids, item_features=ratings.item_features
    )
    model = make_pipeline(embedding, LRSRegressor(sparsity=2, user_feature=0))
    model.fit(X, y)
print(accountant)
for entry in accountant.ledger:
    print(entry.estimator, entry.epsilon, entry.unit)

# %%
# What may be published
# ---------------------
# The embedding and the shared directions, on which new users build a model of their
# own. Nothing of a user of the fit is in there.

items, shared = embedding.publish(), model[-1].publish()
mine = np.array([[0, 3], [0, 14], [0, 15], [0, 92], [0, 65], [0, 35]])
shared.personalize(items.transform(mine), [5, 4, 2, 5, 3, 1], user=0)
print(shared.predict(items.transform([[0, 9], [0, 79]])).round(1))

# %%
# Known users, and new ones
# -------------------------
# ``PerUserKFold`` puts rows of every user in every training set: the score on users
# that the model knows. ``GroupKFold`` keeps whole users out: the private model knows
# nothing of their level then, and predicts zero, unless it is personalized first. A
# mean rating taken off beforehand, such as the middle of the scale, is public; the
# range of ratings moves with it.
#
# Every fold is a fit of its own, with its own charge, and a score pooled over private
# users would be a release that no ledger shows.

known, new = PerUserKFold(3, user_feature=0), GroupKFold(3)
options = {"scoring": "neg_root_mean_squared_error", "error_score": "raise"}
with PrivacyAccountant() as accountant:
    on_known = -cross_val_score(model, X, y, cv=known, **options)
    centered = clone(model).set_params(dpitemembedding__rating_range=(-2, 2))
    on_new = -cross_val_score(centered, X, y - 3.0, cv=new, groups=X[:, 0], **options)
print(f"known users {on_known.mean():.3f}, new users {on_new.mean():.3f}")
print(accountant)

# %%
# Error and ranking against epsilon
# ---------------------------------
# Beside the pipeline without privacy, and two rules: each user's own mean, which
# costs no privacy since it never leaves the user, and the mean of all ratings.

ndcg = make_user_scorer(user_ndcg_score, user_feature=0, k=10)
train, test = next(known.split(X))
user_mean = np.bincount(X[train, 0], y[train]) / np.maximum(np.bincount(X[train, 0]), 1)


def rmse(predicted):
    return np.sqrt(np.mean((np.clip(predicted, 1, 5) - y[test]) ** 2))


def result(epsilon):
    model.set_params(dpitemembedding__epsilon=epsilon, lrsregressor__epsilon=epsilon)
    model.fit(X[train], y[train])
    return rmse(model.predict(X[test])), ndcg(model, X[test], y[test])


epsilons = [0.5, 1.0, 2.0, 8.0]
private = np.array([result(epsilon) for epsilon in epsilons])
with warnings.catch_warnings():
    # epsilon=None warns that nothing is private; the ratings are simulated.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    exact = result(None)
constant = DummyRegressor().fit(X[train], y[train])
lines = {
    "own mean": (rmse(user_mean[X[test, 0]]), None),
    "mean of all": (rmse(constant.predict(X[test])), ndcg(constant, X[test], y[test])),
}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for column, (ax, name) in enumerate(zip(axes, ("RMSE", "NDCG@10"), strict=True)):
    ax.semilogx(epsilons, private[:, column], "o-", label="private pipeline")
    ax.axhline(exact[column], color="k", linestyle="--", label="without privacy")
    for number, (label, values) in enumerate(lines.items()):
        if values[column] is not None:
            ax.axhline(values[column], color=f"C{number + 1}", label=label)
    ax.set(xlabel="epsilon of each step", ylabel=f"{name} on held-out ratings")
axes[0].legend()
plt.show()
for epsilon, values in zip(epsilons, private, strict=True):
    print(f"epsilon {epsilon:4}: RMSE {values[0]:.3f}, NDCG@10 {values[1]:.3f}")
print(f"no privacy  : RMSE {exact[0]:.3f}, NDCG@10 {exact[1]:.3f}")
print(", ".join(f"{label}: RMSE {values[0]:.3f}" for label, values in lines.items()))
