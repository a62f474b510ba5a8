"""
Draw components, scores, streams and clients with their noise
=============================================================

This page is for results that you show to others. The noise of a release is public, so
that a figure can have its error bars at no further cost. The displays of
:mod:`skdpspectral.plotting` draw them from fitted estimators. Scores of private rows
are a release of their own.
"""

# tags: quick

# %%
# Components
# ----------
# ``components_std_`` follows from the plan and the released eigenvalues. An interval
# contains the entry of a fit without noise in about 95 % of fits.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpspectral import DPPCA, FederatedDPPCA, JMECovariance
from skdpspectral.plotting import (
    ClientWeightsDisplay,
    ComponentsDisplay,
    ScoresDisplay,
    StreamDisplay,
)
from skdpspectral.preprocessing import private_quantiles

rng = np.random.default_rng(0)
wealth, leisure = rng.normal(size=(2, 20_000))
customers = pd.DataFrame(
    {
        "income": 8 * wealth + 4 * rng.normal(size=20_000),
        "rent": 6 * wealth + 4 * rng.normal(size=20_000),
        "travel": 5 * leisure + 2 * wealth,
        "sport": 5 * leisure + 4 * rng.normal(size=20_000),
    }
)
pca = DPPCA(n_components=2, epsilon=0.5, center="none").fit(customers[:1_000])
ComponentsDisplay.from_estimator(pca)
plt.title("private components, 95 % of their noise")

# %%
# Scores
# ------
# A scatter plot of scores would show every row. This display releases noisy counts of
# rows in cells, and charges them.

ScoresDisplay.from_estimator(
    pca,
    customers,
    groups=np.where(leisure > 1.0, "often away", "at home"),
    group_names=["at home", "often away"],
    epsilon=0.5,
)
plt.title("private counts of scores")

# %%
# Quantiles of columns
# --------------------
# Deciles of all columns take one charge, and no bounds.

deciles = private_quantiles(customers, [0.1, 0.5, 0.9], epsilon=0.5)
places = np.arange(len(customers.columns))
plt.figure()
plt.vlines(places, deciles[0], deciles[2])
plt.plot(places, deciles[1], "o")
plt.xticks(places, customers.columns)
plt.title("private medians and deciles")

# %%
# A stream
# --------
# All steps of the stream are within one guarantee. The bands are narrow once some
# hundred rows have come.

days = np.linspace(0, 6, 4_000)[:, None]
readings = 0.3 * np.sin(days) * [1.0, -0.5] + 0.2 * rng.normal(size=(4_000, 2))
path = JMECovariance(epsilon=1.0).release_path(readings, every=50)
StreamDisplay.from_path(path)
plt.ylim(-0.5, 0.5)
plt.title("private running means")

# %%
# Clients of a federation
# -----------------------
# The weight of a client follows from its rows, its budget and its released variances.

sizes = {"north": 2_000, "east": 4_000, "south": 5_000, "west": 9_000}
clients = np.repeat(list(sizes), list(sizes.values()))
federated = FederatedDPPCA(n_components=1, epsilon=1.0).fit(customers, clients=clients)
ClientWeightsDisplay.from_estimator(federated)
plt.title("weights in the average")
plt.show()
