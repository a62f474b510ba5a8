"""A server: asks all clients the same, and checks what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..mechanisms._numbers import check_real
from ._aggregation import Aggregation, check_weights
from ._conversation import Conversation
from ._limits import ReplyLimits
from ._messages import MessageError, Reply, Request
from ._tasks import SpectralTask


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
        super().__init__(task, check_weights(weights, self.clients), eigengap)
        # What each client can send, by its registration or its first answer.
        self._limits: dict[str, ReplyLimits] = {}
        if isinstance(clients, Mapping):
            self._limits = {
                name: self._registered(name, clients[name]) for name in clients
            }
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
