"""
Errors of a private covariance against a rate
=============================================

This page is for readers of Cai, Xia and Zha (2024). It compares the errors of
``DPCovariance`` and ``SpikedPCA`` with the rate of their theorem 2, as the number of
rows grows.
"""

# tags: quick

# %%
# The error of the whole matrix combines the errors of directions and of variances. q
# is the order of the Schatten norm: 1 for the sum of singular values, 2 for the
# Frobenius norm, and infinity for the largest. There are two components and 100
# features, at epsilon = 0.5. For the model all variances are public. For every
# q, and up to a constant, the paper's rate (theorem 2) is
#
# .. math:: r^{1/q} \Bigl[ \lambda \Bigl( \sqrt{\frac rn} + \frac{\sqrt r (r + \ln n)}
#    {n \varepsilon} \ell \Bigr) + \sqrt{\sigma^2 (\lambda + \sigma^2)} \Bigl(
#    \sqrt{\frac pn} + \frac{p \sqrt{r + \ln n}}{n \varepsilon} \ell \Bigr) \Bigr],
#    \qquad \ell = \sqrt{\ln(2.5 / \delta)} .
#
# The dashed line is the part with epsilon, with a slope near -1 in n. The dotted line
# is the part without epsilon, with slope -1/2. Both use a constant of 1.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPCovariance, PrivacyLeakWarning, SpikedPCA
from skdpspectral.datasets import make_spiked_covariance

warnings.simplefilter("ignore", PrivacyLeakWarning)  # of the printed noise
paper = {"calibration": "paper", "sensitivity_constant": 1.0}
rank, signal, noise, epsilon, delta = 2, 10.0, 1.0, 0.5, 1e-5


def rate_parts(n, p, q):
    """Return the parts of the paper's rate with epsilon and without it."""
    log = np.sqrt(np.log(2.5 / delta)) / (n * epsilon)
    size, spread = rank + np.log(n), np.sqrt(noise * (signal + noise))
    paid = signal * np.sqrt(rank) * size * log + spread * p * np.sqrt(size) * log
    free = signal * np.sqrt(rank / n) + spread * np.sqrt(p / n)
    return rank ** (1 / q) * paid, rank ** (1 / q) * free


def error_spectrum(n, p, seed, model):
    """Return the singular values of the error of a released covariance."""
    X, truth = make_spiked_covariance(n, p, n_components=rank, random_state=seed)
    model.fit(X)
    whole = isinstance(model, DPCovariance)
    error = model.covariance_ if whole else model.get_covariance()
    error = error - noise * np.eye(p)
    return np.linalg.svd(error - signal * truth.T @ truth, compute_uv=False)


def draw(ax, sizes, spectra, parts, q):
    """Draw Schatten norms of errors, with the parts of the rate, and print slopes."""
    norms = {
        name: np.mean([np.linalg.norm(one, ord=q, axis=1) for one in seeds], axis=0)
        for name, seeds in spectra.items()
    }
    norms |= dict(zip(("rate, with epsilon", "rate, without"), parts, strict=True))
    styles = ("C0o-", "C4o-", "k--", "k:")
    for (name, values), style in zip(norms.items(), styles, strict=True):
        ax.loglog(sizes, values, style, label=name)
        slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
        print(f"q = {q:3g}  {name:24} {np.round(values, 2)}  slope {slope:.2f}")


budget = {"epsilon": epsilon, "delta": delta}
model = {"signal_variance": signal, "noise_variance": noise, "release": "covariance"}
compared = {
    "any rows": DPCovariance(center="none", **budget),
    "model, as in the paper": SpikedPCA(rank, **model, **paper, **budget),
}
sizes = np.array([5_000, 10_000, 20_000, 40_000, 80_000])
spectra = {
    name: [
        [error_spectrum(n, 100, seed, compared[name]) for n in sizes]
        for seed in range(2)
    ]
    for name in compared
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4))
for ax, q in zip(axes, (1.0, 2.0, np.inf), strict=True):
    draw(ax, sizes, spectra, rate_parts(sizes, 100, q), q)
    ax.set(title=f"Schatten norm, q = {q:g}", xlabel="number of rows")
    ax.set_xticks(sizes[::2], [f"{n:,}" for n in sizes[::2]])
    ax.minorticks_off()
axes[0].set_ylabel("error of the covariance")
axes[0].legend(fontsize="x-small")
figure.tight_layout()
plt.show()
