"""A server: asks all clients the same, and makes one result of what they answer."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from .. import _spectral
from ..mechanisms import check_count, check_real
from ._messages import SESSION_BYTES, MessageError, Reply, Request, Topic, check_name
from ._tasks import SpectralTask

# Bytes of a message beside its values, at most.
_OVERHEAD = 200
# How far from orthonormal the components of a client may be.
_TOLERANCE = 1e-6
# Releases of rows of any unit stay below it, and squares of it are finite.
_LARGEST = 1e150
# Variances that rows of any unit may have.
_VARIANCES = (1e-240, 1e240)
# Noise of a private variance over its sampling error, in rows, at a cost of mu = 1:
# that of votes that share 4 % of mu^2 over 12 steps.
_VOTES = 25.0


class FederationError(RuntimeError):
    """Too few clients are left to go on."""


class Server:
    """One conversation with named clients, of whom some may fail.

    The server sees releases and public numbers alone; nothing that it computes costs
    any privacy. What a client sends is used if it is whole, of the right shape, finite
    and an answer to the present request; otherwise the client is rejected by name, for
    the rest of the session.

    Parameters
    ----------
    clients : sequence of str
        Names of the clients, all different.
    task : SpectralTask
        What the clients release, agreed on beforehand.
    weights : {"optimal", "equal"}, default="optimal"
        Weights of the clients in :meth:`aggregate`.
    eigengap : float or None, default=None
        Public gap between the last eigenvalue that is kept and the others, in the
        units of the second moment, for the weights; None takes one from what the
        clients sent.
    min_clients : int, default=1
        Clients that must be left.
    session : bytes or None, default=None
        16 bytes that no other conversation has; None makes new ones.

    Attributes
    ----------
    clients : tuple of str
        Clients that were not rejected, in their order.
    rejected : dict of str to str
        Why each of the others was.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __init__(
        self,
        clients: Sequence[str],
        task: SpectralTask,
        *,
        weights="optimal",
        eigengap=None,
        min_clients=1,
        session: bytes | None = None,
    ):
        names = [check_name(name) for name in clients]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(
                f"clients must have different names, got {twice[0]!r} twice"
            )
        if weights not in ("optimal", "equal"):
            raise ValueError(f'weights must be "optimal" or "equal", got {weights!r}')
        if eigengap is not None and not check_real("eigengap", eigengap) > 0.0:
            raise ValueError(f"eigengap must be positive, got {eigengap}")
        self.min_clients = check_count("min_clients", min_clients)
        if not names or self.min_clients > len(names):
            raise ValueError(
                f"min_clients={self.min_clients} must be at most the number of "
                f"clients, {len(names)}"
            )
        if session is None:
            session = uuid.uuid4().bytes
        if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
            raise ValueError(f"session must be {SESSION_BYTES} bytes or None")
        if eigengap is not None and not task.second_moment:
            raise ValueError(
                'eigengap has no use without mechanism="gaussian": weights come from '
                "variances, public or released; leave it None"
            )
        self.task, self.weights, self.eigengap = task, weights, eigengap
        self.clients, self.rejected = tuple(names), {}
        self._session, self._step = session, -1
        self._request: Request | None = None
        # What a client said of itself, which must stay the same.
        self._known: dict[str, tuple[int, float]] = {}

    def request(self, basis=None) -> Request:
        """Return the next request, the same for all clients.

        Parameters
        ----------
        basis : ndarray of shape (p, k) or None, default=None
            For a step of a power iteration.

        Returns
        -------
        Request
            To be sent, as it is or by its byte form.
        """
        if self._step + 1 >= len(self.task.topics):
            raise MessageError("all of the task was asked for")
        self._step += 1
        topic = self.task.topics[self._step]
        basis = () if basis is None else basis
        self._request = Request(self._session, self._step, topic, basis)
        return self._request

    def collect(self, answers: Mapping[str, object]) -> list[Reply]:
        """Check the answers to the present request.

        Parameters
        ----------
        answers : mapping of str to bytes, Reply, exception or None
            What came from each client; None, or no entry, where nothing came in time.

        Returns
        -------
        list of Reply
            Valid ones, in the order of the clients.

        Raises
        ------
        FederationError
            If fewer than `min_clients` are left.

        Warns
        -----
        UserWarning
            Of each client that is rejected, by name.
        """
        for name in set(answers) - set(self.clients) - set(self.rejected):
            self.rejected[str(name)] = "it is no client of this session"
        replies, left = [], []
        for name in self.clients:
            try:
                replies.append(self._checked(name, answers.get(name)))
                left.append(name)
            except MessageError as error:
                self.rejected[name] = str(error)
                warnings.warn(
                    f"client {name!r} was rejected: {error}", UserWarning, stacklevel=3
                )
        self.clients = tuple(left)
        if len(left) < self.min_clients:
            reasons = "; ".join(
                f"{k!r}: {v}" for k, v in list(self.rejected.items())[:5]
            )
            raise FederationError(
                f"{len(left)} clients are left, fewer than min_clients="
                f"{self.min_clients}; rejected: {reasons}"
            )
        return replies

    def _checked(self, name: str, answer) -> Reply:
        """Return a client's valid reply, or raise what is wrong with it."""
        if answer is None:
            raise MessageError("it did not answer in time")
        if isinstance(answer, BaseException):
            # The error's text may speak of the client's data.
            raise MessageError(f"it failed with {type(answer).__name__}")
        topic, step = self._request.topic, self._step
        shape = self.task.shape(topic)
        if not isinstance(answer, Reply):
            limit = 8 * int(np.prod(shape)) + _OVERHEAD
            answer = Reply.from_bytes(answer, max_bytes=limit)
        if answer.session != self._session:
            raise MessageError("its answer is of another session")
        if (answer.step, answer.topic) != (step, topic):
            raise MessageError(f"its answer is not that to step {step}")
        if answer.client != name:
            raise MessageError("its answer bears another client's name")
        if answer.values.shape != shape:
            raise MessageError(
                f"its answer has shape {answer.values.shape}, not {shape}"
            )
        if topic in (Topic.COMPONENTS, Topic.SUBSPACE):
            _check_orthonormal(answer.values)
        if topic in (Topic.SUBSPACE, Topic.PROJECTOR):
            _check_variances(answer.numbers, self.task.mechanism)
        elif answer.numbers and answer.numbers[0] < 0.0:
            raise MessageError("its noise has a negative standard deviation")
        elif max(map(abs, answer.numbers), default=0.0) > _LARGEST:
            raise MessageError("its numbers are out of range")
        if np.abs(answer.values).max() > _LARGEST:
            raise MessageError("its values are out of range")
        known = self._known.setdefault(name, (answer.n_samples, answer.mu))
        if known != (answer.n_samples, answer.mu):
            raise MessageError("it changed its number of rows or its budget")
        return answer

    # -- what is made of answers -------------------------------------------------------

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
            return _spectral.top_eigh(self.aggregate_matrices(replies), rank)[
                1
            ], weights
        stacked = np.stack([reply.values for reply in replies])
        return _spectral.top_of_projectors(stacked, weights, rank), weights

    def aggregate_matrices(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average noisy matrices, symmetric of shape (p, p)."""
        stacked = np.stack([reply.values for reply in replies])
        packed = self.subspace_weights(replies) @ stacked
        return _spectral.unpack_lower(packed, self.task.rows.n_features)

    def subspace_weights(self, replies: Sequence[Reply]) -> np.ndarray:
        """Weights of the clients' subspaces, from what they sent alone."""
        m = len(replies)
        if self.weights == "equal":
            return np.full(m, 1.0 / m)
        if not self.task.second_moment:
            scales = self.pooled_variances(replies)
            errors = [
                self.task.squared_error(reply.n_samples, reply.mu, *scales)
                for reply in replies
            ]
            return _spectral.inverse_variance_weights(errors)
        rank, p = self.task.n_components, self.task.rows.n_features
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        noise, last, others = np.array([reply.numbers for reply in replies]).T
        gap, bulk = _pooled_spectrum(n, noise, last, others, p)
        gap = gap if self.eigengap is None else float(self.eigengap)
        variances = _spectral.subspace_variances(
            gap + bulk,
            bulk,
            n,
            noise,
            rank,
            p,
            capped=replies[0].topic is Topic.COMPONENTS,
        )
        return _spectral.inverse_variance_weights(variances)

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
        return tuple(_spectral.weighted_median(column, weights) for column in numbers.T)

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
        weights = _spectral.inverse_variance_weights(variances)
        if self.weights == "equal":
            weights = np.full(len(n), 1.0 / len(n))
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
            weights = _spectral.inverse_variance_weights(variances)
            if self.weights == "equal":
                weights = np.full(len(n), 1.0 / len(n))
            found = np.tensordot(weights, stacked, axes=1)
            level = max(np.trace(found) / len(found), 1e-3 * level)
        return found

    def aggregate_means(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average means by the numbers of rows."""
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        return (n / n.sum()) @ np.stack([reply.values for reply in replies])


def _check_orthonormal(components) -> None:
    """Refuse longer or dependent rows: they would count for more than a client."""
    if np.abs(components).max() > 2.0:
        raise MessageError("its components are not orthonormal")
    product = components @ components.T
    if np.abs(product - np.eye(len(product))).max() > _TOLERANCE:
        raise MessageError("its components are not orthonormal")


def _check_variances(numbers, mechanism) -> None:
    """Refuse variances that no rows have, or that are not the agreed model's."""
    if not all(_VARIANCES[0] <= number <= _VARIANCES[1] for number in numbers):
        raise MessageError("its variances are out of range")
    if mechanism.noise is not None and numbers[1] != mechanism.noise:
        raise MessageError("its public variance is not the one that was agreed on")


def _pooled_spectrum(n_samples, noise_std, last, others, n_features: int):
    """Gap and bulk that all clients have in common, by the least noisy of them."""
    scale = max(float(np.mean(np.abs(last))), np.finfo(float).tiny)
    weights = _spectral.inverse_variance_weights(
        2.0 / n_samples + (noise_std / scale) ** 2
    )
    bulk = max(float(weights @ others), 0.0)
    level = noise_std * np.sqrt(0.5 * n_features)
    strength = _spectral.spike_strength(last - others, level)
    return float(weights @ strength), bulk
