"""The base of clients: each step of one session is answered once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from .._linalg.walks import blas_threads, quietly
from .._release.noise import NonReentrantLock
from ..mechanisms import PrivacyPlan
from .messages import MessageError, Reply, Request

_Charged = TypeVar("_Charged")


class AnsweringClient:
    """Answers each step of an untrusted server once, always with the same bytes.

    The task of a subclass has a `digest` and a ``longest()`` method.
    """

    plan: PrivacyPlan
    _accountant: Any  # a PrivacyAccountant, or None

    def _open(self, name: str, task) -> None:
        """Set the state before the first request of a session."""
        self.name, self.task = name, task
        self._session: bytes | None = None
        self._begun: dict[int, Request] = {}
        self._answers: dict[int, Reply] = {}
        self._thread_lock, self._process = NonReentrantLock(), os.getpid()

    def __getstate__(self):
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: two copies would "
            "release twice what was charged once"
        )

    def _seeded(self) -> str:
        """Describe what a seed of the noise reveals."""
        return (
            f"noise_seed is given: the noise of client {self.name!r} can be "
            "reproduced and subtracted, so its answers are not private; leave "
            "noise_seed=None except in tests"
        )

    def _reply(
        self, request: Request, values, n_samples: int = 0, numbers: tuple = ()
    ) -> Reply:
        """Return the answer with some values, which states the cost of the plan."""
        place = request.session, self.task.digest, request.step, request.topic
        return Reply(*place, self.name, n_samples, self.plan.mu, numbers, values)

    def _charge_session(
        self, request: Request, charge: Callable[[Any], _Charged]
    ) -> _Charged:
        """Charge a session under its name; refuse one that the ledger already has."""
        ledger = self._accountant
        if ledger is None:
            return charge(ledger)
        label = f"session {request.session.hex()} of {self.name}"
        label = ", ".join(filter(None, (ledger._label, label)))

        def check_new(n_entries: int) -> None:
            if sum(entry.label == label for entry in ledger.ledger) > n_entries:
                raise MessageError(
                    f"client {self.name!r} was created again within a session that its "
                    "ledger already has: its answers are spent, and take part in the "
                    "next session"
                )

        # One that is created again has other noise and the same masks: a step that is
        # answered twice costs more than two charges where parts are masked.
        check_new(0)
        charged = charge(ledger.named(label))
        check_new(1)  # another process may have charged it too
        return charged

    # Of subclasses. Returns the content of a new request, checked; or raises.
    _checked: ClassVar[Callable[..., Any]]
    # Charges the plan, before any row is read.
    _start: ClassVar[Callable[..., None]]
    # Makes the answer to a new request with this content.
    _answered: ClassVar[Callable[..., Reply]]

    def respond(self, request: Request | bytes) -> Reply:
        """Answer a request once; a repeated request gets the same answer.

        Parameters
        ----------
        request : Request or bytes
            The next step of the session, or a repeated earlier step. The first request
            determines the session.

        Returns
        -------
        Reply
            Releases and public numbers. Send ``reply.to_bytes()``.

        Raises
        ------
        MessageError
            If the request is malformed or of another session; nothing is released.
        PrivacyBudgetError
            If the accountant refuses the plan; nothing is charged or released.
        """
        if not isinstance(request, Request):
            request = Request.from_bytes(request, max_bytes=self.task.longest())
        # Before the lock: a fork may have copied it while a thread held it.
        if self._process != os.getpid():
            raise MessageError(
                "this client is a forked copy: two copies would release twice what "
                "was charged once; create the client in the process that answers"
            )
        with self._thread_lock.hold(), blas_threads(0):
            return self._respond(request)

    @quietly  # in whatever thread; a server would hear of an error
    def _respond(self, request: Request) -> Reply:
        step = request.step if request.step in self._begun else len(self._begun)
        session = request.session if self._session is None else self._session
        request.check_place(session, self.task.digest, step)
        if step in self._begun:
            return self._repeat(request)
        brought = self._checked(request)
        if self._session is None:
            self._start(request)
        self._begun[step] = request
        self._answers[step] = self._answered(request, brought)
        return self._answers[step]

    def _repeat(self, request: Request) -> Reply:
        if request != self._begun[request.step]:
            raise MessageError(
                f"step {request.step} was already requested with different content: a "
                "second answer would be a second release"
            )
        if request.step not in self._answers:
            raise MessageError(
                f"step {request.step} failed at the client; its release is spent"
            )
        return self._answers[request.step]
