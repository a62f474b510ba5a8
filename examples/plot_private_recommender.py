"""
Recommend with one readable model per user
==========================================

This page is for recommenders whose models users can read.
:class:`~skdpspectral.DPItemEmbedding` releases features of items. The guarantee
protects a **user with all of their ratings**. :class:`~skdpspectral.LRSRegressor` then
fits a model for every user on these features.
"""

# tags: quick

# %%
# The table has one row per rating. Column names are arbitrary. The ratings are
# simulated. The catalog, the features of its items, and the range of ratings are
# public.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.pipeline import make_pipeline

from skdpspectral import DPItemEmbedding, LRSRegressor, PrivacyAccountant
from skdpspectral.datasets import make_ratings
from skdpspectral.linear_model import UserIntercept

data = make_ratings(3000, 100, n_ratings_per_user=25, random_state=0, as_frame=True)
X = data.data.rename(columns={"user_id": "person", "item_id": "movie"})
stars = data.target
print(X.head(3))

# %%
# The second step releases nothing. Only the first step has a budget.

accountant = PrivacyAccountant(epsilon=1.0, delta=1e-6)
items = DPItemEmbedding(
    user_feature="person",
    item_feature="movie",
    items=data.item_ids,
    item_features=data.item_features,
    epsilon=1.0,
    accountant=accountant,
    rating_range=(1, 5),
)
intercept = UserIntercept(offset_feature="movie_mean")
users = LRSRegressor(0, 3, user_feature="person", fit_intercept=intercept)
model = make_pipeline(items, users).set_output(transform="pandas").fit(X, stars)
print(accountant)

# %%
# Models that users can read
# --------------------------
# A model has at most three features of its own, and is only for that person.

names = items.get_feature_names_out()[2:]
coefs = pd.DataFrame({f"person {one}": users.get_coef(one) for one in (8, 9)}, names)
ax = coefs[(coefs != 0).any(axis=1)].plot.barh(figsize=(6, 3))
ax.axvline(0.0, color="k", lw=0.8)
ax.set(xlabel="stars per unit of the feature", ylabel="feature")
plt.tight_layout()
plt.show()

# %%
# A new user, on a device
# -----------------------
# A few ratings are enough to fit a model for a new person, and no budget is spent. The
# files contain the released features, and only this person's model.

mine = pd.DataFrame({"person": -1, "movie": [3, 14, 15, 92, 65, 35]})
model[-1].personalize(model[:-1].transform(mine), [5, 4, 2, 5, 3, 1])
with tempfile.TemporaryDirectory() as folder:
    items.save(Path(folder, "items.npz"))
    users.save(Path(folder, "mine.npz"), user=-1)
    device = make_pipeline(
        DPItemEmbedding.load(Path(folder, "items.npz")),
        LRSRegressor.load(Path(folder, "mine.npz")),
    )
catalog = pd.DataFrame({"person": -1, "movie": data.item_ids})
unseen = catalog[~catalog["movie"].isin(mine["movie"])]
expected = pd.Series(device.predict(unseen), unseen["movie"], name="expected stars")
print(expected.nlargest(5).round(2))
