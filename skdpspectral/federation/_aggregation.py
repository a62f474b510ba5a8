"""What a server makes of the answers of its clients: weights, and averages by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import _linalg
from ._messages import Reply, Topic
from ._tasks import SpectralTask

# Size of eigenvalues that is assumed at least, in units of the squared rows.
_LEAST_SPIKE = 1e-12
# Noise of a private variance over its sampling error, in rows, at a cost of mu = 1:
# that of votes that share 4 % of mu^2 over 12 steps.
_VOTES = 25.0


class Aggregation:
    """How valid answers to one request become one result: of releases alone.

    Parameters
    ----------
    task : SpectralTask
        What the clients release.
    weights : {"optimal", "equal"}
        Weights of the clients.
    eigengap : float or None
        Public gap between the last eigenvalue that is kept and the others, in the
        units of the second moment; None takes one from what the clients sent.
    """

    def __init__(self, task: SpectralTask, weights: str, eigengap: float | None):
        self.task, self.weights, self.eigengap = task, weights, eigengap

    def aggregate(self, replies: Sequence[Reply]) -> tuple[np.ndarray, np.ndarray]:
        """Make one subspace of components, or of noisy second moments.

        Parameters
        ----------
        replies : sequence of Reply
            Answers to the first request of a task with a start.

        Returns
        -------
        components : ndarray of shape (r, p)
            Orthonormal rows.
        weights : ndarray of shape (m,)
            Weights of the clients, with sum 1.
        """
        rank, weights = self.task.n_components, self.subspace_weights(replies)
        if replies[0].topic in (Topic.MATRIX, Topic.PROJECTOR):
            return _linalg.top_eigh(self.aggregate_matrices(replies), rank)[1], weights
        stacked = np.stack([reply.values for reply in replies])
        return _linalg.top_of_projectors(stacked, weights, rank), weights

    def aggregate_matrices(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average noisy matrices, symmetric of shape (p, p)."""
        stacked = np.stack([reply.values for reply in replies])
        packed = self.subspace_weights(replies) @ stacked
        return _linalg.unpack_lower(packed, self.task.rows.n_features)

    def subspace_weights(self, replies: Sequence[Reply]) -> np.ndarray:
        """Weights of the clients' subspaces, from what they sent alone."""
        if not self.task.second_moment:
            scales = self.pooled_variances(replies)
            errors = [
                self.task.squared_error(reply.n_samples, reply.mu, *scales)
                for reply in replies
            ]
            return self._weights(errors)
        rank, p = self.task.n_components, self.task.rows.n_features
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        noise, last, others = np.array([reply.numbers for reply in replies]).T
        least = _LEAST_SPIKE * self.task.rows.second_radius**2
        gap, bulk = _pooled_spectrum(n, noise, last, others, p, least)
        gap = gap if self.eigengap is None else float(self.eigengap)
        variances = _linalg.subspace_variances(
            gap + bulk,
            bulk,
            n,
            noise,
            rank,
            p,
            capped=replies[0].topic is Topic.COMPONENTS,
        )
        return self._weights(variances)

    def _weights(self, variances) -> np.ndarray:
        """Weights by variances, or equal ones, as was chosen."""
        if self.weights == "equal":
            return np.full(len(variances), 1.0 / len(variances))
        return _linalg.inverse_variance_weights(variances)

    def pooled_variances(self, replies: Sequence[Reply]) -> tuple[float, float]:
        """Make two variances of those that the clients sent.

        Parameters
        ----------
        replies : sequence of Reply
            Answers to the first request of a task with a mechanism other than
            "gaussian".

        Returns
        -------
        signal, noise : float
            Variances along the components beyond the noise, and across them: medians
            with weights by the rows and costs that clients state. A few clients with
            wild votes, or that lie about these variances alone, do not move them far.
        """
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        mu = np.array([reply.mu for reply in replies])
        with np.errstate(over="ignore"):
            weights = n / (1.0 + (_VOTES / mu) ** 2 / n)
        numbers = np.array([reply.numbers for reply in replies])
        signal, noise = (_linalg.weighted_median(c, weights) for c in numbers.T)
        return signal, noise

    def aggregate_products(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average products, each by the inverse of its variance.

        An entry of x (x'Q) has a second moment of about c^4 / p over the rows, and
        noise of the standard deviation that comes along.

        Parameters
        ----------
        replies : sequence of Reply
            Answers to a request with a basis.

        Returns
        -------
        ndarray of shape (p, k)
            About S Q.
        """
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        noise = np.array([reply.numbers[0] for reply in replies])
        radius, p = self.task.rows.second_radius, self.task.rows.n_features
        variances = radius**4 / (p * n) + noise**2
        weights = self._weights(variances)
        return np.tensordot(weights, np.stack([r.values for r in replies]), axes=1)

    def aggregate_covariances(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average covariances, each by the inverse of its variance.

        An entry has a variance of about 2 L^2 / n from sampling, with L the mean
        variance along the basis, and that of the noise that comes along.

        Parameters
        ----------
        replies : sequence of Reply
            Answers to the last request of a task with a covariance.

        Returns
        -------
        ndarray of shape (k, k)
            Symmetric.
        """
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        noise = np.array([reply.numbers[0] for reply in replies])
        stacked = np.stack([reply.values for reply in replies])
        # The clip, or the model, bounds every variance: a first guess, for weights.
        level = self.task.largest_variance
        for _ in range(2):
            variances = 2.0 * level**2 / n + noise**2
            found = np.tensordot(self._weights(variances), stacked, axes=1)
            level = max(np.trace(found) / len(found), 1e-3 * level)
        return found

    def aggregate_means(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average means by the numbers of rows."""
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        return (n / n.sum()) @ np.stack([reply.values for reply in replies])


def _pooled_spectrum(n_samples, noise_std, last, others, n_features: int, least: float):
    """Gap and bulk that all clients have in common, by the least noisy of them.

    Eigenvalues may all be zero: `least` is taken for their size then.
    """
    scale = max(float(np.mean(np.abs(last))), least)
    weights = _linalg.inverse_variance_weights(
        2.0 / n_samples + (noise_std / scale) ** 2
    )
    bulk = max(float(weights @ others), 0.0)
    level = noise_std * np.sqrt(0.5 * n_features)
    strength = _linalg.spike_strength(last - others, level)
    return float(weights @ strength), bulk
