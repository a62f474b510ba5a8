"""
Audit a guarantee that assumes a model
======================================

This page is for readers of papers whose guarantee assumes Gaussian rows.
``SpikedPCA`` adds noise to PCA's projector, as Cai, Xia and Zha (2024)
do. The page replaces one row with a long one. From released components,
:func:`~skdpspectral.audit.audit_in_few_fits` then tells which data they came from.
"""

# tags: quick

# %%
# Two data sets that differ in one row
# ------------------------------------
# The rows follow the model, except for the first row of the second data set. It is ten
# times as long as the longest, along the last axis.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPPCA, SpikedPCA
from skdpspectral.audit import audit_in_few_fits, two_tables

rng = np.random.default_rng(0)
n, p, epsilon = 500, 20, 0.5
X = rng.standard_normal((n, p)) * np.sqrt(np.r_[11.0, np.ones(p - 1)])
neighbor = X.copy()
neighbor[0] = 10 * np.linalg.norm(X, axis=1).max() * np.eye(p)[-1]

model = {"signal_variance": 10.0, "noise_variance": 1.0}
spiked = SpikedPCA(1, epsilon=epsilon, delta=1e-4, **model)
worst_case = DPPCA(1, epsilon=epsilon, delta=1e-4, center="none")
print(spiked.privacy_plan(n, p).details())

# %%
# What components reveal
# ----------------------
# The statistic is how far the component points along the last axis. An audit bounds the
# privacy loss from below, at 99 % confidence: a claim below that bound is refuted. The
# default mechanism about the origin scales every row to unit norm, and keeps its claim.


def along_last_axis(pca, released):
    """Return how far the component points along the last axis."""
    return abs(pca.components_[0, -1])


tables = two_tables(X, neighbor, along_last_axis)
for name, estimator in (("model", spiked), ("gaussian", worst_case)):
    result = audit_in_few_fits(estimator, tables, 800, random_state=0)
    print(f"{name:9}", result)

# %%
# The same result in a picture
# ----------------------------
# The histograms show components of fits on either data set. With the model, the two
# histograms do not meet: only the number of trials limits the bound above.

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for ax, (name, estimator) in zip(
    axes, (("model", spiked), ("gaussian", worst_case)), strict=True
):
    for rows, label in ((X, "the row is ordinary"), (neighbor, "the row is long")):
        values = [along_last_axis(estimator.fit(rows), None) for _ in range(200)]
        ax.hist(values, bins=np.linspace(0, 1, 26), alpha=0.6, label=label)
    ax.set(title=f"mechanism: {name}", xlabel="component along the last axis")
axes[0].set_ylabel("number of fits")
axes[1].legend()
figure.tight_layout()
plt.show()
