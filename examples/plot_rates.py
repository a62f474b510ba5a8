"""
Errors of private PCA against minimax rates
===========================================

This page is for readers of the theory. No private method can have an error below a rate
that Cai, Xia and Zha (2024) prove, times an unknown constant. Li, Cai, Xia and Zhang
(2024) have such a rate for rows that are divided among several clients.
``minimax_rate`` in ``benchmarks/rates.py`` evaluates both. Here, measured errors are
divided by these rates. **Where a curve is flat, the method has the best rate, and where
it rises, it does not.** The height of a curve is meaningful only in comparison with
other curves, because constants are unknown.
"""

# tags: quick

# %%
# What is measured
# ----------------
# The rows have one direction of variance 11, and variance 1 across it. Errors are
# distances of projectors, as means over draws of rows and noise. Delta is 1e-6. No
# budget is spent on a center, since the rates are for rows whose mean is known. A
# random guess has an error near :math:`\sqrt 2`.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from rate_ratios import clients_over_rate, over_rate, sparse_over_rate

from skdpspectral import NoisyFitWarning

# Some of the budgets are too small on purpose.
warnings.simplefilter("ignore", NoisyFitWarning)

centers = ("none", "pairs")


def draw(ax, along, curves, xlabel):
    """Draw the ratios, and print them."""
    for name, values in curves.items():
        ax.loglog(along, values, "o-", label=name)
        print(f"{name:22}", np.round(values, 1))
    ax.set_xticks(along, [f"{each:,g}" for each in along])
    ax.minorticks_off()
    ax.set(xlabel=xlabel, ylabel="error over rate")
    ax.legend(fontsize="small")


# %%
# Rows, budgets and features
# --------------------------
# Rates are sums. With many rows and large budgets, only the error of sampling is left.
# All methods are alike there, and the ratio is :math:`\sqrt2`, as for PCA without
# privacy. Elsewhere, the price of privacy counts, and with it a factor of
# :math:`\sqrt{\ln (2.5 / \delta)}`, here 3.8, which upper bounds have and the lower
# bound does not. In the number of features, the lower bound grows as p, and the noise
# of a whole second moment as :math:`p^{1.5}`, since most of a row's length is noise.

sizes, budgets = np.array([4_000, 12_000, 40_000, 120_000]), [0.1, 0.3, 1.0, 3.0, 10.0]
widths = np.array([20, 50, 100, 200, 400])
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
settings = [
    (sizes, [(n, 50, 0.5) for n in sizes], "number of rows; p = 50"),
    (budgets, [(20_000, 50, e) for e in budgets], "epsilon; n = 20,000, p = 50"),
    (
        widths,
        [(40_000, p, 0.5) for p in widths],
        "number of features; n = 40,000",
    ),
]
for ax, (along, points, label) in zip(axes, settings, strict=True):
    print(label, along)
    curves = {
        name: [over_rate(*case, center=name) for case in points] for name in centers
    }
    draw(ax, along, curves, label)

# %%
# Clients
# -------
# The rate of several clients is a harmonic mean. If clients are alike, their methods
# keep this rate as long as each client has some information on the direction, which the
# theorem requires. If clients have hardly any, averages of noisy matrices are better
# than averages of directions.

counts = np.array([1, 4, 16, 64])
cases = {
    "projectors, 1,000 rows": (1_000, "projector"),
    "projectors, 150 rows": (150, "projector"),
    "matrices, 150 rows": (150, "matrix"),
}


fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
curves = {
    name: [clients_over_rate(m, *case) for m in counts] for name, case in cases.items()
}
draw(axes[0], counts, curves, "number of clients; p = 30, epsilon = 1")

# %%
# Few features
# ------------
# Ten of the features make up the direction. There are 20,000 rows, at
# :math:`\epsilon = 1`. The lower bound hardly depends on the other features.
# :class:`~skdpspectral.SparseDPPCA` pays for them, as the upper bound of its algorithm
# does, because rows are bounded with all their features. Between the two bounds is a
# gap of a power of p that no method here closes.

ratios = np.transpose([sparse_over_rate(p) for p in widths])
curves = dict(zip(("error", "upper bound"), ratios, strict=True))
draw(axes[1], widths, curves, "number of features, of which 10 count")
plt.show()
