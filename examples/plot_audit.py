"""
Audit a private function in a few fits
======================================

This page is for everyone who uses a private tool and wants to test what it claims.
:func:`~skdpspectral.audit.audit_in_few_fits` fits the tool to made-up rows. Each row
has one of two forms, and a coin decides which. If what is published tells the coins
apart better than the guarantee allows, the guarantee is refuted.
"""

# tags: quick

# %%
# A principal component analysis with too little noise
# ----------------------------------------------------
# The function below adds noise to the second moment of unit rows. A row that is
# replaced moves that matrix by up to :math:`\sqrt 2 / n`. The second version forgets
# the :math:`\sqrt 2`, so its noise is too small.

import math

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPPCA
from skdpspectral.accounting import gaussian_mu
from skdpspectral.audit import audit_in_few_fits, pairs_of_features
from skdpspectral.plotting import AuditDisplay

epsilon, delta = 4.0, 1e-6
mu = gaussian_mu(epsilon, delta)
rng = np.random.default_rng(0)


def pca_of(sensitivity):
    """Return a function that releases a second moment with noise for this."""

    def second_moment(X):
        noise = np.tril(rng.standard_normal((X.shape[1], X.shape[1])))
        noise = (noise + np.tril(noise, -1).T) * sensitivity / (len(X) * mu)
        noise /= np.where(np.eye(X.shape[1], dtype=bool), 1.0, math.sqrt(2.0))
        return X.T @ X / len(X) + noise

    return second_moment


# %%
# Canaries
# --------
# The canary of two features is a unit row along their sum or along their difference. No
# pair of unit rows moves the second moment farther. With 60 features, one fit has 1,770
# canaries. The score of a coin is the entry of its two features.


def published(model, released):
    """Return what a function or an estimator publishes."""
    return released["second_moment"] if released else model


canaries = pairs_of_features(60, published)
tools = {
    "sound": (pca_of(math.sqrt(2.0)), {"mu": mu, "delta": delta}),
    "too little noise": (pca_of(1.0), {"mu": mu, "delta": delta}),
    "DPPCA": (DPPCA(1, epsilon=epsilon, delta=delta, center="none"), {}),
}
results = {}
for name, (tool, claim) in tools.items():
    for assume in ("nothing", "independent", "gaussian"):
        found = audit_in_few_fits(tool, canaries, 10, assume=assume, **claim)
        print(f"{name:17}{found}")
        results[name] = found

# %%
# What a bound assumes
# --------------------
# The first bound of each tool always holds. The second assumes that scores of different
# coins are independent. The third also assumes that they are normal, which is right for
# entries of a matrix with Gaussian noise. A bound above the claim refutes it, as far as
# its assumption holds.
#
# The histograms show the scores. The curve shows the error rates of guesses of a coin
# where there is too little noise. They lie below what the claim allows.

figure, axes = plt.subplots(1, 2, figsize=(8, 4))
for ax, name in zip(axes, ("sound", "too little noise"), strict=True):
    scores = results[name].scores
    ax.hist(scores[0], 60, alpha=0.6, label="difference")
    ax.hist(scores[1], 60, alpha=0.6, label="sum")
    ax.set(title=name, xlabel="entry of two features")
axes[0].legend()
figure.tight_layout()
AuditDisplay.from_result(results["too little noise"])
plt.show()
