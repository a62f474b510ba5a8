"""Share of non-private centered variance that DPPCA keeps on real data.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/pca_real_data.py [--repeats 25]

Bounds are public and fixed beforehand by the loaders. Each cell is the variance
about the data's mean that the private components keep, over what PCA's keep:
median over repeats with fresh noise, and the standard error of the mean.
"""

import argparse

import numpy as np
from real_tables import load_adult, load_coil2000, load_jester, load_kddcup99
from sklearn.decomposition import PCA
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPPCA
from skdpspectral.datasets import load_digits

LOADERS = {
    "digits": load_digits,
    "adult": load_adult,
    "kddcup99": load_kddcup99,
    "jester": load_jester,
    "coil2000": load_coil2000,
}
EPSILONS = (0.1, 0.5, 1.0)
RANKS = (1, 2, 5)


def kept(components, covariance):
    """Variance that orthonormal components keep."""
    return float(np.sum((components @ covariance) * components))


def shares(X, covariance, best, rank, epsilon, repeats, **parameters):
    """Return the shares kept in each repeat."""
    pca = DPPCA(rank, epsilon=epsilon, delta=1e-6, **parameters)
    return [kept(pca.fit(X).components_, covariance) / best for _ in range(repeats)]


def main():
    """Print one table a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=LOADERS)
    options = parser.parse_args()
    ignore_leak_warnings()
    print(f"{options.repeats} repeats: median (standard error of the mean)")
    for name, load in LOADERS.items():
        if options.only not in (None, name):
            continue
        data = load()
        X = np.asarray(data.data, dtype=np.float64)
        covariance = np.cov(X, rowvar=False, bias=True)
        print(f"\n{name}: {X.shape[0]} x {X.shape[1]}")
        print_row("k", "epsilon", "with bounds", "without bounds")
        for rank in RANKS:
            best = kept(PCA(rank).fit(X).components_, covariance)
            for epsilon in EPSILONS:
                cells = []
                for parameters in ({"bounds": data.bounds}, {}):
                    values = shares(
                        X,
                        covariance,
                        best,
                        rank,
                        epsilon,
                        options.repeats,
                        **parameters,
                    )
                    error = np.std(values, ddof=1) / np.sqrt(len(values))
                    cells.append(f"{np.median(values):.4f} ({error:.4f})")
                print_row(rank, epsilon, *cells)


if __name__ == "__main__":
    main()
