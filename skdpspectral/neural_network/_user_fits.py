"""Training of users' networks beside shared weights: each from the user's own rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._linalg import user_networks as networks
from .._linalg.neural_network import Layout
from .._linalg.user_networks import UserNetworks
from .._release.public import public_order
from ..covariance.factorizations import Factorization
from ._adam_state import AdamState

_BETAS = (0.9, 0.999)
_STABILITY = 1e-8
# When users choose anew which weights are theirs: shares of all steps.
_CHOICES = (0.2, 0.4, 0.6)


def new_adam(learning_rate: float, moments: str = "pp", std: float = 0.0) -> AdamState:
    """Return Adam for gradients with independent noise of a public deviation."""
    return AdamState(
        moments,
        (std, 0.0),
        learning_rate=learning_rate,
        beta_1=_BETAS[0],
        beta_2=_BETAS[1],
        adam_stability=_STABILITY,
        factorizations=(Factorization(), Factorization()),
    )


def rate_of(schedule: str, position: int, n_steps: int) -> float:
    """Return the factor of a step's length, from 1 on."""
    if schedule == "constant":
        return 1.0
    return 0.5 * (1.0 + math.cos(math.pi * position / n_steps))


@dataclass(frozen=True)
class UserRules:
    """What is public of the users' training.

    Parameters
    ----------
    layout : Layout
        Of a network, the users' own features among its inputs.
    start : ndarray of shape (n_parameters, 1 + rank)
        Where training begins: weights of users who share none, and shared ones.
    prior : ndarray of shape (rank,)
        What w begins at and is shrunk to; with `fixed`, what it is.
    fixed : bool
        Whether w is not trained.
    sparsity : int
        Number k of the user's own weights; all if it is that of all.
    prompt_size : int
        Number of the user's own features.
    ridge_shared, ridge_sparse : float
        Penalties of w (and of the user's features) and of b, in rows.
    ridge_level : float or None
        Penalty of the user's level, in rows; None for no level.
    learning_rate : float
        Length of the users' steps.
    schedule : str
        How it falls.
    batch_size : int or None
        Rows of a step; None for all.
    n_own_steps : int
        Steps of a user beside the final shared weights.
    """

    layout: Layout
    start: np.ndarray
    prior: np.ndarray
    fixed: bool
    sparsity: int
    prompt_size: int
    ridge_shared: float
    ridge_sparse: float
    ridge_level: float | None
    learning_rate: float
    schedule: str
    batch_size: int | None
    n_own_steps: int

    @property
    def rank(self) -> int:
        """Number of shared vectors of weights."""
        return len(self.prior)

    @property
    def free(self) -> bool:
        """Whether all weights are the user's own too."""
        return self.sparsity == self.layout.n_parameters

    @property
    def first_U(self) -> np.ndarray:
        """Where the shared weights begin: (n_parameters, rank)."""
        return self.start[:, 1:]

    def first_networks(self, n_users: int) -> UserNetworks:
        """Return where users begin."""
        k = self.sparsity if self.free else 0
        first = np.zeros(k) if self.rank else self.start[:k, 0]
        return UserNetworks(
            np.tile(self.prior, (n_users, 1)),
            np.zeros((n_users, self.prompt_size)),
            np.tile(np.arange(k), (n_users, 1)),
            np.tile(first, (n_users, 1)),
        )

    def batch(self, height: int, position: int) -> np.ndarray | None:
        """Return places of the rows of a step, by public numbers; None for all."""
        size = self.batch_size
        if size is None or size >= height:
            return None
        start = size * (position % math.ceil(height / size))
        return public_order(height)[start : start + size]

    def chooses(self, position: int, n_steps: int) -> bool:
        """Whether users choose before a step which weights are theirs."""
        if self.free or not self.sparsity:
            return False
        return position in {int(share * n_steps) for share in _CHOICES}


class _Part:
    """Users whose networks are trained together."""

    def __init__(self, rules: UserRules, n_users: int) -> None:
        self.users = rules.first_networks(n_users)
        self.adams = [new_adam(rules.learning_rate) for _ in range(2)]

    def forget_sparse(self, rules: UserRules) -> None:
        """Begin anew with moments of b, whose places have changed."""
        self.adams[1] = new_adam(rules.learning_rate)


class UserFits:
    """Networks of all users in training, a public number of steps.

    Parameters
    ----------
    rules : UserRules
        What is public.
    n_steps : int
        Steps of each user, of which the schedule and the choices of weights are parts.
    """

    def __init__(self, rules: UserRules, n_steps: int) -> None:
        self.rules, self.n_steps = rules, n_steps
        self._parts: dict[int, _Part] = {}

    def parts(self, block) -> list[tuple[_Part, slice]]:
        """Return the users of a block, a few at a time, and where they stand."""
        found = []
        for place in networks.in_parts(block, self.rules.layout):
            codes = block.users[place]
            key = int(codes[0])
            if key not in self._parts:
                self._parts[key] = _Part(self.rules, len(codes))
            found.append((self._parts[key], place))
        return found

    def steps(self, block, U: np.ndarray, position: int, n_steps: int):
        """Train the users of a block for some steps.

        Parameters
        ----------
        block : Block
            Rows and targets.
        U : ndarray of shape (n_parameters, rank)
            Shared weights.
        position : int
            Steps before.
        n_steps : int
            Steps to make.

        Yields
        ------
        gradients : ndarray of shape (n_some, n_parameters)
            Of each user's mean loss by all weights, before the last of these steps.
        weights : ndarray of shape (n_some, rank)
            w before it.
        counts : ndarray of shape (n_some,)
            Rows of each user.
        """
        for part, place in self.parts(block):
            rows, _ = networks.rows_of(block, place, self.rules.ridge_level)
            for number in range(position, position + n_steps):
                given = self._step(part, rows, U, number)
            yield *given, rows.counts

    def _step(self, part: _Part, rows, U, position: int):
        """Make one step of some users; return gradients and weights before it."""
        rules, users = self.rules, part.users
        whole = networks.whole_weights(U, users)
        if rules.chooses(position, self.n_steps):
            users = networks.chosen_support(
                rules.layout, whole, users, rows, rules.sparsity, rules.ridge_sparse
            )
            part.forget_sparse(rules)
            whole = networks.whole_weights(U, users)
        batch = rules.batch(rows.X.shape[1], position)
        seen = rows if batch is None else rows.some(batch)
        found = networks.gradients(rules.layout, whole, users.prompts, seen)
        rate = rate_of(rules.schedule, position, self.n_steps)
        before = users.weights
        part.users = self._moved(part, users, found, rows.counts, U, rate)
        return found.whole, before

    def _moved(self, part: _Part, users, found, counts, U, rate: float):
        """Return the users' parameters after a step of Adam."""
        rules, shares = self.rules, 1.0 / counts[:, None]
        rank = users.weights.shape[1]
        of_weights = np.zeros_like(users.weights)
        if not rules.fixed:
            penalty = rules.ridge_shared * shares
            of_weights = networks.along(found.whole, U)
            of_weights += penalty * (users.weights - rules.prior)
        of_prompts = found.prompts + rules.ridge_shared * shares * users.prompts
        step = part.adams[0].push(np.hstack([of_weights, of_prompts]), None)
        each = np.arange(len(counts))[:, None]
        sparse = users.sparse
        if sparse.shape[1]:
            of_sparse = found.whole[each, users.support]
            of_sparse = of_sparse + rules.ridge_sparse * shares * sparse
            sparse = sparse + rate * part.adams[1].push(of_sparse, None)
        return users._replace(
            weights=users.weights + rate * step[:, :rank],
            prompts=users.prompts + rate * step[:, rank:],
            sparse=sparse,
        )

    def collected(self, rows) -> tuple[UserNetworks, np.ndarray]:
        """Return the parameters of all users, and their levels.

        Parameters
        ----------
        rows : UserRows
            The users' rows.
        """
        rules, n = self.rules, rows.n_users
        k = rules.sparsity
        users = UserNetworks(
            np.tile(rules.prior, (n, 1)),
            np.zeros((n, rules.prompt_size)),
            np.zeros((n, k), dtype=np.intp),
            np.zeros((n, k)),
        )
        levels = np.zeros(n)

        def part(block):
            for own, place in self.parts(block):
                codes = block.users[place]
                for everybody, some in zip(users, own.users, strict=True):
                    everybody[codes, : some.shape[1]] = some
                levels[codes] = networks.rows_of(block, place, rules.ridge_level)[1]

        for block in rows.blocks():
            part(block)
        return users, levels


def fit_users(rows, U: np.ndarray, rules: UserRules, n_jobs=None) -> tuple:
    """Train every user beside given shared weights, from that user's rows alone.

    Parameters
    ----------
    rows : UserRows
        The users' rows.
    U : ndarray of shape (n_parameters, rank)
        Shared weights.
    rules : UserRules
        What is public.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    UserNetworks, ndarray of shape (n_users,)
        Parameters and levels of all users.
    """
    fits = UserFits(rules, rules.n_own_steps)

    def part(block):
        for _ in fits.steps(block, U, 0, rules.n_own_steps):
            pass

    rows.map(part, n_jobs)
    return fits.collected(rows)
