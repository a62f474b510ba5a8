"""Projection distance of DPPCA's mechanisms side by side.

    python examples/benchmarks/pca_mechanisms.py [--repeats 25] [--quick]
                                                 [--only 4]

The first table repeats the settings of the papers' figures; "paper" has their noise and
a constant of 1, which costs what its plan says and not epsilon; ``--only`` takes the
numbers of its rows, from 0. New data and new noise every repeat; the unit is the
Frobenius norm of ``UU' - VV'``; sigma^2 = 1, delta = 1e-5.
"""

import argparse

from sklearn.decomposition import PCA
from tables import ignore_leak_warnings, print_row, with_error

from skdpspectral import DPPCA, SpikedPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

# n, p, r, epsilon
SETTINGS = [
    (1_000, 50, 1, 1.0),
    (10_000, 200, 1, 0.5),
    (100_000, 20, 3, 0.1),
    (100_000, 1000, 1, 0.5),
    (1_000_000, 200, 1, 0.1),
]
# Of it the model is made for each signal.
PAPER = {"calibration": "paper", "sensitivity_constant": 1.0}


def distances(n, p, rank, epsilon, signal, seed, settings):
    """Return the distances of PCA and of DPPCA with each of the settings."""
    X, truth = make_spiked_covariance(
        n, p, n_components=rank, signal_variance=signal, random_state=seed
    )
    models = [PCA(rank, svd_solver="covariance_eigh")] if PAPER in settings else []
    for parameters in settings:
        if parameters is PAPER:
            model = {"signal_variance": signal, "noise_variance": 1.0, **PAPER}
            models.append(SpikedPCA(rank, epsilon=epsilon, delta=1e-5, **model))
        else:
            models.append(DPPCA(rank, epsilon=epsilon, delta=1e-5, **parameters))
    return [subspace_distance(m.fit(X).components_, truth) for m in models]


def print_settings(repeats, numbers):
    """Print the rows of these numbers of the table of the papers' settings."""
    print_row("n, p, r, epsilon", "PCA", "paper", "default", "known center")
    for n, p, rank, epsilon in (SETTINGS[number] for number in numbers):
        found = [
            distances(n, p, rank, epsilon, 10.0, seed, [PAPER, {}, {"center": "none"}])
            for seed in range(repeats)
        ]
        columns = map(with_error, zip(*found, strict=True))
        print_row(f"{n}, {p}, {rank}, {epsilon:g}", *columns)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--quick", action="store_true", help="small settings only")
    parser.add_argument(
        "--only",
        type=int,
        nargs="*",
        choices=range(len(SETTINGS)),
        help="rows of the first table",
    )
    options = parser.parse_args()
    ignore_leak_warnings()
    print(f"{options.repeats} repeats; mean +- standard error")
    numbers = range(len(SETTINGS)) if options.only is None else options.only
    if options.quick:
        numbers = [k for k in numbers if SETTINGS[k][0] * SETTINGS[k][1] <= 3_000_000]
    if numbers:
        print_settings(options.repeats, numbers)


if __name__ == "__main__":
    main()
