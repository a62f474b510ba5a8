"""What speed_peers.py compares: cases, and ways to do each, for comparison alone.

A way is a function of the case's sizes that makes its data, and returns a function
without arguments to be timed. Nothing but NumPy is imported before one is called.
"""

import itertools
import math
import resource
from collections import namedtuple
from pathlib import Path

import numpy as np

Case = namedtuple("Case", "what full quick")
Side = namedtuple("Side", "module make")

CASES = {
    "pca-tall": Case(
        "two components of many rows",
        {"n": 1_000_000, "p": 100, "rank": 2},
        {"n": 50_000, "p": 50, "rank": 2},
    ),
    "pca-wide": Case(
        "five components of wide rows",
        {"n": 2000, "p": 5000, "rank": 5},
        {"n": 500, "p": 1000, "rank": 5},
    ),
    "pca-small": Case(
        "components by packages whose time grows fast with features",
        {"n": 5000, "p": 8, "rank": 2},
        {"n": 1000, "p": 6, "rank": 2},
    ),
    "scaler": Case(
        "means and deviations of features",
        {"n": 1_000_000, "p": 50},
        {"n": 50_000, "p": 20},
    ),
    "stream": Case(
        "correlated noise of a stream, step after step",
        {"n": 10_000, "p": 50},
        {"n": 2000, "p": 50},
    ),
    "accounting": Case(
        "epsilon of many different Gaussian mechanisms",
        {"n": 200},
        {"n": 20},
    ),
    "adam": Case(
        "two epochs of a network of one hidden layer",
        {"n": 20_000, "p": 64},
        {"n": 4000, "p": 64},
    ),
    "recommender": Case(
        "a model of ratings",
        {"users": 20_000, "items": 2000, "each": 50},
        {"users": 2000, "items": 300, "each": 30},
    ),
    "personal": Case(
        "one linear model a user",
        {"users": 20_000, "rows": 20, "p": 20},
        {"users": 5000, "rows": 20, "p": 20},
    ),
}


def peak_mb():
    """Return the largest memory of this process, its Python and its data included."""
    try:
        # What a parent had counts in getrusage, across exec.
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(x for x in lines if x.startswith("VmHWM")).split()[1]) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- rows ------------------------------------------------------------------------------


def rows(n, p, rank=2):
    """Return normal rows with some strong directions."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    directions = np.linalg.qr(rng.standard_normal((p, rank)))[0]
    X += math.sqrt(10.0) * rng.standard_normal((n, rank)) @ directions.T
    return X


def dp_pca(n, p, rank, **parameters):
    """DPPCA, without public bounds."""
    from skdpspectral import DPPCA

    X = rows(n, p, rank)
    return lambda: DPPCA(rank, **parameters).fit(X)


def dp_pca_of_zero_mean(n, p, rank):
    """DPPCA of rows whose mean is said to be zero."""
    return dp_pca(n, p, rank, center="none")


def plain_pca(n, p, rank):
    """PCA by default: exact for tall rows, randomized for wide ones."""
    from sklearn.decomposition import PCA

    X = rows(n, p, rank)
    return lambda: PCA(rank, random_state=0).fit(X)


def incremental_pca(n, p, rank):
    """IncrementalPCA with its own size of batches."""
    from sklearn.decomposition import IncrementalPCA

    X = rows(n, p, rank)
    return lambda: IncrementalPCA(rank).fit(X)


def dask_pca(n, p, rank):
    """PCA of dask-ml on an array of ten chunks, in this process."""
    import dask
    import dask.array as da
    from dask_ml.decomposition import PCA

    X = da.from_array(rows(n, p, rank), chunks=(max(n // 10, rank), p))
    solver = "randomized" if p > n else "auto"

    def run():
        with dask.config.set(scheduler="synchronous"):
            PCA(rank, svd_solver=solver, random_state=0).fit(X)

    return run


def analyze_gauss(n, p, rank):
    """Clipped Analyze Gauss as one writes it in NumPy: doubles, and a known seed."""
    X, noise = rows(n, p, rank), np.random.default_rng(0)

    def run():
        norms = np.linalg.norm(X, axis=1)
        bounded = X * np.minimum(1.0, 5.0 / norms)[:, None]
        matrix = bounded.T @ bounded / n
        upper = np.triu(noise.normal(0.0, 25.0 * 5.0 / n, (p, p)))
        matrix += upper + np.triu(upper, 1).T
        return np.linalg.eigh(matrix)[1][:, -rank:]

    return run


def _packaged_pca(package):
    def make(n, p, rank):
        import pca_packages

        X = rows(n, p, rank)
        X -= X.mean(axis=0)
        norm = float(np.linalg.norm(X, axis=1).max())
        find = getattr(pca_packages, f"by_{package}")
        return lambda: find(X.copy(), norm, rank, 1.0)

    return make


def dp_scaler(n, p):
    """DPStandardScaler, without public bounds."""
    from skdpspectral import DPStandardScaler

    X = rows(n, p)
    return lambda: DPStandardScaler().fit(X)


def plain_scaler(n, p):
    """StandardScaler."""
    from sklearn.preprocessing import StandardScaler

    X = rows(n, p)
    return lambda: StandardScaler().fit(X)


def diffprivlib_scaler(n, p):
    """StandardScaler of diffprivlib, with bounds."""
    from diffprivlib.models import StandardScaler

    X = rows(n, p)
    bounds = (np.full(p, -20.0), np.full(p, 20.0))
    return lambda: StandardScaler(epsilon=1.0, bounds=bounds).fit(X)


# -- noise and budgets -----------------------------------------------------------------


def stream_noise(n, p):
    """Our noise of a buffered Toeplitz matrix, on the grid, from a secure source."""
    import jme_peer

    return jme_peer.ours(n, p)


def jax_noise(n, p):
    """The same matrix by jax-privacy, compiled, in float64."""
    import jme_peer

    return jme_peer.peer(n, p)


def _scales(n):
    return np.linspace(20.0, 60.0, n)


def exact_total(n):
    """The exact curve of Gaussian mechanisms."""
    from skdpspectral.accounting import gaussian_epsilon

    calls = itertools.count(1)

    def run():
        # Other ones each time: an answer is not asked for twice.
        scales = _scales(n) * (1.0 + 1e-6 * next(calls))
        return gaussian_epsilon(float(np.sqrt(np.sum(scales**-2.0))), 1e-6)

    return run


def distribution_total(n):
    """Privacy loss distributions of dp-accounting, composed."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def run():
        total = None
        for scale in _scales(n):
            one = pld.from_gaussian_mechanism(float(scale), pessimistic_estimate=True)
            total = one if total is None else total.compose(one)
        return total.get_epsilon_for_delta(1e-6)

    return run


# -- networks, ratings, users ----------------------------------------------------------


def _labelled(n, p):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n, p)), rng.integers(10, size=n)


def dp_adam(n, p):
    """DPAdamClassifier."""
    from skdpspectral import DPAdamClassifier
    from skdpspectral.neural_network import Adam

    X, y = _labelled(n, p)
    given = {"classes": range(10), "optimizer": Adam(noise_multiplier=1.0)}
    return lambda: DPAdamClassifier(64, batch_size=512, n_epochs=2, **given).fit(X, y)


def opacus(n, p):
    """Opacus: the same network, batch, clip and noise; in float32."""
    import opacus as library
    import torch

    X, y = _labelled(n, p)
    tensors = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    data = torch.utils.data.TensorDataset(*tensors)

    def run():
        layers = torch.nn.Linear(p, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10)
        network = torch.nn.Sequential(*layers)
        network, adam, loader = library.PrivacyEngine().make_private(
            module=network,
            optimizer=torch.optim.Adam(network.parameters(), lr=1e-3),
            data_loader=torch.utils.data.DataLoader(data, batch_size=512),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        for _ in range(2):
            for some, labels in loader:
                adam.zero_grad()
                torch.nn.functional.cross_entropy(network(some), labels).backward()
                adam.step()

    return run


def _ratings(users, items, each):
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(users), each)
    item = (
        np.arange(users)[:, None] * 7
        + rng.permuted(np.tile(np.arange(items), (users, 1))[:, :items], axis=1)[
            :, :each
        ]
    ) % items
    return user, item.ravel(), rng.integers(1, 6, size=len(user)).astype(float)


def dp_factorization(users, items, each):
    """DPMatrixFactorization."""
    from skdpspectral import DPMatrixFactorization

    user, item, y = _ratings(users, items, each)
    X = np.column_stack([user, item])
    model = DPMatrixFactorization(items=np.arange(items), rating_range=(1, 5))
    return lambda: model.fit(X, y)


def implicit_als(users, items, each):
    """Alternating least squares of implicit, 20 factors, as it is by default."""
    from implicit.als import AlternatingLeastSquares
    from scipy import sparse

    user, item, y = _ratings(users, items, each)
    table = sparse.csr_matrix((y.astype(np.float32), (user, item)), (users, items))

    def run():
        model = AlternatingLeastSquares(factors=20, num_threads=1, random_state=0)
        model.fit(table, show_progress=False)

    return run


def _personal(users, rows, p):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((users * rows, p))
    shared = rng.standard_normal(p) / math.sqrt(p)
    own = rng.standard_normal(users)
    y = np.repeat(own, rows) * (X @ shared)
    return X, y + 0.1 * rng.standard_normal(len(y)), np.repeat(np.arange(users), rows)


def low_rank_sparse(users, rows, p):
    """LRSRegressor, as it is by default."""
    from skdpspectral import LRSRegressor

    X, y, codes = _personal(users, rows, p)
    return lambda: LRSRegressor(1, 2).fit(X, y, users=codes)


def stacked_ridge(users, rows, p):
    """One ridge a user in NumPy, all of them at once."""
    X, y, _ = _personal(users, rows, p)
    X, y = X.reshape(users, rows, p), y.reshape(users, rows, 1)

    def run():
        grams = X.transpose(0, 2, 1) @ X + np.eye(p)
        return np.linalg.solve(grams, X.transpose(0, 2, 1) @ y)

    return run


def ridge_of_each(users, rows, p):
    """scikit-learn's Ridge, user by user."""
    from sklearn.linear_model import Ridge

    X, y, _ = _personal(users, rows, p)

    def run():
        for start in range(0, len(X), rows):
            part = slice(start, start + rows)
            Ridge().fit(X[part], y[part])

    return run


_OURS = "skdpspectral"
SIDES = {
    "pca-tall": {
        "DPPCA": Side(_OURS, dp_pca),
        "DPPCA, center='none'": Side(_OURS, dp_pca_of_zero_mean),
        "PCA": Side("sklearn", plain_pca),
        "IncrementalPCA": Side("sklearn", incremental_pca),
        "dask-ml PCA": Side("dask_ml", dask_pca),
        "Analyze Gauss in NumPy": Side("numpy", analyze_gauss),
    },
    "pca-small": {
        "DPPCA": Side(_OURS, dp_pca),
        "diffprivlib PCA": Side("diffprivlib", _packaged_pca("diffprivlib")),
        "OpenDP PCA": Side("opendp", _packaged_pca("opendp")),
    },
    "scaler": {
        "DPStandardScaler": Side(_OURS, dp_scaler),
        "StandardScaler": Side("sklearn", plain_scaler),
        "diffprivlib, with bounds": Side("diffprivlib", diffprivlib_scaler),
    },
    "stream": {
        "our noise": Side(_OURS, stream_noise),
        "jax-privacy BLT": Side("jax_privacy", jax_noise),
    },
    "accounting": {
        "our exact curve": Side(_OURS, exact_total),
        "dp-accounting PLD": Side("dp_accounting", distribution_total),
    },
    "adam": {
        "DPAdamClassifier": Side(_OURS, dp_adam),
        "Opacus": Side("opacus", opacus),
    },
    "recommender": {
        "DPMatrixFactorization": Side(_OURS, dp_factorization),
        "implicit ALS": Side("implicit", implicit_als),
    },
    "personal": {
        "LRSRegressor": Side(_OURS, low_rank_sparse),
        "ridges in NumPy": Side("numpy", stacked_ridge),
        "a Ridge a user": Side("sklearn", ridge_of_each),
    },
}
SIDES["pca-wide"] = SIDES["pca-tall"]
