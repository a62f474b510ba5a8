"""A server: asks all clients the same, and checks what they answer."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

from ..mechanisms._numbers import check_count, check_real
from ._aggregation import Aggregation
from ._limits import ReplyLimits
from ._messages import SESSION_BYTES, MessageError, Reply, Request, check_name
from ._tasks import SpectralTask

# Length of what a client says of its refusal, and is shown.
_LONGEST_REASON = 200


class FederationError(RuntimeError):
    """Too few clients are left to go on."""


class Server(Aggregation):
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
        super().__init__(task, weights, eigengap)
        self.clients = tuple(names)
        self.rejected: dict[str, str] = {}
        self._session, self._step = session, -1
        self._request: Request | None = None
        # What each client can send, by its registration or its first answer.
        self._limits: dict[str, ReplyLimits] = {}
        if isinstance(clients, Mapping):
            self._limits = {
                name: self._registered(name, clients[name]) for name in names
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
        if self._request is None:
            raise MessageError("nothing was asked for yet")
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
        if type(answer) is MessageError:
            # Such errors speak of messages and public numbers alone.
            raise MessageError(f"it refused the request: {_reason(answer)}")
        if isinstance(answer, BaseException):
            # The error's text may speak of the client's data.
            raise MessageError(f"it failed with {type(answer).__name__}")
        topic, step = self._request.topic, self._step
        if not isinstance(answer, Reply):
            answer = Reply.from_bytes(answer, max_bytes=self.task.longest(topic))
        if answer.session != self._session:
            raise MessageError("its answer is of another session")
        if answer.task != self.task.digest:
            raise MessageError(
                f"its answer is of another task: {answer.task.hex()}, and not "
                f"{self.task.digest.hex()}; all parties need the same parameters"
            )
        if (answer.step, answer.topic) != (step, topic):
            raise MessageError(f"its answer is not that to step {step}")
        if answer.client != name:
            raise MessageError("its answer bears another client's name")
        shape = self.task.shape(topic)
        if answer.values.shape != shape:
            raise MessageError(
                f"its answer has shape {answer.values.shape}, not {shape}"
            )
        limits = self._limits.get(name)
        if limits is None:
            limits = ReplyLimits.of_claim(self.task, answer.n_samples, answer.mu)
        limits.check(answer)
        self._limits[name] = limits
        return answer


def _reason(error: MessageError) -> str:
    """What a client says of its refusal, as one short line of printable text."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return text[:_LONGEST_REASON]
