"""The base of clients: each step of one session is answered once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from .._linalg.walks import blas_threads, quietly
from ..accounting import PrivacyAccountant, ambient_accountant
from ..mechanisms import PrivacyPlan
from .messages import MessageError, Reply, Request, check_name


class AnsweringClient:
    """Answers each step of an untrusted server once, always with the same bytes.

    The task of a subclass has a `digest`, ``check(request)`` and ``longest()``.
    """

    plan: PrivacyPlan
    _accountant: PrivacyAccountant | None
    # Public number of rows; of a group of users nobody is told.
    _n_samples = 0

    # Of subclasses: charges the plan to a ledger, or None, before any row is read; and
    # returns the numbers and values that answer a step.
    _charge: ClassVar[Callable[..., Any]]
    _answer: ClassVar[Callable[..., tuple]]

    def _open(self, name: str, task) -> None:
        """Set the state before the first request of a session."""
        self.name, self.task, self._accountant = check_name(name), task, None
        self._session: bytes | None = None
        self._begun: dict[int, Request] = {}
        self._answers: dict[int, Reply] = {}
        self._thread_lock, self._process = threading.RLock(), os.getpid()

    def _use_ledger(self, accountant) -> None:
        """Set the ledger that is charged: the given one, or that of the block."""
        if not (accountant is None or isinstance(accountant, PrivacyAccountant)):
            raise ValueError("accountant must be a PrivacyAccountant or None")
        self._accountant = ambient_accountant() if accountant is None else accountant

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

    def _charge_session(self, session: bytes) -> None:
        """Charge a session under its name; refuse one that the ledger already has."""
        ledger = self._accountant
        if ledger is None:
            return self._charge(ledger)
        own = f"session {session.hex()} of {self.name}"
        label = ", ".join(filter(None, (ledger._label, own)))

        def check_new(n_entries: int) -> None:
            # Whatever the handle of the ledger is called.
            known = [entry.label or "" for entry in ledger.ledger]
            if sum(label.endswith(own) for label in known) > n_entries:
                raise MessageError(
                    f"client {self.name!r} was created again within a session that its "
                    "ledger already has: its answers are spent, and take part in the "
                    "next session"
                )

        # One that is created again has other noise and the same masks: a step that is
        # answered twice costs more than two charges where parts are masked.
        check_new(0)
        self._charge(ledger.named(label))
        check_new(1)  # another process may have charged it too

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
        with self._thread_lock, blas_threads(0):
            return self._respond(request)

    @quietly  # in whatever thread; a server would hear of an error
    def _respond(self, request: Request) -> Reply:
        step = request.step if request.step in self._begun else len(self._begun)
        session = request.session if self._session is None else self._session
        request.check_place(session, self.task.digest, step)
        if step in self._begun:
            return self._repeat(request)
        given = self.task.check(request)
        if len(self._answers) < len(self._begun):
            raise MessageError("the session failed at the client; its budget is spent")
        if self._session is None:
            self._charge_session(session)
        self._session = session
        self._begun[step] = request
        numbers, values = self._answer(step, given)
        place = session, self.task.digest, step, self.name
        reply = Reply(*place, self._n_samples, self.plan.mu, numbers, values)
        self._answers[step] = reply
        return reply

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
