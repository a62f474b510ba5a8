"""The client: private rows, and what is released of them, as a server asks.

`run_in_process` carries messages between a server and clients of one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._messages.answering import AnsweringClient
from .._release.noise import Release
from .._statistics.statistic import pair_order
from .._tables.columns import in_declared_order
from .._tables.pairs import PairOrder
from .._tables.table import check_rows
from ..accounting import PrivacyLeakWarning
from ..accounting._errors import warn
from ..mechanisms import PrivacyPlan
from ._federated_task import Registration, SpectralTask, check_client_budget


class ClientRows:
    """The rows of a client and its release, for all queries of a session.

    `origin` is what rows are measured from: a shared center, the order of pairs, or
    None. `steps` are the releases that follow a center. Rows below the released length
    `floor` keep theirs. `column` is the last one about a shared center, and `mean` what
    was released for it.
    """

    def __init__(self, task: SpectralTask, X: Any, release: Release) -> None:
        self.X, self.release, self.plan = X, release, release.plan
        self.statistic = task.statistic(len(X))
        self.floor, self.column, self.mean = 0.0, np.zeros(0), np.zeros(0)
        self.origin: Any = None
        if task.rows.center == "pairs":
            self.origin = pair_order(len(X), task.n_features)
        self.steps = self.statistic.rest if task.shared else self.statistic

    @property
    def paired(self) -> bool:
        """Whether rows are compared in pairs."""
        return isinstance(self.origin, PairOrder)

    def run(self, name: str, *given: Any) -> np.ndarray:
        """Release one of the steps that follow a center."""
        return self.steps.run(self.release, self.X, name, *given)


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
        said, plan, n = [], self.plan, self._n_samples
        if not math.isfinite(plan.mu):
            said.append(
                f"client {self.name!r} answers without privacy: epsilon is None"
            )
        else:
            if plan.epsilon > self._epsilon:
                said.append(
                    f"client {self.name!r} is private with epsilon={plan.epsilon:.4g}, "
                    f"not {self._epsilon:g}: this is the guarantee of the noise that "
                    'calibration="paper" sets'
                )
            if plan.seeded:
                said.append(self._seeded())
            if plan.delta >= 1.0 / n:
                said.append(
                    f"client {self.name!r}: delta={plan.delta:g} is at least "
                    f"1 / n_samples = {1 / n:g}; choose a smaller delta"
                )
        for text in said:
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
