"""
Fit one linear model per user
=============================

Two thousand people have some fifteen measurements each: too few for a model of
their own, and people differ too much for one model that fits all.
:class:`~skdpspectral.LRSRegressor` finds what their models have in common, and leaves
to everybody a few numbers of their own. What they have in common is differentially
private and may be published; the numbers of their own never leave their phone.
"""

# tags: quick

# %%
# Few rows of many users
# ----------------------
# The data are simulated, hence public: everything may be looked at here. The
# coefficients of a person are a multiple of one direction that is common to all,
# plus two coefficients and an intercept of that person alone. A column of the table
# says whose row it is. The last hundred people come later.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_score

from skdpspectral import LRSRegressor, PrivacyAccountant, PrivacyLeakWarning
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import Alternation, PrivateRounds, UserWeights

n_users, n_late = 2000, 100
features, y, user = make_low_rank_sparse_tasks(
    n_users + n_late,
    [15] * n_users + [50] * n_late,
    n_features=20,
    rank=1,
    sparsity=2,
    noise=0.3,
    intercept_scale=0.5,
    shuffle=True,
    random_state=0,
)
names = [f"x{number}" for number in range(20)]
table = pd.DataFrame(features, columns=names).assign(user=user)
early = user < n_users
X_train, y_train = table[early], y[early]
print(X_train.iloc[:3, -4:])

# %%
# Without privacy
# ---------------
# ``user_feature`` names the column, and the estimator works wherever scikit-learn
# takes one. Rows have been shuffled, so that everybody has rows in the training and
# in the test part of every fold. The error is the root mean square over the test
# rows.
#
# Penalties count in rows. They should be the variance of the noise over that of the
# coefficients, here 0.3\ :sup:`2` over 1, or some 0.1. The defaults of 10 and 100 are
# for ratings and the like, where coefficients are small beside the noise: here they
# would shrink everything away.

model = LRSRegressor(
    sparsity=2,
    user_feature="user",
    shared_weights=UserWeights(ridge=0.1),
    ridge_sparse=0.1,
)


def cross_validated_errors(estimator, X):
    scores = cross_val_score(
        estimator, X, y_train, cv=KFold(5), scoring="neg_root_mean_squared_error"
    )
    return -scores


with warnings.catch_warnings():
    # epsilon=None warns that nothing is private. That is wanted here: the data are
    # simulated.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    exact = clone(model).set_params(epsilon=None, solver=Alternation(tol=1e-3))
    error_exact = cross_validated_errors(exact, X_train).mean()

# %%
# Two simpler ways to compare it with: one linear model for all, and a ridge
# regression for each user. The penalty of the latter is the best that could be found
# for these data, which flatters it.


class RidgePerUser(RegressorMixin, BaseEstimator):
    """A ridge regression for each user, on that user's rows alone."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.coef_ = {}
        for one, rows in X.groupby("user").indices.items():
            own, target = X[names].to_numpy()[rows], y[rows]
            centered, penalty = own - own.mean(axis=0), self.alpha * np.eye(len(names))
            coef = np.linalg.solve(centered.T @ centered + penalty, centered.T @ target)
            self.coef_[one] = np.append(coef, target.mean() - own.mean(axis=0) @ coef)
        return self

    def predict(self, X):
        coef = np.array([self.coef_[one] for one in X["user"]])
        return (X[names].to_numpy() * coef[:, :-1]).sum(axis=1) + coef[:, -1]


error_single = cross_validated_errors(LinearRegression(), X_train[names]).mean()
error_own = cross_validated_errors(RidgePerUser(), X_train).mean()
print(f"one model for all       {error_single:.2f}")
print(f"a ridge for each user   {error_own:.2f}")
print(f"LRSRegressor, exact     {error_exact:.2f}")
print("the noise               0.30")

# %%
# With privacy
# ------------
# A budget, and nothing else, makes the fit private for a **user** with all of their
# rows. Three releases are enough here; fewer releases mean less noise in each. Every
# fold is a fit, and the ledger has them all.

model.set_params(epsilon=1.0, delta=1e-6, solver=PrivateRounds(3))
with PrivacyAccountant() as accountant:
    error_private = cross_validated_errors(model, X_train).mean()
print(f"LRSRegressor, private   {error_private:.2f}")
print(accountant)

# %%
# What the ledger does not have is the error itself. It was computed from the rows of
# all users without noise: with private rows it would be a release that nobody
# accounts for, whichever function computes it. The method ``score`` says so.

fitted = clone(model).fit(X_train, y_train)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", PrivacyLeakWarning)
    fitted.score(X_train, y_train)
print(caught[0].message)

# %%
# The error against the budget. The noise of a release is the same for any number of
# users, so that 2,000 of them feel little of it. With 300 the error at epsilon = 1
# would be about 1.1; 150 would gain hardly anything from each other.

epsilons = [0.125, 0.25, 0.5, 1.0, 2.0]
errors = np.array(
    [
        cross_validated_errors(model.set_params(epsilon=epsilon), X_train)
        for epsilon in epsilons
    ]
)

fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for value, name, color in (
    (error_single, "one model for all", "C3"),
    (error_own, "a ridge for each user", "C1"),
    (error_exact, "LRSRegressor, epsilon=None", "C2"),
):
    ax.axhline(value, color=color, linestyle="--", label=name)
ax.plot(epsilons, errors.mean(axis=1), "o-", color="C0", label="LRSRegressor")
ax.fill_between(epsilons, errors.min(axis=1), errors.max(axis=1), alpha=0.25, lw=0)
ax.axhline(0.3, color="0.5", linestyle=":", label="noise of the data")
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(
    xlabel="epsilon, for a user with all of their rows",
    ylabel="error on held-out rows",
    ylim=(0, None),
    title="2,000 users with 15 rows each; mean and range of five folds",
)
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# On a phone
# ----------
# ``publish`` gives a copy with the shared directions and the plan, and no number of
# any user. It is what a server sends to phones.

published = fitted.publish()
print(published.components_.round(2))
privacy = published.privacy_
print(f"epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}, per {privacy.unit}")

# %%
# Somebody who was not in the training set has ten rows on their phone. ``personalize``
# fits that person beside the shared directions; nothing is sent back, and nothing is
# charged, since the release is used and no data but their owner's.

me = n_users
mine, my_y = table[user == me], y[user == me]
with warnings.catch_warnings():
    # It warns that it holds no models of users, and predicts all of them alike.
    warnings.simplefilter("ignore", UserWarning)
    before = published.predict(mine[10:])
published.personalize(mine[:10], my_y[:10], user=me)
after = published.predict(mine[10:])
for name, predictions in (("before", before), ("after", after)):
    error = np.sqrt(np.mean((predictions - my_y[10:]) ** 2))
    print(f"error on my other 40 rows, {name} personalize: {error:.2f}")

# %%
# Before, the copy knew nothing of this person and predicted zero: the private shared
# model has no weight and no intercept, because those of the users are not released.
#
# The same for all hundred people who came later, with more and more of their own rows:

n_own = [3, 6, 10, 20, 30]
late = [(table[user == one], y[user == one]) for one in range(n_users, len(set(user)))]


def errors_of_late_users(predict):
    """Error of all late users on their last 20 rows, for each number of own rows."""
    errors = []
    for n_rows in n_own:
        squares = [
            (predict(X[:n_rows], y[:n_rows], X[-20:]) - y[-20:]) ** 2 for X, y in late
        ]
        errors.append(np.sqrt(np.mean(squares)))
    return errors


def personal(X, y, X_new):
    return fitted.publish().personalize(X, y).predict(X_new)


def alone(X, y, X_new):
    return RidgePerUser().fit(X, y).predict(X_new)


fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.plot(n_own, errors_of_late_users(alone), "s-", color="C1", label="ridge alone")
ax.plot(
    n_own,
    errors_of_late_users(personal),
    "o-",
    color="C0",
    label=f"beside published directions, epsilon = {fitted.epsilon:g}",
)
ax.axhline(error_single, color="C3", linestyle="--", label="one model for all")
ax.axhline(0.3, color="0.5", linestyle=":", label="noise of the data")
ax.set(
    xlabel="own rows of a new user",
    ylabel="error on 20 further rows",
    ylim=(0, None),
    title="A hundred people who were not in the training set",
)
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# With three rows no model can say much about a person, and one model for all is best.
# With ten, somebody who knows the published directions is further than somebody with
# twenty who does not.
#
# What may be shown to whom
# -------------------------
# .. list-table::
#    :header-rows: 1
#    :widths: 60 40
#
#    * - What
#      - Who may see it
#    * - ``components_``, ``privacy_``, ``n_iter_``: all that ``publish()`` holds
#      - anybody
#    * - predictions for a user of the fit, ``get_coef(user)``, ``get_intercept(user)``
#      - that user alone
#    * - a score over several users, a cross-validation, a choice made by them
#      - nobody, unless the rows are public
#    * - a pickle of the fitted estimator (it warns)
#      - whoever may see the rows
#    * - the list of users
#      - nobody: the guarantee covers whether somebody took part
#
# This is the billboard model: one public release that everybody reads, and
# combines with their own data at home. It protects what others learn about you, not
# what your phone knows.
