"""A node: users whose rows stay where they are, and sums of what they contribute."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from .._release.masks import KEY_BYTES
from .._release.release import Release, charge
from .._statistics.billboard import Released, RememberedRows
from ..accounting import PrivacyAccountant, PrivacyLeakWarning, default_accountant
from ._answering import AnsweringClient
from ._group_tasks import GroupTask
from ._messages import MessageError, Reply, Request, check_name
from ._words import masked, to_halves


class GroupClient(AnsweringClient):
    """A group of users, a ledger, and answers about sums over the group.

    Each user's contribution to a sum is clipped by itself, as in a fit in one place,
    whatever a server says was released before. After the last message :attr:`model`
    has the public model, and beside it those of the group's users, which stay here.

    Parameters
    ----------
    name : str
        What the server knows the node by, at most 64 bytes in UTF-8; public.
    task : GroupTask
        What will be released, agreed on beforehand.
    X, y, **how
        Rows of the group's users, as for the ``fit`` of the task's model. They are read
        when the first request comes, once the ledger is charged.
    epsilon, delta : float or None, default=None
        The node's own budget, with ``noise="node"`` alone; None takes that of the task.
    pair_keys : mapping of str to bytes or None, default=None
        For a task with masks, and for no other: by the name of each other node, 32
        random bytes that both have, and nobody else. In one session they serve one
        client of each node: a second one, made after a crash, would use masks twice,
        and the difference of both parts is not masked. A :class:`Site` makes no
        second one, and its keys serve all sessions; elsewhere take new keys for each.
    accountant : PrivacyAccountant or None, default=None
        The node's ledger; None takes that of an enclosing ``with`` block, if any.
    noise_seed : int, RandomState instance or None, default=None
        Of the noise that the node adds, for tests: anything but None voids privacy.
        Refused with ``noise="server"``, where it adds none.

    Attributes
    ----------
    name : str
        The node's name.
    task : GroupTask
        What it answers requests of, and of no other.
    plan : PrivacyPlan
        What the ledger is charged with at the first valid request.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid; nothing is charged.

    Notes
    -----
    **Formal guarantee.** That of the task's `plan`, for each user of the group. The
    number of users and rows is told to nobody. What an error that a server hears of
    says of values is its type alone.
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
        check_name(name)
        if not (accountant is None or isinstance(accountant, PrivacyAccountant)):
            raise ValueError("accountant must be a PrivacyAccountant or None")
        if noise_seed is not None and task.noise == "server":
            raise ValueError(
                'noise_seed has no use with noise="server", where nodes add no noise: '
                "give it to the server"
            )
        self._keys = _checked_keys(name, task, pair_keys)
        self._model = clone(task._model)
        self._group = self._model._unread_group(task._board, X, y, **how)
        self._accountant = default_accountant() if accountant is None else accountant
        self._noise_seed = noise_seed
        plan = task.plan_of(epsilon, delta)
        self.plan = replace(plan, seeded=noise_seed is not None)
        if self.plan.seeded:
            warnings.warn(
                f"noise_seed is given: the noise of node {name!r} can be made again "
                "and subtracted, so that its answers are not private; leave "
                "noise_seed=None but for tests",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        self._open(name, task)
        self._release: Release | None = None
        self._read: tuple = ()
        self._rows: RememberedRows | None = None
        self._released: list[Released] = []
        self._done = False

    @property
    def model(self):
        """The fitted model, with those of the group's users, after the last message.

        Raises
        ------
        MessageError
            If the session is not over.
        """
        if not self._done:
            raise MessageError("there is no model yet: the session is not over")
        return self._model

    def _checked(self, request: Request):
        before = self.task.check(request)
        if len(self._answers) < len(self._begun) or (
            self._begun and self._rows is None
        ):
            raise MessageError("the session failed at the client; its budget is spent")
        return before

    def _start(self, request: Request) -> None:
        if self.task.noise == "server":
            charge(self.plan, self._accountant, None)
        else:
            self._release = Release(self.plan, self._accountant, self._noise_seed)
        self._session = request.session
        self._begun[request.step] = request
        self._read = self._group()
        self._rows = RememberedRows(self._read[0])

    def _answered(self, request: Request, brought) -> Reply:
        task, step = self.task, request.step
        if brought is not None:
            shape = task.plan.mechanisms[step - 1].shape
            total = np.array(brought[:-1]).reshape(shape)
            self._released.append(Released(total, float(brought[-1])))
        values = np.zeros(0)
        if step < task.n_sums:
            values = self._part(step)
        else:
            self._finish()
        return Reply(
            session=request.session,
            task=task.digest,
            step=step,
            topic=request.topic,
            client=self.name,
            n_samples=0,
            mu=self.plan.mu,
            numbers=(),
            values=values,
        )

    def _part(self, step: int) -> np.ndarray:
        """Return the group's part of the next sum, with noise if the node adds it."""
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
        """Make the models of the users: nothing of it leaves the node."""
        board = self.task._board
        found = board.follow(self.task.plan, self._rows.again(), self._released)
        self._model._finish(board, found, self.plan, *self._read)
        self._done = True


def _checked_keys(name: str, task: GroupTask, pair_keys) -> dict[str, bytes]:
    """Return the keys of a node, or an error that quotes none."""
    others = set(task.masked or ()) - {name}
    if task.masked is not None and name not in task.masked:
        raise ValueError(f"node {name!r} is none of those that mask their parts")
    given = dict(pair_keys or {})
    if set(given) != others:
        raise ValueError(
            "pair_keys must have the names of all other nodes of a task with masks, "
            f"and no others: {sorted(others)}"
        )
    for other, key in given.items():
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ValueError(f"the key with {other!r} must be {KEY_BYTES} bytes")
    if len(set(given.values())) < len(given):
        raise ValueError("pair_keys must all be different: each is of two nodes alone")
    return given
