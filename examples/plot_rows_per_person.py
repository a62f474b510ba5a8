"""
A person, not a row: several rows of each user
==============================================

This page is for tables with several rows per person. It explains ratings by genres of
movies and by viewers, 6040 of whom gave 166 ratings each on average. Fits with
``users`` protect a viewer with all ratings.

The page reads MovieLens 1M from the folder of SKDPSPECTRAL_DATA. Without it, the rows
are simulated.
"""

# tags: quick

# %%
# The rows
# --------
# A row is a rating. Its features are indicators of seven genres, whether the viewer is
# a woman, and the viewer's age over 60. All bounds are public. A tenth of the viewers
# is held out.

import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPRidge, NoisyFitWarning
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu

# Noise hides rare genres at small budgets.
warnings.simplefilter("ignore", NoisyFitWarning)
rng = np.random.default_rng(0)
path = Path(os.environ.get("SKDPSPECTRAL_DATA", "")) / "ml-1m" / "ml-1m.npz"
if path.is_file():
    data = np.load(path)
    movies = np.searchsorted(data["movies_id"], data["movie_id"])
    users, y = data["user_id"].astype(int), data["rating"].astype(float)
    who = np.searchsorted(data["users_id"], users)
    woman, age = data["users_gender"][who] == "F", data["users_age"][who] / 60
    genres = data["movies_genre"][movies][:, [0, 1, 4, 5, 7, 10, 13]]
    X = np.column_stack([genres, woman, age])
else:
    print("simulated rows")
    users = np.repeat(np.arange(6040), rng.geometric(1 / 40, 6040))
    genres = rng.random((len(users), 7)) < 0.15
    X = np.column_stack([genres, users % 2, (users % 41 + 18) / 60])
    taste = rng.normal(3.5, 0.4, 6040)[users]
    y = np.clip(np.rint(taste + X @ rng.normal(0, 0.4, 9)), 1, 5)
held = np.isin(users, rng.choice(np.unique(users), 604, replace=False))
print(f"{len(y)} rows of {len(np.unique(users))} users")

# %%
# What is released
# ----------------
# The plan is that of as many rows as there are users. How many rows there are is in no
# part of it.

bounds = {"bounds": (0.0, 1.0), "target_bounds": (1.0, 5.0), "delta": 1e-7}
with_intervals = {"epsilon": 4.0, "intervals": True, **bounds}
fitted = DPRidge(**with_intervals).fit(X, y, users=users)
print(fitted.privacy_)

# %%
# Intervals
# ---------
# Viewers differ, and a viewer's ratings are alike. The fit of all rows counts them as
# independent: its interval for the difference between women and men is far too short.
# The interval of one rating of each viewer is honest.

of_rows = DPRidge(**with_intervals).fit(X, y)
for name, model in {"rows": of_rows, "users": fitted}.items():
    print(name, model.conf_int()[-2].round(3))

# %%
# Three ways to fit
# -----------------
# A fit of all rows protects one rating. The usual way to protect a viewer keeps at
# most five ratings of each, and makes the noise of a row five times as large. A fit
# with ``users`` draws one rating of each viewer. The score is the mean over viewers who
# were held out of their mean squared error. Most of it is the viewers' own taste, which
# no feature tells.


def error(model):
    """Return the mean over held-out users of their mean squared errors."""
    codes = np.unique(users[held], return_inverse=True)[1]
    square = (y[held] - model.predict(X[held])) ** 2
    return np.mean(np.bincount(codes, square) / np.bincount(codes))


def capped(most):
    """Return rows of which no user has more than so many."""
    order = rng.permutation(np.flatnonzero(~held))
    order = order[np.argsort(users[order], kind="stable")]
    first = np.searchsorted(users[order], users[order])
    return order[np.arange(len(order)) - first < most]


epsilons, found = [0.25, 0.5, 1.0, 4.0], {"rows": [], "group privacy": [], "users": []}
for epsilon in epsilons:
    smaller = gaussian_epsilon(gaussian_mu(epsilon, 1e-7) / 5, 1e-7)
    own = {name: [] for name in found}
    for _ in range(5):
        few, model = capped(5), DPRidge(epsilon=epsilon, **bounds)
        own["rows"].append(error(model.fit(X[~held], y[~held])))
        own["users"].append(error(model.fit(X[~held], y[~held], users=users[~held])))
        model.set_params(epsilon=smaller).fit(X[few], y[few])
        own["group privacy"].append(error(model))
    for name, errors in own.items():
        found[name].append(np.mean(errors))
        print(f"epsilon {epsilon:4g}  {name:14}  {found[name][-1]:.3f}")
fig, ax = plt.subplots(figsize=(6, 3.5))
for name, errors in found.items():
    ax.plot(epsilons, errors, marker="o", label=name)
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(xlabel="epsilon", ylabel="squared error per user")
ax.legend()
