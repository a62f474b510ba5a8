"""The client: private rows, and what is released of them, as a server asks.

`run_in_process` carries messages between a server and clients of one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed

from .._linalg import eigen
from .._messages.answering import AnsweringClient
from .._messages.messages import MessageError, Reply, Request, Topic, check_name
from .._release.noise import Release
from .._statistics.row_bounds import weight_of
from .._tables.columns import in_declared_order
from .._tables.table import check_features
from ..accounting import PrivacyAccountant, PrivacyLeakWarning, ambient_accountant
from ..accounting._errors import warn
from ._federated_task import Registration, SpectralTask, check_client_budget

if TYPE_CHECKING:
    from ._federated_server import FederatedResult, Rounds


class Releases:
    """The releases of one client's task, made as they are asked for."""

    def __init__(self, task: SpectralTask, X, release):
        self._task, self._X, self._release = task, X, release
        self._statistic = task.statistic(len(X))
        # The last column about a shared center, and the mean released for it.
        self._asked = np.zeros(0), np.zeros(0)
        self._floor = 0.0
        self._mean = None
        if not task.second_moment:
            self._found = self._run_model()
        elif not task.shared:
            self._mean = self._statistic.center(release, X)

    def answer(self, topic: Topic, step: int, basis) -> tuple[tuple, np.ndarray]:
        """Return numbers and values that answer a topic."""
        if topic is Topic.MEAN:
            return (), self._mean
        if topic is Topic.LENGTHS:
            return (), self._statistic.lengths.run(self._release, self._X)
        if topic is Topic.CENTER:
            return (), self._clipped_mean(step, basis)
        if topic is Topic.POWER:
            return self._product(step, basis)
        if topic is Topic.COVARIANCE:
            return self._covariance(basis)
        if self._task.second_moment:
            if self._task.shared:
                given = self._release.plan, *self._asked, basis
                self._mean = self._statistic.origin(*given)
                self._floor = self._statistic.floor(basis)
            return self._second_moment(topic)
        return self._found

    def _clipped_mean(self, step: int, column: np.ndarray) -> np.ndarray:
        """Release the mean of a step on the way to a shared center."""
        mean = self._statistic.mean(self._release, self._X, step, column)
        self._asked = column, mean
        return mean

    def _run_model(self):
        """Release the components at once; they do not depend on any request."""
        task, X = self._task, self._X
        statistic = self._statistic
        if task.mechanism.unknown_spikes:
            (signal, noise), vectors = statistic.subspace(self._release, X)
            return (signal, noise), vectors
        numbers = (float(np.mean(statistic.signal)), statistic.noise)
        if task.aggregation == "matrix":
            noisy = statistic.noisy_projector(self._release, X)
            return numbers, eigen.pack_lower(noisy)
        return numbers, statistic.projector(self._release, X)

    def _run(self, name: str, rows, *given) -> np.ndarray:
        """Release one of the steps that follow the mean."""
        return self._statistic.rest.run(self._release, rows, name, *given)

    def _second_moment(self, topic: Topic):
        rank, rows = self._task.n_components, self._task.rows
        moment = self._run("second_moment", self._X, self._mean, self._floor)
        spread = self._noise_std("second_moment") / math.sqrt(2.0)
        values, vectors = eigen.top_eigh(moment, rank, spread)
        others = max(rows.n_features - rank, 1)
        bulk = (float(np.trace(moment)) - float(values.sum())) / others
        bulk = bulk if rank < rows.n_features else 0.0
        numbers = (self._noise_std("second_moment"), float(values[-1]), bulk)
        if topic is Topic.MATRIX:
            return numbers, eigen.pack_lower(moment)
        return numbers, vectors

    def _product(self, step: int, basis):
        before = self._task.topics.index(Topic.POWER)
        name = f"power_{step - before + 1}"
        return (self._noise_std(name),), self._run(name, self._X, self._mean, basis)

    def _covariance(self, basis):
        task = self._task
        if task.model_covariance:
            released = self._statistic.moment_within(self._release, self._X, basis.T)
            return (self._noise_std("model_moment"),), released
        blocks = task.rows.blocks(self._X, self._mean)
        radius, within = task.projection_norm, self._statistic.rest.within
        released = within.run(self._release, blocks, basis.T, radius)
        return (self._noise_std(within.name) * radius**2,), released

    def _noise_std(self, name: str) -> float:
        """Deviation of the noise on what a client sends."""
        weight = 1.0 if name == "model_moment" else self._task.rows.weights[0]
        if self._task.shared:
            weight = weight_of(self._mean)
        return getattr(self._release.plan[name], "noise_std", 0.0) / weight


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
    estimator : str, default="LocalClient"
        Name of the estimator in the ledger.

    Attributes
    ----------
    name : str
        Name of the client.
    task : SpectralTask
        Task of the client. Requests of other tasks are refused.
    plan : PrivacyPlan
        Releases and costs of the session, computed from public numbers only.
    registration : Registration
        Public number of rows and budget, for :class:`Server`.

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
        estimator="LocalClient",
    ):
        if not isinstance(task, SpectralTask):
            raise TypeError("task must be a SpectralTask")
        X = check_features(in_declared_order(X, task.feature_names))
        self._prepare(name, X, task, epsilon, delta, estimator, noise_seed)
        if not (accountant is None or isinstance(accountant, PrivacyAccountant)):
            raise ValueError("accountant must be a PrivacyAccountant or None")
        self._accountant = ambient_accountant() if accountant is None else accountant
        self._warn(len(X))

    @classmethod
    def _charged(cls, name, X, task, plan, epsilon, noise_seed):
        """Return a client whose plan, for this epsilon, somebody has charged."""
        client = object.__new__(cls)
        client._prepare(name, X, task, epsilon, plan.delta, plan.estimator, noise_seed)
        if client.plan != plan:
            raise ValueError("the plan that was charged is not the client's")
        client._accountant = None
        return client

    def _prepare(self, name, X, task, epsilon, delta, estimator, noise_seed):
        check_name(name)
        epsilon, delta = check_client_budget(epsilon, delta)
        if X.shape[1] != task.rows.n_features:
            raise ValueError(
                f"client {name!r}: X has {X.shape[1]} features, but the task has "
                f"{task.rows.n_features}"
            )
        if task.n_components > min(X.shape):
            raise ValueError(
                f"client {name!r}: n_components={task.n_components} must be at most "
                f"its n_samples={X.shape[0]} and n_features={X.shape[1]}"
            )
        self._X, self._noise_seed = X, noise_seed
        self._epsilon = epsilon
        self.plan = task.plan_of(
            name, X.shape[0], epsilon, delta, estimator, noise_seed is not None
        )
        self._open(name, task)
        self._releases: Releases | None = None

    def _warn(self, n_samples: int) -> None:
        said, plan, private = [], self.plan, math.isfinite(self.plan.mu)
        if not private:
            said.append(
                f"client {self.name!r} answers without privacy: epsilon is None"
            )
        if private and plan.epsilon > self._epsilon:
            said.append(
                f"client {self.name!r} is private with epsilon={plan.epsilon:.4g}, "
                f"not {self._epsilon:g}: this is the guarantee of the noise that "
                'calibration="paper" sets'
            )
        if private and plan.seeded:
            said.append(self._seeded())
        if private and plan.delta >= 1.0 / n_samples:
            said.append(
                f"client {self.name!r}: delta={plan.delta:g} is at least "
                f"1 / n_samples = {1 / n_samples:g}; choose a smaller delta"
            )
        for text in said:
            warn(text, PrivacyLeakWarning)

    @property
    def registration(self) -> Registration:
        """Public numbers used for the server's checks."""
        # The requested epsilon: that of the plan may be larger.
        return Registration(len(self._X), self._epsilon, self.plan.delta)

    def _checked(self, request: Request):
        basis = self.task.check(request)
        if self._session is not None and self._releases is None:
            raise MessageError("the session failed at the client; its budget is spent")
        return basis

    def _start(self, request: Request) -> None:
        release = self._charge_session(
            request, lambda ledger: Release(self.plan, ledger, self._noise_seed)
        )
        self._session = request.session
        self._begun[request.step] = request
        self._releases = Releases(self.task, self._X, release)

    def _answered(self, request: Request, brought) -> Reply:
        assert self._releases is not None
        numbers, values = self._releases.answer(request.topic, request.step, brought)
        return self._reply(request, values, len(self._X), numbers)


def run_in_process(
    rounds: Rounds,
    clients: Mapping[str, LocalClient],
    n_jobs: int | None = None,
    step: Callable[[int], object] = bool,
) -> FederatedResult:
    """Return the result of a session whose clients share one process."""
    number = 0
    while not rounds.done:
        rounds.collect(answers_of(rounds, clients, n_jobs))
        number += 1
        step(number)
    return rounds.result()


def answers_of(rounds: Rounds, clients, n_jobs: int | None = None) -> dict[str, object]:
    """Return what all clients that are left answer to the present request."""
    request, names = rounds.request().to_bytes(), rounds.server.clients
    # Accountants and transcripts of this context reach a thread through a copy.
    answers = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(copy_context().run)(_answer, clients[name], request) for name in names
    )
    return dict(zip(names, answers, strict=True))


def _answer(client: LocalClient, request: bytes):
    """Return a client's answer as bytes, or its error."""
    try:
        return client.respond(request).to_bytes()
    except Exception as error:
        return error
