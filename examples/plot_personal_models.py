"""
Fit one linear model per user
=============================

This page is for data with few rows for each of many users. There are too few rows for a
separate model for each user, and users differ too much for one model.
:class:`~skdpspectral.LRSRegressor` releases the part that their models share.
Everything else stays with each user.
"""

# tags: quick

# %%
# The data are simulated, so you may look at scores. A user's coefficients are a
# multiple of one direction that all share, plus two coefficients and an intercept of
# that user's own. A column of the table says whom each row belongs to.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_score

from skdpspectral import LRSRegressor, PrivacyAccountant, PrivacyLeakWarning
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import PrivateRounds

features, y, user = make_low_rank_sparse_tasks(
    2000,
    15,
    20,
    sparsity=2,
    noise=0.3,
    intercept_scale=0.5,
    shuffle=True,
    random_state=0,
)
names = [f"x{number}" for number in range(20)]
table = pd.DataFrame(features, columns=names).assign(user=user)
print(table.iloc[:3, -4:])

# %%
# Error against the budget
# ------------------------
# The guarantee is for a **user** with all of their rows. Every fold is a fit, and the
# ledger lists all of them. Penalties count in rows: they are the variance of the noise
# divided by the variance of the coefficients, here about 0.1. The defaults of 10 and
# 100 suit ratings.
#
# The errors have no noise. On private rows, each of them would be a release that no
# ledger lists.

model = LRSRegressor(
    sparsity=2,
    user_feature="user",
    ridge_shared=0.1,
    ridge_sparse=0.1,
    solver=PrivateRounds(3),
)


def errors(estimator, X):
    scoring = "neg_root_mean_squared_error"
    return -cross_val_score(estimator, X, y, cv=KFold(5), scoring=scoring)


epsilons = [0.125, 0.25, 0.5, 1.0, 2.0]
with PrivacyAccountant() as accountant:
    found = np.array([errors(model.set_params(epsilon=e), table) for e in epsilons])
print(len(accountant.ledger), "fits in the ledger")
single = errors(LinearRegression(), table[names]).mean()
alone = LRSRegressor(0, None, user_feature="user", ridge_sparse=0.1)  # releases nothing
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # epsilon=None: simulated rows
    exact = errors(model.set_params(epsilon=None, solver="auto"), table).mean()

fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.plot(epsilons, found.mean(axis=1), "o-", label="LRSRegressor, mean of five folds")
ax.fill_between(epsilons, found.min(axis=1), found.max(axis=1), alpha=0.25, lw=0)
ax.axhline(single, color="C1", ls="--", label="one model for all")
ax.axhline(errors(alone, table).mean(), color="C3", ls="-.", label="a ridge per user")
ax.axhline(exact, color="C2", ls=":", label="LRSRegressor, no privacy")
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(xlabel="epsilon, per user", ylabel="RMSE on held-out rows", ylim=(0, None))
ax.legend()
plt.show()

# %%
# On a phone
# ----------
# ``publish`` returns a copy with the shared directions and the plan. A user who was not
# in the fit, with ten rows, gets a model that uses these directions. Nothing is sent
# back, and nothing is charged.

model.set_params(epsilon=1.0, solver=PrivateRounds(3)).fit(table[user > 0], y[user > 0])
published = model.publish()
mine, my_y = table[user == 0], y[user == 0]
published.personalize(mine[:10], my_y[:10])
error = np.sqrt(np.mean((published.predict(mine[10:]) - my_y[10:]) ** 2))
print(f"RMSE on my other 5 rows: {error:.2f}")
print(published.privacy_)
