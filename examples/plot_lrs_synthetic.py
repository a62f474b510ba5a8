"""
Low rank plus sparse beside simpler models
==========================================

This page is for readers of Pal et al. (2023), figure 4 (appendix B.1). It compares
simpler ways to personalize a linear model, on simulated data without noise. A method
either can represent the users' coefficients and finds them, or it cannot. Nothing on
this page is private.
"""

# tags: quick

# %%
# There are 75 users with 100 rows of 150 features. Their coefficients are multiples of
# one direction, or combinations of three, plus ten coefficients of their own. No
# feature is special to more than five users. ``examples/benchmarks/lrs_accuracy.py``
# has the methods: "full fine-tuning" is the shortest solution per user, "prompt" is an
# intercept per user, "sparse only" has rank 0, and "central and sparse" is a single
# model that users tune sparsely.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import LRSRegressor
from skdpspectral.datasets import make_low_rank_sparse_tasks

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from lrs_accuracy import coefficients, exact, recovery_errors, rmse

# epsilon=None, and models that cannot represent the data and converge slowly.
warnings.simplefilter("ignore")
found = {rank: [recovery_errors(rank, seed) for seed in range(2)] for rank in (1, 3)}
means = {
    rank: {name: np.mean([row[name] for row in rows]) for name in rows[0]}
    for rank, rows in found.items()
}
print(f"{'error of coefficients':30s}{'r = 1':>10s}{'r = 3':>10s}")
for name in means[1]:
    print(f"{name:30s}{means[1][name]:10.3g}{means[3][name]:10.3g}")

# %%
# Number of coefficients per user
# -------------------------------
# Sparse models are fitted with and without shared directions, with one to twenty
# nonzero entries. The true number is ten (dotted line, with the weights).

n_nonzeros = [1, 2, 4, 6, 8, 9, 10, 12, 15, 20]


def path(rank, n_components, seed):
    X, y, users, truth = make_low_rank_sparse_tasks(
        75, 100, 150, rank=rank, sparsity=10, row_sparsity=5, return_coef=True,
        random_state=seed,
    )  # fmt: skip
    fits = [LRSRegressor(n_components, k, **exact()) for k in n_nonzeros]
    return [rmse(coefficients(fit.fit(X, y, users=users), 75), truth) for fit in fits]


fig, axes = plt.subplots(1, 2, figsize=(8.6, 4.8), sharey=True, layout="constrained")
for ax, rank in zip(axes, (1, 3), strict=True):
    for name, r in (("sparse only", 0), ("low rank and sparse", rank)):
        values = np.mean([path(rank, r, seed) for seed in range(2)], axis=0)
        ax.plot(np.array(n_nonzeros) + r, values, "o-", label=name)
    own = {"null": 0, "prompt": 1, "representation": rank, "full fine-tuning": 150}
    for (name, numbers), marker in zip(own.items(), "xv^s", strict=True):
        ax.plot(numbers, means[rank][name], marker, label=name, ms=8)
    ax.axvline(rank + 10, color="0.7", linestyle=":", zorder=0)
    ax.set_xscale("symlog", linthresh=1, linscale=0.4)
    ax.set_xticks([0, 1, 3, 10, 30, 150], [0, 1, 3, 10, 30, 150])
    ax.minorticks_off()
    ax.set(yscale="log", xlabel="numbers of a user's own", title=f"r = {rank}")
axes[0].set_ylabel("error of coefficients")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
# As soon as a user may have ten nonzero entries, low rank plus sparse recovers
# everything, and none of the simpler models does. The data were made for this method:
# real coefficients are neither exactly sparse nor of low rank, and rows have noise.
