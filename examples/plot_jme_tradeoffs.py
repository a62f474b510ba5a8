"""
Joint moment estimation: closed forms of errors
===============================================

This page is for readers of Kalinin, Upadhyay and Lampert (2025), figures 1, 2, 6 and 7,
which compare methods of releasing the first and the second moment of a stream. The page
draws them from closed forms, which the tests check by simulation, **with the corrected
algorithms**. As printed, algorithm 4 does not raise the noise of the second moment for
its share of the budget, and algorithm 5 omits the norm of the factorization. Both
would spend more than they claim.
"""

# tags: quick

# %%
# ``benchmarks/jme_figures.py`` contains the sums over steps.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import sensitivity
from skdpspectral.factorizations import Exponential, Prefix, Window

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
sys.path.insert(0, str(here / "benchmarks"))
from jme_figures import second_moment_errors
from rates import stream_covariance_error

# %%
# Figure 1: errors of both moments
# --------------------------------
# The setting is d = 10, n = 100, prefix sums, no factorization, :math:`\sigma = 1/2`.
# Each method is plotted against its weight :math:`\nu` of the second moment. For all of
# them, the noise is :math:`\sigma \sqrt{r(\nu)}` on the first moment, and this divided
# by :math:`\sqrt\nu` on the second. They differ in the squared sensitivity r that they
# are charged with. (As in the paper, the noise of the second moment is not symmetric
# here. The estimator's noise is symmetric, and smaller by nearly :math:`\sqrt2`.)

d, n, sigma = 10, 100, 0.5
size = np.sqrt(n * (n + 1) / 2)
weights = np.geomspace(1e-3, 50, 2000)
joint = np.array([sensitivity.joint_moment_ratio(nu, d) for nu in weights])
methods = {
    "joint (lambda-JME)": joint,
    "independent (IME)": 4.0 + 2.0 * weights,
    "concatenated (CS)": 4.0 * (1.0 + weights),
}
fig, ax = plt.subplots()
for name, ratios in methods.items():
    first = sigma * np.sqrt(ratios * d) * size
    second = sigma * np.sqrt(ratios / weights) * d * size
    ax.loglog(first, second, label=name)
free = 2 * sigma * np.sqrt(d) * size, 2 * np.sqrt(2) * sigma * d * size
ax.plot(*free, "ko", label="JME: the free weight")
ax.set(xlabel="error of the first moment", ylabel="error of the second moment")
ax.set(xlim=(200, 1500), ylim=(400, 8000), title="figure 1")
ax.legend()

# %%
# Figure 2: squares of noisy rows
# -------------------------------
# Post-processing (PP) squares rows that have been released with noise. Its error grows
# with the square of the noise, so it is better only if there is little noise. The worst
# rows are all alike. The caption of the printed figure says that the square root
# improves both methods. It improves JME, and makes PP worse wherever noise matters.


def draw(panels):
    """Draw errors of the second moment for 1,000 steps."""
    _, axes = plt.subplots(1, 4, figsize=(14, 3.5), layout="constrained")
    for ax, (workload, name, d) in zip(axes, panels, strict=True):
        errors = second_moment_errors(workload, name, 1000, d, sigmas)
        for method, error in errors.items():
            ax.loglog(sigmas, error, label=method)
        ax.set(title=f"{workload.name}, d = {d}, {name}", xlabel="noise sigma")
    axes[0].set_ylabel("error of the second moment")
    axes[0].legend()


sigmas = np.geomspace(1e-3, 10, 4000)
sqrt_and_trivial = ("trivial", "sqrt")
draw([(Prefix(), name, d) for d in (1, 1000) for name in sqrt_and_trivial])

# %%
# Figure 6: covariances
# ---------------------
# The plot is for means and covariances of prefixes, n = 1000, with independent noise.
# The noise of the mean enters the covariance twice. Its square is a public bias, which
# is corrected as in the paper's equation 76. For squares of noisy rows, the largest
# error over all rows is known up to bounds. The lines do not distinguish the bounds,
# which are narrower than those of the paper's theorem 4.2.

n, steps = 1000, np.arange(1, 1001)
h1, h2 = (np.sum(1.0 / steps**power) for power in (1, 2))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for ax, d in zip(axes, (1, 100), strict=True):
    s2 = (2 * sigmas) ** 2
    linear = d**2 / sensitivity.free_moment_weight(d) + 2 * d + 2
    jme = linear * s2 * h1 + d * (d + 1) * s2**2 * h2
    ax.loglog(sigmas, np.sqrt(jme), label="JME")
    debiased = {"method": "pp-debiased"}
    ends = [stream_covariance_error(n, d, 2 * sigma, **debiased) for sigma in sigmas]
    low, high = np.sqrt(np.transpose(ends))
    ax.loglog(sigmas, high, color="C1", label="PP, debiased")
    ax.fill_between(sigmas, low, high, color="C1", alpha=0.5)
    print(f"d={d}: bounds are within {np.max(high / low) - 1:.1%} of each other")
    ax.set(title=f"covariance, d = {d}", xlabel="noise sigma")
axes[0].set_ylabel("error of the covariance")
axes[0].legend()

# %%
# Figure 7: workloads that forget
# -------------------------------
# The setting is d = 100, n = 1000. A window is divided by the number of its rows even
# while it fills, while the paper divides by ten from the first step on.

forgetting = (Exponential(0.9), Window(10))
draw([(workload, name, 100) for workload in forgetting for name in sqrt_and_trivial])
plt.show()
