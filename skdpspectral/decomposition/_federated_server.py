"""The server: rounds of requests to registered clients, and the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._linalg import eigen
from .._messages import FederationError, MessageError, Party, Reply, Session
from . import _kernels
from ._federated_task import Registration, SpectralTask, check_client_weights


class Rounds(Session):
    """A server's session: all requests of a task, and the estimator they result in.

    The transport runs the loop: until :attr:`done`, it sends :meth:`request` to
    `clients` and passes the answers to :meth:`collect`. The server only sees releases
    and public numbers, and all of its results are post-processing. It accepts a reply
    only if it is complete, answers the current request of the same task, and is
    possible for the task and the client's rows and budget. Otherwise it rejects the
    client by name for this session.

    Parameters
    ----------
    clients : mapping of str to Registration
        Public numbers (n_samples, epsilon, delta) of each client by its name. Replies
        must match them, and they determine weights.
    task : SpectralTask
        Task of the session that all parties agreed on.

    Attributes
    ----------
    clients : tuple of str
        Clients that were not rejected, in their original order.
    rejected : dict of str to str
        Reasons for the rejection of the other clients.
    registered : dict of str to Registration
        Public numbers of all clients.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Notes
    -----
    A client that sends false values within these limits changes the average of values
    by at most twice its weight times the public bound of a value with its noise. Its
    weight is determined by rows and budgets (:ref:`lemma-reply`).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import SparseDPPCA
    >>> from skdpspectral.federation import LocalClient, Rounds, SpectralTask
    >>> task = SpectralTask(SparseDPPCA(1, n_nonzero_features=1), n_features=5)
    >>> rows = np.random.default_rng(0).normal(size=(2, 5000, 5)) * [1, 9, 1, 1, 1]
    >>> clients = {name: LocalClient(name, X, task) for name, X in zip("ab", rows)}
    >>> rounds = Rounds({n: c.registration for n, c in clients.items()}, task)
    >>> while not rounds.done:
    ...     request = rounds.request().to_bytes()
    ...     rounds.collect({n: c.respond(request) for n, c in clients.items()})
    >>> rounds.result().components_
    array([[0., 1., 0., 0., 0.]])
    """

    _claim = 1e-4  # costs of models are computed to fewer digits

    def __init__(self, clients: Mapping[str, tuple], task: SpectralTask):
        if not isinstance(task, SpectralTask):
            raise TypeError("task must be a SpectralTask")
        if not isinstance(clients, Mapping):
            raise ValueError(
                "clients must be registered: pass a mapping from each name to "
                "Registration(n_samples, epsilon, delta), as LocalClient has it"
            )
        self._open(clients, task, task.estimator.min_clients)
        self.given = check_client_weights(task.estimator.weights, self.clients)
        try:
            self.registered = {n: Registration(*row) for n, row in clients.items()}
        except TypeError:
            raise ValueError(
                "each client must be registered with (n_samples, epsilon, delta)"
            ) from None
        # Public facts about each client; a shared center adds who compares pairs.
        self.parties: dict[str, Party] = {
            name: task.party(name, *row) for name, row in self.registered.items()
        }
        # What queries make of replies: those of the start, and what follows from them.
        self.first: list[Reply] = []
        self.basis: np.ndarray | None = None
        self.mean: np.ndarray | None = None
        self.values: np.ndarray | None = None
        self.support: np.ndarray | None = None
        # What is known of a shared center, and columns that were sent about it.
        self.typical: Any = None
        self.columns: list[np.ndarray] = []
        self._start = next((q for q in task.queries if hasattr(q, "combine")), None)
        self._moment = self._weights = self._above_noise = None
        self._used: tuple[str, ...] | None = None

    def sizes(self, query, replies: Sequence[Reply]) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers of rows of clients, and the noise on their values."""
        parties = [self.parties[reply.client] for reply in replies]
        n = np.array([party.n_samples for party in parties], dtype=float)
        return n, np.array([query.noise(party) for party in parties])

    def weigh(self, variances: Any, replies: Sequence[Reply]) -> np.ndarray:
        """Return weights with sum 1: by variances, equal, or as given."""
        if self.given is not None:
            given = np.array([self.given[reply.client] for reply in replies])
            if not given.sum() > 0.0:
                raise FederationError("all remaining clients have weight 0")
            # Divided by the largest first: sums may be beyond float64.
            given = given / given.max()
            return given / given.sum()
        if self.task.estimator.weights == "equal":
            return np.full(len(replies), 1.0 / len(replies))
        return _kernels.inverse_variance_weights(variances)

    def weighing(self, replies: list[Reply]) -> list[Reply]:
        """Return replies of clients that were not given a weight of 0."""
        if self.given is None:
            return replies
        return [r for r in replies if self.given[r.client] > 0.0] or replies

    def present_basis(self) -> np.ndarray:
        """Return the current basis, of shape (p, r)."""
        if self.basis is not None:
            return self.basis
        # A client that has failed since then is in no part of the result.
        left = [reply for reply in self.first if reply.client in self.clients]
        found = self._start.combine(self, left)
        self.first, self.basis, self._moment = left, found[0].T, found[2]
        if not self.task.n_rounds:
            self._used = tuple(reply.client for reply in left)
            self._weights = found[1]
            self._above_noise = self._start.above_noise(self, left, found)
        return self.basis

    def outcome(self) -> dict[str, Any]:
        """Return attributes of a fit, in the data's units; None where not known."""
        if not self.done:
            raise MessageError("the task is not done: there is no result yet")
        components = eigen.flip_signs(self.present_basis().T)
        clients = self.clients if self._used is None else self._used
        values, noise, ratio = self._variances(components)
        return {
            "components_": components,
            "n_components_": len(components),
            "mean_": self.task.rows.rows().to_data(self.mean),
            "explained_variance_": values,
            "noise_variance_": noise,
            "explained_variance_ratio_": ratio,
            "components_above_noise_": self._above_noise,
            "client_weights_": self._weights,
            "support_": self.support,
            "n_rounds_": self.task.n_rounds or None,
            "clients_": np.array(clients, dtype=object),
            "rejected_": dict(self.rejected),
        }

    def _variances(self, components: np.ndarray) -> tuple:
        """Return variances along and across the components, and shares of the first."""
        task, values, noise = self.task, self.values, None
        if task.model is not None:
            noise = self._start.variances(self.first)[1]
        across = noise
        if noise is None and self._moment is not None and not task.with_covariance:
            along, across = _kernels.moment_variances(self._moment, components)
            values = along if values is None else values
        if values is None or across is None:
            return values, noise, None
        total = float(values.sum()) + (task.n_features - len(components)) * across
        return values, noise, values / max(total, np.finfo(float).tiny)

    def result(self):
        """Return the fitted estimator of the whole task.

        Returns
        -------
        FederatedDPPCA or SparseDPPCA
            The same estimator as after a fit of all rows in one process. Nothing is
            released or charged, because each client has charged its own ledger. Remarks
            of `privacy_` list what a server cannot verify.

        Raises
        ------
        MessageError
            If the task is not finished.
        """
        return self.task.estimator._fitted_by(self)
