"""
Personal models on MovieLens and Jester
=======================================

This page is for readers of Pal et al. (2023), who compare one low-rank and sparse model
per task with simpler ways to personalize. It repeats this **without privacy**: 241
groups are far too few users for a private release, as the last section computes. A
block of MovieLens stands in for the Netflix ratings, which were withdrawn.

The page needs both data sets in the folder of SKDPSPECTRAL_DATA, and takes a quarter of
an hour. ``benchmarks/movielens_groups.py`` defines the methods and the rules of the
comparison.
"""

# %%
# A group of MovieLens 1M shares gender, age and occupation. Its rows are movies with
# the group's mean rating. A hundred users of Jester rated all jokes. For 30, 40 and 30
# of them, a tenth, a half and nine tenths of the ratings are for training. The same
# holds for the thousand users with the most ratings on a hundred movies.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skdpspectral import LRSRegressor, PrivacyLeakWarning
from skdpspectral.linear_model import PrivateRounds

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from movielens_groups import block_rows, group_rows, jester_rows, load, repeated

warnings.simplefilter("ignore", PrivacyLeakWarning)
warnings.simplefilter("ignore", ConvergenceWarning)
few_rows, many_rows = (30.0, 300.0, 3000.0, 30000.0), (3000.0, 30000.0, 100000.0)
steps = [1, 2, 3, 4, 5]
# Rows, (own intercept, rank, nonzeros) of low rank plus sparse models, penalties.
group_settings = [(False, 1, k) for k in (1, 3, 5, 8, 10)] + [(True, 1, 8)]
jester_settings = [(own, 1, k) for own in (False, True) for k in steps]
block_settings = [(own, r, 1) for own in (False, True) for r in steps]


def completed(seed):
    return jester_rows(seed).complete()


cases = {
    "241 groups": (group_rows, group_settings, many_rows),
    "Jester": (jester_rows, jester_settings, few_rows),
    "Jester, completed": (
        lambda i: jester_rows(i).complete(),
        jester_settings,
        few_rows,
    ),
    "1,000 users x 100 movies": (block_rows, block_settings, few_rows),
}
try:
    load()
    results = {name: repeated(*case, name) for name, case in cases.items()}
except FileNotFoundError as error:
    print(f"Nothing to show: {error}")
    results = {}


# %%
# The plot shows the error against the number of a task's own coefficients. Dotted lines
# have an intercept per task.


def draw(ax, results, chosen, along, title, xlabel):
    mean = results.groupby(["method", "own intercept"], sort=False)["RMSE"].mean()
    for own, style in ((False, "-"), (True, ":")):
        for number, kind in enumerate(chosen):
            known = [mean.get((kind.format(value), own), np.nan) for value in along]
            label = None if own else kind.replace("={}", "")
            ax.plot(along, known, style, color=f"C{number}", marker="o", label=label)
        for name, color in (("prompt" if own else "single", "0.6"), ("full", "k")):
            ax.axhline(mean[name, own], linestyle=style, color=color, label=name)
    ax.set(title=title, xlabel=xlabel, ylabel="RMSE of ratings")
    ax.legend(fontsize="small")


if results:
    fig, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    lrs, groups, jester, _, block = ["LRS r=1 k={}"], *results.values()
    draw(axes[0], groups, lrs, [1, 3, 5, 8, 10], "241 groups", "nonzeros k")
    draw(axes[1], block, ["rep r={}", "LRS r={} k=1"], steps, "1,000 users", "rank r")
    draw(axes[2], jester, lrs, steps, "Jester", "nonzeros k")
    plt.show()

# %%
# ``benchmarks/movielens_groups.py`` prints the numbers of parameters of table 1, and
# the comparisons with standard errors.
#
# Why this is not private
# -----------------------
# The number of users should be much larger than d r^1.5 sqrt(2 L) / mu, for d features,
# rank r and L releases. At epsilon = 1 this is

model = LRSRegressor(epsilon=1.0, solver=PrivateRounds(n_rounds=6))
mu = model.privacy_plan(50).mu
print(f"d = 50, r = 1, L = 6, mu = {mu:.3f}: {50 * np.sqrt(12) / mu:.0f} users")
