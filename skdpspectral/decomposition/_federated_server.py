"""A server: asks all clients the same, and checks what they answer.

What a server makes of the answers of its clients: weights, and averages by them.

What a client can have sent: public bounds of a reply, and of what it claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .._linalg import eigen
from .._messages.messages import Conversation, MessageError, Reply, Request, Topic
from ..mechanisms._relations import check_count, check_real, shown
from . import _kernels_federated
from ._federated_task import Registration, SpectralTask, check_client_budget

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
            return eigen.top_eigh(self.aggregate_matrices(replies), rank)[1], weights
        stacked = np.stack([reply.values for reply in replies])
        return _kernels_federated.top_of_projectors(stacked, weights, rank), weights

    def aggregate_matrices(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average noisy matrices, symmetric of shape (p, p)."""
        stacked = np.stack([reply.values for reply in replies])
        packed = self.subspace_weights(replies) @ stacked
        return _kernels_federated.unpack_lower(packed, self.task.rows.n_features)

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
        variances = _kernels_federated.subspace_variances(
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
        return _kernels_federated.inverse_variance_weights(variances)

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
        signal, noise = (eigen.weighted_median(c, weights) for c in numbers.T)
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
    weights = _kernels_federated.inverse_variance_weights(
        2.0 / n_samples + (noise_std / scale) ** 2
    )
    bulk = max(float(weights @ others), 0.0)
    level = noise_std * np.sqrt(0.5 * n_features)
    strength = _kernels_federated.spike_strength(last - others, level)
    return float(weights @ strength), bulk


def check_client_weights(weights, names: Sequence[str]):
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


# Noise beyond the public bound of a statistic, in standard deviations: an honest reply
# has more with a probability below 1e-30.
_DEVIATIONS = 12.0


# What rounding, of sums and to a grid, may add to a bound; and to a stated number.
_ROUNDING, _CLAIM = 1e-5, 1e-4


# How far from orthonormal the components of a client may be.
_TOLERANCE = 1e-6


_RELEASES = {
    Topic.COMPONENTS: "second_moment",
    Topic.MATRIX: "second_moment",
    Topic.PROJECTOR: "projector",
}


class ReplyLimits:
    """What a client of so many rows and such a cost can send.

    Parameters
    ----------
    task : SpectralTask
        What clients release.
    n_samples : int
        The client's number of rows.
    mu : float
        The cost of all of its releases.
    mechanisms : sequence of Mechanism
        Its plan, which follows from these.
    """

    def __init__(self, task: SpectralTask, n_samples: int, mu: float, mechanisms):
        self._task, self.n_samples, self.mu = task, n_samples, mu
        self._planned = {mechanism.name: mechanism for mechanism in mechanisms}

    @classmethod
    def of_claim(cls, task: SpectralTask, n_samples: int, mu: float) -> ReplyLimits:
        """Limits of a client that nobody has registered, by what it says of itself."""
        _check_rows(task, n_samples)
        if task.mechanism.spiked:
            raise MessageError(
                "a SpikedModel needs clients that are registered: its noise "
                "depends on their delta, which no message states"
            )
        try:
            mechanisms = task.mechanisms(n_samples, mu)
        except (ValueError, OverflowError):
            raise MessageError(
                f"no plan of the task has n_samples={n_samples} and mu={mu:g}"
            ) from None
        return cls(task, n_samples, mu, mechanisms)

    @classmethod
    def of_registration(cls, task: SpectralTask, registered) -> ReplyLimits:
        """Limits of a client that is registered; errors are ValueErrors."""
        n_samples, *budget = registered
        n_samples = check_count("n_samples", n_samples)
        _check_rows(task, n_samples)
        plan = task.plan(n_samples, *check_client_budget(*budget), "client", False)
        return cls(task, n_samples, plan.mu, plan.mechanisms)

    def check(self, reply: Reply) -> None:
        """Refuse a reply of the right shape that no honest client could send."""
        if reply.n_samples != self.n_samples or not _close(reply.mu, self.mu):
            raise MessageError(
                f"its number of rows or its budget is not that of the session: "
                f"n_samples={reply.n_samples}, mu={reply.mu:g} and not "
                f"n_samples={self.n_samples}, mu={self.mu:g}"
            )
        topic = reply.topic
        if topic is Topic.MEAN:
            return self._check_mean(reply.values)
        if topic in (Topic.COMPONENTS, Topic.SUBSPACE):
            _check_orthonormal(reply.values)
        if topic in (Topic.SUBSPACE, Topic.PROJECTOR):
            self._check_variances(reply.numbers)
        noise_std = self._noise_std(topic, reply.step)
        if topic not in (Topic.SUBSPACE, Topic.PROJECTOR):
            self._check_noise(reply.numbers[0], noise_std)
        if topic in (Topic.COMPONENTS, Topic.MATRIX):
            self._check_spectrum(reply.numbers, noise_std)
        if topic not in (Topic.COMPONENTS, Topic.SUBSPACE):
            self._check_values(reply, noise_std)

    # -- noise and variances -----------------------------------------------------------

    def _noise_std(self, topic: Topic, step: int) -> float:
        """Deviation of the noise on a release, in the units of its values."""
        task = self._task
        name, unit = _RELEASES.get(topic), 1.0
        if topic is Topic.SUBSPACE:
            return 0.0
        if topic is Topic.POWER:
            name = f"power_{step - task.topics.index(Topic.POWER) + 1}"
        if topic is Topic.COVARIANCE:
            name = "model_moment"
            if not task.model_covariance:
                name, unit = "projected_moment", task.projection_norm**2
        if name != "model_moment":
            unit /= task.rows.weights[0]
        return unit * getattr(self._planned[name], "noise_std", 0.0)

    def _check_noise(self, claimed: float, noise_std: float) -> None:
        if not _close(claimed, noise_std):
            raise MessageError(
                f"its noise has a standard deviation of {claimed:g}, where its rows, "
                f"its budget and the task make {noise_std:g}"
            )

    def _check_variances(self, numbers) -> None:
        """Refuse variances out of the public range, or not those that are public."""
        task = self._task
        statistic = task.statistic(self.n_samples)
        if task.mechanism.unknown_spikes:
            ranges = statistic.scales.ranges(task.n_components)
        elif task.mechanism.spiked:
            signal = float(np.mean(statistic.signal))
            ranges = (signal, signal), (statistic.noise, statistic.noise)
        else:
            ranges = statistic.rest.scales.ranges(task.n_components)
        for number, (low, high) in zip(numbers, ranges, strict=True):
            if not low * (1.0 - _ROUNDING) <= number <= high * (1.0 + _ROUNDING):
                raise MessageError(
                    f"its variances are not those that were agreed on: {number:g} is "
                    f"not in [{low:g}, {high:g}]"
                )

    def _check_spectrum(self, numbers, noise_std: float) -> None:
        """Refuse eigenvalues that no noisy second moment of bounded rows has.

        Its r-th is at most the trace over r, the mean of those after it at most the
        trace over p, both up to the spectral norm of the noise.
        """
        task, (_, last, others) = self._task, numbers
        p, r = task.rows.n_features, task.n_components
        trace = task.rows.second_radius**2
        noise = noise_std * (math.sqrt(2.0 * p) + _DEVIATIONS)
        slack = _ROUNDING * (trace + noise)
        possible = -noise - slack <= last <= trace / r + noise + slack
        if r == p:
            possible &= others == 0.0
        else:
            possible &= -noise - slack <= others <= trace / p + noise + slack
            possible &= others <= last + slack
        if not possible:
            raise MessageError("its eigenvalues are none of such rows and such noise")

    # -- values ------------------------------------------------------------------------

    def _check_mean(self, mean) -> None:
        """Refuse a mean that is not where clients move it to."""
        rows, loose = self._task.rows, 1.0 + _ROUNDING
        radius, sides = rows.mean_radius * loose, rows.mean_radius * loose
        if rows.box is not None:
            sides = rows.box.half_widths * loose
        if np.any(np.abs(mean) > sides) or np.linalg.norm(mean) > radius:
            raise MessageError("its mean lies outside of the public bounds")

    def _check_values(self, reply: Reply, noise_std: float) -> None:
        """Refuse entries, or a norm, beyond the public bound and the noise."""
        values, symmetric = reply.values, reply.topic is not Topic.POWER
        entry, norm = self._bounds(reply.topic)
        most = (entry + _DEVIATIONS * noise_std) * (1.0 + _ROUNDING)
        # First of all: what follows is finite, squares included.
        possible = np.abs(values).max() <= most
        if possible and reply.topic is Topic.COVARIANCE:
            if not np.array_equal(values, values.T):
                raise MessageError("its covariance is not symmetric")
            values = values[np.tril_indices(len(values))]
        if possible:
            values = _isotropic(values) if symmetric else values.ravel()
            longest = norm + noise_std * (math.sqrt(values.size) + _DEVIATIONS)
            possible = np.abs(values).max() <= most
            possible &= np.linalg.norm(values) <= longest * (1.0 + _ROUNDING)
        if not possible:
            raise MessageError(
                "its values are beyond the public bound of the statistic and "
                f"{_DEVIATIONS:g} standard deviations of its noise"
            )

    def _bounds(self, topic: Topic) -> tuple[float, float]:
        """Largest entry and Frobenius norm of a statistic without noise.

        Entries off the diagonal of a symmetric one count by the root of 2, and are at
        most half of its largest eigenvalue, as it has no negative one.
        """
        task = self._task
        rank, p = task.n_components, task.rows.n_features
        if topic is Topic.PROJECTOR:
            return 1.0, math.sqrt(rank)
        if topic is not Topic.COVARIANCE:
            return (task.rows.second_radius**2,) * 2
        if not task.model_covariance:
            return (task.projection_norm**2,) * 2
        # The largest eigenvalue of rows of the model, whatever basis was made of them.
        spread = 1.0 + (math.sqrt(p) + _DEVIATIONS) / math.sqrt(self.n_samples)
        largest = task.largest_variance * spread**2
        return largest, largest * math.sqrt(rank)


def _isotropic(packed: np.ndarray) -> np.ndarray:
    """Scale a packed lower triangle so that it is as long as its matrix."""
    order = math.isqrt(2 * packed.size)
    scaled = math.sqrt(2.0) * packed
    diagonal = np.cumsum(np.arange(1, order + 1)) - 1
    scaled[diagonal] = packed[diagonal]
    return scaled


def _check_rows(task: SpectralTask, n_samples: int) -> None:
    if n_samples < task.n_components:
        raise MessageError(
            f"n_samples={n_samples} is below n_components={task.n_components}"
        )


def _close(claimed: float, expected: float) -> bool:
    """Whether two numbers are the same but for rounding; infinities are."""
    return math.isclose(claimed, expected, rel_tol=_CLAIM)


def _check_orthonormal(components) -> None:
    """Refuse longer or dependent rows: they would count for more than a client."""
    if np.abs(components).max() > 2.0:
        raise MessageError("its components are not orthonormal")
    product = components @ components.T
    if np.abs(product - np.eye(len(product))).max() > _TOLERANCE:
        raise MessageError("its components are not orthonormal")


class Server(Conversation, Aggregation):
    """One conversation with named clients, of whom some may fail.

    The server sees releases and public numbers alone; nothing that it computes costs
    any privacy. What a client sends is used if it is whole, of the right shape, an
    answer to the present request of the same task, and within what the task, the
    client's number of rows and its budget make possible; otherwise the client is
    rejected by name, for the rest of the session.

    Parameters
    ----------
    clients : sequence of str, or mapping of str to Registration
        Names of the clients, all different. A mapping registers the public numbers of
        each, (n_samples, epsilon, delta), which it is held to: weights follow from
        them, so that nobody gets more by a claim. Without it a client's first answer
        is believed, and fixes them; not with a ``SpikedModel``, whose noise
        depends on a delta that no answer states: its clients are registered.
    task : SpectralTask
        What the clients release, agreed on beforehand.
    weights : {"optimal", "equal"} or mapping of str to float, default="optimal"
        Weights of the clients in all averages; a mapping gives each, by name, a public
        number of at least 0.
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
    registered : dict of str to Registration or None
        Public numbers of all clients; None if `clients` are names alone.

    Raises
    ------
    ValueError
        If an argument is invalid, or clients are not registered where they must be.

    Notes
    -----
    A client that lies within these limits moves the average of values by at most twice
    its weight times the public bound of a value and its noise; its weight follows from
    rows and budgets (:ref:`lemma-reply`).
    """

    def __init__(
        self,
        clients: Sequence[str] | Mapping[str, tuple],
        task: SpectralTask,
        *,
        weights="optimal",
        eigengap=None,
        min_clients=1,
        session: bytes | None = None,
    ):
        if eigengap is not None and not check_real("eigengap", eigengap) > 0.0:
            raise ValueError(f"eigengap must be positive, got {eigengap}")
        if eigengap is not None and not task.second_moment:
            raise ValueError(
                'eigengap has no use without mechanism="gaussian": weights come from '
                "variances, public or released; leave it None"
            )
        self._begin(clients, task, min_clients, session)
        super().__init__(task, check_client_weights(weights, self.clients), eigengap)
        # What each client can send, by its registration or its first answer.
        self._limits: dict[str, ReplyLimits] = {}
        self.registered: dict[str, Registration] | None = None
        if isinstance(clients, Mapping):
            self._limits = {
                name: self._registered(name, clients[name]) for name in clients
            }
            self.registered = {name: Registration(*clients[name]) for name in clients}
        elif task.mechanism.spiked:
            raise ValueError(
                "clients must be registered for a task with a SpikedModel, whose "
                "noise depends on a delta that no message states: give a mapping of "
                "each name to Registration(n_samples, epsilon, delta), which is "
                "LocalClient.registration"
            )

    def _registered(self, name: str, registration) -> ReplyLimits:
        """Return the limits of a client whose public numbers are known beforehand."""
        try:
            return ReplyLimits.of_registration(self.task, registration)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"client {name!r} cannot be registered by (n_samples, epsilon, delta): "
                f"{error}"
            ) from None

    def request(self, basis=None) -> Request:
        """Return the next request, the same for all clients.

        Parameters
        ----------
        basis : ndarray of shape (p, k) or None, default=None
            For a step of a power iteration, or for a covariance within it.

        Returns
        -------
        Request
            To be sent, as it is or by its byte form.
        """
        if self._step + 1 >= len(self.task.topics):
            raise MessageError("all of the task was asked for")
        step, task = self._step + 1, self.task
        basis = () if basis is None else basis
        topic = task.topics[step]
        self._request = Request(self._session, task.digest, step, topic, basis)
        self._step = step
        return self._request

    def _check(self, name: str, answer: Reply) -> None:
        """Refuse what no honest client could have sent."""
        limits = self._limits.get(name)
        if limits is None:
            limits = ReplyLimits.of_claim(self.task, answer.n_samples, answer.mu)
        limits.check(answer)
        self._limits[name] = limits
