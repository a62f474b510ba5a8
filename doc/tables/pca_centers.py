"""Share of the variance about the mean that two components of DPPCA can keep.

delta = 1e-6. Simulated rows have a variance of 11 along one or two directions and 1
across them, 3 away from the origin in every feature, in a box that is 18 on either
side. Counts are Poisson, with rates whose logarithms are normal with two factors, each
with loadings of a standard deviation of 0.5, or 1 for long tails; their box is (0,
1000). "moved" adds 2,000 standard deviations to every feature.
"""

from functools import lru_cache

import numpy as np
from pca_peers import rows_of
from pca_real_data import kept

from skdpspectral import DPPCA

NEEDS_DATA = True
HEADER = "Rows"
ROWS = {
    "digits, 1,797 x 64": ("digits", 2),
    "COIL 2000, 9,822 x 85": ("coil2000", 2),
    "Jester, 24,983 x 100": ("jester", 2),
    "Adult, one-hot, 48,842 x 105": ("adult", 2),
    "two directions, 1,000 x 50": ("1e3x50r2", 2),
    "one direction, 10,000 x 200, k = 1": ("1e4x200", 1),
    "counts, 5,000 x 30": (0.5, 2),
    "counts, long tails, 5,000 x 30": (1.0, 2),
    "KDD Cup 99, one-hot, 494,021 x 122": ("kddcup99", 2),
    "KDD Cup 99, raw units": ("kddcup99-raw", 2),
}
SLOW = ("KDD Cup 99, one-hot, 494,021 x 122", "KDD Cup 99, raw units")
REPEATS = dict.fromkeys(ROWS, 10) | dict.fromkeys(SLOW, 2)


def counts(spread, n_samples=5000, n_features=30):
    """Return counts whose logarithmic rates have two factors, and their bounds."""
    rng = np.random.default_rng(1)
    loadings = spread * rng.standard_normal((2, n_features))
    rates = np.exp(rng.standard_normal((n_samples, 2)) @ loadings + 1.0)
    return rng.poisson(rates).astype(float), (0.0, 1000.0)


@lru_cache(maxsize=1)
def given(name, n_components):
    """Return rows, moved rows, bounds, and the variance that is kept without noise."""
    X, bounds = counts(name) if isinstance(name, float) else rows_of(name)
    covariance = np.cov(X, rowvar=False, bias=True)
    best = np.linalg.eigvalsh(covariance)[::-1][:n_components].sum()
    return X, bounds, covariance, best


def measure(setting, seed):
    """Return the shares that one fit with each of the parameters keeps."""
    name, k = setting
    X, bounds, covariance, best = given(name, k)

    def share(rows, epsilon=1.0, **parameters):
        pca = DPPCA(k, epsilon=epsilon, noise_seed=seed, **parameters)
        return kept(pca.fit(rows).components_, covariance) / best

    return {
        ":math:`\\epsilon = 0.5`": share(X, 0.5),
        ":math:`\\epsilon = 1`": share(X),
        "moved": share(X + 2000.0 * np.sqrt(np.diag(covariance))),
        "bounds": share(X, bounds=bounds),
        "pairs": share(X, center="pairs"),
        "origin": share(X, center="none"),
    }
