"""Relative Frobenius errors of private covariances: DPPCA and what was published.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/covariance_accuracy.py

Each cell: the median over repeats of the distance to the covariance of the rows (and,
for simulated rows, to the one that they were drawn from) over its norm. DPPCA pays for
its center; the others are given the exact one, SeparateCov the better of two clips, at
the exact .95 and .999 quantiles of the lengths, CoinPress a bound of twice the largest
eigenvalue, and "components alone" the exact median eigenvalue as the noise.
"""

import argparse

import numpy as np
from covariance_peers import adaptive_cov, budget, coinpress, nearest, separate_cov
from tables import (
    ignore_leak_warnings,
    ignore_noise_warnings,
    print_row,
    with_quartiles,
)

from skdpspectral import DPPCA
from skdpspectral.datasets import load_adult, load_digits, make_spiked_covariance
from skdpspectral.decomposition import Gaussian

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
    "adult": lambda seed: real(load_adult),
    "digits": lambda seed: real(load_digits),
    "1e4 x 200": lambda seed: simulated(10_000, 200, seed),
    "1e5 x 50": lambda seed: simulated(100_000, 50, seed),
}


def methods(X, bounds, epsilon, rng):
    """Return what is compared: names, and functions of a seed."""
    rows, mu = X - X.mean(axis=0), budget(epsilon)
    clips = np.quantile(np.linalg.norm(rows, axis=1), [0.95, 0.999])
    exact = np.cov(rows, rowvar=False, bias=True)
    radius = 0.5 * float(
        np.linalg.norm(
            np.ptp(
                np.broadcast_to(np.reshape(bounds, (2, -1)), (2, X.shape[1])), axis=0
            )
        )
    )
    largest = 2.0 * float(np.linalg.eigvalsh(np.cov(rows, rowvar=False))[-1])

    def ours(seed, **parameters):
        pca = DPPCA(
            "auto", epsilon=epsilon, release="covariance", noise_seed=seed, **parameters
        )
        return pca.fit(X).get_covariance()

    noise = float(np.median(np.linalg.eigvalsh(np.cov(rows, rowvar=False))))
    model = Gaussian(noise_variance=max(noise, 1e-6))
    return {
        "DPPCA, bounds": lambda seed: ours(seed, bounds=bounds),
        "DPPCA, no bounds": lambda seed: ours(seed),
        "components alone": lambda seed: ours(seed, bounds=bounds, mechanism=model),
        "SeparateCov": lambda seed: nearest(
            exact, [separate_cov(rows, clip, mu, rng) for clip in clips]
        ),
        "AdaptiveCov": lambda seed: adaptive_cov(rows, radius, mu, rng),
        "CoinPress": lambda seed: coinpress(rows, mu, rng, largest),
    }


def errors_of(make, epsilon, repeats):
    """Relative errors of all methods: to the rows' covariance, and to the truth."""
    found, given = {}, None
    for seed in range(repeats):
        if given is None or given[2] is not None:
            given = make(seed)
        X, bounds, truth = given
        targets = {"rows": np.cov(X, rowvar=False, bias=True)}
        if truth is not None:
            targets["truth"] = truth
        rng = np.random.default_rng(seed)
        for method, run in methods(X, bounds, epsilon, rng).items():
            made = run(seed)
            for target, matrix in targets.items():
                error = np.linalg.norm(made - matrix) / np.linalg.norm(matrix)
                found.setdefault(target, {}).setdefault(method, []).append(error)
    return found


def main():
    """Print one table a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=DATA)
    options = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    print(f"{options.repeats} repeats: median (quartiles)")
    for name, make in DATA.items():
        if options.only not in (None, name):
            continue
        print(f"\n{name}")
        for epsilon in EPSILONS:
            found = errors_of(make, epsilon, options.repeats)
            for target, errors in found.items():
                if epsilon == EPSILONS[0] and target == "rows":
                    print_row("epsilon", "to", *errors, widths=19)
                cells = [with_quartiles(values) for values in errors.values()]
                print_row(epsilon, target, *cells, widths=19)


if __name__ == "__main__":
    main()
