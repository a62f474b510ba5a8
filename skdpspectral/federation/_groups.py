"""Federations of groups of users: the task, the server's rounds, and the client."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from .._messages import MessageError, Party, Query, Reply, Session, check_name
from .._release.noise import KEY_BYTES, Release, charge, pair_mask
from .._statistics.user_sums import NO_USERS, Billboard, Released, RememberedRows
from .._tables.columns import check_feature_names
from ..accounting import PrivacyLeakWarning, gaussian_epsilon
from ..accounting._errors import warn
from ..decomposition._federated_client import AnsweringClient
from ..decomposition._federated_task import Task
from ..mechanisms import (
    Concern,
    Gaussian,
    PrivacyPlan,
    Remark,
    SharedGaussian,
    check_count,
)
from ..mechanisms._plan import MOST_SHARES, NODE_NOISE, SERVER_NOISE

_ONCE = "A user with rows at k nodes is only protected at k times the cost mu."

NOISE = ("server", "distributed", "node")
# Answers are multiples of this or of the grid, whichever is finer: exact in both.
_FINEST = 2.0**-21
# Limits of a stated noise scale, relative to the plan's, and of a released sum, in
# standard deviations beyond what users can have.
_MOST_NOISE, _DEVIATIONS = 1e9, 40.0
# Features of a task, and numbers of one of its sums, which a client has to hold.
_MOST_FEATURES, _MOST_NUMBERS = 2**20, 2**28
# Parts of a sum are below this in modulus: whole numbers that float64 holds, of which
# MOST_SHARES, 1024, add up in 64 bits.
_LARGEST_PART = 2.0**52


class SumQuery(Query):
    """A request for the next sum, with the last release; the last one asks for none."""

    def __init__(self, last: Any, planned: Any, masked: bool) -> None:
        self.last, self.planned, self.masked = last, planned, masked
        if last is not None:
            self.basis_shape = math.prod(last.shape) + 1, 1
        # Under a mask, both halves of a word for each number.
        size = 0 if planned is None else math.prod(planned.shape)
        self.shape = ((2 if masked else 1) * size,)

    def ask(self, rounds: Any) -> Any:
        return () if self.last is None else rounds.last_release()

    def read(self, basis: np.ndarray) -> np.ndarray | None:
        """Return the last release; None at the first step."""
        super().read(basis)
        if self.last is None:
            return None
        said = basis[:, 0]
        values, noise_std = said[:-1], said[-1]
        if not 1.0 / _MOST_NOISE <= noise_std / self.last.noise_std <= _MOST_NOISE:
            raise MessageError("the stated noise scale is impossible for this task")
        # Beyond, an error of arithmetic might tell of somebody's rows.
        if np.abs(values).max() > self.last.magnitude + _DEVIATIONS * noise_std:
            raise MessageError("the stated sum is beyond the bound of users' sums")
        return said

    def check(self, party: Any, reply: Any) -> None:
        """Refuse what is no part of a sum."""
        values = reply.values
        if self.masked and not are_halves(values):
            raise MessageError("its part of a sum does not consist of halves of words")
        whole = np.all(values == np.rint(values))
        if not whole or np.any(np.abs(values) > _LARGEST_PART):
            raise MessageError(
                "its part of a sum does not consist of whole numbers up to 2**52"
            )

    def use(self, rounds: Any, replies: list) -> None:
        if self.planned is not None:
            rounds.release_next(replies)


class GroupTask(Task):
    r"""Task of a fit on groups of users: its sums, and the party that adds noise.

    The server and all clients create it from the same parameters, and every message
    carries its :attr:`digest`. A client holds a group of users. For each release it
    sends the sum of their contributions, clipped as in a fit on one machine, and the
    server returns the release of the sum over all groups. Each user's own parameters
    are computed at the client and stay there.

    Parameters
    ----------
    model : LRSRegressor or DPMatrixFactorization
        Unfitted model with all parameters, including a budget; it is not changed. Its
        `accountant` and `noise_seed` are ignored: clients have their own ledgers.
    n_features : int or None, default=None
        Number of features of an ``LRSRegressor``, without columns of users and offsets.
        At most 2**20. Pass None for a recommender, which has the catalog `items`.
    noise : {"server", "distributed", "node"}, default="server"
        Party that adds the noise, which determines the trust model (see Notes).
    n_shares : int or None, default=None
        Number of shares that make up the whole noise, from 1 to the number of clients.
        Required with ``noise="distributed"``, and only used there.
    masked : sequence of str or None, default=None
        Names of all clients, 2 to 1024, required with ``noise="distributed"`` and only
        used there. They mask their parts with pairwise shared keys, so that the server
        only learns the sum. All clients must answer until the end.
    feature_names : sequence of str or None, default=None
        For an ``LRSRegressor``: distinct names of features, without users and offsets.
        Each client must then pass a dataframe with these columns, in any order. With
        None, features are matched by position, and each client must pass an array.

    Attributes
    ----------
    plan : PrivacyPlan
        Plan that every client charges to its ledger, and that states the trust model.
    noise : str
        Party that adds the noise.
    n_shares : int or None
        Number of shares that make up the whole noise.
    masked : tuple of str or None
        Clients that mask their parts.
    feature_names : tuple of str or None
        Names of the features.
    digest : bytes
        16 bytes that identify all parameters of the task.
    n_steps : int
        Number of requests: one per sum, and one more that ends a session.

    Raises
    ------
    TypeError
        If the model does not use sums over users.
    ValueError
        If a parameter is invalid, or has no effect here.

    See Also
    --------
    GroupClient : A client with a group of users.
    GroupRounds : The server, which returns the public model.

    Notes
    -----
    **Formal guarantee.** The guarantee is per user under the model's `neighbors`, for
    any data, if a user's rows are at one client. A user with rows at k clients has k
    times the cost ``mu``.

    ``noise="server"``
        (`epsilon`, `delta`) for everything that the server sends, against everybody but
        the server, which sees the exact sum of each group.
    ``noise="distributed"``
        Each client adds noise of variance :math:`s^2 / n`, with `n` = `n_shares` and
        the noise variance :math:`s^2` of a server. Masks leave one sum over clients per
        request to see. The guarantee (`epsilon`, `delta`) holds against a party to whom
        at least `n` of the shares in it are unknown. With `h` unknown shares, the cost
        is :math:`\mu \sqrt{n / h}`. Colluding clients reduce `h` (:meth:`cost`,
        :ref:`lemma-noise-shares`).
    ``noise="node"``
        (`epsilon`, `delta`) for everything that a client sends, against the server and
        all other clients. With m clients, the noise of a sum is :math:`\sqrt m` times
        as large.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.federation import GroupTask
    >>> nodes = [f"node {i}" for i in range(10)]
    >>> how = {"noise": "distributed", "n_shares": 10, "masked": nodes}
    >>> task = GroupTask(LRSRegressor(), 20, **how)
    >>> round(task.cost(10)[0], 3), round(task.cost(8)[0], 3), round(task.cost(1)[0], 3)
    (1.0, 1.128, 3.525)
    """

    _word, _known = "model", ("LRSRegressor", "DPMatrixFactorization")
    _own, _version = ("accountant", "noise_seed", "n_jobs", "verbose"), 4

    def __init__(
        self,
        model,
        n_features=None,
        *,
        noise="server",
        n_shares=None,
        masked=None,
        feature_names=None,
    ):
        if not hasattr(model, "_billboard"):
            raise TypeError(
                f"{type(model).__name__} does not release sums over users: model must "
                "be an LRSRegressor or a DPMatrixFactorization"
            )
        if not isinstance(noise, str) or noise not in NOISE:
            raise ValueError(f"noise must be one of {NOISE}, got {noise!r}")
        if {noise == "distributed"} != {n_shares is not None, masked is not None}:
            raise ValueError(
                'n_shares and masked are required with noise="distributed", and are '
                "not used otherwise"
            )
        self.noise, self.n_shares, self.masked = noise, None, None
        if noise == "distributed":
            self.n_shares = check_count("n_shares", n_shares)
            self.masked = self._checked_names(masked)
        self._model = clone(model).set_params(accountant=None, noise_seed=None)
        if isinstance(n_features, Integral) and n_features > _MOST_FEATURES:
            raise ValueError(f"n_features must be at most {_MOST_FEATURES}")
        self._board: Billboard = self._model._billboard(n_features)
        if feature_names is not None and n_features is None:
            raise ValueError(
                "feature_names must be None for a recommender: its columns are "
                "user_feature and item_feature"
            )
        self.feature_names = check_feature_names(feature_names, n_features)
        self.plan = self._planned()
        self._sums = [m for m in self.plan.mechanisms if isinstance(m, Gaussian)]
        if any(math.prod(planned.shape) > _MOST_NUMBERS for planned in self._sums):
            raise ValueError(
                f"a sum of the task has more than {_MOST_NUMBERS} numbers: use fewer "
                "features, components or items"
            )
        given = zip([None, *self._sums], [*self._sums, None], strict=True)
        self.queries = tuple(SumQuery(*pair, masked is not None) for pair in given)
        public = ("noise", "n_shares", "masked", "feature_names")
        more = {name: getattr(self, name) for name in public}
        self._agree(self._model, n_features=n_features, **more)

    def _checked_names(self, masked) -> tuple[str, ...]:
        """Return sorted names of the clients that mask their parts."""
        if isinstance(masked, str):
            raise ValueError("masked must be a sequence of names, got one string")
        names = tuple(sorted(check_name(name) for name in masked))
        if len(set(names)) < max(len(names), 2):
            raise ValueError("masked must contain at least two names, all different")
        if not self.n_shares <= len(names) <= MOST_SHARES:
            raise ValueError(
                f"masked must contain n_shares={self.n_shares} to {MOST_SHARES} names"
            )
        return names

    def _planned(self) -> PrivacyPlan:
        plan = self._model._plan(self._board.statistic)
        if self.noise == "distributed":
            names = [field.name for field in fields(Gaussian) if field.init]
            given = [{n: getattr(m, n) for n in names} for m in plan.mechanisms]
            shared = (SharedGaussian(**own, n_shares=self.n_shares) for own in given)
            plan = replace(plan, mechanisms=tuple(shared))
        return replace(plan, remarks=(*self._trusted(plan), *plan.remarks))

    def _trusted(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return sentences on the trust model."""
        if self.noise == "server":
            return SERVER_NOISE, Remark(_ONCE, Concern.TRUST)
        if self.noise == "node":
            once = _ONCE.replace("k times", "sqrt(k) times")
            return NODE_NOISE, Remark(once, Concern.TRUST)
        n, n_clients = self.n_shares or 1, len(self.masked or ())
        single = plan.mu * math.sqrt(n)
        shares = (
            f"Every node adds one of {n} shares of the noise. The guarantee is against "
            f"parties that see only sums over nodes, each with {n} or more shares that "
            "are unknown to them."
        )
        return (
            Remark(shares, Concern.TRUST),
            f"If only h shares are unknown, mu is sqrt({n} / h) times as large; for "
            f"parties that see the messages of single nodes it is {single:.6g}, "
            f"epsilon {gaussian_epsilon(single, plan.delta):.4g}.",
            "What a node sends is masked by keys that it shares with each of the "
            f"{n_clients} nodes: to a server, and nodes that collude with it, it "
            "reveals the sum over all other nodes and nothing else, as long as the "
            "stream cipher ChaCha20 is not broken.",
            Remark(_ONCE, Concern.TRUST),
        )

    def cost(self, n_unknown: int) -> tuple[float, float]:
        """Return the guarantee against a party that does not know some noise shares.

        Parameters
        ----------
        n_unknown : int
            Number of answering clients that do not collude, at least 1, including the
            user's own client. Use 1 for a party that sees messages of single clients.

        Returns
        -------
        epsilon, delta : float
            The guarantee for one user. From `n_shares` on it is the plan's own
            guarantee, although additional shares would improve it.
        """
        if self.n_shares is None:
            raise ValueError('cost requires noise="distributed"')
        unknown = check_count("n_unknown", n_unknown)
        mu = self.plan.mu * math.sqrt(self.n_shares / unknown)
        return gaussian_epsilon(mu, self.plan.delta), self.plan.delta

    @property
    def n_sums(self) -> int:
        """Number of released sums; one more request ends a session."""
        return len(self._sums)

    def unit(self, step: int) -> float:
        """Unit 2**k of a sum, which is sent as an integer multiple of this unit."""
        grid = self._sums[step].grid
        return min(grid, _FINEST) if self.noise == "server" else grid


_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def masked(
    values: np.ndarray, name: str, pair_keys: Mapping[str, bytes], label: bytes
) -> np.ndarray:
    """Return words (uint64) with masks that cancel in the sum over all clients."""
    # Numbers are of modulus at most 2**52; `label` must be unique to the sum.
    words = values.astype(np.int64).astype(np.uint64)
    for other, key in pair_keys.items():
        mask = pair_mask(key, label, len(words))
        words = words + mask if name < other else words - mask
    return words


def to_halves(words: np.ndarray) -> np.ndarray:
    """Return words as numbers that float64 holds: low halves, then high ones."""
    return np.concatenate([words & _LOW, words >> _HALF]).astype(np.float64)


def from_halves(halves: np.ndarray) -> np.ndarray:
    """Return the words of :func:`to_halves`."""
    low, high = np.split(halves.astype(np.uint64), 2)
    return low | (high << _HALF)


def are_halves(halves: np.ndarray) -> bool:
    """Whether numbers are those of words."""
    return bool(np.all((halves >= 0) & (halves < 2.0**32) & (halves % 1 == 0)))


class GroupRounds(Session):
    """All requests of a group task in sequence, and the resulting public model.

    The transport runs the loop, as with :class:`Rounds`: until :attr:`done`, it sends
    :meth:`request` to :attr:`clients` and passes the answers to :meth:`collect`. A
    client that fails or sends an impossible answer is rejected by name for the rest of
    the session. Its earlier contributions remain.

    Parameters
    ----------
    clients : sequence of str
        Distinct names of the clients, at most 1024.
    task : GroupTask
        Task of the session that all parties agreed on.
    min_clients : int or None, default=None
        Minimum number of remaining clients. None uses 1, and the number of all clients
        with ``noise="distributed"``, where it cannot be less: masks would not cancel.
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
        clients: Sequence[str],
        task: GroupTask,
        *,
        min_clients=None,
        noise_seed=None,
    ):
        if not isinstance(task, GroupTask):
            raise TypeError("task must be a GroupTask")
        if isinstance(clients, Mapping):
            raise TypeError(
                "clients must be a list of names: all have the budget of the task"
            )
        if len(clients) > MOST_SHARES:
            raise ValueError(f"at most {MOST_SHARES} clients are supported")
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
        self._open(clients, task, min_clients)
        # Nobody is told how many users or rows a client has.
        self.parties = {name: Party(0, task.plan) for name in clients}
        self.plan = replace(task.plan, seeded=noise_seed is not None)
        trusted = task.noise == "server"
        self._release = Release(self.plan, None, noise_seed) if trusted else None
        self._released: list[Released] = []

    def last_release(self) -> np.ndarray:
        """Return the column that tells clients of the last release and its noise."""
        total, noise_std = self._released[-1]
        return np.append(total.ravel(), noise_std)[:, None]

    def release_next(self, replies: list[Reply]) -> None:
        """Release a sum; if clients have added the noise, it is released already."""
        task, step = self.task, self._step
        mechanism = task.plan.mechanisms[step]
        noise_std, parts = mechanism.noise_std, [reply.values for reply in replies]
        if self._release is None:
            noise_std *= math.sqrt(len(parts) / (task.n_shares or 1))
        words = map(from_halves, parts) if task.masked else parts
        # The sum of words is that of numbers: masks are gone.
        total: Any = sum(part.astype(np.int64) for part in words)
        values = total * task.unit(step)
        # Clipped to the bound of all users' sum: a client that lies cannot exceed it.
        most = mechanism.magnitude
        values = np.clip(np.reshape(values, mechanism.shape), -most, most)
        if self._release is not None:
            values = self._release(mechanism.name, values, overwrite=True)
        self._released.append(Released(values, noise_std))

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
        task = self.task
        if len(self._released) < task.n_sums:
            raise MessageError("the task is not done: there is no result yet")
        model = clone(task._model)
        found = task._board.follow(task.plan, NO_USERS, self._released)
        model._finish(task._board, found, self.plan)
        names = task.feature_names
        if names is not None and len(names) == model.n_features_in_:
            model.feature_names_in_ = np.array(names, dtype=object)
        return model


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
        self.plan = replace(task.plan, seeded=noise_seed is not None)
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
        task = self.task
        name, value = task._board.follow(task.plan, self._rows.again(), self._released)
        if name != task._sums[step].name:
            raise RuntimeError("the releases are in a different order from the plan")
        if self._release is not None:
            value = self._release(name, value, overwrite=True)
        # A division by a power of two is exact; -0.0 would be another byte.
        values = np.rint(value.ravel() / task.unit(step)) + 0.0
        if task.masked is None:
            return values
        label = b"".join((self._session, task.digest, step.to_bytes(4, "little")))
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
