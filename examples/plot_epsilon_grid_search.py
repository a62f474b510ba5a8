"""
Choose epsilon with a grid search
=================================

This page is for users who ask how small epsilon may be. A grid search answers this at a
cost: each fit is a release of the same rows, and its scores are releases that no ledger
lists. Public rows of the same kind answer it for free.
"""

# tags: quick

# %%
# The cost, before the search
# ---------------------------
# Five-fold cross-validation over six epsilons makes thirty fits, plus the refit. An
# accountant computes beforehand whether the budget covers them.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from skdpspectral import DPPCA, NoisyFitWarning, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.datasets import load_digits
from skdpspectral.metrics import captured_variance
from skdpspectral.plotting import PrivacyUtilityDisplay

# Components at the smallest budgets are noise. The scores show this too.
warnings.simplefilter("ignore", NoisyFitWarning)
digits = load_digits()
X = digits.data
epsilons = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
n_folds, delta = 5, 1e-6


def smallest_that_suffices(results):
    """Return the index of the first good candidate, in ascending epsilon."""
    means = results["mean_test_score"]
    return int(np.argmax(means >= 0.95 * means.max()))


search = GridSearchCV(
    DPPCA(n_components=2, delta=delta, bounds=digits.bounds),
    {"epsilon": epsilons},
    scoring=captured_variance,
    cv=n_folds,
    refit=smallest_that_suffices,
    error_score="raise",
)
try:
    PrivacyAccountant(epsilon=4.0, delta=delta).check(search, X)
except PrivacyBudgetError as error:
    print(error)

# %%
# An accountant without a budget shows what the whole search will cost: thirty fits,
# and a refit at the largest epsilon in the worst case. Gaussian releases compose
# exactly.

total = PrivacyAccountant().check(search, X).epsilon
print(f"thirty fits and a refit at the largest epsilon: epsilon = {total:.2f}")

# %%
# The search, with a ledger
# -------------------------
# The chosen epsilon is the smallest that keeps 95 % of the best mean score.

accountant = PrivacyAccountant(epsilon=1.01 * total, delta=delta)
with accountant:
    search.fit(X)
print(f"chosen: epsilon = {search.best_params_['epsilon']:g}")
print(f"spent:  {accountant}")

# %%
# The curve shows the mean over folds, and one standard deviation.

results = search.cv_results_
folds = [results[f"split{k}_test_score"] for k in range(n_folds)]
PrivacyUtilityDisplay(
    epsilons=epsilons, scores=np.transpose(folds), score_name="Captured variance"
).plot()
plt.title("Chosen on the rows themselves")
plt.show()

# %%
# What the ledger does not list
# -----------------------------
# The scores, the curve, and the choice of an epsilon were computed from held-out rows
# **without noise**. They are releases without a ledger entry. The digits are public.
# With private rows, this page would end here.
#
# Choose on public rows, spend once
# ---------------------------------
# The noise depends on the number of rows and epsilon. An epsilon that suffices for some
# public rows also suffices for as many private rows of the same kind. Let one half of
# the images be public.

public, private = X[::2], X[1::2]
display = PrivacyUtilityDisplay.from_estimator(
    DPPCA(n_components=2, delta=delta, bounds=digits.bounds),
    public,
    epsilons=epsilons,
    scoring=captured_variance,
    cv=n_folds,
)
display.ax_.set_title("Chosen on public rows")

means = np.mean(display.scores, axis=1)
chosen = epsilons[int(np.argmax(means >= 0.95 * means.max()))]
display.ax_.axvline(chosen, color="C3", linestyle=":", label="chosen")
display.ax_.legend()
plt.show()

# %%
# The ledger of the private rows has one fit and is complete.

with PrivacyAccountant(epsilon=chosen, delta=delta) as accountant:
    final = DPPCA(
        n_components=2, epsilon=chosen, delta=delta, bounds=digits.bounds
    ).fit(private)
print(f"chosen on public rows: epsilon = {chosen:g}")
print(f"spent on private rows: {accountant}")
