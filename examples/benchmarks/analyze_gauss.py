"""DPPCA beside Analyze Gauss with a known center: the share of variance kept.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/analyze_gauss.py [--repeats 10]

Two components, at delta = 1e-6 for one replaced row. DPPCA knows nothing of the rows.
Analyze Gauss is given the exact mean and the better of two exact quantiles of the
lengths, .5 and .95, as a clip. It gets the sensitivity and the calibration of DPPCA,
which are smaller than the published ones.
"""

import argparse
import sys

import numpy as np
from covariance_peers import budget, leading
from pca_peers import RANKS, DataSet
from tables import ignore_leak_warnings, ignore_noise_warnings

NAMES = ("digits", "coil2000", "jester", "1e3x50r2", "1e4x200")


def analyze_gauss(data, epsilon, seed):
    """Return the largest share over two clips."""
    rng, found = np.random.default_rng(seed), []
    for level in (0.5, 0.95):
        clip = float(np.quantile(data.rows.lengths, level))
        matrix = data.rows.noisy(clip, budget(epsilon), rng)
        found.append(data.shares(leading(matrix, max(RANKS)))[RANKS.index(2)])
    return max(found)


def ours(data, epsilon, seed):
    """Return the share of DPPCA without bounds."""
    return data.shares(data.ours("DPPCA", epsilon, seed))[RANKS.index(2)]


def main():
    """Print a line for each table and budget."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    ignore_leak_warnings()
    ignore_noise_warnings()
    for name in NAMES:
        data = DataSet(name)
        print(name, *data.X.shape)
        for epsilon in (0.5, 1.0, 4.0):
            line = f"{name:10} epsilon {epsilon:g}"
            for method in (ours, analyze_gauss):
                found = [method(data, epsilon, seed) for seed in range(repeats)]
                error = np.std(found, ddof=1) / repeats**0.5
                line += f" {method.__name__} {np.mean(found):.3f} +- {error:.3f}"
            print(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
