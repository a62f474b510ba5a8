"""Distances of the components of DPPCA to the true ones.

Gaussian rows with signal variance 10 and noise variance 1, delta = 1e-5; rows and noise
are new in each repeat. "paper" has a constant of 1 and the noise of the papers.
"""

from sklearn.decomposition import PCA

from skdpspectral import DPPCA, SpikedPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

HEADER = "n, p, r, :math:`\\epsilon`"
ROWS = {
    "1e3, 50, 1, 1": (1_000, 50, 1, 1.0),
    "1e4, 200, 1, 0.5": (10_000, 200, 1, 0.5),
    "1e5, 20, 3, 0.1": (100_000, 20, 3, 0.1),
    "1e5, 1000, 1, 0.5": (100_000, 1000, 1, 0.5),
}
SLOW = ("1e5, 1000, 1, 0.5",)
REPEATS = {"1e3, 50, 1, 1": 100, "1e5, 1000, 1, 0.5": 4}
DIGITS = 4
PAPER = {"calibration": "paper", "sensitivity_constant": 1.0}
MODEL = {"signal_variance": 10.0, "noise_variance": 1.0, **PAPER}
CENTERS = {"default": "auto", "pairs": "pairs", "known center": "none"}


def measure(setting, seed):
    """Return the distances of one draw of rows."""
    n, p, rank, epsilon = setting
    X, truth = make_spiked_covariance(n, p, n_components=rank, random_state=seed)
    common = {"epsilon": epsilon, "delta": 1e-5, "noise_seed": seed}
    models = {"PCA": PCA(rank, svd_solver="covariance_eigh")}
    models["paper"] = SpikedPCA(rank, **MODEL, **common)
    for name, center in CENTERS.items():
        models[name] = DPPCA(rank, center=center, **common)
    return {
        name: subspace_distance(model.fit(X).components_, truth)
        for name, model in models.items()
    }
