"""What all servers do: ask the same of named clients, and check who answers what."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping

from ..mechanisms._numbers import check_count
from ._messages import SESSION_BYTES, MessageError, Reply, Request, check_name

# Length of what a client says of its refusal, and is shown.
_LONGEST_REASON = 200


class FederationError(RuntimeError):
    """Too few clients are left to go on."""


class Conversation:
    """One conversation with named clients, of whom some may fail.

    A subclass makes requests, and knows what an honest client can have sent. The task
    has a `digest`, and for each topic a ``shape(topic)`` and a ``longest(topic)``.
    """

    clients: tuple[str, ...]
    rejected: dict[str, str]

    def _begin(self, clients: Iterable[str], task, min_clients, session) -> None:
        """Check who takes part, and be ready to ask."""
        names = [check_name(name) for name in clients]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(
                f"clients must have different names, got {twice[0]!r} twice"
            )
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
        self.task = task
        self.clients, self.rejected = tuple(names), {}
        self._session, self._step = session, -1
        self._request: Request | None = None

    def _shape(self) -> tuple[int, ...]:
        """Shape of the values that answer the present request."""
        return self.task.shape(self._request.topic)

    def _check(self, name: str, answer: Reply) -> None:
        """Refuse what no honest client could have sent, by a MessageError."""
        raise NotImplementedError

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
        replies = self._valid(answers)
        self._need_enough()
        return replies

    def _valid(self, answers: Mapping[str, object]) -> list[Reply]:
        """Return valid answers; reject who sent none."""
        for name in set(answers) - set(self.clients) - set(self.rejected):
            self.rejected[str(name)] = "it is no client of this session"
        if self._request is None:
            raise MessageError("nothing was asked for yet")
        replies = []
        for name in self.clients:
            try:
                replies.append(self._checked(name, answers.get(name)))
            except MessageError as error:
                self._reject(name, str(error))
        return replies

    def _reject(self, name: str, reason: str) -> None:
        self.rejected[name] = reason
        self.clients = tuple(other for other in self.clients if other != name)
        warnings.warn(
            f"client {name!r} was rejected: {reason}", UserWarning, stacklevel=5
        )

    def _need_enough(self) -> None:
        """Refuse to go on with too few clients."""
        if len(self.clients) < self.min_clients:
            reasons = "; ".join(
                f"{k!r}: {v}" for k, v in list(self.rejected.items())[:5]
            )
            raise FederationError(
                f"{len(self.clients)} clients are left, fewer than min_clients="
                f"{self.min_clients}; rejected: {reasons}"
            )

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
        shape = self._shape()
        if answer.values.shape != shape:
            raise MessageError(
                f"its answer has shape {answer.values.shape}, not {shape}"
            )
        self._check(name, answer)
        return answer


def _reason(error: MessageError) -> str:
    """What a client says of its refusal, as one short line of printable text."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return text[:_LONGEST_REASON]
