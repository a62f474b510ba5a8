"""Relative Frobenius errors of DPCovariance and of what was published.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/covariance_accuracy.py
        [--cells covariance.jsonl] [--repeats 25] [--only adult] [--methods AdaptiveCov]
        [--tables]

Each cell: the median over repeats of the distance to the covariance of the rows (and,
for simulated rows, to the one that they were drawn from) over its norm. DPCovariance
pays for its center; the others are given the exact one, SeparateCov the better of two
clips, at the exact .95 and .999 quantiles of the lengths, AdaptiveCov the better of two
radii to begin with, that of the box and the exact largest length, CoinPress a bound of
twice the largest eigenvalue. All have the same epsilon and delta = 1e-6 for one
replaced row. ``--cells`` names a file that every fit adds a line to: a run that was
ended goes on where it was.
"""

import argparse

import numpy as np
from cells import Cells, median_of
from covariance_peers import (
    Rows,
    adaptive_cov,
    budget,
    coinpress,
    nearest,
    separate_cov,
)
from real_tables import load_adult
from tables import ignore_leak_warnings, ignore_noise_warnings, print_row

from skdpspectral import DPCovariance
from skdpspectral.datasets import load_digits, make_spiked_covariance

EPSILONS = (1.0, 2.0, 4.0)


def simulated(n, p, seed):
    """Rows about 3, in a box that holds them, and their true covariance."""
    X, components = make_spiked_covariance(n, p, random_state=seed)
    return X + 3.0, (-15.0, 21.0), 10.0 * components.T @ components + np.eye(p)


def real(load):
    """Rows of a data set, the same for every seed, with their public bounds."""
    data = load()
    return np.asarray(data.data, dtype=np.float64), data.bounds, None


DATA = {
    "digits": lambda seed: real(load_digits),
    "1e4x200": lambda seed: simulated(10_000, 200, seed),
    "1e5x50": lambda seed: simulated(100_000, 50, seed),
    "adult": lambda seed: real(load_adult),
}
METHODS = [
    *("DPCovariance, bounds", "DPCovariance, no bounds"),
    *("SeparateCov", "AdaptiveCov", "CoinPress"),
]


class Problem:
    """One table whose covariance is wanted, and what is worked out once of it.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        The rows.
    bounds : tuple (low, high)
        Their public box.
    truth : ndarray of shape (p, p) or None
        The covariance that they were drawn from.
    """

    def __init__(self, X, bounds, truth):
        self.X, self.bounds = X, bounds
        self.rows = Rows(X - X.mean(axis=0))
        low, high = (np.broadcast_to(side, X.shape[1]) for side in bounds)
        longest = float(self.rows.lengths.max())
        self.radii = (0.5 * float(np.linalg.norm(high - low)), longest)
        self.clips = np.quantile(self.rows.lengths, [0.95, 0.999])
        self.targets = {"rows": self.rows.exact}
        if truth is not None:
            self.targets["truth"] = truth

    def ours(self, seed, epsilon, **parameters):
        """Covariance of DPCovariance."""
        model = DPCovariance(epsilon=epsilon, noise_seed=seed, **parameters)
        return model.fit(self.X).covariance_

    def made(self, method, epsilon, seed):
        """Covariance of a method."""
        rows, mu, rng = self.rows, budget(epsilon), np.random.default_rng(seed)
        if method == "DPCovariance, no bounds":
            return self.ours(seed, epsilon)
        if method == "DPCovariance, bounds":
            return self.ours(seed, epsilon, bounds=self.bounds)
        if method == "SeparateCov":
            found = [separate_cov(rows, clip, mu, rng) for clip in self.clips]
            return nearest(rows.exact, found)
        if method == "AdaptiveCov":
            found = [adaptive_cov(rows, radius, mu, rng) for radius in self.radii]
            return nearest(rows.exact, found)
        return coinpress(rows, mu, rng)

    def errors(self, method, epsilon, seed):
        """Relative errors: to the rows' covariance, and to the truth."""
        made = self.made(method, epsilon, seed)
        return {
            target: float(np.linalg.norm(made - matrix) / np.linalg.norm(matrix))
            for target, matrix in self.targets.items()
        }


def measure(name, cells, options):
    """Find the errors that are not known yet of one data set."""
    problem = None
    for seed in range(options.repeats):
        keys = [
            (name, method, epsilon, seed)
            for method in options.methods
            for epsilon in EPSILONS
        ]
        keys = [key for key in keys if key not in cells]
        if keys and (problem is None or "truth" in problem.targets):
            problem = Problem(*DATA[name](seed))
        for key in keys:
            cells.timed(key, problem.errors, *key[1:])


def print_table(name, cells, options):
    """Print the table of one data set."""
    print(f"\n{name}")
    print_row("epsilon", "to", *options.methods, widths=25)
    for epsilon in EPSILONS:
        columns = [cells.values(name, method, epsilon) for method in options.methods]
        for target in ("rows", "truth"):
            found = [[e[target] for e in column if target in e] for column in columns]
            if any(found):
                texts = [median_of(errors, options.repeats) for errors in found]
                print_row(f"{epsilon:g}", target, *texts, widths=25)


def main():
    """Find what is missing, and print one table a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", help="file of what is known, which is added to")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=DATA, nargs="+", default=list(DATA))
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=METHODS)
    parser.add_argument("--tables", action="store_true", help="print what is known")
    options = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    cells = Cells(options.cells)
    if not options.tables:
        for name in options.only:
            measure(name, cells, options)
    print(f"{options.repeats} repeats: median (quartiles)")
    for name in options.only:
        print_table(name, cells, options)


if __name__ == "__main__":
    main()
