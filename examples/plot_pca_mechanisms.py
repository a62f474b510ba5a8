"""
The mechanisms of private PCA side by side
==========================================

Four ways to spend one budget on the same rows, over the number of rows and of features:
noise on the second moment (the default), two stages, the choice between them, and the
noise of Cai, Xia and Zha (2024), which is private under a model alone. Points are fits,
lines what :meth:`~skdpspectral.DPPCA.expected_error` says before there is any data.
"""

# tags: quick

# %%
# Distances of components
# -----------------------
# One signal direction of variance 10, noise of variance 1; epsilon = 1. With many
# features the second stage gains: the rows are long, but their part along the signal is
# not.

import matplotlib.pyplot as plt
import numpy as np

from skdpspectral import DPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

model = {"signal_variance": 10.0, "noise_variance": 1.0}
mechanisms = {
    "gaussian": {},
    "two-stage": {"mechanism": "two-stage"},
    "auto": {"mechanism": "auto"},
    "spiked, as in the paper": {
        "mechanism": "spiked",
        "calibration": "paper",
        "sensitivity_constant": 1.0,
        **model,
    },
}
sizes = np.array([2_000, 6_000, 20_000])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for ax, p in zip(axes, (30, 300), strict=True):
    for number, (name, parameters) in enumerate(mechanisms.items()):
        pca = DPPCA(1, epsilon=1.0, delta=1e-5, **parameters)
        expected = [pca.expected_error(int(n), p, **model) for n in sizes]
        ax.loglog(sizes, expected, f"C{number}", label=name)
        for seed, n in enumerate(sizes):
            X, truth = make_spiked_covariance(n, p, random_state=seed)
            ax.plot(n, subspace_distance(pca.fit(X).components_, truth), f"C{number}o")
    ax.set(title=f"{p} features", xlabel="rows")
axes[0].set_ylabel("distance of the components")
axes[0].legend()
figure.tight_layout()
plt.show()

# %%
# The covariance, in Schatten norms
# ---------------------------------
# ``release="covariance"`` pays for the variances within the components from clipped
# projections. Errors of the whole matrix are those of the directions and of the
# variances together; q is the order of the Schatten norm, and the error is divided by
# the signal variance.

n, p = 20_000, 100
X, truth = make_spiked_covariance(n, p, random_state=0)
covariance = 10.0 * truth.T @ truth + np.eye(p)
for name, parameters in mechanisms.items():
    pca = DPPCA(1, epsilon=1.0, delta=1e-5, release="covariance", **parameters)
    error = pca.fit(X).get_covariance() - covariance
    singular = np.linalg.svd(error, compute_uv=False) / 10.0
    norms = [np.sum(singular**q) ** (1 / q) for q in (1, 2)]
    print(
        f"{name:24} q = 1: {norms[0]:.3f}  q = 2: {norms[1]:.3f}  "
        f"q = inf: {singular.max():.3f}"
    )
