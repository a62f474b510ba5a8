"""
Federated PCA: four simulations of Li et al.
============================================

This page is for readers of Li, Cai, Xia and Zhang (2024), figures 1a to 1d. Rows of a
spiked covariance with 50 features and one direction are divided among several clients.
The paper's method adds noise to each client's projector, for Gaussian rows of exactly
this model. The default of :class:`~skdpspectral.FederatedDPPCA` assumes nothing about
the rows.
"""

# tags: quick

# %%
# The methods and settings are defined in ``examples/benchmarks/federated_accuracy.py``,
# which makes the table with 25 repeats. The plot here uses only a few repeats.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import NoisyFitWarning, PrivacyLeakWarning

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from federated_accuracy import covariance_errors, errors, figure_1

# The paper's delta of 0.1 would be far too large for real data.
warnings.simplefilter("ignore", PrivacyLeakWarning)
warnings.simplefilter("ignore", NoisyFitWarning)
REPEATS = 2

# %%
# Four panels
# -----------
# "as printed" uses the weights of the paper's formula, which are upside down and worse
# than equal weights. "proposed" uses one over the expected squared error, as in the
# paper's theorem.

titles = {
    "1a": "epsilon of ten clients",
    "1b": "clients of 1,000 rows",
    "1c": "clients that share 100,000 rows",
    "1d": "unequal clients: rows / 22",
}
shown = ["proposed", "reference", "ours", "Oja"]
curves = {panel: {} for panel in titles}
for (panel, value), setting in figure_1().items():
    rows = [errors(*setting, seed) for seed in range(REPEATS)]
    for name in [*shown, "equal", "as printed"] if panel == "1d" else shown:
        mean = np.mean([row[name] for row in rows])
        curves[panel].setdefault(name, []).append((value, mean))

fig, axes = plt.subplots(2, 2, figsize=(10, 8), sharey=True, layout="constrained")
for ax, (panel, methods) in zip(axes.flat, curves.items(), strict=True):
    for name, points in methods.items():
        ax.plot(*zip(*points, strict=True), "o-", label=name)
    ax.set(title=panel, xlabel=titles[panel], yscale="log")
fig.legend(*axes[1, 1].get_legend_handles_labels(), loc="outside lower center", ncols=6)
fig.supylabel("distance of projectors")
plt.show()

# %%
# The covariance
# --------------
# Each client releases the variance of its rows along the direction, clipped at a public
# length. "paper" adds noise for the whole variance of all features. The output shows
# distances in Frobenius norm for the clients of 1d, beside the distance for all rows in
# one place without privacy:

for n in (100, 1000):
    rows = [covariance_errors(*figure_1()["1d", n], seed) for seed in range(REPEATS)]
    means = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
    print(n, ", ".join(f"{name} {error:.2f}" for name, error in means.items()))
