"""The server's steps of a whole task: what to send next, and what is made of it all.

A conversation with clients of this very process, by the messages of a real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed

from .._linalg import eigen
from .._messages.messages import MessageError, Reply, Request, Topic
from ..mechanisms._relations import check_count
from . import _kernels_federated
from ._federated_client import LocalClient
from ._federated_server import Server
from ._federated_task import Registration, SpectralTask


@dataclass(frozen=True, eq=False)
class FederatedResult:
    """What a task has led to, in units of the data.

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
        The latter two are of unit rows without a `clip_norm`. None without any.
    noise_variance : float or None
        Variance across the components, where clients release or agree on it, or from
        the average of noisy second moments of clipped rows. None without either.
    total_variance : float or None
        Variance in all directions, in the units of `explained_variance`; None where one
        of the two above is not known, but for unit rows.
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
    weights: np.ndarray | None
    support: np.ndarray | None
    clients: tuple[str, ...]
    rejected: dict[str, str]
    task: SpectralTask = field(repr=False)
    registered: dict[str, Registration] | None = field(repr=False)
    parameters: dict[str, object] = field(repr=False)


class Rounds:
    """All requests of a task, one after the other, and the result of their answers.

    The loop is the transport's: as long as there is something to ask for, it sends
    :meth:`request` to ``server.clients`` and hands what came back to :meth:`collect`.
    Nothing here costs any privacy; a basis that is sent is made of releases, or public.

    Parameters
    ----------
    server : Server
        Who asks; new, with ``server.task``.
    n_nonzero_features : int or None, default=None
        For a task with rounds: features that components may use, at least
        ``n_components``. None keeps all.
    init : array-like of shape (n_components, n_features) or None, default=None
        For a task without a start: public rows, linearly independent, to start rounds
        from, or to have a covariance within.

    Raises
    ------
    ValueError
        If an argument is invalid, or of no use for the task.

    See Also
    --------
    InProcessSession : A transport within one process.

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
                "n_nonzero_features and init have no use for a task without rounds; "
                "leave them None"
            )
        if task.start != (init is None):
            raise ValueError(
                "init is needed for a task without a start, and for no other"
            )
        self.server = server
        self._n_kept = kept_features(task, n_nonzero_features)
        self._basis = None if task.start else start_basis(task, init)
        own = {
            "weights": server.weights,
            "eigengap": server.eigengap,
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

    @property
    def done(self) -> bool:
        """Whether all of the task was asked for and answered."""
        return self._n_done == len(self.server.task.topics)

    @property
    def clients(self) -> tuple[str, ...]:
        """Whom to ask: clients that were not rejected."""
        return self.server.clients

    def request(self) -> Request:
        """Return what to send to ``server.clients``; the same until it is answered.

        Returns
        -------
        Request
            To be sent, as it is or by its byte form.

        Raises
        ------
        MessageError
            If nothing is left to ask for.
        """
        if self._present is None:
            basis = None
            if not self.done and self._topic in (Topic.POWER, Topic.COVARIANCE):
                basis = self._present_basis()
            self._present = self.server.request(basis)
        return self._present

    def collect(self, answers: Mapping[str, object]) -> None:
        """Use the answers to the present request.

        Parameters
        ----------
        answers : mapping of str to bytes, Reply, exception or None
            As for :meth:`Server.collect`.

        Raises
        ------
        FederationError
            If fewer than ``server.min_clients`` are left.
        MessageError
            If nothing was asked for since the last answers.
        """
        if self._present is None:
            raise MessageError("nothing was asked for since the last answers")
        replies = self.server.collect(answers)
        use = {
            Topic.MEAN: self._use_means,
            Topic.POWER: self._use_products,
            Topic.COVARIANCE: self._use_covariances,
        }
        use.get(self._topic, self._use_start)(replies)
        self._n_done += 1
        self._present = None

    def result(self) -> FederatedResult:
        """Return what the whole task has led to.

        Raises
        ------
        MessageError
            If there is something left to ask for.
        """
        if not self.done:
            raise MessageError("there is no result yet: the task is not done")
        server, rows = self.server, self.server.task.rows
        components = eigen.flip_signs(self._present_basis().T)
        return FederatedResult(
            components,
            rows.to_data_units(self._mean),
            *self._variances(components),
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
            noise = self.server.pooled_variances(self._first)[1] * rows.unit**2
            total = None if values is None else float(values.sum()) + others * noise
            return values, noise, total
        unit_rows = rows.clip is None
        if self._moment is None or (unit_rows and task.with_covariance):
            return values, None, None
        along, across = _kernels_federated.moment_variances(self._moment, components)
        values = along * rows.variance_unit**2 if values is None else values
        noise = across * rows.variance_unit**2
        total = float(values.sum()) + others * noise
        return values, None if unit_rows else noise, total

    # -- what is made of answers -------------------------------------------------------

    @property
    def _topic(self) -> Topic:
        return self.server.task.topics[self._n_done]

    def _present_basis(self) -> np.ndarray:
        """Return the columns that are best so far, of shape (p, r)."""
        if self._basis is None:
            self._basis = self._made_of_start()
        return self._basis

    def _made_of_start(self) -> np.ndarray:
        """Make a basis of the first answers of those that are still there."""
        server, task = self.server, self.server.task
        # A client that failed since, with its mean, is in no part of the result.
        left = set(server.clients)
        self._first = [reply for reply in self._first if reply.client in left]
        self._used = tuple(reply.client for reply in self._first)
        if task.second_moment and task.aggregation == "matrix":
            self._moment = server.aggregate_matrices(self._first)
        if task.n_rounds and self._moment is not None:
            rank = task.n_components
            return _kernels_federated.sparse_subspace(self._moment, rank, self._n_kept)
        components, weights = server.aggregate(self._first)
        self._weights = None if task.n_rounds else weights
        return components.T

    def _use_start(self, replies: list[Reply]) -> None:
        self._first = replies

    def _use_means(self, replies: list[Reply]) -> None:
        self._mean = self.server.aggregate_means(replies)

    def _use_products(self, replies: list[Reply]) -> None:
        product = self.server.aggregate_products(replies)
        found = _kernels_federated.truncated_basis(product, self._n_kept)
        self._basis, values, self._support = found
        self._values = values * self.server.task.rows.variance_unit**2

    def _use_covariances(self, replies: list[Reply]) -> None:
        """Turn the components to the axes of a covariance within them."""
        moment = self.server.aggregate_covariances(replies)
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


def start_basis(task, init) -> np.ndarray:
    """Return orthonormal columns that span public rows, or an error."""
    try:
        start = np.asarray(init)
        start = start.astype(np.float64) if start.dtype.kind in "iufO" else None
    except (TypeError, ValueError, OverflowError):
        start = None
    shape = (task.n_components, task.rows.n_features)
    if start is None or start.shape != shape or not np.isfinite(start).all():
        raise ValueError(
            'init must be "private", or finite numbers of shape (n_components, '
            f"n_features) = {shape}, which are public"
        )
    if not _kernels_federated.independent_columns(start.T):
        raise ValueError(
            "init must have linearly independent rows, none of them zero: each is a "
            'component to start from; give others, or init="private"'
        )
    return _kernels_federated.orthonormal_columns(start.T)[0]


class InProcessSession:
    """Carries requests to clients, and their answers back, as bytes.

    Parameters
    ----------
    server : Server
        Who asks.
    clients : mapping of str to LocalClient
        Who answers, by the names that the server knows.
    n_jobs : int or None, default=None
        Clients at a time, in threads: what a client keeps is in one process.
    """

    def __init__(self, server: Server, clients: Mapping[str, LocalClient], n_jobs=None):
        self._server, self._clients, self._n_jobs = server, clients, n_jobs

    def ask(self, basis=None) -> list[Reply]:
        """Put the next request to all clients that are left.

        Parameters
        ----------
        basis : ndarray of shape (p, k) or None, default=None
            As in :meth:`Server.request`.

        Returns
        -------
        list of Reply
            Of the clients that answered as they should.
        """
        return self._server.collect(self._answers(self._server.request(basis)))

    def run(self, rounds: Rounds) -> FederatedResult:
        """Hold a whole session.

        Parameters
        ----------
        rounds : Rounds
            All steps, of the same server.

        Returns
        -------
        FederatedResult
            What they lead to.
        """
        while not rounds.done:
            rounds.collect(self._answers(rounds.request()))
        return rounds.result()

    def _answers(self, request: Request) -> dict[str, object]:
        """Carry a request to all clients that are left, and their answers back."""
        names, request = self._server.clients, request.to_bytes()
        # A thread knows this context's accountants and transcripts by a copy alone.
        answers = Parallel(n_jobs=self._n_jobs, require="sharedmem")(
            [
                delayed(copy_context().run)(_answer, self._clients[name], request)
                for name in names
            ]
        )
        return dict(zip(names, answers, strict=True))


def _answer(client: LocalClient, request: bytes):
    """Return a client's answer as bytes, or what kept it from answering."""
    try:
        return client.respond(request).to_bytes()
    except Exception as error:
        return error
