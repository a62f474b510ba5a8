"""CPU time of DPPCA beside scikit-learn's PCA, in one run.

python examples/benchmarks/pca_speed.py [--repeats 7]
"""

import argparse
from functools import partial

import numpy as np
from sklearn.decomposition import PCA
from tables import ignore_leak_warnings, median_cpu, print_row

from skdpspectral import DPPCA
from skdpspectral.datasets import make_spiked_covariance


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    ignore_leak_warnings()
    print(f"medians of {options.repeats}: CPU seconds (wall seconds)")
    print_row(
        "n x p, r", "DPPCA", "DPPCA, bounds", "PCA", "ratio of CPU", "with bounds"
    )
    for n, p, rank in ((1_000_000, 100, 2), (2_000, 5_000, 5)):
        X, _ = make_spiked_covariance(
            n, p, n_components=rank, signal_variance=10.0, random_state=0
        )
        bounds = (-20.0, 20.0)
        models = (DPPCA(rank), DPPCA(rank, bounds=bounds), PCA(rank, random_state=0))
        for model in models:  # warm caches, threads and imports
            model.fit(X[: min(n, 4000)])
        times = [median_cpu(partial(m.fit, X), options.repeats) for m in models]
        (first, _), (bounded, _), (plain, _) = times
        print_row(
            f"{n} x {p}, {rank}",
            *(f"{cpu:.3f} ({wall:.3f})" for cpu, wall in times),
            f"{first / plain:.2f}",
            f"{bounded / plain:.2f}",
        )
        assert np.isfinite(models[0].components_).all()


if __name__ == "__main__":
    main()
