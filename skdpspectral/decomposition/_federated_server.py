"""The server: requests to all clients, checks of their replies, and the result.

`ReplyAverages` computes from valid replies, `ReplyLimits` checks them, `Server` holds a
conversation, and `Rounds` goes through all steps of a task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._linalg import eigen
from .._messages.messages import Conversation, MessageError, Reply, Request, Topic
from ..mechanisms import check_count, check_real, shown
from . import _kernels
from ._federated_task import Registration, SpectralTask, check_client_budget
from ._shared_center import HALF, TOTALS, Typical

# Smallest scale of eigenvalues, in units of the squared rows.
_LEAST_SPIKE = 1e-12
# Noise of a private variance over its sampling error, in rows, at a cost of mu = 1:
# that of votes that share 4 % of mu^2 over 12 steps.
_VOTES = 25.0


@dataclass(frozen=True)
class ReplyAverages:
    """Weights of clients, and averages of their valid replies; releases alone."""

    task: SpectralTask
    weights: str | Mapping[str, float]
    eigengap: float | None

    def aggregate(self, replies: Sequence[Reply]) -> tuple[np.ndarray, np.ndarray]:
        """Average the clients' subspaces: orthonormal rows (r, p), and weights (m,)."""
        rank, weights = self.task.n_components, self.subspace_weights(replies)
        if replies[0].topic in (Topic.MATRIX, Topic.PROJECTOR):
            return eigen.top_eigh(self.aggregate_matrices(replies), rank)[1], weights
        stacked = np.stack([reply.values for reply in replies])
        return _kernels.top_of_projectors(stacked, weights, rank), weights

    def count_above_noise(self, replies, components, weights, moment) -> int:
        """Count averaged components above noise and sampling error.

        By the rule of ``eigen.count_above_noise``, from the eigenvalues of the averaged
        second moment. Without it, clients stated the last eigenvalue of each alone:
        then all components count if that is above the noise at clients with half of
        the weights, and none otherwise. Those of a model count by its statement.
        """
        task, rank = self.task, self.task.n_components
        if not task.second_moment:
            return rank
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        noise, last, others = np.array([reply.numbers for reply in replies]).T
        spread, p = noise / math.sqrt(2.0), task.rows.n_features
        if moment is not None:
            values = np.sum((components @ moment) * components, axis=1)
            spread = float(np.linalg.norm(weights * spread))
            n_rows = 1.0 / float(np.sum(weights**2 / n))
            return eigen.count_above_noise(values, np.trace(moment), p, spread, n_rows)
        others = last if rank == p else others
        above = [
            eigen.count_above_noise(np.array([value]), value + (p - 1) * bulk, p, *law)
            for value, bulk, *law in zip(last, others, spread, n, strict=True)
        ]
        return rank if float(weights @ np.array(above)) >= 0.5 else 0

    def aggregate_matrices(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average noisy matrices, symmetric of shape (p, p)."""
        stacked = np.stack([reply.values for reply in replies])
        packed = self.subspace_weights(replies) @ stacked
        return eigen.unpack_lower(packed, self.task.rows.n_features)

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
        variances = _kernels.subspace_variances(
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
        """Weights with sum 1: by variances, equal, or as given."""
        if isinstance(self.weights, Mapping):
            given = np.array([self.weights[reply.client] for reply in replies])
            if not given.sum() > 0.0:
                raise ValueError("all remaining clients have weight 0")
            # Divided by the largest first: sums may be beyond float64.
            given = given / given.max()
            return given / given.sum()
        if self.weights == "equal":
            return np.full(len(variances), 1.0 / len(variances))
        return _kernels.inverse_variance_weights(variances)

    def pooled_variances(self, replies: Sequence[Reply]) -> tuple[float, float]:
        """Weighted medians of variances, which a few clients that lie move little."""
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        mu = np.array([reply.mu for reply in replies])
        with np.errstate(over="ignore"):
            weights = n / (1.0 + (_VOTES / mu) ** 2 / n)
        numbers = np.array([reply.numbers for reply in replies])
        signal, noise = (eigen.weighted_median(c, weights) for c in numbers.T)
        return signal, noise

    def aggregate_products(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average products S Q, of shape (p, k), by the inverse of their variances."""
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        noise = np.array([reply.numbers[0] for reply in replies])
        radius, p = self.task.rows.second_radius, self.task.rows.n_features
        variances = radius**4 / (p * n) + noise**2
        weights = self._weights(variances, replies)
        return np.tensordot(weights, np.stack([r.values for r in replies]), axes=1)

    def aggregate_covariances(self, replies: Sequence[Reply]) -> np.ndarray:
        """Average covariances, of shape (k, k), by the inverse of their variances."""
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
    """Gap and bulk common to all clients; `least` bounds the scale of eigenvalues."""
    scale = max(float(np.mean(np.abs(last))), least)
    weights = _kernels.inverse_variance_weights(
        2.0 / n_samples + (noise_std / scale) ** 2
    )
    bulk = max(float(weights @ others), 0.0)
    level = noise_std * np.sqrt(0.5 * n_features)
    strength = _kernels.spike_strength(last - others, level)
    return float(weights @ strength), bulk


def check_client_weights(weights, names: Sequence[str]):
    """Return valid weights; a mapping is copied."""
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
    Topic.LENGTHS: "lengths",
}


class ReplyLimits:
    """Limits of what a client of `n_samples` rows and total cost `mu` can send.

    `mechanisms` is the plan of such a client (:ref:`lemma-reply`).
    """

    def __init__(self, task: SpectralTask, n_samples: int, mu: float, mechanisms):
        self._task, self.n_samples, self.mu = task, n_samples, mu
        self.planned = {mechanism.name: mechanism for mechanism in mechanisms}
        # Whether the client compares rows in pairs, where releases decide.
        self.paired = False

    @classmethod
    def of_claim(cls, task: SpectralTask, n_samples: int, mu: float) -> ReplyLimits:
        """Limits of a client that is not registered, from its own statement."""
        _check_rows(task, n_samples)
        if task.mechanism.spiked:
            raise MessageError(
                "a SpikedModel requires registered clients: its noise depends on "
                "their delta, which no message states"
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
                "its number of rows or its budget does not match the session: "
                f"n_samples={reply.n_samples}, mu={reply.mu:g} instead of "
                f"n_samples={self.n_samples}, mu={self.mu:g}"
            )
        topic = reply.topic
        if topic is Topic.MEAN:
            return self._check_mean(reply.values)
        if topic in (Topic.COMPONENTS, Topic.SUBSPACE):
            _check_orthonormal(reply.values)
        if topic in (Topic.SUBSPACE, Topic.PROJECTOR):
            self._check_variances(reply.numbers)
        noise_std = self.noise_std(topic, reply.step)
        if topic is Topic.LENGTHS:
            self._check_totals(reply.values, noise_std)
        if topic.n_numbers and topic not in (Topic.SUBSPACE, Topic.PROJECTOR):
            self._check_noise(reply.numbers[0], noise_std)
        if topic in (Topic.COMPONENTS, Topic.MATRIX):
            self._check_spectrum(reply.numbers, noise_std)
        if topic not in (Topic.COMPONENTS, Topic.SUBSPACE):
            self._check_values(reply, noise_std)

    def noise_std(self, topic: Topic, step: int) -> float:
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
        if topic is Topic.CENTER:
            name = f"center_{step}"
        if self.paired and topic not in (Topic.LENGTHS, Topic.CENTER):
            unit /= HALF
        elif name != "model_moment":
            unit /= task.rows.weights[0]
        return unit * getattr(self.planned[name], "noise_std", 0.0)

    def _check_noise(self, claimed: float, noise_std: float) -> None:
        if not _close(claimed, noise_std):
            raise MessageError(
                f"its noise has a standard deviation of {claimed:g}, but its rows, "
                f"its budget and the task imply {noise_std:g}"
            )

    def _check_variances(self, numbers) -> None:
        """Refuse variances outside of the public range, or other than public ones."""
        task = self._task
        statistic = task.statistic(self.n_samples)
        if task.mechanism.unknown_spikes:
            ranges = statistic.scales.ranges(task.n_components)
        else:
            signal = float(np.mean(statistic.signal))
            ranges = (signal, signal), (statistic.noise, statistic.noise)
        for number, (low, high) in zip(numbers, ranges, strict=True):
            if not low * (1.0 - _ROUNDING) <= number <= high * (1.0 + _ROUNDING):
                raise MessageError(
                    f"its variance {number:g} is not in the agreed range "
                    f"[{low:g}, {high:g}]"
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
            raise MessageError(
                "its eigenvalues are impossible for the public bound of its rows and "
                "its noise"
            )

    def _check_mean(self, mean) -> None:
        """Refuse a mean outside of the public bounds."""
        rows, loose = self._task.rows, 1.0 + _ROUNDING
        radius, sides = rows.mean_radius * loose, rows.mean_radius * loose
        if rows.box is not None:
            sides = rows.box.half_widths * loose
        if np.any(np.abs(mean) > sides) or np.linalg.norm(mean) > radius:
            raise MessageError("its mean is outside the public bounds")

    @staticmethod
    def _check_totals(values, noise_std: float) -> None:
        """Refuse histograms whose shares do not sum up to the whole."""
        off = np.abs(values.sum(axis=1) - TOTALS)
        most = _DEVIATIONS * noise_std * math.sqrt(values.shape[1]) + _ROUNDING
        least = -_DEVIATIONS * noise_std - _ROUNDING
        if not np.all(off <= most) or values.min() < least:
            raise MessageError("its histograms are not those of shares")

    def _check_values(self, reply: Reply, noise_std: float) -> None:
        """Refuse entries, or a norm, beyond the public bound and the noise."""
        values, plain = reply.values, (Topic.POWER, Topic.LENGTHS, Topic.CENTER)
        entry, norm = self._bounds(reply.topic)
        most = (entry + _DEVIATIONS * noise_std) * (1.0 + _ROUNDING)
        # First of all: what follows is finite, squares included.
        possible = np.abs(values).max() <= most
        if possible and reply.topic is Topic.COVARIANCE:
            if not np.array_equal(values, values.T):
                raise MessageError("its covariance is not symmetric")
            values = values[np.tril_indices(len(values))]
        if possible:
            values = values.ravel() if reply.topic in plain else _isotropic(values)
            longest = norm + noise_std * (math.sqrt(values.size) + _DEVIATIONS)
            possible = np.abs(values).max() <= most
            possible &= np.linalg.norm(values) <= longest * (1.0 + _ROUNDING)
        if not possible:
            raise MessageError(
                "its values are beyond the public bound of the statistic plus "
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
        if topic is Topic.LENGTHS:
            return 1.0, math.hypot(*TOTALS)
        if topic is Topic.CENTER:
            return 1.0, 1.0
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
    """Whether two numbers, or infinities, are equal up to rounding."""
    return math.isclose(claimed, expected, rel_tol=_CLAIM)


def _check_orthonormal(components) -> None:
    """Refuse rows that are not orthonormal: they would raise the client's weight."""
    if np.abs(components).max() > 2.0:
        raise MessageError("its components are not orthonormal")
    product = components @ components.T
    if np.abs(product - np.eye(len(product))).max() > _TOLERANCE:
        raise MessageError("its components are not orthonormal")


class Server(Conversation):
    """A server's session with named clients, some of which may fail.

    The server only sees releases and public numbers, and all of its results are
    post-processing. It accepts a reply only if it is complete, has the right shape,
    answers the current request of the same task, and is possible for the task and the
    client's rows and budget. Otherwise it rejects the client by name for this session.

    Parameters
    ----------
    clients : sequence of str, or mapping of str to Registration
        Distinct names of the clients. A mapping registers the public numbers
        (n_samples, epsilon, delta) of each client, which replies must match and which
        determine weights. Without a mapping, the numbers in a client's first reply are
        used. ``SpikedModel`` requires a mapping, because its noise depends on a delta
        that replies do not state.
    task : SpectralTask
        Task of the session that all parties agreed on.
    weights : {"optimal", "equal"} or mapping of str to float, default="optimal"
        Weights of the clients in all averages. A mapping has public numbers of at least
        0.
    eigengap : float or None, default=None
        Public gap between the last kept eigenvalue and the next one, in units of the
        second moment, for ``weights="optimal"``. None uses the released eigenvalues.
    min_clients : int, default=1
        Minimum number of remaining clients.
    session : bytes or None, default=None
        16 bytes that identify the session, used only once. None creates new ones.

    Attributes
    ----------
    clients : tuple of str
        Clients that were not rejected, in their original order.
    rejected : dict of str to str
        Reasons for the rejection of the other clients.
    registered : dict of str to Registration or None
        Public numbers of all clients; None if `clients` only contains names.

    Raises
    ------
    ValueError
        If an argument is invalid, or clients are not registered although required.

    Notes
    -----
    A client that sends false values within these limits changes the average of values
    by at most twice its weight times the public bound of a value with its noise. Its
    weight is determined by rows and budgets (:ref:`lemma-reply`).
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
                'eigengap is only used with mechanism="gaussian": a SpikedModel '
                "has public or released variances; leave eigengap=None"
            )
        if eigengap is not None and weights != "optimal":
            raise ValueError(
                'eigengap is only used with weights="optimal"; leave eigengap=None'
            )
        self._begin(clients, task, min_clients, session)
        weights = check_client_weights(weights, self.clients)
        self.averages = ReplyAverages(task, weights, eigengap)
        # Limits of each client's replies, by its registration or its first reply.
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
                "noise depends on a delta that no message states: pass a mapping from "
                "each name to Registration(n_samples, epsilon, delta), as in "
                "LocalClient.registration"
            )

    def _registered(self, name: str, registration) -> ReplyLimits:
        """Return the limits of a client whose public numbers are known beforehand."""
        try:
            return ReplyLimits.of_registration(self.task, registration)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"client {name!r} cannot be registered with (n_samples, epsilon, "
                f"delta): {error}"
            ) from None

    def request(self, basis=None) -> Request:
        """Return the next request, identical for all clients.

        Parameters
        ----------
        basis : ndarray of shape (p, k) or None, default=None
            Basis of a power iteration step, or of a covariance within its span.

        Returns
        -------
        Request
            Request to send, as an object or in its byte form.
        """
        if self._step + 1 >= len(self.task.topics):
            raise MessageError("all requests of the task were sent")
        step, task = self._step + 1, self.task
        basis = () if basis is None else basis
        topic = task.topics[step]
        self._request = Request(self._session, task.digest, step, topic, basis)
        self._step = step
        return self._request

    def limits_of(self, replies: Sequence[Reply]) -> list[ReplyLimits]:
        """Limits of clients whose replies were accepted."""
        return [self._limits[reply.client] for reply in replies]

    def _check(self, name: str, answer: Reply) -> None:
        limits = self._limits.get(name)
        if limits is None:
            limits = ReplyLimits.of_claim(self.task, answer.n_samples, answer.mu)
        limits.check(answer)
        self._limits[name] = limits


@dataclass(frozen=True, eq=False)
class FederatedResult:
    """The result of a session, in units of the data.

    ``FederatedDPPCA.from_result(result)``, or ``SparseDPPCA.from_result(result)`` after
    rounds, returns a fitted estimator with ``transform``, ``publish`` and ``save``.

    Parameters
    ----------
    components : ndarray of shape (r, p)
        Orthonormal rows, leading first.
    mean : ndarray of shape (p,)
        Mean of the clients' private means by their numbers of rows; without private
        means the middle of the bounds, or zero.
    explained_variance : ndarray of shape (r,) or None
        Variances along the components: of a released covariance; after rounds, of the
        last round; otherwise of the average of noisy second moments, if they were sent.
        Without a `clip_norm`, the latter two are of rows of length at most 1. None
        without any.
    noise_variance : float or None
        Variance across the components, where clients release or agree on it, or from
        the average of noisy second moments of clipped rows. None without either.
    total_variance : float or None
        Variance in all directions, in the units of `explained_variance`; None where one
        of the two above is not known, but for unit rows.
    components_above_noise : int or None
        As the attribute of :class:`~skdpspectral.FederatedDPPCA`; None where it has
        none, and after rounds.
    weights : ndarray of shape (m,) or None
        Weights of `clients` in the components; None after rounds, which each have
        their own.
    support : ndarray of bool of shape (p,) or None
        Features that the components use, after rounds; None otherwise.
    clients : tuple of str
        Clients that are in the components; after rounds, those that answered to the
        end.
    rejected : dict of str to str
        Why each of the others is not, or what failed later.
    task : SpectralTask
        The task.
    registered : dict of str to Registration or None
        Public numbers of all clients, rejected ones too; None if the server had names
        alone.
    parameters : dict
        `weights`, `eigengap` and `min_clients` of the server, `n_nonzero_features` and
        `init` of its rounds; without those that are None.
    """

    components: np.ndarray
    mean: np.ndarray
    explained_variance: np.ndarray | None
    noise_variance: float | None
    total_variance: float | None
    components_above_noise: int | None
    weights: np.ndarray | None
    support: np.ndarray | None
    clients: tuple[str, ...]
    rejected: dict[str, str]
    task: SpectralTask = field(repr=False)
    registered: dict[str, Registration] | None = field(repr=False)
    parameters: dict[str, object] = field(repr=False)


class Rounds:
    """All requests of a task in sequence, and the result of their answers.

    The transport runs the loop: until :attr:`done`, it sends :meth:`request` to
    ``server.clients`` and passes the answers to :meth:`collect`. This costs no privacy,
    because a basis that is sent is public or post-processing of releases.

    Parameters
    ----------
    server : Server
        Server of the session, before its first request.
    n_nonzero_features : int or None, default=None
        Number of features that components may use in a task with rounds, at least
        ``n_components``. None keeps all.
    init : array-like of shape (n_components, n_features) or None, default=None
        For a task without a start, public linearly independent rows to start rounds
        from, or as the basis of a covariance.

    Raises
    ------
    ValueError
        If an argument is invalid, or has no effect for the task.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.federation import LocalClient, Rounds, Server, make_task
    >>> task = make_task(1, 5, n_rounds=1)
    >>> rows = np.random.default_rng(0).normal(size=(2, 5000, 5)) * [1, 9, 1, 1, 1]
    >>> clients = {name: LocalClient(name, X, task) for name, X in zip("ab", rows)}
    >>> rounds = Rounds(Server(list(clients), task), n_nonzero_features=1)
    >>> while not rounds.done:
    ...     request = rounds.request().to_bytes()
    ...     rounds.collect({n: c.respond(request) for n, c in clients.items()})
    >>> rounds.result().components
    array([[0., 1., 0., 0., 0.]])
    """

    def __init__(self, server: Server, *, n_nonzero_features=None, init=None):
        task = server.task
        unused = n_nonzero_features is not None or (init is not None and task.start)
        if task.n_rounds == 0 and unused:
            raise ValueError(
                "n_nonzero_features and init require a task with rounds; leave them "
                "as None"
            )
        if task.start != (init is None):
            raise ValueError(
                "init is required for a task without a start, and is not accepted "
                "otherwise"
            )
        self.server = server
        self._n_kept = kept_features(task, n_nonzero_features)
        self._basis = None if task.start else start_basis(task, init)
        own = {
            "weights": server.averages.weights,
            "eigengap": server.averages.eigengap,
            "min_clients": server.min_clients,
            "n_nonzero_features": n_nonzero_features,
            "init": None if init is None else np.array(init, dtype=np.float64),
        }
        self._parameters = {k: v for k, v in own.items() if v is not None}
        self._present: Request | None = None
        self._n_done, self._used = 0, ()
        self._first: list[object] = []
        self._mean = self._weights = self._values = self._support = None
        self._moment: np.ndarray | None = None
        # What is known of a shared center, and columns that were sent about it.
        self._typical: Typical | None = None
        self._columns: list[np.ndarray] = []
        self._above_noise: int | None = None

    @property
    def done(self) -> bool:
        """Whether all requests of the task were answered."""
        return self._n_done == len(self.server.task.topics)

    @property
    def clients(self) -> tuple[str, ...]:
        """Clients that were not rejected."""
        return self.server.clients

    def request(self) -> Request:
        """Return the request for ``server.clients``.

        Repeated calls return the same request until it is answered.

        Returns
        -------
        Request
            Request to send, as an object or in its byte form.

        Raises
        ------
        MessageError
            If the task is finished.
        """
        if self._present is None:
            basis = None
            if not self.done and self._topic in (Topic.POWER, Topic.COVARIANCE):
                basis = self._present_basis()
            elif self._columns and not self.done:
                basis = self._columns[-1][:, None]
            self._present = self.server.request(basis)
        return self._present

    def collect(self, answers: Mapping[str, object]) -> None:
        """Process the answers to the current request.

        Parameters
        ----------
        answers : mapping of str to bytes, Reply, exception or None
            As for :meth:`Server.collect`.

        Raises
        ------
        FederationError
            If fewer than ``server.min_clients`` clients are left.
        MessageError
            If there is no request since the last answers.
        """
        if self._present is None:
            raise MessageError("there has been no request since the last answers")
        replies = self.server.collect(answers)
        use = {
            Topic.MEAN: self._use_means,
            Topic.LENGTHS: self._use_lengths,
            Topic.CENTER: self._use_centers,
            Topic.POWER: self._use_products,
            Topic.COVARIANCE: self._use_covariances,
        }
        use.get(self._topic, self._use_start)(replies)
        self._n_done += 1
        self._present = None

    def result(self) -> FederatedResult:
        """Return the result of the whole task.

        Raises
        ------
        MessageError
            If the task is not finished.
        """
        if not self.done:
            raise MessageError("the task is not done: there is no result yet")
        server, rows = self.server, self.server.task.rows
        components = eigen.flip_signs(self._present_basis().T)
        return FederatedResult(
            components,
            rows.to_data_units(self._mean),
            *self._variances(components),
            self._above_noise,
            self._weights,
            self._support,
            self._used
            if server.task.start and not server.task.n_rounds
            else server.clients,
            dict(server.rejected),
            server.task,
            server.registered,
            dict(self._parameters),
        )

    def _variances(self, components):
        """Return variances along and across the components, and in all directions."""
        task, values = self.server.task, self._values
        rows, others = task.rows, task.rows.n_features - len(components)
        if not task.second_moment:
            noise = self.server.averages.pooled_variances(self._first)[1] * rows.unit**2
            total = None if values is None else float(values.sum()) + others * noise
            return values, noise, total
        unit_rows = rows.clip is None
        if self._moment is None or (unit_rows and task.with_covariance):
            return values, None, None
        along, across = _kernels.moment_variances(self._moment, components)
        values = along * rows.variance_unit**2 if values is None else values
        noise = across * rows.variance_unit**2
        total = float(values.sum()) + others * noise
        return values, None if unit_rows else noise, total

    @property
    def _topic(self) -> Topic:
        return self.server.task.topics[self._n_done]

    def _present_basis(self) -> np.ndarray:
        """Return the current basis, of shape (p, r)."""
        if self._basis is None:
            self._basis = self._made_of_start()
        return self._basis

    def _made_of_start(self) -> np.ndarray:
        """Return a basis from the first replies of the clients that are left."""
        server, task = self.server, self.server.task
        # A client that has failed since then is in no part of the result.
        left = set(server.clients)
        self._first = [reply for reply in self._first if reply.client in left]
        self._used = tuple(reply.client for reply in self._first)
        if task.second_moment and task.aggregation == "matrix":
            self._moment = server.averages.aggregate_matrices(self._first)
        if task.n_rounds and self._moment is not None:
            rank = task.n_components
            return _kernels.sparse_subspace(self._moment, rank, self._n_kept)
        components, weights = server.averages.aggregate(self._first)
        if not task.n_rounds:
            self._weights = weights
            given = self._first, components, weights, self._moment
            self._above_noise = server.averages.count_above_noise(*given)
        return components.T

    def _use_start(self, replies: list[Reply]) -> None:
        self._first = replies

    def _precisions(self, replies: list[Reply]) -> tuple[np.ndarray, np.ndarray]:
        """Noise of values that clients sent about a center, and rows behind them."""
        limits, task = self.server.limits_of(replies), self.server.task
        noise = [own.noise_std(self._topic, self._n_done) for own in limits]
        rows = [task.statistic(own.n_samples).sample.n_rows for own in limits]
        return np.array(noise), np.array(rows, dtype=float)

    def _weighing(self, replies: list[Reply]) -> list[Reply]:
        """Replies of clients that were not given a weight of 0."""
        given = self.server.averages.weights
        if not isinstance(given, Mapping):
            return replies
        return [reply for reply in replies if given[reply.client] > 0.0] or replies

    def _use_lengths(self, replies: list[Reply]) -> None:
        replies = self._weighing(replies)
        shares = np.stack([reply.values for reply in replies])
        clip = self.server.task.rows.clip
        self._typical = Typical.of(shares, *self._precisions(replies), clip)
        self._columns = [self._typical.first()]

    def _use_centers(self, replies: list[Reply]) -> None:
        typical, task = self._typical, self.server.task
        assert typical is not None
        used = self._weighing(replies)
        means = np.stack([reply.values for reply in used])
        given = means, *self._precisions(used)
        if len(self._columns) == 1:
            self._columns.append(typical.second(*given))
            return
        second = self._columns[-1]
        third = typical.third(*given, second)
        n, centers, edges, heard = list[float](), [], [], []
        every = self.server.limits_of(replies)
        for reply, limits in zip(replies, every, strict=True):
            statistic = task.statistic(reply.n_samples)
            own = statistic.center(limits.planned, second, reply.values, third)
            limits.paired = own is None
            n.append(float(reply.n_samples))
            common = statistic.within(third[: task.rows.n_features])
            centers.append(common if own is None else own)
            edges.append(statistic.edge(limits.planned))
            heard.append(any(reply is one for one in used))
        paired = np.array([limits.paired for limits in every])
        # Who compares pairs does not depend on it.
        third[-2] = typical.floor(np.array(edges)[heard], paired[heard])
        self._columns.append(third)
        if typical.known:
            self._mean = np.array(n) / sum(n) @ np.stack(centers)

    def _use_means(self, replies: list[Reply]) -> None:
        self._mean = self.server.averages.aggregate_means(replies)

    def _use_products(self, replies: list[Reply]) -> None:
        product = self.server.averages.aggregate_products(replies)
        found = _kernels.truncated_basis(product, self._n_kept)
        self._basis, values, self._support = found
        self._values = values * self.server.task.rows.variance_unit**2

    def _use_covariances(self, replies: list[Reply]) -> None:
        """Turn the components to the axes of a covariance within them."""
        moment = self.server.averages.aggregate_covariances(replies)
        values, axes = eigen.top_eigh(moment, len(moment))
        self._values = np.maximum(values, 0.0) * self.server.task.rows.unit**2
        self._basis = (axes @ self._present_basis().T).T


def kept_features(task, n_nonzero_features) -> int:
    """Return the number of features that components may use, or an error."""
    p, rank = task.rows.n_features, task.n_components
    if n_nonzero_features is None:
        return p
    kept = check_count("n_nonzero_features", n_nonzero_features)
    if not rank <= kept <= p:
        raise ValueError(
            f"n_nonzero_features={kept} must be between n_components={rank} and "
            f"n_features={p}, or None"
        )
    return kept


def start_basis(task, init, name="init") -> np.ndarray:
    """Return orthonormal columns that span public rows, or an error."""
    try:
        start = np.asarray(init)
        start = start.astype(np.float64) if start.dtype.kind in "iufO" else None
    except (TypeError, ValueError, OverflowError):
        start = None
    shape = (task.n_components, task.rows.n_features)
    if start is None or start.shape != shape or not np.isfinite(start).all():
        raise ValueError(
            f"{name} must be finite public numbers of shape (n_components, n_features) "
            f"= {shape}"
        )
    if not _kernels.independent_columns(start.T):
        raise ValueError(
            f"{name} must have linearly independent rows, and none of them zero"
        )
    return _kernels.orthonormal_columns(start.T)[0]
