"""The task of groups of users: its sums, trust model, digest, and masks of parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from .._messages import MessageError, Query, check_name
from .._release.noise import pair_mask
from .._statistics.user_sums import NO_USERS, Billboard, Sum
from .._tables.columns import check_feature_names
from ..accounting import gaussian_epsilon
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


def _on_trust(text: str) -> Remark:
    return Remark(text, Concern.TRUST)


NOISE = ("server", "distributed", "node")
# Answers are multiples of this or of the grid, whichever is finer: exact in both.
_FINEST = 2.0**-21
# Limits of a stated noise scale, relative to the plan's, and of a released sum, in
# standard deviations beyond what users can have.
_MOST_NOISE, _DEVIATIONS = 1e9, 40.0
# Sums of whole numbers below 2**52 over this many groups are exact in 64 bits.
MOST_GROUPS = MOST_SHARES
# Features of a task, and numbers of one of its sums, which a client has to hold.
_MOST_FEATURES, _MOST_NUMBERS = 2**20, 2**28
# Parts of a sum are below this in modulus: whole numbers that float64 holds, of which
# 1024 add up in 64 bits.
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
        as large. Clients may have their own budgets.

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
        self.plan = self._planned(self._model)
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
        if not self.n_shares <= len(names) <= MOST_GROUPS:
            raise ValueError(
                f"masked must contain n_shares={self.n_shares} to {MOST_GROUPS} names"
            )
        return names

    def plan_of(self, epsilon=None, delta=None) -> PrivacyPlan:
        """Return the plan of a client with its own budget, for ``noise="node"``.

        Parameters
        ----------
        epsilon, delta : float or None, default=None
            Budget of the client. None uses the budget of the task.

        Returns
        -------
        PrivacyPlan
            Plan that depends only on public numbers.

        Raises
        ------
        ValueError
            If a budget is invalid, or is given although all clients share one noise.
        """
        if epsilon is None and delta is None:
            return self.plan
        if self.noise != "node":
            raise ValueError(
                'a client can have its own budget only with noise="node": otherwise '
                "all nodes share one noise and the budget of the task"
            )
        own = {"epsilon": epsilon, "delta": delta}
        own = {name: value for name, value in own.items() if value is not None}
        model = clone(self._model).set_params(**own)
        model._check_parameters()
        return self._planned(model)

    def _planned(self, model) -> PrivacyPlan:
        plan = model._plan(self._board.statistic)
        if self.noise == "distributed":
            shared = tuple(self._share(mechanism) for mechanism in plan.mechanisms)
            plan = replace(plan, mechanisms=shared)
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

    def _share(self, mechanism: Gaussian) -> SharedGaussian:
        given = {f.name: getattr(mechanism, f.name) for f in fields(Gaussian) if f.init}
        return SharedGaussian(**given, n_shares=self.n_shares)

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

    def unit(self, step: int, plan: PrivacyPlan | None = None) -> float:
        """Unit 2**k of a sum, which is sent as an integer multiple of this unit."""
        planned: Any = (self.plan if plan is None else plan).mechanisms[step]
        grid = planned.grid
        return min(grid, _FINEST) if self.noise == "server" else grid

    def next_sum(self, rows, released, plan: PrivacyPlan) -> Sum:
        """Return the next sum of these rows, on the grids of a client's plan.

        A coarser grid, of another budget, would exceed the plan's sensitivity.
        """
        asked = self._board.follow(plan, rows, released)
        if asked.name != self._sums[len(released)].name:
            raise RuntimeError("the releases are in a different order from the plan")
        return asked

    def public_model(self, plan: PrivacyPlan, released):
        """Return a model from the releases, without the users' own parameters."""
        found = self._board.follow(self.plan, NO_USERS, released)
        model = clone(self._model)
        model._finish(self._board, found, plan)
        names = self.feature_names
        if names is not None and len(names) == model.n_features_in_:
            model.feature_names_in_ = np.array(names, dtype=object)
        return model


_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def masked(
    values: np.ndarray, name: str, pair_keys: Mapping[str, bytes], label: bytes
) -> np.ndarray:
    """Return masked words (uint64) of whole numbers of modulus at most 2**52.

    Masks cancel in the sum over all clients; `label` must be unique to the sum.
    """
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
