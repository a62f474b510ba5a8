"""
Draw the budget of a ledger and the curve of an audit
=====================================================

This page is for the person who answers for the data. One figure shows what was spent
of a budget and what is left. The other compares a guarantee with an attack.
"""

# tags: quick

# %%
# Spent and left
# --------------
# Four fits read the same rows. Their costs do not add up linearly, so that a fit of
# epsilon 1.1 still fits a budget of 1.5 after 0.5, 0.5, 0.5 and 0.25.

import warnings

import matplotlib.pyplot as plt

from skdpspectral import (
    DPPCA,
    DPRidge,
    DPStandardScaler,
    NoisyFitWarning,
    PrivacyAccountant,
)
from skdpspectral.audit import audit_in_few_fits, pairs_of_features
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.plotting import AuditDisplay, LedgerDisplay

X, _ = make_spiked_covariance(20_000, 5, random_state=0)
accountant = PrivacyAccountant(epsilon=1.5, delta=1e-6)
with accountant:
    DPPCA(n_components=1, epsilon=0.5).fit(X)
    DPStandardScaler(epsilon=0.5).fit(X)
    DPRidge(epsilon=0.5).fit(X[:, 1:], X[:, 0])
    DPPCA(n_components=1, epsilon=0.25).fit(X)
LedgerDisplay.from_accountant(accountant)
plt.title("four fits from one budget")
print(accountant)

# %%
# An audit
# --------
# The audit fits the estimator to made-up rows, of which each has one of two forms, and
# guesses the forms from what was released. If the guarantee holds, the errors of the
# guesses are on or above the claimed curve, except for sampling error.

pca = DPPCA(n_components=1, epsilon=2.0, center="none")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", NoisyFitWarning)  # nothing but noise, on purpose
    result = audit_in_few_fits(pca, pairs_of_features(60), 3, random_state=0)
print(result)
AuditDisplay.from_result(result)
plt.title("errors of the best guesses, and the claim")
plt.show()
