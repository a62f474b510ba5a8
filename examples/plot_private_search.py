"""
Search parameters under one guarantee
=====================================

This page is for users who want to choose parameters on private rows. A
:class:`~skdpspectral.model_selection.PrivateSearchCV` keeps the estimator as given
unless blocks of the rows prefer another setting.
"""

# tags: quick

# %%
# The cost of trying ten settings
# -------------------------------
# Disjoint blocks of the rows vote on the candidates. A row is in one block only, so the
# votes cost a tenth of :math:`\mu^2`, however many candidates there are. The second
# column shows what each fit could cost if all ten were paid for.

import math
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPPCA, NoisyFitWarning, PrivacyAccountant
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.audit import privacy_report
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import captured_variance, make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV

for total in (0.5, 1.0, 2.0):
    mu = gaussian_mu(total, 1e-6)
    last = gaussian_epsilon(math.sqrt(0.9) * mu, 1e-6)
    one = gaussian_epsilon(mu / math.sqrt(10), 1e-6)
    print(f"in total {total:.2f}: the fit of a search {last:.2f}, one of ten {one:.2f}")

# %%
# Choose or keep
# --------------
# No scores are released, so you can use any scorer. Here, the estimator as given
# measures rows from the origin, which hides the component.

rows, _ = make_spiked_covariance(40_000, 20, random_state=0)
rows = rows + np.linspace(0, 4, 20)
X, held_out = rows[:36_000], rows[36_000:]
candidates = [
    {"center": ["auto", "none", "pairs"]},
    {"center": ["auto"], "scale": ["ranks"]},
]


def kept(model, X, y=None):
    """Return the share of the variance that a model keeps."""
    return captured_variance(model, X)


given = DPPCA(1, center="none")
searches = []
for total in (1.0, 2.0):
    search = PrivateSearchCV(given, candidates, epsilon=total, scoring=kept)
    with PrivacyAccountant(epsilon=total) as accountant:
        searches.append(search.fit(X))
    print(total, search.kept_, search.best_params_, f"{search.support_:.2f}")

# %%
# Every search is one entry in its ledger, whatever it tried. The report checks its
# steps for all candidates:

print(accountant)
print(privacy_report(search))

# %%
# A score of the winner
# ---------------------
# The score of a model on held-out private rows is a release of its own. The rows were
# not in the search, so the score is charged to them alone.

scorer = make_private_scorer("captured_variance", epsilon=0.5, clip_norm=10.0)
with PrivacyAccountant(epsilon=0.5):
    score = scorer(search.best_estimator_, held_out)
print(f"{score:.3f} +- {scorer.std_:.3f}")

# %%
# The rows are simulated, so the exact scores of the winners may be shown, beside those
# of the estimator as given.

warnings.simplefilter("ignore", NoisyFitWarning)
totals = [search.epsilon for search in searches]
found = [captured_variance(search.best_estimator_, held_out) for search in searches]
alone = [
    captured_variance(DPPCA(1, center="none", epsilon=e).fit(X), held_out)
    for e in totals
]
plt.semilogx(totals, found, "o-", label="found by votes")
plt.semilogx(totals, alone, "s--", label="estimator as given")
plt.xlabel("epsilon")
plt.ylabel("variance kept")
plt.legend()
plt.show()
