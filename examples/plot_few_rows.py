"""
Components of a small table in raw units
========================================

This page is for tables of a few hundred rows in different units.
:class:`~skdpspectral.DPPCA` with ``scale="ranks"`` estimates correlations
from ranks, which need no scales.
"""

# tags: quick

# %%
# The table
# ---------
# The table has 178 wines with 13 measured features, whose standard deviations
# differ by a factor of more than 2,000. The reference is the best share that two
# components of standardized features can keep.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from skdpspectral import DPPCA, NoisyFitWarning

X = load_wine().data
deviations = X.std(axis=0)
print(f"{deviations.max() / deviations.min():.0f}")
standardized = (X - X.mean(axis=0)) / deviations
covariance = standardized.T @ standardized / len(X)
best = np.linalg.eigvalsh(covariance)[-2:].sum()


def kept(pca):
    """Return the share of the best variance that the components keep."""
    axes = np.linalg.qr(pca.components_.T)[0]
    return np.trace(axes.T @ covariance @ axes) / best


# %%
# What is released
# ----------------
# The plan depends only on the shape and the budget.

print(DPPCA(2, epsilon=2.0, scale="ranks").privacy_plan(*X.shape))

# %%
# Ranks compared with rows in raw units
# -------------------------------------
# Without scales, the feature with the largest unit (proline) is the first component.
# The signs of differences do not depend on units. There are 15 fits per budget, and
# bars show the quartiles.

epsilons, settings = [0.5, 1.0, 2.0, 4.0, 8.0], {"raw units": None, "ranks": "ranks"}
fig, ax = plt.subplots(figsize=(6, 3.5))
for label, scale in settings.items():
    shares = []
    with warnings.catch_warnings():
        # Few components stand out from the noise at small budgets.
        warnings.simplefilter("ignore", NoisyFitWarning)
        for epsilon in epsilons:
            pca = DPPCA(2, epsilon=epsilon, scale=scale)
            shares.append([kept(pca.fit(X)) for _ in range(15)])
    low, middle, high = np.quantile(shares, [0.25, 0.5, 0.75], axis=1)
    ax.errorbar(epsilons, middle, [middle - low, high - middle], label=label, capsize=3)
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(xlabel="epsilon", ylabel="share of the variance", ylim=(0, 1))
ax.legend()
fig.tight_layout()

# %%
# Scores
# ------
# New rows need units, which public bounds of the features provide. Here, the
# bounds come from the literature on wine, rounded generously.

low = np.array([10, 0.5, 1, 5, 60, 0.5, 0, 0, 0, 1, 0.3, 1, 200])
high = np.array([16, 6, 4, 35, 180, 5, 7, 1, 5, 15, 2, 5, 2000])
with warnings.catch_warnings():
    warnings.simplefilter("ignore", NoisyFitWarning)
    pca = DPPCA(2, epsilon=4.0, scale="ranks", bounds=(low, high)).fit(X)
print(pca.transform(X[:3]).round(2))
