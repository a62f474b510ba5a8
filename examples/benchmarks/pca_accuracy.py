"""Projection distance of DPPCA on spiked covariances, beside PCA on the same data.

    python examples/benchmarks/pca_accuracy.py [--repeats 25] [--quick]

Every repeat draws new data and new noise. The unit is the Frobenius norm of
``UU' - VV'``; lam = 10, sigma^2 = 1, delta = 1e-5.
"""

import argparse

from sklearn.decomposition import PCA
from tables import ignore_leak_warnings, print_row, with_error

from skdpspectral import DPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

# n, p, r, epsilon, distance that the design gives for the default mechanism
SETTINGS = [
    (1_000, 50, 1, 1.0, 0.292),
    (10_000, 200, 1, 0.5, 0.332),
    (100_000, 20, 3, 0.1, 0.020),
    (100_000, 1000, 1, 0.5, 0.322),
    (1_000_000, 200, 1, 0.1, 0.0151),
    (100_000, 50, 1, 1.0, None),
]


def one_repeat(n, p, rank, epsilon, seed):
    """Return the distances of DPPCA and PCA to the truth."""
    X, truth = make_spiked_covariance(
        n, p, n_components=rank, signal_variance=10.0, random_state=seed
    )
    private = DPPCA(rank, epsilon=epsilon, delta=1e-5).fit(X)
    solver = "covariance_eigh" if p <= 1000 else "auto"
    plain = PCA(rank, svd_solver=solver).fit(X)
    return [subspace_distance(m.components_, truth) for m in (private, plain)]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--quick", action="store_true", help="small settings only")
    options = parser.parse_args()
    ignore_leak_warnings()
    print(f"{options.repeats} repeats; mean +- standard error")
    print_row("n, p, r, epsilon", "DPPCA", "PCA", "ratio", "reference")
    for n, p, rank, epsilon, reference in SETTINGS:
        if options.quick and n * p > 2_000_000:
            continue
        distances = [
            one_repeat(n, p, rank, epsilon, seed) for seed in range(options.repeats)
        ]
        private, plain = zip(*distances, strict=True)
        ratio = sum(private) / sum(plain)
        print_row(
            f"{n}, {p}, {rank}, {epsilon:g}",
            with_error(private),
            with_error(plain),
            f"{ratio:.3f}",
            reference or "",
        )


if __name__ == "__main__":
    main()
