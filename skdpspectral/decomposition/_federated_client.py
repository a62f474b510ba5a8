"""The client: private rows, and what is released of them, as a server asks.

`run_in_process` carries messages between a server and clients of one process.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .._linalg.walks import blas_threads, quietly
from .._messages import MessageError, Reply, Request, check_name
from .._release.noise import Release
from .._statistics.moments import Origin
from .._tables.columns import in_declared_order
from .._tables.table import check_rows
from ..accounting import PrivacyAccountant, PrivacyLeakWarning, ambient_accountant
from ..accounting._errors import warn
from ..mechanisms import PrivacyPlan
from ._federated_task import Registration, SpectralTask, check_client_budget


class ClientRows:
    """The rows of a client and its release, for all queries of a session."""

    def __init__(self, task: SpectralTask, X: Any, release: Release) -> None:
        self.X, self.release, self.plan = X, release, release.plan
        self.statistic = task.statistic(len(X))
        # Rows below the released floor keep their lengths; the mean was released for
        # the last column about a shared center.
        self.floor, self.column, self.mean = 0.0, np.zeros(0), np.zeros(0)
        # What rows are measured from: a shared center, or other rows.
        self.origin = Origin(paired=task.rows.center == "pairs")
        self.steps = self.statistic.rest if task.shared else self.statistic

    @property
    def paired(self) -> bool:
        """Whether rows are compared in pairs."""
        return self.origin.paired

    def run(self, name: str, *given: Any) -> np.ndarray:
        """Release one of the steps that follow a center."""
        return self.steps.run(self.release, self.X, name, *given)


class AnsweringClient:
    """Answers each step of an untrusted server once, always with the same bytes."""

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


class LocalClient(AnsweringClient):
    """A client with private rows and a budget, which does not trust the server.

    The client's releases follow its plan, whatever the server sends. It refuses
    requests of other tasks, uses clipping and noise of the plan, orthonormalizes every
    basis, and answers each step of one session once. A repeated request gets the same
    bytes, so a lost message does not cause a second release.

    Parameters
    ----------
    name : str
        Public name of the client, at most 64 bytes in UTF-8.
    X : array-like or dataframe of shape (n_samples, n_features)
        Finite private rows. If the task has `feature_names`, X must be a dataframe with
        these columns, which are reordered to match the task. Otherwise X must be an
        array with columns in the agreed order.
    task : SpectralTask
        Task of the session that all parties agreed on.
    epsilon : float or None, default=1.0
        Privacy budget of the whole session, positive. None (or infinity) switches
        privacy off, with a warning.
    delta : float, default=1e-6
        Privacy budget in [1e-15, 1).
    accountant : PrivacyAccountant or None, default=None
        Ledger of the client. None uses the one of an enclosing ``with`` block.
    noise_seed : int, RandomState instance or None, default=None
        None draws noise from the operating system's entropy. Anything else voids
        privacy.

    Attributes
    ----------
    name : str
        Name of the client.
    task : SpectralTask
        Task of the client. Requests of other tasks are refused.
    plan : PrivacyPlan
        Releases and costs of the session, computed from public numbers only.
    registration : Registration
        Public number of rows and budget, for :class:`Rounds`.

    Raises
    ------
    ValueError
        If an argument is invalid or the columns of X are wrong; nothing is charged.

    Notes
    -----
    **Formal guarantee.** All answers of a client together are (`epsilon`,
    `delta`)-differentially private for one of its rows, under replacement of that row
    within the client, whatever the server requests and whatever other clients and the
    server do with the answers. If the task has a ``SpikedModel``, the guarantee only
    holds under its model of the rows, as stated by `plan`. The number of rows and the
    name are public. Rows are checked in the constructor, so that only their holder sees
    an error about a value. The whole plan is charged at the first valid request, before
    any statistic of the rows is computed.
    """

    def __init__(
        self,
        name,
        X,
        task: SpectralTask,
        *,
        epsilon=1.0,
        delta=1e-6,
        accountant=None,
        noise_seed=None,
    ):
        if not isinstance(task, SpectralTask):
            raise TypeError("task must be a SpectralTask")
        X = check_rows(None, in_declared_order(X, task.feature_names))
        self._prepare(name, X, task, epsilon, delta, noise_seed)
        self._use_ledger(accountant)
        self._warn()

    @classmethod
    def _charged(cls, name, X, task, plan: PrivacyPlan, epsilon, noise_seed):
        """Return a client whose plan, for this epsilon, somebody has charged."""
        client = object.__new__(cls)
        client._prepare(name, X, task, epsilon, plan.delta, noise_seed)
        changed = {"unit": plan.unit, "one_row_each": plan.one_row_each}
        client.plan = replace(client.plan, **changed)
        if client.plan != plan:
            raise ValueError("the plan that was charged is not the client's")
        return client

    def _prepare(self, name, X, task, epsilon, delta, noise_seed):
        self._open(name, task)
        self._epsilon = check_client_budget(epsilon, delta)[0]
        if X.shape[1] != task.n_features:
            raise ValueError(
                f"client {name!r}: X has {X.shape[1]} features, but the task has "
                f"{task.n_features}"
            )
        self.plan = task.party(name, X.shape[0], epsilon, delta).plan
        if noise_seed is not None:
            self.plan = replace(self.plan, seeded=True)
        self._X, self._n_samples, self._noise_seed = X, X.shape[0], noise_seed
        self._rows: ClientRows | None = None

    def _warn(self) -> None:
        who, plan, n = f"client {self.name!r}", self.plan, self._n_samples
        private = math.isfinite(plan.mu)
        said = {
            f"{who} answers without privacy: epsilon is None": not private,
            f"{who} is private with epsilon={plan.epsilon:.4g}, not {self._epsilon:g}: "
            'this is the guarantee of the noise that calibration="paper" sets': (
                plan.epsilon > self._epsilon
            ),
            self._seeded(): private and plan.seeded,
            f"{who}: delta={plan.delta:g} is at least 1 / n_samples = {1 / n:g}; "
            "choose a smaller delta": private and plan.delta >= 1.0 / n,
        }
        for text, is_so in said.items():
            if is_so:
                warn(text, PrivacyLeakWarning)

    @property
    def registration(self) -> Registration:
        """Public numbers used for the server's checks."""
        # The requested epsilon: that of the plan may be larger.
        return Registration(self._n_samples, self._epsilon, self.plan.delta)

    def _charge(self, ledger: Any) -> None:
        self._release = Release(self.plan, ledger, self._noise_seed)

    def _answer(self, step: int, given: Any) -> tuple[tuple, np.ndarray]:
        if self._rows is None:
            self._rows = ClientRows(self.task, self._X, self._release)
        return self.task.queries[step].value(self._rows, given)


def run_in_process(
    rounds: Any, clients: Mapping[str, Any], step: Callable[[int], object] = bool
) -> None:
    """Run all rounds of a session whose clients share one process."""
    number = 0
    while not rounds.done:
        request = rounds.request().to_bytes()
        rounds.collect({n: _answer(clients[n], request) for n in rounds.clients})
        number += 1
        step(number)


def _answer(client: Any, request: bytes) -> object:
    """Return a client's answer as bytes, or its error."""
    try:
        return client.respond(request).to_bytes()
    except Exception as error:
        return error
