"""Published private estimators of covariances and components, for comparison alone.

Small implementations of what the papers describe, in one accounting: mu of Gaussian
differential privacy for Gaussian noise, and mu**2 / 2 of concentrated privacy where a
paper has other noise. Noise is from NumPy: nothing here protects anything. Rows come
centered at their exact mean, and bounds are exact: all of it in the peers' favor.
"""

import math

import numpy as np

from skdpspectral.accounting import gaussian_mu


def budget(epsilon, delta=1e-6):
    """Return mu of a budget."""
    return gaussian_mu(epsilon, delta)


def noisy_moment(rows, clip, mu, rng, moved=2.0**0.5):
    """Second moment of clipped rows with symmetric Gaussian noise (Analyze Gauss)."""
    n, p = rows.shape
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))[:, None]
    noise = rng.normal(size=(p, p)) * moved * clip**2 / (n * mu)
    return rows.T @ rows / n + (noise + noise.T) / 2.0


def kept_below(matrix, most):
    """Eigenvalues moved into [0, most]."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, 0.0, most)) @ vectors.T


def separate_cov(rows, clip, mu, rng):
    """SeparateCov of Dong, Liang and Yi (2022): eigenvalues and vectors apart."""
    n = len(rows)
    half = mu / math.sqrt(2.0)
    vectors = np.linalg.eigh(noisy_moment(rows, clip, half, rng))[1]
    exact = np.linalg.eigvalsh(noisy_moment(rows, clip, math.inf, rng))
    values = exact + math.sqrt(2.0) * clip**2 / (n * half) * rng.normal(size=len(exact))
    return (vectors * np.clip(values, 0.0, clip**2)) @ vectors.T


def adaptive_cov(rows, radius, mu, rng):
    """AdaptiveCov of Dong, Liang and Yi (2022): a clip found by sparse vectors.

    The trace and the search take an eighth each; the radius is halved until what it
    would clip outweighs the noise, and the better of two mechanisms takes the rest.
    """
    n, p = rows.shape
    squares = (rows**2).sum(axis=1)
    rho = mu**2 / 2.0
    trace = (
        squares.mean() + 2.0 * radius**2 / (n * mu * math.sqrt(0.125)) * rng.normal()
    )
    trace = min(max(trace, 1e-12), radius**2)
    main = math.sqrt(0.75) * mu
    laplace = 1.0 / math.sqrt(2.0 * 0.125 * rho)
    threshold = 2.0 * laplace * rng.laplace()
    clip = radius
    while clip > 1e-6 * radius:
        lower = clip / 2.0
        bias = np.maximum(squares - lower**2, 0.0).sum() / radius**2
        noise = n * min(_errors(n, p, lower, trace, main)) / radius**2
        if bias - noise + 4.0 * laplace * rng.laplace() > threshold:
            break
        clip = lower
    gauss, separate = _errors(n, p, clip, trace, main)
    if separate < gauss:
        return separate_cov(rows, clip, main, rng)
    return kept_below(noisy_moment(rows, clip, main, rng), clip**2)


def _errors(n, p, clip, trace, mu):
    """Typical Frobenius errors of noise on the matrix, and on its parts."""
    spread = clip**2 / (n * mu)
    # Half of the budget each; vectors of the leading part turn in all others.
    turned = math.sqrt(8.0 * math.sqrt(2.0 * p) * spread * trace)
    return p * spread, min(turned, 2.0 * trace) + 2.0 * spread * math.sqrt(p)


def coinpress(rows, mu, rng, largest):
    """CoinPress of Biswas, Dong, Kamath and Ullman (2020), from covariance <= largest.

    With one to three steps, whichever comes out nearest: in its favor.
    """
    exact = rows.T @ rows / len(rows)
    found = [
        _coinpress(rows, mu, rng, largest, shares)
        for shares in ((1.0,), (0.25, 0.75), (0.1, 0.15, 0.75))
    ]
    return nearest(exact, found)


def _coinpress(rows, mu, rng, largest, shares, failure=0.01):
    """Whiten rows by the bound so far, clip them, and make the next bound."""
    n, p = rows.shape
    root = math.sqrt(largest) * np.eye(p)
    for share in shares:
        inner = rows @ np.linalg.inv(root).T
        log = math.log(n * len(shares) / failure)
        clip = math.sqrt(p + 2.0 * math.sqrt(p * log) + 2.0 * log)
        cost = math.sqrt(share) * mu
        noisy = noisy_moment(inner, clip, cost, rng)
        edge = 2.0 * math.sqrt(p) * clip**2 / (n * cost)
        sampling = 2.0 * math.sqrt(p / n) + p / n
        upper = kept_below(noisy, math.inf) + (edge + sampling) * np.eye(p)
        covariance = root @ kept_below(noisy, math.inf) @ root.T
        root = root @ np.linalg.cholesky(upper)
    return covariance


def gdppca(rows, mu, rng):
    """g-DPPCA of Kim and Jung (2025): Kendall's tau matrix of pairs, at 4 / n.

    Of n pairs in a random order: their sensitivity is that of the U-statistic.
    """
    order = rng.permutation(len(rows))
    pairs = rows[order] - rows[np.roll(order, 1)]
    return noisy_moment(_unit(pairs), 1.0, mu, rng, moved=4.0)


def _unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0)


def nearest(exact, found):
    """Return what is nearest to the exact covariance: in a peer's favor."""
    return min(found, key=lambda made: np.linalg.norm(made - exact))


def leading(matrix, rank):
    """Return eigenvectors of the largest eigenvalues as rows."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :rank].T


def diffprivlib_components(rows, rank, epsilon, bounds):
    """PCA of diffprivlib, or None where it is not installed or does not run."""
    try:
        from diffprivlib.models import PCA
    except ImportError:
        return None
    lengths = np.linalg.norm(rows, axis=1)
    try:
        pca = PCA(
            rank, epsilon=epsilon, bounds=bounds, data_norm=float(lengths.max())
        ).fit(rows)
    except (AttributeError, TypeError, ValueError):
        return None
    return pca.components_
