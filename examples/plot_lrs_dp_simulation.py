"""
Low rank plus sparse: error against epsilon
===========================================

This page is for readers of Pal et al. (2023), figure 3 (appendix A.1.4). There are
5,000 users with 100 rows and 10 features each. Their coefficients are one common vector
plus two coefficients of the user's own. The page fits
:class:`~skdpspectral.LRSRegressor` with and without noise in the targets.
"""

# %%
# All weights are 1, and delta is 1e-5. In the paper, every feature is special to only
# two users. This is impossible: 5,000 users have 10,000 special coefficients, and 10
# features with two users each have room for 20. Here, each user draws two features at
# random.
#
# The public clips, 3.3 and 1.05, are the norms of an ordinary user's curvature and
# gradient. Without public clips, private medians are used, for a tenth of the budget. A
# single model has all weights fixed at one, no sparse part, and one release.
# ``examples/benchmarks/lrs_accuracy.py`` has the methods, and tables with more draws.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import PrivacyLeakWarning

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from lrs_accuracy import (
    BUDGET_METHODS,
    EPSILONS,
    FIXED,
    draw_a14,
    exact,
    fit_a14,
    local_rmse,
)

warnings.simplefilter("ignore", PrivacyLeakWarning)  # epsilon=None: simulated rows
chosen = {
    "public clips, L=3": "public clips, 3 releases",
    "public clips, L=10": "public clips, 10 releases",
    "private clips, L=10": "private clips, 10 releases",
    "replace-one, L=10": "replace-one, 10 releases",
    "fixed, private, L=10": "central and sparse, 10 releases",
    "single model": "single model",
}
methods = {chosen[name]: given for name, given, _ in BUDGET_METHODS if name in chosen}


def run(ax, noise):
    """Draw the errors of all methods, and print the errors without a budget."""
    draws = [draw_a14(seed, noise) for seed in range(3)]
    for (name, given), marker in zip(methods.items(), "os^vDx", strict=True):
        errors = np.array(
            [[fit_a14(data, epsilon=e, **given) for e in EPSILONS] for data in draws]
        )
        bars = errors.std(axis=0, ddof=1)
        ax.errorbar(EPSILONS, errors.mean(axis=0), bars, marker=marker, label=name)
    for name, fit in {
        "exact": lambda data: fit_a14(data, **exact()),
        "exact, central and sparse": lambda data: fit_a14(data, **{**exact(), **FIXED}),
        "each user alone": local_rmse,
    }.items():
        print(f"noise {noise:g}, {name}: {np.mean([fit(data) for data in draws]):.3g}")
    ax.set_xscale("log", base=2)
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ax.set(xlabel="epsilon, per user", yscale="log", title=f"target noise {noise:g}")


fig, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
run(axes[0], 0.0)
run(axes[1], 0.5)
axes[0].set_ylabel("error of coefficients")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# A single model misses the two coefficients that every user has of their own. Its error
# is the size of these coefficients, :math:`\sqrt 2`. Private directions are good for
# all budgets, three releases are better than ten, medians cost little, and replace-one
# doubles the noise.
#
# Without noise, **every user alone** recovers their coefficients to rounding, since
# rows outnumber features. With noise, sharing helps. The error of the user's own
# numbers also exists without privacy.
