"""Share of variance kept: DPPCA with no bounds beside what was published.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/pca_peers.py

Each cell: the median over repeats of the variance about the data's mean that the
components keep, over what PCA's keep. DPPCA knows nothing of the rows; CoinPress is
given the exact mean and a bound of twice the largest eigenvalue, AdaptiveCov the exact
mean and the radius of the public box, and diffprivlib, where it is installed and runs,
the box and the exact mean and largest norm.
"""

import argparse

import numpy as np
from covariance_peers import (
    adaptive_cov,
    budget,
    coinpress,
    diffprivlib_components,
    gdppca,
    leading,
    separate_cov,
)
from pca_real_data import kept
from sklearn.decomposition import PCA
from tables import ignore_leak_warnings, ignore_noise_warnings, print_row

from skdpspectral import DPPCA
from skdpspectral.datasets import (
    load_adult,
    load_coil2000,
    load_digits,
    load_jester,
    make_spiked_covariance,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)


def simulated(n, p, *, n_components=1, location=3.0):
    """Rows about a location, and a box that holds them."""
    X, _ = make_spiked_covariance(n, p, n_components=n_components, random_state=0)
    return X + location, (location - 18.0, location + 18.0)


def real(load):
    """Rows of a data set with their public bounds."""
    data = load()
    return np.asarray(data.data, dtype=np.float64), data.bounds


DATA = {
    "digits": (lambda: real(load_digits), 2),
    "adult": (lambda: real(load_adult), 1),
    "coil2000": (lambda: real(load_coil2000), 2),
    "jester": (lambda: real(load_jester), 1),
    "1e3 x 50": (lambda: simulated(1000, 50), 1),
    "1e4 x 200": (lambda: simulated(10_000, 200), 1),
}


def methods(X, bounds, rank, epsilon, rng):
    """Return what is compared: names, and functions of a seed."""
    rows, mu = X - X.mean(axis=0), budget(epsilon)
    lengths = np.linalg.norm(rows, axis=1)
    clip = float(np.quantile(lengths, 0.95))
    low, high = (np.broadcast_to(side, X.shape[1]) for side in bounds)
    radius = 0.5 * float(np.linalg.norm(high - low))
    largest = 2.0 * float(np.linalg.eigvalsh(np.cov(rows, rowvar=False))[-1])

    def ours(seed, **parameters):
        pca = DPPCA(rank, epsilon=epsilon, noise_seed=seed, **parameters)
        return pca.fit(X).components_

    return {
        "DPPCA": ours,
        "DPPCA, covariance": lambda seed: ours(seed, release="covariance"),
        "g-DPPCA": lambda seed: leading(gdppca(X, mu, rng), rank),
        "CoinPress": lambda seed: leading(coinpress(rows, mu, rng, largest), rank),
        "SeparateCov": lambda seed: leading(separate_cov(rows, clip, mu, rng), rank),
        "AdaptiveCov": lambda seed: leading(adaptive_cov(rows, radius, mu, rng), rank),
        "diffprivlib": lambda seed: diffprivlib_components(
            rows, rank, epsilon, (low - X.mean(axis=0), high - X.mean(axis=0))
        ),
    }


def main():
    """Print one table a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=DATA)
    options = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    for name, (load, rank) in DATA.items():
        if options.only not in (None, name):
            continue
        X, bounds = load()
        covariance = np.cov(X, rowvar=False, bias=True)
        best = kept(PCA(rank).fit(X).components_, covariance)
        print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, k = {rank}")
        for epsilon in EPSILONS:
            found = methods(X, bounds, rank, epsilon, np.random.default_rng(0))
            if epsilon == EPSILONS[0]:
                print_row("epsilon", *found, widths=17)
            cells = []
            for run in found.values():
                made = [run(seed) for seed in range(options.repeats)]
                made = [kept(one, covariance) / best for one in made if one is not None]
                cells.append(f"{np.median(made):.4f}" if made else "-")
            print_row(epsilon, *cells, widths=17)


if __name__ == "__main__":
    main()
