"""
Joint moment estimation: a Gaussian density
===========================================

Figure 3 of Kalinin, Upadhyay and Lampert (2025): a Gaussian density is estimated from a
stream, and judged by its divergence from the truth. **As printed the figure is not
private**: rows are taken to have norm at most 1, of which hardly any has, and they are
not clipped. It is redrawn first, to compare; then comes the run that is private.
"""

# tags: quick

# %%
# What is needed: plots, and the package's public arithmetic.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import JMECovariance
from skdpspectral.covariance import BaselineMoments
from skdpspectral.factorizations import Average, factorize
from skdpspectral.metrics import gaussian_kl

FLOOR = 1e-2
rng = np.random.default_rng(0)


def truth(d):
    """Draw a mean and a Wishart covariance with 2 d degrees of freedom."""
    roots = rng.normal(0, np.sqrt(0.5), (2 * d, d))
    return rng.normal(0, np.sqrt(0.5), d), roots.T @ roots


# %%
# As printed, without privacy
# ---------------------------
# Noise of deviation s on every row. Eigenvalues are floored at 0.01, on which the mean
# over runs depends far more than the median.


def noise(factorization, n, width, s):
    """Return shaped noise for rows in the unit ball."""
    Z = s * factorization.column_norm * rng.normal(size=(n, width))
    return factorization.filter(width).push(Z)


def estimates(method, name, X, s, steps):
    """Return means and covariances of some steps, as the figure's caption has them."""
    n, d = X.shape
    factorization = factorize(Average(), name, n)
    noisy = X + noise(factorization, n, d, s)
    if method == "JME":
        products = X[:, :, None] * X[:, None, :]
        extra = np.sqrt(2) * noise(factorization, n, d * d, s).reshape(n, d, d)
        products = products + 0.5 * (extra + extra.transpose(0, 2, 1))
    else:
        products = noisy[:, :, None] * noisy[:, None, :]
    if method == "PP, debiased":
        products = products - s**2 * np.eye(d)
    t = np.arange(1, n + 1)[:, None]
    means = np.cumsum(noisy, axis=0) / t
    covariances = np.cumsum(products, axis=0) / t[:, :, None]
    covariances = covariances - means[:, :, None] * means[:, None, :]
    values, vectors = np.linalg.eigh(covariances[steps - 1])
    values = np.maximum(values, FLOOR)[:, None, :]
    return means[steps - 1], (vectors * values) @ vectors.transpose(0, 2, 1)


settings = [("JME", "trivial"), ("PP", "trivial"), ("PP, debiased", "trivial")]
settings += [("JME", "sqrt")]


def panel(ax, d, n, s, steps, runs):
    """Draw divergences from the truth, and print them."""
    divergences = {setting: [] for setting in settings}
    for _ in range(runs):
        problem = truth(d)
        X = rng.multivariate_normal(*problem, n)
        for setting, values in divergences.items():
            found = zip(*estimates(*setting, X, s, steps), strict=True)
            values.append([gaussian_kl(*moments, *problem) for moments in found])
    print(f"d = {d}, noise {s:g}, steps {steps}")
    for setting, values in divergences.items():
        ax.semilogy(steps, np.mean(values, axis=0), label=", ".join(setting))
        print(setting, "mean", np.mean(values, axis=0).round(2), end=" ")
        print("median", np.median(values, axis=0).round(2))
    ax.set(xlabel="step", title=f"d = {d}, as printed: not private")


fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
panel(axes[0], 5, 100, 2.0, np.array([10, 20, 50, 100]), 300)
panel(axes[1], 10, 200, 4.0, np.array([10, 20, 50, 100, 200]), 60)
axes[0].set_ylabel("divergence")
axes[0].legend()

# %%
# Clipped, and private
# --------------------
# Ten thousand rows, clipped at a norm of 8, :math:`\varepsilon = 1`,
# :math:`\delta = 10^{-6}`: medians over 40 streams, at the last step.

n, clip_norm = 10_000, 8.0
problems = [truth(5) for _ in range(40)]
streams = [rng.multivariate_normal(*problem, n) for problem in problems]
for moments, name in (
    ("jme", "blt"),
    ("jme", "sqrt"),
    ("jme", "trivial"),
    (BaselineMoments("pp-debiased"), "trivial"),
):
    model = JMECovariance(
        clip_norm=clip_norm,
        moments=moments,
        factorization=name,
        min_eigenvalue=FLOOR / clip_norm**2,
    )
    found = []
    for problem, X in zip(problems, streams, strict=True):
        model.fit(X)
        found.append(gaussian_kl(model.location_, model.covariance_, *problem))
    print(f"{moments!s:45} {name:8} median divergence {np.median(found):.3f}")
print(model.privacy_)
