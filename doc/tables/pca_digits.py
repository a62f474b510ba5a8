"""What parameters of DPPCA are worth on the digits.

The share of the variance that two components can keep, delta = 1e-6.
"""

from functools import lru_cache

from sklearn.decomposition import PCA

from skdpspectral import DPPCA
from skdpspectral.datasets import load_digits
from skdpspectral.metrics import captured_variance

HEADER = "Parameters"
BOX = {"bounds": (0, 16)}
ROWS = {
    "no bounds": {},
    '``center="pairs"``': {"center": "pairs"},
    '``center="none"``: about the origin': {"center": "none"},
    "``bounds=(0, 16)``": BOX,
    '``bounds=(0, 16), center="none"``: about the midpoint': BOX | {"center": "none"},
    '``bounds=(0, 16), scale="bounds"``': BOX | {"scale": "bounds"},
}


@lru_cache
def digits():
    """Return the rows, and what two components can keep of their variance."""
    X = load_digits().data
    return X, captured_variance(PCA(2).fit(X), X)


def measure(setting, seed):
    """Return the shares at two budgets."""
    X, best = digits()
    found = {}
    for epsilon in (1, 4):
        pca = DPPCA(2, epsilon=epsilon, noise_seed=seed, **setting).fit(X)
        found[f":math:`\\epsilon = {epsilon}`"] = captured_variance(pca, X) / best
    return found
