"""Federations of groups of users: the server's rounds, and the client."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from .._messages.answering import AnsweringClient
from .._messages.messages import MessageError, Reply, Session
from .._release.noise import KEY_BYTES, Release, charge
from .._statistics.user_sums import Released, RememberedRows
from ..accounting import PrivacyLeakWarning
from ..accounting._errors import warn
from ..mechanisms import ParallelPlan, PrivacyPlan, check_count
from ._group_tasks import (
    MOST_GROUPS,
    GroupTask,
    are_halves,
    from_halves,
    masked,
    to_halves,
)

# Parts of a sum are below this in modulus: whole numbers that float64 holds, of which
# 1024 add up in 64 bits.
LARGEST_PART = 2.0**52


class GroupRounds(Session):
    """All requests of a group task in sequence, and the resulting public model.

    The transport runs the loop, as with :class:`Rounds`: until :attr:`done`, it sends
    :meth:`request` to :attr:`clients` and passes the answers to :meth:`collect`. A
    client that fails or sends an impossible answer is rejected by name for the rest of
    the session. Its earlier contributions remain.

    Parameters
    ----------
    clients : sequence of str, or mapping of str to tuple
        Distinct names of the clients, at most 1024. With ``noise="node"``, a mapping
        from names to public budgets (epsilon, delta).
    task : GroupTask
        Task of the session that all parties agreed on.
    min_clients : int or None, default=None
        Minimum number of remaining clients. None uses 1, and the number of all clients
        with ``noise="distributed"``, where it cannot be less: masks would not cancel.
    session : bytes or None, default=None
        16 bytes that identify the session, used only once. None creates new ones.
    noise_seed : int, RandomState instance or None, default=None
        Seed of the noise of ``noise="server"``, for tests; only None preserves privacy.

    Attributes
    ----------
    clients : tuple of str
        Clients that were not rejected, in their original order.
    rejected : dict of str to str
        Reasons for the rejection of the other clients.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Notes
    -----
    Sums of integers are exact, for any order of the clients. With ``noise="server"``
    the server is trusted with the exact sum of each group, and releases it according to
    the task's plan. Otherwise the task determines the trust model.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.datasets import make_low_rank_sparse_tasks
    >>> from skdpspectral.federation import GroupClient, GroupRounds, GroupTask
    >>> from skdpspectral.linear_model import PrivateRounds
    >>> X, y, users = make_low_rank_sparse_tasks(
    ...     600, 20, 5, sparsity=2, random_state=0
    ... )
    >>> task = GroupTask(LRSRegressor(solver=PrivateRounds(2)), n_features=5)
    >>> nodes = {}
    >>> for place, name in enumerate(["north", "south"]):
    ...     own = users % 2 == place
    ...     nodes[name] = GroupClient(name, task, X[own], y[own], users=users[own])
    >>> rounds = GroupRounds(list(nodes), task)
    >>> while not rounds.done:
    ...     request = rounds.request().to_bytes()
    ...     rounds.collect({n: c.respond(request) for n, c in nodes.items()})
    >>> rounds.result().components_.shape
    (1, 5)
    >>> nodes["north"].model.predict(X[:1], users=users[:1]).shape
    (1,)
    """

    def __init__(
        self,
        clients: Sequence[str] | Mapping[str, tuple],
        task: GroupTask,
        *,
        min_clients=None,
        session: bytes | None = None,
        noise_seed=None,
    ):
        if not isinstance(task, GroupTask):
            raise TypeError("task must be a GroupTask")
        if len(clients) > MOST_GROUPS:
            raise ValueError(f"at most {MOST_GROUPS} clients are supported")
        if task.masked is not None and sorted(clients) != list(task.masked):
            raise ValueError(
                "clients must be the clients of the task, all of which mask their "
                f"parts: {task.masked}"
            )
        fewest = len(task.masked or (1,))
        min_clients = fewest if min_clients is None else min_clients
        if check_count("min_clients", min_clients) < fewest:
            raise ValueError(
                f"min_clients={min_clients} must be at least {fewest}: with fewer "
                "clients, the masks do not cancel"
            )
        if noise_seed is not None and task.noise != "server":
            raise ValueError(
                f"noise_seed is not used with noise={task.noise!r}, where the server "
                "adds no noise: pass it to the clients"
            )
        self._open(clients, task, min_clients, session)
        self._plans = self._planned(clients)
        self.plan = self._plan_of_all(noise_seed is not None)
        trusted = task.noise == "server"
        self._release = Release(self.plan, None, noise_seed) if trusted else None
        self._released: list[Released] = []

    def _planned(self, clients) -> dict[str, PrivacyPlan]:
        """Return the plans of all clients, by name."""
        if not isinstance(clients, Mapping):
            return dict.fromkeys(clients, self.task.plan)
        return {name: self.task.plan_of(*clients[name]) for name in clients}

    def _plan_of_all(self, seeded: bool) -> PrivacyPlan:
        """Return what holds for the users of all clients."""
        plans = {
            name: replace(plan, seeded=seeded) for name, plan in self._plans.items()
        }
        first = next(iter(plans.values()))
        alike = all(plan == first for plan in plans.values())
        return first if alike else ParallelPlan.of(plans)

    def _basis(self) -> np.ndarray | tuple:
        if not self._released:
            return ()
        total, noise_std = self._released[-1]
        return np.append(total.ravel(), noise_std)[:, None]

    def _use(self, replies: list[Reply]) -> None:
        # All sums are released, whether or not clients received the last of them.
        if self._step == self.task.n_sums:
            return
        self._need_enough()
        if self.task.noise == "node":
            self._add(replies)
        else:
            self._release_sum(sum(map(self._words, replies)), len(replies))

    def _words(self, reply: Reply) -> np.ndarray:
        """Return a part as words, whose sum modulo 2**64 is that of the numbers."""
        if self.task.masked is None:
            return reply.values.astype(np.int64).astype(np.uint64)
        return from_halves(reply.values)

    def _release_sum(self, total: np.ndarray, n_parts: int) -> None:
        """Release a sum; if clients have added the noise, it is released already."""
        mechanism = self.task.plan.mechanisms[self._step]
        values = total.astype(np.int64).astype(np.float64) * self.task.unit(self._step)
        # Clipped to the bound of all users' sum: a client that lies cannot exceed it.
        most = mechanism.magnitude
        values = np.clip(values.reshape(mechanism.shape), -most, most)
        noise_std = mechanism.noise_std
        if self._release is not None:
            values = self._release(mechanism.name, values, overwrite=True)
        else:
            noise_std *= math.sqrt(n_parts / self.task.n_shares)
        self._released.append(Released(values, noise_std))

    def _add(self, replies: Sequence[Reply]) -> None:
        """Add up parts that have their own noise, each on the grid of its client."""
        shape = self.task.plan.mechanisms[self._step].shape
        values, variance = np.zeros(shape), 0.0
        for reply in replies:
            plan = self._plans[reply.client]
            unit = self.task.unit(self._step, plan)
            values += reply.values.reshape(shape) * unit
            variance += plan.mechanisms[self._step].noise_std ** 2
        most = self.task.plan.mechanisms[self._step].magnitude
        values = np.clip(values, -most, most)
        self._released.append(Released(values, math.sqrt(variance)))

    def _check(self, name: str, answer: Reply) -> None:
        values = answer.values
        if self.task.masked is not None and self._step < self.task.n_sums:
            if not are_halves(values):
                raise MessageError(
                    "its part of a sum does not consist of halves of words"
                )
        elif np.any(values != np.rint(values)) or np.any(np.abs(values) > LARGEST_PART):
            raise MessageError(
                "its part of a sum does not consist of whole numbers up to 2**52"
            )
        mu = self._plans[name].mu
        if answer.n_samples or not math.isclose(answer.mu, mu, rel_tol=1e-9):
            raise MessageError(
                f"its budget is not the agreed one: mu={answer.mu:g} instead of {mu:g}"
                ", or it has sent a number of rows"
            )

    def result(self):
        """Return the fitted public model, without the users' own parameters.

        Returns
        -------
        LRSRegressor or DPMatrixFactorization
            Model that consists of releases only. Users fit their own parameters with
            ``personalize``, or find them in the ``model`` of their client.

        Raises
        ------
        MessageError
            If a sum still has to be requested.
        """
        if len(self._released) < self.task.n_sums:
            raise MessageError("the task is not done: there is no result yet")
        return self.task.public_model(self.plan, self._released)


class GroupClient(AnsweringClient):
    """A client with a group of users, which answers with sums over the group.

    Each user's contribution to a sum is clipped separately, as in a fit on one machine,
    whatever the server sends. After the last message, :attr:`model` contains the public
    model and the parameters of the group's users, which never leave the client.

    Parameters
    ----------
    name : str
        Public name of the client, at most 64 bytes in UTF-8.
    task : GroupTask
        Task that all parties agreed on, which defines the releases.
    X, y, **how
        Rows of the group's users, as for the ``fit`` of the task's model. They are read
        after the first request, when the ledger has been charged. Dataframe columns are
        matched by name, using the task's `feature_names` or the `user_feature` and
        `item_feature` of a recommender.
    epsilon, delta : float or None, default=None
        The client's budget, only with ``noise="node"``. None uses the task's.
    pair_keys : mapping of str to bytes or None, default=None
        Keys for a task with masks: for each other client by name, 32 random bytes that
        only both clients know. In one session, a client must use them once: the
        difference of two parts with the same masks is not masked. With `accountant`, a
        client that is created again refuses a session that its ledger already has, and
        keys can be used for many sessions. Without it, use new keys for each session.
    accountant : PrivacyAccountant or None, default=None
        Ledger of the client. None uses the one of an enclosing ``with`` block.
    noise_seed : int, RandomState instance or None, default=None
        Seed of the client's noise, for tests. Anything but None voids privacy. It
        raises an error with ``noise="server"``, where clients add no noise.

    Attributes
    ----------
    name : str
        Name of the client.
    task : GroupTask
        The only task whose requests the client answers.
    plan : PrivacyPlan
        The plan that the ledger is charged for at the first valid request.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid; nothing is charged.

    Notes
    -----
    **Formal guarantee.** The guarantee of the task's `plan`, for each user of the
    group. Numbers of users and rows are not sent. If an error occurs, the server only
    learns its type.
    """

    def __init__(
        self,
        name,
        task: GroupTask,
        X,
        y=None,
        *,
        epsilon=None,
        delta=None,
        pair_keys=None,
        accountant=None,
        noise_seed=None,
        **how,
    ):
        if not isinstance(task, GroupTask):
            raise TypeError("task must be a GroupTask")
        self._open(name, task)
        self._use_ledger(accountant)
        if noise_seed is not None and task.noise == "server":
            raise ValueError(
                'noise_seed is not used with noise="server", where clients add no '
                "noise; pass it to the server"
            )
        self._keys = _checked_keys(name, task, pair_keys)
        self._model = clone(task._model)
        given = task._board, task.feature_names, X, y
        self._group = self._model._unread_group(*given, **how)
        self._noise_seed = noise_seed
        plan = task.plan_of(epsilon, delta)
        self.plan = replace(plan, seeded=noise_seed is not None)
        if self.plan.seeded:
            warn(self._seeded(), PrivacyLeakWarning)
        self._release: Release | None = None
        self._read: tuple = ()
        self._rows: RememberedRows | None = None
        self._released: list[Released] = []
        self._done = False

    @property
    def model(self):
        """Fitted model with the parameters of the group, after the last message.

        Raises
        ------
        MessageError
            If the session is not finished.
        """
        if not self._done:
            raise MessageError("there is no model yet: the session is not over")
        return self._model

    def _charge(self, ledger) -> None:
        if self.task.noise == "server":
            charge(self.plan, ledger, None)
        else:
            self._release = Release(self.plan, ledger, self._noise_seed)

    def _answer(self, step: int, given) -> tuple[tuple, np.ndarray]:
        task = self.task
        if self._rows is None:
            self._read = self._group()
            self._rows = RememberedRows(self._read[0])
        if given is not None:
            shape = task.plan.mechanisms[step - 1].shape
            total = np.array(given[:-1]).reshape(shape)
            self._released.append(Released(total, float(given[-1])))
        if step < task.n_sums:
            return (), self._part(step)
        self._finish()
        return (), np.zeros(0)

    def _part(self, step: int) -> np.ndarray:
        """Return the group's part of the next sum, with noise if the client adds it."""
        rows = self._rows.again()
        name, value = self.task.next_sum(rows, self._released, self.plan)
        if self._release is not None:
            value = self._release(name, value, overwrite=True)
        # A division by a power of two is exact; -0.0 would be another byte.
        values = np.rint(value.ravel() / self.task.unit(step, self.plan)) + 0.0
        if self.task.masked is None:
            return values
        label = b"".join((self._session, self.task.digest, step.to_bytes(4, "little")))
        return to_halves(masked(values, self.name, self._keys, label))

    def _finish(self) -> None:
        """Make the models of the users: nothing of it leaves the client."""
        board = self.task._board
        found = board.follow(self.task.plan, self._rows.again(), self._released)
        self._model._finish(board, found, self.plan, *self._read)
        self._done = True


def _checked_keys(name: str, task: GroupTask, pair_keys) -> dict[str, bytes]:
    """Return the keys of a client, or an error that quotes none."""
    others = set(task.masked or ()) - {name}
    if task.masked is not None and name not in task.masked:
        raise ValueError(f"node {name!r} is not one of the nodes that mask their parts")
    given = dict(pair_keys or {})
    if set(given) != others:
        raise ValueError(
            "pair_keys must have the names of all other clients of a task with masks, "
            f"and no others: {sorted(others)}"
        )
    for other, key in given.items():
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ValueError(f"the key with {other!r} must be {KEY_BYTES} bytes")
    if len(set(given.values())) < len(given):
        raise ValueError(
            "pair_keys must all be different: each is shared by two clients only"
        )
    return given
