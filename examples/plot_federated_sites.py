"""
Components of sites with different offsets
==========================================

This page is for institutions that measure the same quantities with different offsets.
If the rows are pooled, the offsets *are* the leading components. Clients that compare
their own rows in pairs are free of them, and only released values leave the client.
"""

# tags: quick

# %%
# Rows with offsets
# -----------------
# The direction of interest is the same everywhere. The bounds are public: no
# instrument shows more than 30 units.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import FederatedDPPCA, PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

rng = np.random.default_rng(0)
sizes = {"north": 3_000, "east": 9_000, "south": 18_000}
X, truth = make_spiked_covariance(sum(sizes.values()), 10, random_state=0)
hospital = np.repeat(list(sizes), list(sizes.values()))
offsets = dict(zip(sizes, 8 * rng.choice([-1, 1], size=(3, 10)), strict=True))
X += np.array([offsets[name] for name in hospital])

# %%
# With and without pairs
# ----------------------
# Pairs double the noise, and need no center. The ledger has one entry per hospital.
# Their rows are disjoint, so a fit costs only as much as its most expensive hospital.

budgets = {"north": 0.5, "east": 1.0, "south": 1.0}
found = {}
with PrivacyAccountant() as accountant:
    for center in ("none", "pairs"):
        pca = FederatedDPPCA(1, epsilon=budgets, bounds=(-30, 30), center=center)
        pca.fit(X, clients=hospital)
        found[center] = subspace_distance(pca.components_, truth)
        print(f"center={center!r}: distance to the true direction {found[center]:.3f}")
print(accountant)
for entry in accountant.ledger:
    print(f"{entry.estimator} {entry.label or ''} {entry.epsilon:g} mu={entry.mu:.4f}")

# %%
# Weights of clients
# ------------------
# The weight of each hospital is one over its expected squared error.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
axes[0].bar(list(found), list(found.values()))
axes[0].set(ylabel="distance to the true direction", xlabel="center")
axes[1].bar(pca.clients_, pca.client_weights_, label="weight")
axes[1].plot(sizes.keys(), [n / len(X) for n in sizes.values()], "ko", label="rows")
axes[1].set(xlabel="client", ylabel="share of the sum")
axes[1].legend()

# %%
# A hospital that fails
# ---------------------
# The budget of this hospital is spent. The others continue.
# ``min_clients=2`` sets how many must be left.

print(pca.rejected_ or "none failed", "-", len(pca.clients_), "hospitals in the result")
print(pca.privacy_)
