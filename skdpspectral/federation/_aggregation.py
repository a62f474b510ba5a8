"""What a server makes of the answers of its clients: weights, and averages by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .. import _linalg
from ..mechanisms._numbers import check_real, shown
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
    weights : {"optimal", "equal"} or mapping of str to float
        Weights of the clients: by variances, equal, or by name.
    eigengap : float or None
        Public gap between the last eigenvalue that is kept and the others, in the
        units of the second moment; None takes one from what the clients sent.
    """

    def __init__(
        self,
        task: SpectralTask,
        weights: str | Mapping[str, float],
        eigengap: float | None,
    ):
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
            return self._weights(errors, replies)
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
        return self._weights(variances, replies)

    def _weights(self, variances, replies: Sequence[Reply]) -> np.ndarray:
        """Weights by variances, equal ones, or given ones, as was chosen."""
        if isinstance(self.weights, Mapping):
            given = np.array([self.weights[reply.client] for reply in replies])
            if not given.sum() > 0.0:
                raise ValueError("the clients that are left all have the weight 0")
            # Divided by the largest first: sums may be beyond float64.
            given = given / given.max()
            return given / given.sum()
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
        weights = self._weights(variances, replies)
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
            weights = self._weights(variances, replies)
            found = np.tensordot(weights, stacked, axes=1)
            level = max(np.trace(found) / len(found), 1e-3 * level)
        return found

    def aggregate_means(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average means by the numbers of rows, or by given weights."""
        if isinstance(self.weights, Mapping):
            own = self._weights(None, replies)
            return own @ np.stack([reply.values for reply in replies])
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


def check_weights(weights, names: Sequence[str]):
    """Return a choice of weights, a mapping as one of its own, or an error about it."""
    if isinstance(weights, str) and weights in ("optimal", "equal"):
        return weights
    if not isinstance(weights, Mapping):
        raise ValueError(
            'weights must be "optimal", "equal" or a mapping of clients to numbers, '
            f"got {shown(weights)}"
        )
    for name in (*weights, *names):
        if name not in names or name not in weights:
            side = "has no entry for" if name in names else "names, without rows,"
            raise ValueError(f"weights {side} the client {name!r}")
    own = {name: check_real("weights", weights[name]) for name in names}
    if not all(0.0 <= value < np.inf for value in own.values()) or not any(
        own.values()
    ):
        raise ValueError("weights must be finite and at least 0, and not all of them 0")
    return own
