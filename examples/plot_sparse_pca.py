"""
Sparse private principal components
===================================

This page is for tables with many features of which few matter.
:class:`~skdpspectral.SparseDPPCA` finds these features. The support is part of the
release and may be published.
"""

# tags: quick

# %%
# Ten features of two hundred
# ---------------------------
# There are ten clients with 2,000 rows each. One direction lies on ten features. The
# others are noise.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from skdpspectral import FederatedDPPCA, NoisyFitWarning, SparseDPPCA
from skdpspectral.metrics import subspace_distance

warnings.simplefilter("ignore", NoisyFitWarning)  # the page shows noise on purpose
rng = np.random.default_rng(0)
p, s, m, n = 200, 10, 10, 2000
support = np.sort(rng.choice(p, s, replace=False))
truth = np.zeros((1, p))
truth[:, support] = rng.choice([-1, 1], size=s) / np.sqrt(s)
scores = np.sqrt(10) * rng.standard_normal((m * n, 1))
X = rng.standard_normal((m * n, p)) + scores @ truth
clients = np.repeat(np.arange(m), n)

# %%
# Rounds share a budget, so few rounds are best: each round less leaves less noise in
# the others.

epsilons = (0.5, 1.0, 2.0, 4.0)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for n_rounds in (1, 3, 10):
    distances, shares = [], []
    for epsilon in epsilons:
        model = SparseDPPCA(
            1, n_nonzero_features=s, n_rounds=n_rounds, epsilon=epsilon, delta=1e-5
        ).fit(X, clients=clients)
        distances.append(subspace_distance(model.components_, truth))
        shares.append(model.support_[support].mean())
    axes[0].plot(epsilons, distances, "o-", label=f"{n_rounds} rounds")
    axes[1].plot(epsilons, shares, "o-", label=f"{n_rounds} rounds")
dense = [
    FederatedDPPCA(1, epsilon=epsilon, delta=1e-5, aggregation="matrix")
    .fit(X, clients=clients)
    .components_
    for epsilon in epsilons
]
axes[0].plot(
    epsilons, [subspace_distance(d, truth) for d in dense], "k--", label="all features"
)
axes[0].set(ylabel="distance to the true direction", yscale="log")
axes[1].set(ylabel="share of the features found")
for ax in axes:
    ax.set_xscale("log", base=2)
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.set(xlabel="epsilon")
    ax.legend()

# %%
# Wine
# ----
# The table has 178 wines with 13 measurements, which is far too few rows for much
# privacy. The bounds here are round numbers of the kind that a chemist would name, and
# features are divided by their half-widths. With three features, and as epsilon grows,
# components settle on the features that vary most within their bounds.

wine = load_wine()
low = np.array([10, 0, 1, 10, 70, 0, 0, 0, 0, 0, 0, 1, 200], dtype=float)
high = np.array([15, 6, 4, 30, 170, 4, 6, 1, 4, 14, 2, 4, 1700], dtype=float)
unit = 0.5 * (high - low)
for epsilon in (1.0, 4.0, 16.0, 1e3):
    model = SparseDPPCA(
        1,
        n_nonzero_features=3,
        epsilon=epsilon,
        delta=1e-4,
        bounds=(low / unit, high / unit),
    ).fit(wine.data / unit)
    names = [wine.feature_names[i] for i in np.flatnonzero(model.support_)]
    print(f"epsilon = {epsilon:g}: {', '.join(names)}")
