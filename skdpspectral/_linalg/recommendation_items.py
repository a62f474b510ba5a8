"""What noisy sums over users say of items: everything here is made from releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Counts of items are taken for this where noise has left less.
_SMALLEST_COUNT = 1e-3
# Logarithms of counts begin here, or at their noise.
_SMALLEST_LOGGED = 0.5
# Rounds of prior and variance in turn.
_ROUNDS = 5
# Public features are reduced to so many components.
MOST_TASTES = 24


@dataclass(frozen=True)
class Shrunk:
    """Values of items between what was released and a prior.

    Parameters
    ----------
    values, prior : ndarray of shape (n_items,)
        Posterior means, and those of the prior.
    variance : ndarray of shape (n_items,)
        Posterior variances.
    spread : float
        Variance of the items about the prior.
    """

    values: np.ndarray
    prior: np.ndarray
    variance: np.ndarray
    spread: float


def positive_counts(counts: np.ndarray) -> np.ndarray:
    """Counts that noise has made too small are taken for a small number."""
    return np.maximum(counts, _SMALLEST_COUNT)


def log_counts(counts: np.ndarray, shift: float) -> np.ndarray:
    """Logarithms of noisy counts, which begin at half a rating or at `shift`."""
    return np.log(np.maximum(counts, 0.0) + max(_SMALLEST_LOGGED, shift))


def standardized(values: np.ndarray) -> np.ndarray:
    """Values of mean 0 and variance 1 over the catalog; zero if they are all alike."""
    return standardized_by(values, np.full(len(values), 1.0 / len(values)))


def standardized_by(values: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Values of weighted mean 0 and variance 1; zero if they are all alike."""
    centered = values - shares @ values
    deviation = np.sqrt(shares @ (centered * centered))
    return centered / deviation if deviation > 1e-9 else np.zeros_like(values)


def shrink(counts, sums, design, noise, spreads: tuple[float, float]) -> Shrunk:
    """Estimate values of items from noisy sums: empirical Bayes.

    The sum of an item with count N is N times its value plus noise of a known variance.
    Values have a mean that is linear in public columns, and a variance by moments.

    Parameters
    ----------
    counts, sums : ndarray of shape (n_items,)
        Positive counts, and sums.
    design : ndarray of shape (n_items, d)
        Columns of the prior mean.
    noise : ndarray of shape (n_items,)
        Variances of the sums, positive.
    spreads : tuple (low, high)
        Where the variance of values is looked for.

    Returns
    -------
    Shrunk
        Values and what they were shrunk to.
    """
    spread = min(max(0.2, spreads[0]), spreads[1])
    for _ in range(_ROUNDS):
        weights = 1.0 / (counts * counts * spread + noise)
        weighted = design * (counts * weights)[:, None]
        gram = weighted.T @ (design * counts[:, None]) + np.eye(design.shape[1])
        prior = design @ np.linalg.solve(gram, weighted.T @ sums)
        rest = sums - counts * prior
        squares = counts * counts * weights * weights
        found = (squares @ (rest * rest - noise)) / (squares @ (counts * counts))
        spread = float(np.clip(found, *spreads))
    gain = counts * spread / (counts * counts * spread + noise)
    variance = 1.0 / (1.0 / spread + counts * counts / noise)
    return Shrunk(prior + gain * rest, prior, variance, spread)


def weighted_variance(values: np.ndarray, counts: np.ndarray) -> float:
    """Variance of values of items over the ratings, by their counts."""
    shares = counts / counts.sum()
    centered = values - shares @ values
    return float(shares @ (centered * centered))


def public_columns(features: np.ndarray) -> np.ndarray:
    """Public features, standardized over the catalog; constant ones become zero."""
    scale = np.abs(features).max(axis=0, initial=0.0)
    features = features / np.where(scale > 0.0, scale, 1.0)
    columns = [standardized(column) for column in features.T]
    return np.column_stack([np.empty((len(features), 0)), *columns])


def leading_columns(columns: np.ndarray, most: int) -> np.ndarray:
    """Principal components of public columns over the catalog, unless there are few."""
    if columns.shape[1] <= most:
        return columns
    return principal_columns(columns, np.ones(len(columns)), 0.0)[:, :most]


def principal_columns(columns: np.ndarray, counts, least: float) -> np.ndarray:
    """Scores of items on principal components of columns, by the items' counts.

    Parameters
    ----------
    columns : ndarray of shape (n_items, d)
        Columns.
    counts : ndarray of shape (n_items,)
        Positive weights of the items.
    least : float
        The variance that scores are measured by is at least this.

    Returns
    -------
    ndarray of shape (n_items, d)
        Scores, of variance at most 1: that of the first one, unless it is `least`.
    """
    shares = counts / counts.sum()
    centered = columns - shares @ columns
    values, vectors = np.linalg.eigh(centered.T @ (centered * shares[:, None]))
    largest = max(values[-1], least) if len(values) else 0.0
    if largest <= 0.0:
        return np.zeros_like(columns)
    return centered @ vectors[:, ::-1] / np.sqrt(largest)


def measured_columns(columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Measure columns as :func:`principal_columns` does, but do not turn them.

    Parameters
    ----------
    columns : ndarray of shape (n_items, d)
        Columns.
    counts : ndarray of shape (n_items,)
        Positive weights of the items.

    Returns
    -------
    ndarray of shape (n_items, d)
        Columns of weighted mean 0, over the deviation of their first component: the
        same distances between items as the scores on all components.
    """
    shares = counts / counts.sum()
    centered = columns - shares @ columns
    values = np.linalg.eigvalsh(centered.T @ (centered * shares[:, None]))
    largest = values[-1] if len(values) else 0.0
    return centered / np.sqrt(largest) if largest > 0.0 else np.zeros_like(columns)


def component_columns(values, components, noise: float, counts) -> np.ndarray:
    """Columns of items from components of a sum over users of products of residuals.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Eigenvalues.
    components : ndarray of shape (k, n_items)
        Orthonormal rows.
    noise : float
        Spectral norm that noise alone would have, about.
    counts : ndarray of shape (n_items,)
        Positive counts of the items.

    Returns
    -------
    ndarray of shape (n_items, k)
        Components over roots of counts, by how much of them is not noise: of variance
        at most 1 over the ratings, zero where there is but noise.
    """
    # What is no larger than noise is taken for it, and so is what is not positive.
    seen = values > noise
    noise_share = np.divide(noise, values, out=np.ones(len(values)), where=seen)
    sizes = np.sqrt(np.where(seen, values, 0.0) * (1.0 - noise_share**2))
    # An item that few rate has a small product with all others.
    columns = components.T * sizes / np.sqrt(np.maximum(counts, 1.0))[:, None]
    largest = max((weighted_square(column, counts) for column in columns.T), default=0)
    return columns / np.sqrt(largest) if largest > 0.0 else columns


def weighted_square(values: np.ndarray, counts: np.ndarray) -> float:
    """Mean square of values of items over the ratings, by their counts."""
    return float((counts / counts.sum()) @ (values * values))


def tastes(columns: np.ndarray, counts, logged: np.ndarray) -> np.ndarray:
    """What tastes differ in: components of public columns, and popularity.

    Parameters
    ----------
    columns : ndarray of shape (n_items, d)
        Standardized public features.
    counts, logged : ndarray of shape (n_items,)
        Positive counts, and their logarithms.

    Returns
    -------
    ndarray of shape (n_items, d + 1)
        The last column is popularity, of unit variance over the ratings.
    """
    popular = standardized_by(logged, counts / counts.sum())
    return np.column_stack([principal_columns(columns, counts, 0.0), popular])


def uncorrelated(columns: np.ndarray, shares, ridge) -> tuple[np.ndarray, np.ndarray]:
    """Turn columns such that they are uncorrelated over clicks, and of one penalty.

    Parameters
    ----------
    columns : ndarray of shape (n_items, d)
        Columns.
    shares : ndarray of shape (n_items,)
        Shares of the items in all clicks.
    ridge : ndarray of shape (d,)
        Positive penalties of squared weights on the columns.

    Returns
    -------
    features : ndarray of shape (n_items, d)
        Of mean zero, whose weights have penalty 1.
    back : ndarray of shape (d, d)
        Weights on features times this are weights on columns.
    """
    scaled = (columns - shares @ columns) / np.sqrt(ridge)
    vectors = np.linalg.eigh(scaled.T @ (scaled * shares[:, None]))[1]
    return scaled @ vectors, vectors.T / np.sqrt(ridge)


def against_anchors(shares: np.ndarray, most: int) -> np.ndarray:
    """Rows that tell which of the most popular items a user has, beyond their shares.

    Parameters
    ----------
    shares : ndarray of shape (n_items,)
        Shares of the items in all clicks.
    most : int
        Number of such items.

    Returns
    -------
    ndarray of shape (n_items, most)
        Zero for all other items. Summed over the items of a user, they are the user's
        clicks of each of these items, less what popularity leads one to expect.
    """
    anchors = np.argsort(-shares, kind="stable")[:most]
    rows = np.zeros((len(shares), len(anchors)))
    rows[anchors] = np.eye(len(anchors)) - shares[anchors] / shares[anchors].sum()
    return rows
