"""Share of the variance about the mean that components can keep, at small budgets.

delta = 1e-6 for one row that is replaced. DPPCA knows nothing of the rows, unless the
exact mean is subtracted first. AdaptiveCov and SeparateCov are given the exact mean,
and a radius or a clip of the rows, as ``examples/benchmarks/pca_peers.py`` says. "of
differences" is AdaptiveCov of the n / 2 differences of random disjoint pairs of rows,
over the root of two: it knows no mean, but still the better of two radii.
"""

from functools import lru_cache

import numpy as np
from covariance_peers import Rows, adaptive_cov, budget, leading, nearest
from pca_peers import RANKS, DataSet

from skdpspectral import DPPCA

NEEDS_DATA = True
HEADER = "Rows"
_TABLES = {
    "digits, 1,797 x 64": ("digits", 2),
    "two directions, 1,000 x 50": ("1e3x50r2", 2),
    "COIL 2000, 9,822 x 85": ("coil2000", 2),
    "one direction, 10,000 x 200, k = 1": ("1e4x200", 1),
}
ROWS = {
    f"{title}, :math:`\\epsilon = {epsilon}`": (*setting, epsilon)
    for title, setting in _TABLES.items()
    for epsilon in (0.1, 0.25, 0.5)
}
SLOW = tuple(title for title in ROWS if "10,000" in title)


@lru_cache(maxsize=1)
def data_set(name):
    """Return the rows, and differences of random pairs of them."""
    data = DataSet(name)
    mixed = np.random.default_rng(0).permutation(data.X)[: len(data.X) // 2 * 2]
    return data, Rows((mixed[::2] - mixed[1::2]) / np.sqrt(2.0))


def of_differences(data, pairs, epsilon, seed):
    """Return the components by AdaptiveCov of differences."""
    rng = np.random.default_rng(seed)
    radii = np.sqrt(2.0) * data.radii[0], float(pairs.lengths.max())
    found = [adaptive_cov(pairs, radius, budget(epsilon), rng) for radius in radii]
    return leading(nearest(data.rows.exact, found), max(RANKS))


def measure(setting, seed):
    """Return the shares of one fit by each method."""
    name, k, epsilon = setting
    (data, pairs), place = data_set(name), RANKS.index(k)

    def share(rows, center):
        pca = DPPCA(max(RANKS), epsilon=epsilon, center=center, noise_seed=seed)
        return data.shares(pca.fit(rows).components_)[place]

    found = {
        "DPPCA": share(data.X, "auto"),
        "DPPCA, pairs": share(data.X, "pairs"),
    }
    differences = of_differences(data, pairs, epsilon, seed)
    found["AdaptiveCov, of differences"] = data.shares(differences)[place]
    found["DPPCA, given the mean"] = share(data.rows.rows, "none")
    for method in ("AdaptiveCov", "SeparateCov"):
        found[f"{method}, given the mean"] = data.shares(
            data.peer(method, epsilon, seed)
        )[place]
    return found
