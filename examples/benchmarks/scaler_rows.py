"""Rows that DPStandardScaler needs for the scales of nine features in ten.

    python examples/benchmarks/scaler_rows.py [--features 5 10 30 100]
        [--epsilon 1 4] [--values 200]

The features are normal, in units of 1e-6 to 1e6, with means 0 to 100 deviations from 0.
A feature counts if it is seen, its scale is within a factor of 2, and its mean, if it
is released, within half a deviation. The number of rows is the least one, on a grid
with 8 numbers an octave, at which 90 % of the features count, of `--values` features
in as many fits as they need (at least 5). "histograms" are the releases of many rows,
"windows" those of few; delta = 1e-6.
"""

import argparse
import math
import warnings

import numpy as np
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPStandardScaler
from skdpspectral._statistics.feature_scales import FeatureScales
from skdpspectral.accounting import gaussian_mu

# Rows, in units of sqrt(n_features) / mu, as octaves, and numbers in each.
LOWEST, HIGHEST, STEPS = 3, 9, 8

WANTED = 0.9


class HistogramScaler(DPStandardScaler):
    """A scaler that treats all rows as if they were many."""

    def _statistic(self, n_samples, n_features):
        return FeatureScales(n_samples, n_features, with_mean=self.with_mean)


WAYS = {"histograms": HistogramScaler, "windows": DPStandardScaler}


def share_found(way, n_samples, n_features, epsilon, with_mean, n_values):
    """Return the share of features whose released law is nearly right."""
    found = []
    for seed in range(max(5, math.ceil(n_values / n_features))):
        rng = np.random.default_rng(seed)
        unit = 10.0 ** rng.integers(-6, 7, n_features)
        mean = rng.choice([0.0, 1.0, 10.0, 100.0], n_features) * unit
        X = rng.standard_normal((n_samples, n_features)) * unit + mean
        scaler = WAYS[way](epsilon=epsilon, with_mean=with_mean, noise_seed=seed).fit(X)
        right = np.abs(np.log2(scaler.scale_ / unit)) < 1.0
        if with_mean:
            right &= np.abs(scaler.mean_ - mean) < 0.5 * unit
        found.append(np.mean(right & ~scaler.unseen_features_))
    return np.mean(found)


def rows_needed(way, n_features, epsilon, with_mean, n_values):
    """Return the least number of rows of the grid, by bisection."""
    unit = math.sqrt(n_features) / gaussian_mu(epsilon, 1e-6)
    low, high = LOWEST * STEPS, HIGHEST * STEPS
    while low < high:
        middle = (low + high) // 2
        n_samples = math.ceil(unit * 2.0 ** (middle / STEPS))
        case = (way, n_samples, n_features, epsilon, with_mean, n_values)
        if share_found(*case) >= WANTED:
            high = middle
        else:
            low = middle + 1
    return math.ceil(unit * 2.0 ** (low / STEPS))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", type=int, nargs="+", default=[5, 10, 30, 100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--values", type=int, default=200)
    options = parser.parse_args()
    ignore_leak_warnings()
    warnings.filterwarnings("ignore", category=UserWarning)
    print_row("epsilon", "releases", "means", *options.features)
    for epsilon in options.epsilon:
        for with_mean in (True, False):
            for way in WAYS:
                needed = [
                    rows_needed(way, p, epsilon, with_mean, options.values)
                    for p in options.features
                ]
                print_row(epsilon, way, with_mean, *needed)


if __name__ == "__main__":
    main()
