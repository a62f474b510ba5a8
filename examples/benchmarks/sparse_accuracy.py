"""SparseDPPCA against rounds and epsilon, beside truncated powers without privacy.

python examples/benchmarks/sparse_accuracy.py [--repeats 10]

p = 200, 10 features in all components, 10 clients of 2000 rows, signal 10.
"""

import argparse

import numpy as np
from tables import ignore_leak_warnings, print_row, with_error

from skdpspectral import SparseDPPCA
from skdpspectral.metrics import subspace_distance

P, S, M, N = 200, 10, 10, 2000


def federation(k, seed):
    """Return rows, components and their features."""
    rng = np.random.default_rng(seed)
    support = rng.choice(P, S, replace=False)
    truth = np.zeros((k, P))
    truth[:, support] = np.linalg.qr(rng.standard_normal((S, k)))[0].T
    scores = np.sqrt(10.0) * rng.standard_normal((M * N, k))
    return rng.standard_normal((M * N, P)) + scores @ truth, truth, support


def main():
    """Print error, and the share of the features that is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    ignore_leak_warnings()
    clients = np.repeat(np.arange(M), N)
    print_row("k, epsilon", "T = 1", "T = 3", "T = 10")
    for k in (1, 3):
        for epsilon in (0.5, 1.0, 4.0, None):
            found = {n_rounds: ([], []) for n_rounds in (1, 3, 10)}
            for seed in range(options.repeats):
                X, truth, support = federation(k, seed)
                for n_rounds, (distances, shares) in found.items():
                    model = SparseDPPCA(
                        k,
                        n_nonzero_features=S,
                        n_rounds=n_rounds,
                        epsilon=epsilon,
                        delta=1e-5,
                    ).fit(X, clients=clients)
                    distances.append(subspace_distance(model.components_, truth))
                    shares.append(model.support_[support].mean())
            cells = [f"{with_error(d, 3)}; {np.mean(s):.2f}" for d, s in found.values()]
            print_row(f"{k}, {epsilon}", *cells)


if __name__ == "__main__":
    main()
