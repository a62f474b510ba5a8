"""
Low rank plus sparse: when recovery is exact
============================================

This page is for users of :class:`~skdpspectral.LRSRegressor` without a budget. Without
noise, it finds the users' coefficients to rounding, or ends somewhere else. The outcome
depends on the numbers of users and of rows per user. Nothing here is private.
"""

# %%
# The experiment
# --------------
# There are 150 features, one shared direction, ten coefficients of a user's own at
# random places, and no noise. A user has 10 + 1 unknown numbers besides the direction.
# Success means that the root mean square error of the coefficients over users is below
# 1e-3, while the size of the coefficients is 3.3. Each cell counts the successes of
# five draws, from the spectral start and from a random start.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed

from skdpspectral import LRSRegressor
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import Alternation

d, k, n_repeats = 150, 10, 5
n_users = [25, 50, 75, 100, 150, 200]
n_rows = [40, 45, 50, 55, 60, 70, 80, 110]
starts = ["spectral", "random"]


def one_fit(t, m, start, seed):
    """Return the error of all coefficients, and the share of users with a small one."""
    X, y, users, truth = make_low_rank_sparse_tasks(
        t, m, d, rank=1, sparsity=k, return_coef=True, random_state=seed
    )
    init = start
    if start == "random":
        init = np.random.default_rng(seed).standard_normal((1, d))
    model = LRSRegressor(
        sparsity=k,
        epsilon=None,
        fit_intercept=False,
        solver=Alternation(init=init),
        ridge_shared=0.0,
        ridge_sparse=0.0,
        noise_seed=seed,
    )
    with warnings.catch_warnings():
        # epsilon=None warns that nothing is private, and if recovery fails, the
        # iterations may not converge. Both are expected here.
        warnings.simplefilter("ignore")
        model.fit(X, y, users=users)
    coef = np.stack([model.get_coef(user) for user in range(t)])
    distances = np.linalg.norm(coef - truth.coef, axis=1)
    return np.sqrt(np.mean(distances**2)), np.mean(distances < 0.1)


cells = [(t, m, start) for start in starts for m in n_rows for t in n_users]
results = Parallel(n_jobs=2)(
    delayed(one_fit)(*cell, seed) for cell in cells for seed in range(n_repeats)
)
results = np.array(results).reshape(
    len(starts), len(n_rows), len(n_users), n_repeats, 2
)
success = (results[..., 0] < 1e-3).mean(axis=-1)
nearly = np.round(results[..., 1].mean(axis=-1), 2)

# %%
# All users recovered
# -------------------
# The maps show the share of successful draws, by rows per user and number of users:


def draw_map(ax, shares):
    image = ax.imshow(shares, origin="lower", cmap="viridis", vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        color = "k" if share > 0.6 else "w"
        ax.text(column, row, f"{share:.2g}", ha="center", va="center", color=color)
    ax.set_xticks(range(len(n_users)), n_users)
    ax.set_yticks(range(len(n_rows)), n_rows)
    ax.set_xlabel("number of users")
    return image


def draw_maps(values, label):
    fig, axes = plt.subplots(
        1, 2, figsize=(8.6, 4.8), sharey=True, layout="constrained"
    )
    for ax, start, shares in zip(axes, starts, values, strict=True):
        image = draw_map(ax, shares)
        ax.set_title(f"{start} start")
    axes[0].set_ylabel("rows per user")
    fig.colorbar(image, ax=axes, label=label, shrink=0.9)
    plt.show()


draw_maps(success, "share of draws with all users recovered")

# %%
# Users nearly recovered
# ----------------------
# The fits are the same, but the count is of users whose own error is below 0.1.

draw_maps(nearly, "share of users with an error below 0.1")

# %%
# The maps support these statements:
#
# - With 70 rows, fewer than half the number of features, recovery from the spectral
#   start was exact in every draw of this map. A user alone would need 150.
# - Rows matter more than users. Success sets in between 45 and 60 rows, for 50 users
#   and for 200. Below that, more users do not help: a user's own ten positions must be
#   found from that user's rows.
# - More users do help to find the direction. With 25 users, the spectral start
#   makes the difference: the random start fails where the spectral start succeeds.
#
# Some caveats:
#
# - The two kinds of failure look alike in the first map and not in the second. With 25
#   users and few rows, the direction itself is wrong, and so are nearly all users. With
#   100 users or more, the direction is right to a hundredth, but one or two users end
#   in wrong positions, which moves everybody a little. The recovery is not exact, but
#   the model is good for nearly all.
# - From 50 users on, the random start is nearly as good as the spectral one. The
#   start decides less than one might think. The private fit has a noisy start anyway.
# - With five draws per cell, shares are multiples of a fifth. The features are Gaussian
#   here. With correlated features, positions are harder to find.
