"""Figures 1a to 1d of the federated paper: our error beside that of its methods.

python examples/benchmarks/federated_accuracy.py [--repeats 25] [--panels 1a 1d]

Distances || U U' - V V' ||_F, mean and standard error, for p = 50, r = 1, signal 10.
"""

import argparse

import numpy as np
from federated_baselines import (
    MODEL,
    PAPER,
    REFERENCE,
    federated_oja,
    figure_1,
    printed_weights,
)
from sklearn.base import clone
from tables import ignore_leak_warnings, print_row, with_error

from skdpspectral import FederatedDPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

P, SIGNAL = 50, 10.0
MODES = {
    "proposed": PAPER,
    "equal": {**PAPER, "weights": "equal"},
    "reference": REFERENCE,
    "ours": {},
    "ours, equal": {"weights": "equal"},
}


def model_of(budgets, **parameters):
    """Return an estimator with a budget for every client."""
    return FederatedDPPCA(
        1,
        epsilon={j: epsilon for j, (epsilon, _) in enumerate(budgets)},
        delta={j: delta for j, (_, delta) in enumerate(budgets)},
        **parameters,
    )


def errors(sizes, budgets, seed):
    """Return the distance of every method, for one federation."""
    rng = np.random.default_rng(seed)
    budgets = budgets(rng)
    X, truth = make_spiked_covariance(
        sum(sizes), P, signal_variance=SIGNAL, random_state=seed
    )
    parts = np.split(X, np.cumsum(sizes)[:-1])
    clients = np.repeat(np.arange(len(sizes)), sizes)
    found = {
        name: model_of(budgets, **parameters).fit(X, clients=clients).components_
        for name, parameters in MODES.items()
    }
    found["as printed"] = printed_weights(parts, budgets, 1, SIGNAL, rng)
    found["Oja"] = federated_oja(parts, budgets, SIGNAL, rng)
    return {name: subspace_distance(basis, truth) for name, basis in found.items()}


def covariance_errors(sizes, budgets, seed):
    """Return errors of the paper's covariance, of ours, and of one without privacy.

    "paper" adds noise for the variance of all features, by the bounds of Cai, Xia and
    Zha (2024): sums of two terms, where the algorithm prints roots of smaller squares.
    """
    budgets = budgets(np.random.default_rng(seed))
    X, truth = make_spiked_covariance(sum(sizes), P, random_state=seed)
    target = SIGNAL * truth.T @ truth + np.eye(P)
    clients = np.repeat(np.arange(len(sizes)), sizes)
    printed = clone(MODEL).set_params(release="covariance")
    paper = model_of(budgets, mechanism=printed).fit(X, clients=clients)
    ours = model_of(budgets, projection_norm=11.0).fit(X, clients=clients)
    axes, spike = ours.components_, np.maximum(ours.explained_variance_ - 1.0, 0.0)
    value, vectors = np.linalg.eigh(X.T @ X / len(X))
    pooled = (value[-1] - 1) * np.outer(vectors[:, -1], vectors[:, -1]) + np.eye(P)
    found = {
        "paper": paper.get_covariance(),
        "ours": axes.T * spike @ axes + np.eye(P),
        "no privacy": pooled,
    }
    return {name: np.linalg.norm(each - target) for name, each in found.items()}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--panels", nargs="*", default=["1a", "1b", "1c", "1d"])
    options = parser.parse_args()
    ignore_leak_warnings()
    names = None
    for (panel, value), setting in figure_1().items():
        if panel not in options.panels:
            continue
        rows = [errors(*setting, seed) for seed in range(options.repeats)]
        if names is None:
            names = list(rows[0])
            print_row("panel", *names, widths=16)
        cells = [with_error([row[name] for row in rows]) for name in names]
        print_row(f"{panel} {value}", *cells, widths=16)


if __name__ == "__main__":
    main()
