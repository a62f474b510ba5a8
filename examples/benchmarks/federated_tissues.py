"""Lung tissues with two clients: section 4.2 of Li, Cai, Xia and Zhang (2024).

Gordon et al. (2002) measured 12,533 probe sets. The paper takes 251 genes from Jin and
Wang (2016): those whose values are furthest from normal, by the statistic of Kolmogorov
and Smirnov; higher criticism with half a million simulated null statistics gave 250 to
252 here. **None of this is private**: genes, means and scales are read off the rows.
"""

import numpy as np
from real_tables import load_gordon2002
from scipy import stats

from skdpspectral.datasets import make_spiked_covariance

n_genes, rank, epsilon, delta = 251, 5, 0.4, 0.1
clients = np.repeat(["first", "second"], [130, 51])


def least_normal_genes(lungs):
    """Standardized values of the genes that are furthest from a normal law."""
    values = np.sort(stats.zscore(lungs.data), axis=0)
    law, steps = stats.norm.cdf(values), np.arange(len(values) + 1) / len(values)
    above = np.max(steps[1:, None] - law, axis=0)
    below = np.max(law - steps[:-1, None], axis=0)
    statistic = np.maximum(above, below)
    return stats.zscore(lungs.data[:, np.argsort(-statistic)[:n_genes]])


def most_different_genes(lungs):
    """Standardized logarithms of the genes that differ most between the classes."""
    classes = [lungs.data[lungs.target == label] for label in (0, 1)]
    difference = np.subtract(*(values.mean(axis=0) for values in classes))
    variance = sum(values.var(axis=0, ddof=1) / len(values) for values in classes)
    varies = variance > 1e-12  # others are clipped to one value in all tissues
    t = np.divide(difference, np.sqrt(variance), where=varies, out=0 * difference)
    return stats.zscore(lungs.data[:, np.argsort(-np.abs(t))[:n_genes]])


def load_tissues():
    """Return tissues with the papers' genes, and with those that differ most.

    Where the data are not at hand, both are simulated rows that have the largest
    eigenvalues of the real correlation matrix.
    """
    try:
        tissues = least_normal_genes(load_gordon2002(units="raw"))
        return tissues, most_different_genes(load_gordon2002())
    except FileNotFoundError as error:
        print(f"Simulated rows in place of tissues: {error}")
    eigenvalues = np.array([27.2, 14.7, 11.9, 11.8, 9.0])
    noise_variance = 1 - eigenvalues.sum() / n_genes
    simulated, _ = make_spiked_covariance(
        181,
        n_genes,
        n_components=rank,
        signal_variance=eigenvalues - noise_variance,
        noise_variance=noise_variance,
        random_state=0,
    )
    return (stats.zscore(simulated),) * 2


def split(seed, rows):
    """The tissues in a random order: the first 130 are the first client's."""
    return np.random.default_rng(seed).permutation(rows)


def moment_rows(rows, centered):
    """Rows whose second moment a client takes: about its own mean, or as they are.

    Algorithm 1 is for rows of mean zero and centers none; the rows here are z-scored
    over all tissues. About a client's own mean, 51 rows have no 51st eigenvalue.
    """
    return rows - rows.mean(axis=0) if centered else rows


def printed_noise(rows, centered=False):
    """Standard deviation of the printed method, from the client's own eigenvalues."""
    n, p = rows.shape
    values = np.zeros(p)
    own = moment_rows(rows, centered)
    values[:n] = np.linalg.svd(own, compute_uv=False) ** 2 / n
    signal, noise = values[:3].mean(), values[50:251].mean()
    if noise < 1e-12 * signal:  # an eigenvalue of zero, but for rounding
        noise = 0.0
    ratio = noise / signal
    spread = ratio * (ratio + 1) * p * (rank + np.log(n))
    return np.sqrt(8 * np.log(2.5 / delta) * spread) / (epsilon * n)


def printed_method(rows, weights, rng, centered=False):
    """Components of the printed method, with the noise that it prints."""
    projectors = []
    for name in ("first", "second"):
        own = moment_rows(rows[clients == name], centered)
        vectors = np.linalg.svd(own, full_matrices=False)[2][:rank]
        std = printed_noise(rows[clients == name], centered)
        noise = np.tril(std * rng.normal(size=(n_genes, n_genes)))
        noise += np.tril(noise, -1).T
        released = np.linalg.eigh(vectors.T @ vectors + noise)[1][:, -rank:]
        projectors.append(released @ released.T)
    average = sum(w * P for w, P in zip(weights, projectors, strict=True))
    return np.linalg.eigh(average)[1][:, -rank:]


def expected_errors():
    """The paper's rate of each client, up to a constant."""
    n = np.array([130, 51])
    price = np.sqrt((rank + np.log(n)) * np.log(2.5 / delta)) / epsilon
    return np.sqrt(n_genes / n) + n_genes / n * price


# The formula of the weights is printed without its exponent of -2 (theorem 1).
WEIGHTS = {
    "printed weights": expected_errors(),
    "weights of theorem 1": expected_errors() ** -2.0,
    "equal weights": np.ones(2),
}


def share(rows, basis):
    """Share of the variance within a basis."""
    return np.sum(np.square((rows - rows.mean(axis=0)) @ basis)) / rows.size
