"""
A private Gaussian density, step by step
========================================

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
from skdpspectral.factorizations import Average, factorize, run_filter
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
# d = 5, noise of deviation 2 on every row, 300 runs; eigenvalues are floored at 0.01,
# on which the mean depends far more than the median.

d, n, s, runs = 5, 100, 2.0, 300
steps = np.array([10, 20, 50, 100])


def noise(factorization, n, width):
    """Return shaped noise for rows in the unit ball."""
    Z = s * factorization.column_norm * rng.normal(size=(n, width))
    return run_filter(factorization.filter(width), Z)


def estimates(method, X, name="trivial"):
    """Return means and covariances of all steps, as the figure's caption has them."""
    factorization = factorize(Average(), name, n)
    noisy = X + noise(factorization, n, d)
    if method == "JME":
        products = X[:, :, None] * X[:, None, :]
        extra = np.sqrt(2) * noise(factorization, n, d * d).reshape(n, d, d)
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
divergences = {setting: [] for setting in settings}
for _ in range(runs):
    mean, covariance = truth(d)
    X = rng.multivariate_normal(mean, covariance, n)
    for setting in settings:
        found = zip(*estimates(setting[0], X, setting[1]), strict=True)
        divergences[setting].append([gaussian_kl(*f, mean, covariance) for f in found])
fig, ax = plt.subplots()
for setting, values in divergences.items():
    ax.semilogy(steps, np.mean(values, axis=0), label=", ".join(setting))
    print(setting, "mean", np.mean(values, axis=0).round(2), end=" ")
    print("median", np.median(values, axis=0).round(2))
ax.set(xlabel="step", ylabel="divergence", title="figure 3a, as printed: not private")
ax.legend()

# %%
# Clipped, and private
# --------------------
# Ten thousand rows, clipped at a norm of 8, :math:`\varepsilon = 1`,
# :math:`\delta = 10^{-6}`: medians over 40 streams, at the last step.

n, clip_norm = 10_000, 8.0
problems = [truth(d) for _ in range(40)]
streams = [rng.multivariate_normal(*problem, n) for problem in problems]
for method, name in (
    ("jme", "blt"),
    ("jme", "sqrt"),
    ("jme", "trivial"),
    ("pp-debiased", "trivial"),
):
    model = JMECovariance(
        clip_norm=clip_norm,
        method=method,
        factorization=name,
        min_eigenvalue=FLOOR / clip_norm**2,
    )
    found = []
    for problem, X in zip(problems, streams, strict=True):
        model.fit(X)
        found.append(gaussian_kl(model.location_, model.covariance_, *problem))
    print(f"{method:12} {name:8} median divergence {np.median(found):.3f}")
print(model.privacy_)
