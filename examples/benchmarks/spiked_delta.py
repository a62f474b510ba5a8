"""What delta is, under the spiked model, where the theorem bounds what a row changes.

    python examples/benchmarks/spiked_delta.py [--pairs 40000]

Pairs of data sets are drawn from the model: n Gaussian rows, and the same with one row
drawn anew. Of each pair the exact distance of PCA's projectors is taken, and with it
the exact privacy curve of the Gaussian mechanism: its mean over pairs is the delta of
the mechanism for rows of the model. Prints the table of doc/theory/spiked.rst, in some
five minutes:

- bound: the sensitivity of SpikedPCA, by the theorem, and over that which the
  papers print with a constant of 1,
- largest: the largest distance of all pairs, over the bound,
- delta: the mean over pairs, with its standard error,
- first order: the same with noise for the papers' sensitivity with a constant of 4,
- printed: the same with the noise of their algorithm 1, whose variance is 8 ln(2.5 /
  delta) / epsilon^2 times the square of that sensitivity, at half of epsilon, which is
  what it is meant for, along with half of delta; at least, as only one of both
  triangles of the matrix is drawn,
- beyond: the share of pairs that are further apart than that sensitivity,
- C1: the largest constant for which the setting meets all three conditions of lemma 2
  of Cai, Xia and Zha (2024), on rows, features and signal; 0 where it meets one with
  none. The lemma is for some "large" constant. ``--conditions`` measures settings at
  the edge of the conditions, with a C1 of 1 to 4, in place of the others.
"""

import argparse
import math

import numpy as np
from scipy.special import log_ndtr

from skdpspectral import SpikedPCA, accounting
from skdpspectral.sensitivity import paper_projector_sensitivity

# n, p, signal variances, epsilon, delta; noise variance 1.
SETTINGS = [
    (1000, 2, (0.095,), 4.0, 1e-6),
    (100_000, 10, (0.01,), 4.0, 1e-6),
    (2, 2, (10.0,), 4.0, 1e-6),
    # The first number of rows that is accepted, and more.
    (122, 8, (10.0,), 4.0, 1e-6),
    (260, 8, (10.0, 10.0), 4.0, 1e-6),
    (948, 2, (1.0,), 4.0, 1e-6),
    (40, 5, (100.0,), 4.0, 1e-6),
    (1000, 2, (1.0,), 4.0, 1e-6),
    (1000, 2, (1.0,), 20.0, 1e-2),
    (100, 10, (10.0,), 1.0, 1e-1),
    (1000, 2, (10.0,), 4.0, 1e-6),
    (1000, 50, (10.0,), 1.0, 1e-6),
    (10_000, 50, (10.0,), 1.0, 1e-6),
    (10_000, 20, (10.0, 10.0, 10.0), 1.0, 1e-5),
    (10_000, 20, (20.0, 5.0), 1.0, 1e-5),
    (100_000, 10, (0.1,), 4.0, 1e-6),
]


def edge_of(constant: float, n: int, r: int):
    """Return a setting at the edge of the conditions of lemma 2 with a constant C1.

    It has the least number of features for so many rows, and the least signal.
    """
    p = math.ceil(2 * r + constant * math.log(n))
    return n, p, (1.001 * constant * (p / n + math.sqrt(p / n)),) * r, 4.0, 1e-6


CONDITIONS = [
    edge_of(constant, n, r)
    for constant in (1, 2, 3, 4)
    for n, r in ((200, 1), (1000, 1), (1000, 2))
]


def largest_constant(n: int, p: int, signal) -> float:
    """Return the largest C1 with which a setting meets the conditions of lemma 2."""
    r = len(signal)
    by_rows = n / (r * math.log(n) + math.log(n) ** 2)
    by_features = (p - 2 * r) / math.log(n)
    by_signal = min(signal) / (p / n + math.sqrt(p / n))
    return max(0.0, min(by_rows, by_features, by_signal))


def wishart(rng, degrees: int, p: int, size: int) -> np.ndarray:
    """Second moments, times degrees, of standard normal rows: Bartlett's way."""
    if degrees < p:
        rows = rng.standard_normal((size, degrees, p))
        return rows.transpose(0, 2, 1) @ rows
    lower = np.tril(rng.standard_normal((size, p, p)), -1)
    within = np.arange(p)
    lower[:, within, within] = np.sqrt(rng.chisquare(degrees - within, (size, p)))
    return lower @ lower.transpose(0, 2, 1)


def distances(n: int, p: int, signal, n_pairs: int, seed: int = 0) -> np.ndarray:
    """Distances of the projectors of pairs that differ in one row."""
    rng, rank = np.random.default_rng(seed), len(signal)
    spread = np.sqrt(np.r_[np.asarray(signal) + 1.0, np.ones(p - rank)])
    found, size = [], max(1, min(n_pairs, 4_000_000 // (p * p)))
    for _ in range(-(-n_pairs // size)):
        others = wishart(rng, n - 1, p, size) * spread[:, None] * spread
        sides = []
        for _ in range(2):
            row = rng.standard_normal((size, p)) * spread
            moment = others + row[:, :, None] * row[:, None, :]
            sides.append(np.linalg.eigh(moment)[1][:, :, p - rank :])
        first, second = sides
        # From the sines: stable for close subspaces.
        sines = second - first @ (first.transpose(0, 2, 1) @ second)
        found.append(math.sqrt(2.0) * np.linalg.norm(sines, axis=(1, 2)))
    return np.concatenate(found)[:n_pairs]


def gaussian_deltas(mu: np.ndarray, epsilon: float) -> np.ndarray:
    """Exact privacy curve of the Gaussian mechanism, at many costs."""
    mu = np.maximum(mu, 1e-9)
    near, far = log_ndtr(mu / 2 - epsilon / mu), log_ndtr(-mu / 2 - epsilon / mu)
    return np.maximum(np.exp(near) - np.exp(epsilon + far), 0.0)


def row_of(n, p, signal, epsilon, delta, n_pairs):
    """One line of the table."""
    moved = distances(n, p, signal, n_pairs)
    order = paper_projector_sensitivity(signal, 1.0, n, p, 1.0)
    model = {"signal_variance": list(signal), "noise_variance": 1.0}
    pca = SpikedPCA(len(signal), epsilon=epsilon, delta=delta, **model)
    try:
        planned = pca.privacy_plan(n, p)["projector"]
        bound = f"{planned.sensitivity:.3g} ({planned.sensitivity / order:.1f})"
        deltas = gaussian_deltas(moved / planned.noise_std, epsilon)
        ours = f"{moved.max() / planned.sensitivity:.2f}", mean_of(deltas)
        mu = planned.mu
    except ValueError:
        bound, ours, mu = "refused", ("", ""), gaussian_mu_of(epsilon, delta)
    other = gaussian_deltas(moved * mu / (4.0 * order), epsilon)
    cost = epsilon / math.sqrt(8.0 * math.log(2.5 / delta))
    # Entries above the diagonal have at least half of the squared distance.
    printed = gaussian_deltas(moved * cost / (math.sqrt(32.0) * order), epsilon / 2)
    beyond = np.mean(moved > 4.0 * order)
    values = ", ".join(f"{value:.3g}" for value in signal)
    setting = f"{n}, {p}, ({values}), {epsilon:g}, {delta:g}"
    constant = f"{largest_constant(n, p, signal):.2f}"
    noisy = mean_of(other), mean_of(printed)
    return setting, bound, *ours, *noisy, f"{beyond:.1e}", constant


def gaussian_mu_of(epsilon: float, delta: float) -> float:
    """What a budget allows."""
    return accounting.gaussian_mu(epsilon, delta)


def mean_of(values: np.ndarray) -> str:
    """Mean and standard error."""
    return f"{values.mean():.1e} +- {values.std() / math.sqrt(len(values)):.0e}"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=40_000)
    parser.add_argument("--conditions", action="store_true")
    parser.add_argument("--only", type=int, nargs="*", help="rows of the table, from 0")
    given = parser.parse_args()
    n_pairs, settings = given.pairs, CONDITIONS if given.conditions else SETTINGS
    if given.only:
        settings = [settings[number] for number in given.only]
    print("n, p, signal, epsilon, delta | bound (C) | largest | delta", end=" ")
    print("| first order | printed | beyond | C1")
    for setting in settings:
        print(" | ".join(row_of(*setting, n_pairs)), flush=True)


if __name__ == "__main__":
    main()
