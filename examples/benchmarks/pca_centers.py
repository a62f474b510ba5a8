"""Share of variance that DPPCA keeps by what rows are measured from, at any location.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/pca_centers.py
        [--repeats 25] [--only digits 1e3x50] [--methods default pairs]
        [--moved 0 3 2000] [--ranks 1 2 5] [--epsilons 0.5 1 2 4]

Each cell: median (and quartiles) over repeats, with fresh noise, of the variance about
the data's mean that the components keep, over what PCA's keep. ``--moved`` adds so many
of its standard deviations to each feature; bounds move along. "r2" are rows with two
directions of equal variance. delta = 1e-6.
"""

import argparse

import numpy as np
from pca_peers import real, simulated
from pca_real_data import LOADERS, kept
from tables import (
    ignore_leak_warnings,
    ignore_noise_warnings,
    print_row,
    with_quartiles,
)

from skdpspectral import DPPCA
from skdpspectral.datasets import load_adult, load_kddcup99
from skdpspectral.decomposition import PrivateMean

RAW = {
    "adult-raw": lambda: load_adult(units="raw"),
    "kddcup99-raw": lambda: load_kddcup99(units="raw"),
}
SIMULATED = {
    "1e3x50": (1000, 50, 1),
    "1e3x50r2": (1000, 50, 2),
    "1e4x200": (10_000, 200, 1),
    "1e5x50": (100_000, 50, 1),
}
NAMES = [*LOADERS, *RAW, *SIMULATED]
# Name: center, and whether bounds are given.
METHODS = {
    "default": ("auto", False),
    "default+bounds": ("auto", True),
    "pairs": ("pairs", False),
    "mean+bounds": (PrivateMean(), True),
    "origin": ("none", False),
}


def rows_of(name):
    """Return rows of a data set, about 0 if they are simulated, and their bounds."""
    if name in SIMULATED:
        n, p, rank = SIMULATED[name]
        return simulated(n, p, n_components=rank, location=0.0)
    return real((LOADERS | RAW)[name])


def shares(pca, X, given, repeats):
    """Return the shares kept, by repeat, for each number of components.

    What is released does not depend on how many components are asked for, so that one
    fit has the leading ones for every number.
    """
    covariance, best = given
    found = []
    for seed in range(repeats):
        components = pca.set_params(noise_seed=seed).fit(X).components_
        found.append([kept(components[:k], covariance) / best[k] for k in best])
    return np.array(found)


def print_table(X, bounds, given, options):
    """Print the table of one data set at one place."""
    best = given[1]
    print_row("epsilon", "k", *options.methods, widths=22)
    for epsilon in options.epsilons:
        columns = []
        for center, bounded in (METHODS[name] for name in options.methods):
            box = bounds if bounded else None
            pca = DPPCA(max(best), epsilon=epsilon, center=center, bounds=box)
            columns.append(shares(pca, X, given, options.repeats))
        for place, k in enumerate(best):
            cells = [with_quartiles(column[:, place]) for column in columns]
            print_row(f"{epsilon:g}", k, *cells, widths=22)


def print_tables(name, options):
    """Print one table for each place of a data set."""
    X, bounds = rows_of(name)
    # Neither of these changes where rows are moved, and each is made once.
    covariance = np.cov(X, rowvar=False, bias=True)
    values = np.linalg.eigvalsh(covariance)[::-1]
    best = {k: float(values[:k].sum()) for k in options.ranks}
    for moved in options.moved:
        print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, moved by {moved:g}")
        rows, box = X, bounds
        if moved:
            step = moved * np.sqrt(np.diag(covariance))
            rows, box = X + step, [side + step for side in bounds]
        print_table(rows, box, (covariance, best), options)


def main():
    """Print the tables of each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS))
    parser.add_argument("--moved", type=float, nargs="+", default=[0.0, 3.0, 2000.0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 5])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2, 4])
    options = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    print(f"{options.repeats} repeats: median (quartiles)")
    for name in options.only:
        print_tables(name, options)


if __name__ == "__main__":
    main()
