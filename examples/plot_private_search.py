"""
Search parameters under one guarantee
=====================================

This page is for users who want to choose parameters on private rows. A
:class:`~skdpspectral.model_selection.PrivateSearchCV` with
:class:`~skdpspectral.model_selection.RandomRuns` tries a secret number of settings and
releases the best one, for the cost of about three fits. With its default,
:class:`~skdpspectral.model_selection.Vote`, it keeps the estimator as given unless
blocks of the rows prefer another setting.
"""

# tags: quick

# %%
# The cost of trying twenty settings
# ----------------------------------
# Each run fits one candidate and releases one score. The first column shows the cost of
# all twenty runs, one after another. The second column shows the cost of the best of a
# secret number of runs, twenty on average.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPPCA, NoisyFitWarning, PrivacyAccountant
from skdpspectral.accounting import calibrate_selection, compose_mu, gaussian_epsilon
from skdpspectral.audit import privacy_report
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import captured_variance, make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, RandomRuns
from skdpspectral.plotting import PrivacyUtilityDisplay

warnings.simplefilter("ignore", NoisyFitWarning)  # a winner may release no mean

for total in (0.5, 1.0, 2.0):
    mu = calibrate_selection("best", total, 1e-6, 20).run_mu
    run = gaussian_epsilon(mu, 1e-6)
    every = gaussian_epsilon(compose_mu([mu] * 20), 1e-6)
    print(f"a run of {run:.2f}: all twenty {every:.2f}, the best of them {total:.2f}")

# %%
# Candidates that differ
# ----------------------
# The mean of the rows is unknown. A search draws candidates at random. Its
# score is the share of the variance of held-out rows that the components keep. It is
# computed from pairs of rows, so no mean can spoil it.

rows, _ = make_spiked_covariance(40_000, 20, random_state=0)
rows = rows + np.linspace(0, 4, 20)
X, new = rows[::2], rows[1::2]
candidates = {
    "center": ["none", "pairs", "private"],
    "clip_norm": [None, 3.0, 10.0, 30.0],
}
searches = []
for total in (0.25, 0.5, 1.0, 2.0):
    search = PrivateSearchCV(
        DPPCA(1),
        candidates,
        epsilon=total,
        strategy=RandomRuns(n_iter_law="geometric"),
        scoring=make_private_scorer("captured_variance", clip_norm=10.0),
    )
    with PrivacyAccountant(epsilon=total) as accountant:
        searches.append(search.fit(X))
    print(total, search.best_params_, f"{search.best_score_:.3f}")

# %%
# Every search is one entry in its ledger, whatever it tried. The report checks its
# steps, its scores and its folds:

print(accountant)
print(privacy_report(search))

# %%
# The scores are private and noisy. Their bars are the standard errors of the noise.
# Here the rows are simulated, so the exact scores of the winners may be shown as
# well. They are the dots, on new rows from the same distribution.

display = PrivacyUtilityDisplay.from_private_search(searches)
exact = [captured_variance(search.best_estimator_, new) for search in searches]
display.ax_.plot([s.epsilon for s in searches], exact, "o", color="C3", label="exact")
display.ax_.legend()
plt.show()

# %%
# Choose or keep
# --------------
# By default, disjoint blocks of the rows vote. No scores are released, so you can use
# any scorer, and the fit gets nine tenths of the budget. Here, the estimator as given
# clips far too wide, so that its noise hides the component.


def kept(model, X, y=None):
    """Return the share of the variance that a model keeps."""
    return captured_variance(model, X)


search = PrivateSearchCV(
    DPPCA(1, clip_norm=1000.0), candidates, epsilon=1.0, scoring=kept
).fit(X)
print(search.kept_, search.best_params_, f"{search.support_:.2f}")
print(captured_variance(search.best_estimator_, new))
