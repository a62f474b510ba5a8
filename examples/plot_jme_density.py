"""
Joint moment estimation: a Gaussian density
===========================================

This page is for readers of Kalinin, Upadhyay and Lampert (2025), figure 3. A Gaussian
density is estimated from a stream, and judged by its divergence from the truth. **As
printed, the figure is not private**: rows are assumed to have norm at most 1, which
hardly any row has, and they are not clipped. The page first redraws the figure and then
shows a private run.
"""

# tags: quick

# %%
# ``benchmarks/jme_figures.py`` contains the arithmetic of the paper's methods.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import JMECovariance
from skdpspectral.accounting import gaussian_mu
from skdpspectral.covariance._moment_stream import project_covariance
from skdpspectral.factorizations import Average, factorize

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from jme_figures import FLOOR, baseline_moments, estimates, gaussian_kl, truth

rng = np.random.default_rng(0)

# %%
# As printed, without privacy
# ---------------------------
# Every row gets noise of standard deviation s. Eigenvalues are floored at 0.01. The
# mean over runs depends on this floor far more than the median.


settings = [("JME", "trivial"), ("PP", "trivial"), ("PP, debiased", "trivial")]
settings += [("JME", "sqrt")]


def panel(ax, d, n, s, steps, runs):
    """Draw divergences from the truth, and print them."""
    divergences = {setting: [] for setting in settings}
    for _ in range(runs):
        problem = truth(d, rng)
        X = rng.multivariate_normal(*problem, n)
        for setting, values in divergences.items():
            found = zip(*estimates(*setting, X, s, steps, rng), strict=True)
            values.append([gaussian_kl(*moments, *problem) for moments in found])
    print(f"d = {d}, noise {s:g}, steps {steps}")
    for setting, values in divergences.items():
        ax.semilogy(steps, np.mean(values, axis=0), label=", ".join(setting))
        print(setting, "mean", np.mean(values, axis=0).round(2), end=" ")
        print("median", np.median(values, axis=0).round(2))
    ax.set(xlabel="number of steps", title=f"d = {d}, as printed: not private")


fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
panel(axes[0], 5, 100, 2.0, np.array([10, 20, 50, 100]), 300)
panel(axes[1], 10, 200, 4.0, np.array([10, 20, 50, 100, 200]), 60)
axes[0].set_ylabel("Kullback-Leibler divergence")
axes[0].legend()

# %%
# Clipped, and private
# --------------------
# The plot is for ten thousand rows, clipped at a norm of 8, :math:`\varepsilon = 1` and
# :math:`\delta = 10^{-6}`. It shows medians over 40 streams at the last step.

n, clip_norm = 10_000, 8.0
problems = [truth(5, rng) for _ in range(40)]
streams = [rng.multivariate_normal(*problem, n) for problem in problems]
for name in ("blt", "sqrt", "trivial"):
    model = JMECovariance(
        clip_norm=clip_norm, factorization=name, min_eigenvalue=FLOOR / clip_norm**2
    )
    found = []
    for problem, X in zip(problems, streams, strict=True):
        model.fit(X)
        found.append(gaussian_kl(model.location_, model.covariance_, *problem))
    print(f"JME, {name:8} median divergence {np.median(found):.3f}")

trivial, mu, found = factorize(Average(), "trivial"), gaussian_mu(1.0, 1e-6), []
for problem, X in zip(problems, streams, strict=True):
    given = "PP, debiased", X, trivial, mu, rng
    mean, second = (
        sums[-1] / n for sums in baseline_moments(*given, clip_norm=clip_norm)
    )
    covariance = second - np.outer(mean, mean)
    covariance = project_covariance(covariance, FLOOR, clip_norm**2)
    found.append(gaussian_kl(mean, covariance, *problem))
print(f"PP, debiased, trivial: median divergence {np.median(found):.3f}")
print(model.privacy_)
