"""
Errors of private PCA against minimax rates
===========================================

No private method can have an error below a rate that Cai, Xia and Zha (2024) prove,
times a constant that nobody knows; Li, Cai, Xia and Zhang (2024) have such a rate for
rows that lie with several clients. :func:`~skdpspectral.theory.minimax_rate` evaluates
both. Here measured errors are divided by them: **where a curve is flat the method has
the best rate, and where it rises it does not.** Its height says nothing but beside that
of other curves, since constants are unknown.
"""

# %%
# What is measured
# ----------------
# Rows with one direction of variance 11 and variance 1 across it. Errors are distances
# of projectors, means over draws of rows and noise; delta is 1e-6, and nobody pays for
# a center, since the rates are for rows whose mean is known. A guess at random has an
# error near :math:`\sqrt 2`.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPPCA, FederatedDPPCA, SparseDPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance
from skdpspectral.theory import minimax_rate

delta, signal, noise, seeds = 1e-6, 10.0, 1.0, range(4)
mechanisms = ("gaussian", "two-stage", "auto")


def over_rate(n, p, epsilon, **parameters):
    """Mean error of DPPCA over the rate of its setting."""
    errors = []
    for seed in seeds:
        X, truth = make_spiked_covariance(n, p, random_state=seed)
        pca = DPPCA(1, epsilon=epsilon, delta=delta, center="none", **parameters).fit(X)
        errors.append(subspace_distance(pca.components_, truth))
    rate = minimax_rate(n, p, 1, signal, noise, epsilon)
    return np.mean(errors) / rate


def draw(ax, along, curves, xlabel):
    """Draw ratios, and print them."""
    for name, values in curves.items():
        ax.loglog(along, values, "o-", label=name)
        print(f"{name:22}", np.round(values, 1))
    ax.set(xlabel=xlabel, ylabel="error over rate")
    ax.legend(fontsize="small")


# %%
# Rows, budgets and features
# --------------------------
# Rates are sums: with many rows and large budgets what is left is the error of
# sampling, where all methods are alike, and the ratio is :math:`\sqrt2`, that of PCA
# without privacy. Elsewhere the price of privacy counts, and with it a factor of
# :math:`\sqrt{\ln (2.5 / \delta)}`, here 3.8, that upper bounds have and the lower one
# does not. In features the lower bound
# grows as p, and the noise of a whole second moment as :math:`p^{1.5}`, since most of a
# row's length is noise: "gaussian" rises. The second stage clips what lies along the
# direction at its own length, and rises much less.

sizes, budgets = np.array([4_000, 12_000, 40_000, 120_000]), [0.1, 0.3, 1.0, 3.0, 10.0]
widths = np.array([20, 50, 100, 200, 400])
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
settings = [
    (sizes, [(n, 50, 0.5) for n in sizes], "rows; p = 50, epsilon = 0.5"),
    (budgets, [(20_000, 50, e) for e in budgets], "epsilon; 20,000 rows, p = 50"),
    (
        widths,
        [(40_000, p, 0.5) for p in widths],
        "features; 40,000 rows, epsilon = 0.5",
    ),
]
for ax, (along, points, label) in zip(axes, settings, strict=True):
    print(label, along)
    curves = {
        name: [over_rate(*case, mechanism=name) for case in points]
        for name in mechanisms
    }
    draw(ax, along, curves, label)

# %%
# Clients
# -------
# The rate of several clients is a harmonic mean. Clients that are alike keep theirs as
# long as each of them knows something of the direction, which the theorem asks for.
# Where they hardly do, averages of noisy matrices are better than those of directions.

counts = np.array([1, 4, 16, 64])
cases = {
    "projectors, 1,000 rows": (1_000, "projector"),
    "projectors, 150 rows": (150, "projector"),
    "matrices, 150 rows": (150, "matrix"),
}


def clients_over_rate(m, n, aggregation):
    """Mean error of m clients of n rows over the rate."""
    errors = []
    for seed in seeds:
        X, truth = make_spiked_covariance(n * m, 30, random_state=seed)
        pca = FederatedDPPCA(delta=delta, center="none", aggregation=aggregation)
        pca.set_params(n_components=1).fit(X, clients=np.repeat(np.arange(m), n))
        errors.append(subspace_distance(pca.components_, truth))
    return np.mean(errors) / minimax_rate([n] * m, 30, 1, signal, noise, 1.0)


fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
curves = {
    name: [clients_over_rate(m, *case) for m in counts] for name, case in cases.items()
}
draw(axes[0], counts, curves, "clients; p = 30, epsilon = 1")

# %%
# Few features
# ------------
# Ten features make the direction; 20,000 rows, :math:`\epsilon = 1`. The lower bound
# hardly knows of the other features. :class:`~skdpspectral.SparseDPPCA` pays for them,
# as the upper bound of its algorithm does: rows are bounded with all their features.
# Between the two is a gap of a power of p that no method here closes.

widths, s = np.array([25, 50, 100, 200, 400]), 10
curves = {"error": [], "upper bound": []}
for p in widths:
    errors, rates = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = np.zeros((1, p))
        truth[0, :s] = rng.choice([-1.0, 1.0], s) / np.sqrt(s)
        X = rng.normal(size=(20_000, p))
        X += np.sqrt(signal) * rng.normal(size=(20_000, 1)) * truth
        model = SparseDPPCA(1, n_nonzero_features=s, delta=delta, center="none").fit(X)
        errors.append(subspace_distance(model.components_, truth))
    model = (20_000, p, 1, signal, noise, 1.0, delta)
    rate = minimax_rate(*model, n_nonzero_features=s)
    upper = minimax_rate(*model, n_nonzero_features=s, bound="upper")
    curves["error"].append(np.mean(errors) / rate)
    curves["upper bound"].append(upper / rate)
draw(axes[1], widths, curves, "features, of which 10 count")
plt.show()
