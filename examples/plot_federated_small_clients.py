"""
When a formula says that no noise is needed
===========================================

Section 4.2 of Li, Cai, Xia and Zhang (2024) shares 181 lung tissues with 12,533 genes
between two clients, of 130 and 51 tissues. The noise of their method needs the
variance :math:`\\sigma^2` of the noise in the model, which each client estimates from
the 51st to 251st eigenvalue of its own sample covariance. This page repeats it on
made-up data of that shape, only with fewer genes. It shows two mistakes that a figure
of accuracy hides.
"""

# tags: quick

# %%
# Eigenvalues that do not exist
# -----------------------------
# The covariance of 51 rows about their mean has at most 50 eigenvalues that are not
# zero. The mean of the 51st to 251st is zero, and so is the noise that is made from
# it: the second client sends its components as they are.

import numpy as np

from skdpspectral import FederatedDPPCA, PrivacyLeakWarning
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import captured_variance

p, rank, epsilon, delta = 1000, 5, 0.4, 0.1
X, _ = make_spiked_covariance(
    181, p, n_components=rank, signal_variance=200.0, random_state=0
)
clients = np.repeat(["first", "second"], [130, 51])


def printed_noise(rows):
    """Standard deviation of the printed method, from the client's own eigenvalues."""
    n = len(rows)
    rows = rows - rows.mean(axis=0)
    values = np.zeros(p)
    values[:n] = np.linalg.svd(rows, compute_uv=False) ** 2 / n
    signal, noise = values[:3].mean(), values[50:251].mean()
    ratio = noise / signal
    spread = ratio * (ratio + 1) * p * (rank + np.log(n))
    return np.sqrt(8 * np.log(2.5 / delta) * spread) / (epsilon * n)


for name in ("first", "second"):
    rows = X[clients == name]
    print(f"{name}: {len(rows)} rows, printed noise {printed_noise(rows):.3g}")

# %%
# The first client's noise is no better founded: its variances come from the data and
# are themselves never made private, and the bound that they go into holds for
# Gaussian rows alone.
#
# What an honest budget buys
# --------------------------
# At epsilon = 0.4, and even at a delta of 0.1, which would allow to publish whole
# rows at random, worst-case noise drowns components of so many features and so few
# rows. No mechanism of this kind can help: the answer is more rows or fewer features,
# not less noise.

import warnings

warnings.simplefilter("ignore", PrivacyLeakWarning)  # of delta
private = FederatedDPPCA(rank, epsilon=epsilon, delta=delta).fit(X, clients=clients)
exact = FederatedDPPCA(rank, epsilon=None).fit(X, clients=clients)
for name, model in (("private", private), ("without privacy", exact)):
    print(f"{name}: {captured_variance(model, X):.3f} of the variance")
print(f"any five directions at random: about {rank / p:.3f}")

# %%
# How many rows it would take
# ---------------------------
# The private error is about :math:`\sqrt{2 r (p - r)} / (n \mu g)`, with g the gap of
# unit rows; a plan gives the cost without any data.

gap = 200.0 / (rank * 200.0 + p)
for n in (51, 1_000, 10_000, 100_000):
    mu = FederatedDPPCA(rank, epsilon=epsilon, delta=delta).privacy_plan(n, p).mu
    error = np.sqrt(2 * rank * (p - rank)) / (n * mu * gap)
    print(f"{n:>7} rows: private error about {min(error, np.sqrt(2 * rank)):.2f}")
