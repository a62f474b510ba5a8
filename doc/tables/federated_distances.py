"""Distances to the true direction in federations of the paper's figure 1.

50 features, signal variance 10, noise variance 1, delta = 0.1 (1d: 0.1 to 0.2). "paper"
and "reference" have the noise of algorithm 1 of Li et al.; Fed-DP-Oja passes over the
rows once, in batches. Clients, budgets, rows and noise are new in each repeat.
"""

import numpy as np
from federated_baselines import PAPER, REFERENCE, federated_oja, figure_1

from skdpspectral import FederatedDPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

HEADER = "Setting"
ROWS = {
    "1a: ten clients of 10,000 rows, :math:`\\epsilon = 0.1`": ("1a", 0.1),
    "the same, :math:`\\epsilon = 0.5`": ("1a", 0.5),
    "the same, :math:`\\epsilon = 1`": ("1a", 1.0),
    "1b: 100 clients of 1,000 rows, :math:`\\epsilon = 0.5`": ("1b", 100),
    "1c: 50 clients of 2,000 rows, :math:`\\epsilon = 0.5`": ("1c", 50),
    "1d: ten unequal clients, N = 100": ("1d", 100),
    "the same, N = 500": ("1d", 500),
    "the same, N = 1000": ("1d", 1000),
}
DIGITS = 4
REPEATS = 10
METHODS = {
    "paper": PAPER,
    "reference": REFERENCE,
    '"gaussian"': {},
    '"gaussian", center="shared"': {"center": "shared"},
    '"gaussian", center="none"': {"center": "none"},
}


def measure(setting, seed):
    """Return the distances of one federation."""
    sizes, budgets = figure_1()[setting]
    rng = np.random.default_rng(seed)
    budgets = budgets(rng)
    X, truth = make_spiked_covariance(
        sum(sizes), 50, signal_variance=10.0, random_state=seed
    )
    clients = np.repeat(np.arange(len(sizes)), sizes)
    given = {
        "epsilon": {j: epsilon for j, (epsilon, _) in enumerate(budgets)},
        "delta": {j: delta for j, (_, delta) in enumerate(budgets)},
        "noise_seed": seed,
    }
    found = {
        name: FederatedDPPCA(1, **given, **parameters).fit(X, clients=clients)
        for name, parameters in METHODS.items()
    }
    distances = {
        name: subspace_distance(model.components_, truth)
        for name, model in found.items()
    }
    parts = np.split(X, np.cumsum(sizes)[:-1])
    oja = federated_oja(parts, budgets, 10.0, rng)
    return distances | {"Fed-DP-Oja": subspace_distance(oja, truth)}
