"""Errors of streams against their closed forms, from both sides.

Each ratio is within four standard errors of 1, which fails by chance in about one of
15 000; there are fewer than 40, and the seed is fixed. Noise that is 10 % off moves a
ratio by 20 % (squared noise by 45 %), which is more than four standard errors of the
sharpest ratio of each setting.
"""

import numpy as np
import pytest
from benchmark_scripts import load
from stream_errors import CLIP, SETTINGS, D, N, data, ratios

from skdpspectral.factorizations import Prefix, factorize

FIGURES = load("jme_figures")


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", SETTINGS)
def test_errors_are_those_of_theory(name):
    found = ratios(name, 300)
    for ratio, error in found:
        assert abs(ratio - 1) < 4 * error
    assert min(error for _, error in found) < 0.05


# Algorithms 4 to 6 of the paper, corrected: method, weight, factorization.
BASELINES = [
    ("IME", 0.3, "blt"),
    ("CS", 2.0 / CLIP**2, "trivial"),
    ("PP", None, "trivial"),
    ("PP", None, "sqrt"),
    ("PP, debiased", None, "blt"),
]
MU = 1.3


def baseline_errors(method, weight, C):
    """Expected squared errors of both moments: from the paper, and lemma 3.8."""
    X, A, sigma = data(), np.tri(N), 1.0 / MU
    norm = np.linalg.norm(C, axis=0).max()
    inverse = np.linalg.inv(C)
    s, s2 = 2 * CLIP * sigma, 0.0
    if method == "IME":
        s, s2 = s / weight**0.5, 2**0.5 * CLIP**2 * sigma / (1 - weight) ** 0.5
    elif method == "CS":
        s = s * (1 + weight * CLIP**2) ** 0.5
        s2 = s / weight**0.5
    s, s2, energy = s * norm, s2 * norm, ((A @ inverse) ** 2).sum()
    first, second = D * s**2 * energy, D * (D + 1) / 2 * s2**2 * energy
    if not s2:
        Q = inverse @ inverse.T
        kernel = 2 * (D + 1) * s**2 * X @ X.T * Q + D * (D + 1) * s**4 * Q**2
        second = np.einsum("ti,ij,tj->", A, kernel, A)
        if method == "PP":
            second += D * s**4 * ((A @ np.diag(Q)) ** 2).sum()
    return first, second


@pytest.mark.parametrize(("method", "weight", "name"), BASELINES)
def test_baselines_have_the_errors_of_their_theorems(method, weight, name):
    """Noise 10 % off is seen, as above."""
    X, rng, C = data(), np.random.default_rng(0), factorize(Prefix(), name, N)
    exact = np.cumsum(X, axis=0), np.cumsum(X[:, :, None] * X[:, None], axis=0)
    how = {"weight": weight, "clip_norm": CLIP}
    errors = np.empty((3000, 2))
    for row in errors:
        found = FIGURES.baseline_moments(method, X, C, MU, rng, **how)
        row[:] = [((f - e) ** 2).sum() for f, e in zip(found, exact, strict=True)]
    wanted = baseline_errors(method, weight, C.matrix(N))
    for sample, want in zip(errors.T, wanted, strict=True):
        error = sample.std() / want / len(sample) ** 0.5
        assert abs(sample.mean() / want - 1) < 4 * error < 0.18
