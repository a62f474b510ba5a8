"""Published private estimators of covariances and components, for comparison alone.

Small implementations of what the papers describe, in one accounting: mu of Gaussian
differential privacy for Gaussian noise, and mu**2 / 2 of concentrated privacy where a
paper has other noise; for one replaced row. Noise is from NumPy: nothing here protects
anything. Rows come centered at their exact mean, and bounds are exact: all of it in the
peers' favor.
"""

import math

import numpy as np

from skdpspectral.accounting import gaussian_mu


def budget(epsilon, delta=1e-6):
    """Return mu of a budget."""
    return gaussian_mu(epsilon, delta)


class Rows:
    """Rows of a table, and their clipped second moments, each worked out once.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        About their exact mean.
    """

    def __init__(self, rows):
        self.rows, self.shape = rows, rows.shape
        self.lengths = np.linalg.norm(rows, axis=1)
        self.exact = rows.T @ rows / len(rows)
        self.largest = float(np.linalg.eigvalsh(self.exact)[-1])
        self._clipped = {}

    def clipped(self, clip):
        """Second moment of rows that are clipped at a length."""
        if clip not in self._clipped:
            self._clipped[clip] = clipped_moment(self.rows, clip)
        return self._clipped[clip]

    def noisy(self, clip, mu, rng):
        """Second moment of clipped rows with symmetric Gaussian noise."""
        moved = 2.0**0.5 * clip**2 / self.shape[0]
        return noisy_matrix(self.clipped(clip), moved, mu, rng)


def clipped_moment(rows, clip):
    """Second moment of rows that are clipped at a length."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    rows = rows * np.minimum(1.0, clip / lengths)[:, None]
    return rows.T @ rows / len(rows)


def noisy_matrix(matrix, moved, mu, rng):
    """Add symmetric noise for a sensitivity in Frobenius norm (Analyze Gauss)."""
    noise = rng.normal(size=matrix.shape) * moved / mu
    return matrix + (noise + noise.T) / 2.0


def kept_below(matrix, most):
    """Eigenvalues moved into [0, most]."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, 0.0, most)) @ vectors.T


def separate_cov(rows, clip, mu, rng):
    """SeparateCov of Dong, Liang and Yi (2022): eigenvalues and vectors apart."""
    half = mu / math.sqrt(2.0)
    vectors = np.linalg.eigh(rows.noisy(clip, half, rng))[1]
    exact = np.linalg.eigvalsh(rows.clipped(clip))
    moved = math.sqrt(2.0) * clip**2 / rows.shape[0]
    values = exact + moved / half * rng.normal(size=len(exact))
    return (vectors * np.clip(values, 0.0, clip**2)) @ vectors.T


def adaptive_cov(rows, radius, mu, rng):
    """AdaptiveCov of Dong, Liang and Yi (2022): a clip found by sparse vectors.

    The trace and the search take an eighth each; the radius is halved until what it
    would clip outweighs the noise, and the better of two mechanisms takes the rest.
    """
    n, p = rows.shape
    squares = rows.lengths**2
    rho = mu**2 / 2.0
    trace = squares.mean() + radius**2 / (n * mu * math.sqrt(0.125)) * rng.normal()
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
    return kept_below(rows.noisy(clip, main, rng), clip**2)


def _errors(n, p, clip, trace, mu):
    """Typical Frobenius errors of noise on the matrix, and on its parts."""
    spread = clip**2 / (n * mu)
    # Half of the budget each; vectors of the leading part turn in all others.
    turned = math.sqrt(8.0 * math.sqrt(2.0 * p) * spread * trace)
    return p * spread, min(turned, 2.0 * trace) + 2.0 * spread * math.sqrt(p)


def coinpress(rows, mu, rng):
    """CoinPress of Biswas, Dong, Kamath and Ullman (2020), from a bound.

    Of twice the largest eigenvalue. With one to three steps, whichever comes out
    nearest: in its favor.
    """
    found = [
        _coinpress(rows, mu, rng, shares)
        for shares in ((1.0,), (0.25, 0.75), (0.1, 0.15, 0.75))
    ]
    return nearest(rows.exact, found)


def _coinpress(rows, mu, rng, shares):
    """Whiten rows by the bound so far, clip them, and make the next bound."""
    n, p = rows.shape
    scale = math.sqrt(2.0 * rows.largest)
    log = math.log(n * len(shares) / 0.01)
    clip = math.sqrt(p + 2.0 * math.sqrt(p * log) + 2.0 * log)
    root = scale * np.eye(p)
    for step, share in enumerate(shares):
        if step == 0:
            exact = rows.clipped(clip * scale) / scale**2
        else:
            exact = clipped_moment(rows.rows @ np.linalg.inv(root).T, clip)
        cost = math.sqrt(share) * mu
        noisy = noisy_matrix(exact, 2.0**0.5 * clip**2 / n, cost, rng)
        edge = 2.0 * math.sqrt(p) * clip**2 / (n * cost)
        sampling = 2.0 * math.sqrt(p / n) + p / n
        positive = kept_below(noisy, math.inf)
        covariance = root @ positive @ root.T
        root = root @ np.linalg.cholesky(positive + (edge + sampling) * np.eye(p))
    return covariance


def pairs_moment(rows, n_shifts, rng):
    """Kendall's tau matrix of rows, of random pairs: so many a row for all."""
    n, p = rows.shape
    order, found = rng.permutation(n), np.zeros((p, p))
    mixed = rows[order]
    for shift in range(1, n_shifts + 1):
        pairs = mixed - np.roll(mixed, shift, axis=0)
        lengths = np.linalg.norm(pairs, axis=1, keepdims=True)
        np.divide(pairs, lengths, out=pairs, where=lengths > 0.0)
        found += pairs.T @ pairs / (n * n_shifts)
    return found


def gdppca(moment, n, mu, rng):
    """g-DPPCA of Kim and Jung (2025): Kendall's tau matrix with noise for 4 / n."""
    return noisy_matrix(moment, 4.0 / n, mu, rng)


def exponential(moment, n, rank, epsilon, rng):
    """Eigenvectors by exponential mechanisms, of Amin, Dick and others (2019).

    All of a budget without a delta goes to them, in equal parts; each is of what is
    left across those before it. The packages diffprivlib and OpenDP mean to do this.

    Parameters
    ----------
    moment : ndarray of shape (p, p)
        Second moment of rows of at most unit norm.
    n : int
        Number of rows; one that is replaced moves n times a variance by at most 1.
    """
    across, found = np.eye(len(moment)), []
    for _ in range(rank):
        inner = 0.5 * epsilon / rank * n * (across @ moment @ across.T)
        found.append(_bingham(inner, rng) @ across)
        across = np.linalg.svd(np.array(found))[2][len(found) :]
    return np.array(found)


def _bingham(matrix, rng):
    """Unit vector u of density exp(u' matrix u), by rejection.

    From an angular central Gaussian law as in Kent, Ganeiber and Mardia (2018).
    """
    values, vectors = np.linalg.eigh(matrix)
    values = values[-1] - values
    low, high = 0.5, float(len(values))
    for _ in range(100):
        middle = 0.5 * (low + high)
        above = (1.0 / (middle + 2.0 * values)).sum() >= 1.0
        low, high = (middle, high) if above else (low, middle)
    inverse = 1.0 + 2.0 * values / low
    p = len(values)
    while True:
        normal = rng.normal(size=p) / np.sqrt(inverse)
        squares = normal**2 / (normal @ normal)
        # Density over that of the proposal, over the largest ratio.
        log = 0.5 * p * math.log(squares @ inverse * low / p) + 0.5 * (p - low)
        if math.log(1.0 - rng.random()) < log - squares @ values:
            return vectors @ (normal / np.linalg.norm(normal))


def nearest(exact, found):
    """Return what is nearest to the exact covariance: in a peer's favor."""
    return min(found, key=lambda made: np.linalg.norm(made - exact))


def leading(matrix, rank):
    """Return eigenvectors of the largest eigenvalues as rows."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :rank].T
