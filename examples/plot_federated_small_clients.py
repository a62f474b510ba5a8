"""
Federated PCA of 181 lung tissues
=================================

This page is for readers of Li, Cai, Xia and Zhang (2024), section 4.2. There, 181 lung
tissues with 251 genes belong to two clients, with 130 and 51 tissues, at epsilon = 0.4
and delta = 0.1. The page shows how much of the variance is left with the noise of the
paper, and with noise that protects both clients.
"""

# tags: quick

# %%
# The printed noise
# -----------------
# Each client estimates the noise variance of its model from the 51st to 251st
# eigenvalue of its own second moment. With 51 rows, all of these but one are zero, so
# the small client adds a tenth of the large client's noise. If a client subtracts its
# own mean first, which algorithm 1 does not, all are zero, and the small client adds no
# noise. ``benchmarks/federated_tissues.py`` chooses the genes and z-scores them over
# all tissues. This choice is not private either.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import FederatedDPPCA, NoisyFitWarning, PrivacyLeakWarning
from skdpspectral.metrics import captured_variance

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
import federated_tissues as paper
from federated_baselines import federated_oja

warnings.simplefilter("ignore", PrivacyLeakWarning)  # of delta, and of epsilon=None
warnings.simplefilter("ignore", NoisyFitWarning)
tissues, other_genes = paper.load_tissues()
readings = {"as printed": False, "centered by client": True}
for reading, centered in readings.items():
    for name in ("first", "second"):
        rows = paper.split(0, tissues)[paper.clients == name]
        noise = paper.printed_noise(rows, centered)
        print(f"{reading}, {name}: {len(rows)} rows, noise {noise:.4f}")

# %%
# Figure 2, and noise for both clients
# ------------------------------------
# The plot shows the share of the variance that five components keep, over twenty splits
# and draws. The weights as printed favor the small client, which adds less noise. With
# the exponent of -2 that theorem 1 has, they favor the large client, and are worse than
# equal weights here. A delta of 0.1 hardly protects: it allows publishing each row with
# probability 0.1.

shares = {}
for seed in range(20):
    rows = paper.split(seed, tissues)
    parts = [rows[paper.clients == name] for name in ("first", "second")]
    bases = {
        f"{name}, {reading}": paper.printed_method(
            rows, weights, np.random.default_rng(seed), centered
        )
        for reading, centered in readings.items()
        for name, weights in paper.WEIGHTS.items()
    }
    rng = np.random.default_rng(seed)
    oja = federated_oja(parts, [(0.4, 0.1)] * 2, 10.0, rng, rank=5)
    for name, basis in (bases | {"Fed-DP-Oja": oja.T}).items():
        shares.setdefault(name, []).append(paper.share(rows, basis))


def kept(source, n_draws=20, **parameters):
    """Return the share of variance that components keep, over splits and draws."""
    splits = [paper.split(seed, source) for seed in range(n_draws)]
    pca = FederatedDPPCA(5, center="none", **parameters)
    return [captured_variance(pca.fit(X, clients=paper.clients), X) for X in splits]


for genes, source in {"": tissues, ", differing genes": other_genes}.items():
    shares[f"no privacy{genes}"] = kept(source, epsilon=None)
    for delta in (0.1, 1e-6):
        name = f"default, delta = {delta:g}{genes}"
        shares[name] = kept(source, epsilon=0.4, delta=delta)
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
means = [np.mean(values) for values in shares.values()]
bars = [np.std(values, ddof=1) / np.sqrt(len(values)) for values in shares.values()]
for name, mean, bar in zip(shares, means, bars, strict=True):
    print(f"{name}: {mean:.3f} +- {bar:.3f} of the variance (standard error)")
ax.barh(list(shares), means, xerr=bars)
ax.axvline(5 / 251, color="k", ls=":", label="five directions at random")
ax.set(xlabel="share of the variance", ylabel="method")
ax.invert_yaxis()
ax.legend()
plt.show()

# %%
# How many rows it would take
# ---------------------------
# Tissues drawn with replacement stand in for a larger study, with delta = 1e-6.

for n in (181, 1_000, 3_000, 10_000, 30_000):
    rows = tissues[np.random.default_rng(n).integers(len(tissues), size=n)]
    site = np.where(np.arange(n) < n * 130 // 181, "first", "second")
    pca = FederatedDPPCA(5, epsilon=0.4, center="none").fit(rows, clients=site)
    print(f"{n:>6} rows: {captured_variance(pca, tissues):.3f} of the variance")
