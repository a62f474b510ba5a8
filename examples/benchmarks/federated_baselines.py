"""Baselines of the federated paper that are no modes of the package.

Li, Cai, Xia and Zhang (2024), algorithm 1 and section 4.1: the weights as they are
printed, which are upside down, and Fed-DP-Oja. The paper's own method and its
reference are :class:`~skdpspectral.FederatedDPPCA` with `PAPER` and `REFERENCE`. **None
of these but Fed-DP-Oja is private for arbitrary data**: the paper's noise is made for
Gaussian rows of a spiked covariance, with known variances.
"""

import numpy as np
from sklearn.base import clone

from skdpspectral.accounting import gaussian_mu
from skdpspectral.decomposition import SpikedModel

# The paper's method for rows of its figures, and what it calls its reference: clients
# send whole matrices. Its noise is that of Cai, Xia and Zha (2024) with a constant that
# is below 1: with q = 0.1, noise over signal, sqrt(q (q + 1)) for q + sqrt(q).
MODEL = SpikedModel(signal_variance=10.0, noise_variance=1.0, calibration="paper")
PAPER = {
    "mechanism": clone(MODEL).set_params(
        sensitivity_constant=0.11**0.5 / (0.1 + 0.1**0.5)
    )
}
REFERENCE = {**PAPER, "aggregation": "matrix", "weights": "equal"}


def top(matrix, rank):
    """Return eigenvectors of the largest eigenvalues, by value, as rows."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :rank].T


def symmetric_noise(rng, std, p):
    """Return noise of variance std**2 off the diagonal and twice that on it."""
    lower = np.tril(rng.standard_normal((p, p)), -1)
    return std * (lower + lower.T + np.sqrt(2) * np.diag(rng.standard_normal(p)))


def paper_projector(X, epsilon, delta, rank, signal, rng):
    """Return the noisy projector of a client, with noise variance 1 in the model."""
    n, p = X.shape
    basis = top(X.T @ X / n, rank)
    spread = (1 / signal) * (1 / signal + 1) * p * (rank + np.log(n))
    std = np.sqrt(8 * np.log(2.5 / delta) * spread) / (epsilon * n)
    return basis.T @ basis + symmetric_noise(rng, std, p)


def paper_rate(n, p, epsilon, delta, rank):
    """Return the error that the paper expects of a client, up to a constant."""
    log = (rank + np.log(n)) * np.log(2.5 / delta)
    return np.sqrt(p / n) + p / (n * epsilon) * np.sqrt(log)


def merged(bases, weights, rank):
    """Return the top of a weighted sum of projectors."""
    total = sum(w * b.T @ b for w, b in zip(weights, bases, strict=True))
    return top(total, rank)


def printed_weights(parts, budgets, rank, signal, rng):
    """Return the subspace of the paper's method with the weights as printed.

    Parameters
    ----------
    parts : list of ndarray of shape (n_j, p)
        Rows of the clients.
    budgets : list of tuple (epsilon, delta)
        Of the clients.
    rank, signal : int, float
        Known to the method.
    rng : numpy.random.Generator
        Source of noise.

    Returns
    -------
    ndarray of shape (rank, p)
        Merged with weights that grow with a client's error.
    """
    p = parts[0].shape[1]
    pairs = list(zip(parts, budgets, strict=True))
    sent = [paper_projector(X, *b, rank, signal, rng) for X, b in pairs]
    rates = [paper_rate(len(X), p, *b, rank) for X, b in pairs]
    return merged([top(matrix, rank) for matrix in sent], rates, rank)


def oja(X, epsilon, delta, signal, rng, rank=1):
    """Return components by a pass over disjoint batches of clipped rows.

    The paper says neither how many batches there are nor where rows are clipped. Of the
    rules that were tried this one comes closest to its figures: log(n)^2 batches, and
    squared norms clipped at the signal plus twice the noise of all features. The
    sensitivity is sqrt(2) c^2 / b for a batch of b rows, the calibration exact.
    """
    n, p = X.shape
    clip = signal + 2 * p
    X = X * np.minimum(1, np.sqrt(clip / np.sum(X**2, axis=1)))[:, None]
    n_batches = round(np.log(n) ** 2)
    size = n // n_batches
    std = np.sqrt(2) * clip / size / gaussian_mu(epsilon, delta)
    q = np.linalg.qr(rng.standard_normal((p, rank)))[0]
    for t in range(n_batches):
        rows = X[t * size : (t + 1) * size]
        gradient = rows.T @ (rows @ q) / size + std * rng.standard_normal((p, rank))
        q = np.linalg.qr(q + 2 / (signal * (t + 1)) * gradient)[0]
    return q.T


def federated_oja(parts, budgets, signal, rng, rank=1):
    """Merge the clients' components with equal weights."""
    pairs = zip(parts, budgets, strict=True)
    bases = [oja(X, *b, signal, rng, rank) for X, b in pairs]
    return merged(bases, np.ones(len(bases)), rank)


def figure_1():
    """Return the settings of figures 1a to 1d: sizes and a function of budgets.

    Returns
    -------
    dict of (panel, value) to (sizes, budgets)
        ``budgets(rng)`` gives a list of (epsilon, delta).
    """

    def fixed(m, epsilon):
        return lambda rng: [(epsilon, 0.1)] * m

    def drawn(rng):
        epsilons = rng.uniform(0.1, 0.3, 10)
        return list(zip(epsilons, rng.uniform(0.1, 0.2, 10), strict=True))

    panels = {("1a", e): ([10_000] * 10, fixed(10, e)) for e in (0.1, 0.5, 1.0)}
    panels |= {("1b", m): ([1000] * m, fixed(m, 0.5)) for m in (10, 50, 100)}
    panels |= {("1c", m): ([100_000 // m] * m, fixed(m, 0.5)) for m in (10, 20, 25, 50)}
    panels |= {("1d", n): ([2 * n] * 5 + [20 * n] * 5, drawn) for n in (100, 500, 1000)}
    return panels
