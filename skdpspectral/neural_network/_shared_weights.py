"""Training of users' networks and of the weights that they share, private or exact.

A user's network is trained from that user's rows and the shared weights alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._release.noise import public_order
from .._statistics.statistic import Statistic
from .._statistics.user_sums import planned_sum, released_sum
from ..mechanisms import Concern, Exact, Gaussian, Mechanism, Neighbors, Remark
from . import _kernels
from ._adam import Adam, AdamState
from ._kernels import Layout, NetworkWeights

# When users choose anew which weights are theirs: shares of all steps.
_CHOICES = (0.2, 0.4, 0.6)


def new_adam(learning_rate: float, moments: str = "pp", std: float = 0.0) -> AdamState:
    """Return Adam for gradients with independent noise of a public deviation."""
    adam = Adam(learning_rate, moments=moments)
    return AdamState(adam, (std, 0.0))


def rate_of(position: int, n_steps: int) -> float:
    """Return the factor of a step's length; it starts at 1."""
    return 0.5 * (1.0 + math.cos(math.pi * position / n_steps))


@dataclass(frozen=True)
class UserRules:
    """Public numbers of the users' training.

    `layout`: of a network, the users' own features among its inputs.
    `start` (n_parameters, 1 + rank): first weights: of users who share none, and shared
    ones.
    `prior` (rank,): start of w, to which w is shrunk; with `fixed`, w itself.
    `sparsity`: number k of the user's own weights; `n_parameters` for all.
    `ridge_shared`, `ridge_sparse`, `ridge_level`: penalties, in rows, of w and prompts,
    of b, and of levels; None for no level.
    `batch_size`: rows of a step; None for all.
    `n_own_steps`: steps of a user beside the final shared weights.
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
    batch_size: int | None
    n_own_steps: int

    @property
    def rank(self) -> int:
        """Number of shared vectors of weights."""
        return len(self.prior)

    @property
    def free(self) -> bool:
        """Whether all weights belong to the user."""
        return self.sparsity == self.layout.n_parameters

    @property
    def first_U(self) -> np.ndarray:
        """First shared weights: (n_parameters, rank)."""
        return self.start[:, 1:]

    def first_networks(self, n_users: int) -> NetworkWeights:
        k = self.sparsity if self.free else 0
        first = np.zeros(k) if self.rank else self.start[:k, 0]
        return NetworkWeights(
            np.tile(self.prior, (n_users, 1)),
            np.zeros((n_users, self.prompt_size)),
            np.tile(np.arange(k), (n_users, 1)),
            np.tile(first, (n_users, 1)),
        )

    def batch(self, height: int, position: int) -> np.ndarray | None:
        """Return the rows of a step, by public numbers; None for all."""
        size = self.batch_size
        if size is None or size >= height:
            return None
        start = size * (position % math.ceil(height / size))
        return public_order(height)[start : start + size]

    def chooses(self, position: int, n_steps: int) -> bool:
        """Return whether users update their supports before a step."""
        if self.free or not self.sparsity:
            return False
        return position in {int(share * n_steps) for share in _CHOICES}


class _Part:
    """Users whose networks are trained together."""

    def __init__(self, rules: UserRules, n_users: int) -> None:
        self.users = rules.first_networks(n_users)
        self.adams = [new_adam(rules.learning_rate) for _ in range(2)]


class UserFits:
    """Networks of all users in training, for `n_steps` steps of each user."""

    def __init__(self, rules: UserRules, n_steps: int) -> None:
        self.rules, self.n_steps = rules, n_steps
        self._parts: dict[int, _Part] = {}

    def parts(self, block) -> list[tuple[_Part, slice]]:
        """Return the users of a block in parts, and the slice of each part."""
        found = []
        for place in _kernels.in_parts(block, self.rules.layout):
            codes = block.users[place]
            key = int(codes[0])
            if key not in self._parts:
                self._parts[key] = _Part(self.rules, len(codes))
            found.append((self._parts[key], place))
        return found

    def steps(self, block, U: np.ndarray, position: int, n_steps: int):
        """Train the users of a block for `n_steps` steps after `position`.

        Yields, per part of the users, gradients of mean losses by all weights, (n_some,
        n_parameters), and w, both before the last step, and counts of rows.
        """
        for part, place in self.parts(block):
            rows, _ = _kernels.rows_of(block, place, self.rules.ridge_level)
            for number in range(position, position + n_steps):
                given = self._step(part, rows, U, number)
            yield *given, rows.counts

    def _step(self, part: _Part, rows, U, position: int):
        """Make one step of some users; return gradients and weights before it."""
        rules, users = self.rules, part.users
        whole = _kernels.whole_weights(U, users)
        if rules.chooses(position, self.n_steps):
            users = _kernels.chosen_support(
                rules.layout, whole, users, rows, rules.sparsity, rules.ridge_sparse
            )
            part.adams[1] = new_adam(rules.learning_rate)  # places of b have changed
            whole = _kernels.whole_weights(U, users)
        batch = rules.batch(rows.X.shape[1], position)
        seen = rows if batch is None else rows.some(batch)
        found = _kernels.user_gradients(rules.layout, whole, users.prompts, seen)
        rate = rate_of(position, self.n_steps)
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
            of_weights = _kernels.project_gradients(found.whole, U)
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

    def collected(self, rows) -> tuple[NetworkWeights, np.ndarray]:
        """Return the parameters of all users, and their levels."""
        rules, n = self.rules, rows.n_users
        k = rules.sparsity
        users = NetworkWeights(
            np.tile(rules.prior, (n, 1)),
            np.zeros((n, rules.prompt_size)),
            np.zeros((n, k), dtype=np.intp),
            np.zeros((n, k)),
        )
        levels = np.zeros(n)

        for block in rows.blocks():
            for own, place in self.parts(block):
                codes = block.users[place]
                for everybody, some in zip(users, own.users, strict=True):
                    everybody[codes, : some.shape[1]] = some
                found = _kernels.rows_of(block, place, rules.ridge_level)
                levels[codes] = found[1]
        return users, levels


def train_users(rows, U: np.ndarray, rules: UserRules, n_jobs=None) -> tuple:
    """Train every user with fixed shared weights, from that user's rows alone.

    Returns the parameters of all users, and their levels, (n_users,).
    """
    fits = UserFits(rules, rules.n_own_steps)

    def part(block):
        for _ in fits.steps(block, U, 0, rules.n_own_steps):
            pass

    rows.map(part, n_jobs)
    return fits.collected(rows)


# What a reader of the guarantee must know of networks that rest on these weights.
NETWORK_BILLBOARD = Remark(
    "Weights, own features, sparse parts and intercepts stay with their users: "
    "predictions for a user in the training data are for that user only (billboard "
    "model).",
    Concern.TRUST,
)

TOO_LARGE = (
    "X or y contains numbers whose squares are out of the range of float64: choose "
    "other units"
)


@dataclass(frozen=True)
class SharedWeights:
    """Shared weights, and the network of users without one of their own.

    `U` has shape (n_parameters, rank); `weights` and `prompt` are those of the shared
    network. Without privacy, `users` and `levels` are the parameters of all users.
    """

    U: np.ndarray
    weights: np.ndarray
    prompt: np.ndarray
    n_iter: int
    users: NetworkWeights | None = None
    levels: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class _SharedTraining(Statistic):
    """Public numbers of the steps of shared weights."""

    rules: UserRules
    n_rounds: int
    n_local_steps: int
    learning_rate: float
    neighbors: Neighbors
    n_jobs: int | None = None

    def remarks(self) -> tuple[str, ...]:
        return (NETWORK_BILLBOARD,)

    def begin(self) -> tuple[UserFits, np.ndarray]:
        """Return the networks of all users, and the first shared weights."""
        fits = UserFits(self.rules, self.n_rounds * self.n_local_steps)
        return fits, self.rules.first_U

    def trained(self, fits: UserFits, block, U: np.ndarray, number: int):
        """Train the users of a block in round `number`, counted from 0."""
        n_steps = self.n_local_steps
        return fits.steps(block, U, number * n_steps, n_steps)

    def moved(self, U: np.ndarray, adam, gradient: np.ndarray, number: int):
        """Return shared weights after round `number`, counted from 0."""
        return U + rate_of(number, self.n_rounds) * adam.push(gradient, None)


@dataclass(frozen=True, kw_only=True)
class GradientRounds(_SharedTraining):
    """Rounds in which users train at U, and their clipped gradients by U are summed."""

    clip_norm: float

    @property
    def names(self) -> tuple[str, ...]:
        """One release a round; none where nothing is shared."""
        n_rounds = self.n_rounds if self.rules.rank else 0
        return tuple(f"gradients_{number}" for number in range(1, n_rounds + 1))

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one round: a sum over users of one vector of norm at most 1."""
        width = self.rules.layout.n_parameters * self.rules.rank
        return planned_sum(name, width, self.neighbors, mu)

    def run(self, release, rows, progress: Any) -> SharedWeights:
        """Release all rounds, starting from public weights.

        Users answer from their own rows and earlier releases alone. Nothing else
        depends on more than one user, and the result consists of releases and public
        numbers.
        """
        (fits, U), adam = self.begin(), None
        for number, name in enumerate(self.names):
            total = self._released(release, name, rows, fits, U, number)
            if adam is None:
                std = release.plan[name].noise_std
                adam = new_adam(self.learning_rate, "pp-debiased", std)
            gradient = total.reshape(U.shape[::-1]).T
            U = self.moved(U, adam, gradient, number)
            progress.step(number + 1)
        prompt = np.zeros(self.rules.prompt_size)
        n_iter = max(len(self.names), 1)
        return SharedWeights(U, self.rules.prior, prompt, n_iter)

    def _released(self, release, name, rows, fits: UserFits, U, number: int):
        """Release the sum of the users' clipped gradients, in units of the clip."""

        def contributions(block, rows):
            for gradients, weights, _ in self.trained(fits, block, U, number):
                outer = weights[:, :, None] * (gradients / self.clip_norm)[:, None]
                yield outer.reshape(len(outer), -1)

        return released_sum(release, name, rows, contributions, self.n_jobs)


@dataclass(frozen=True, kw_only=True)
class ExactWeights(_SharedTraining):
    """Shared weights and all users' networks, trained together without noise."""

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        shape = (self.rules.rank, self.rules.layout.n_parameters)
        return (Exact("components", shape),)

    def run(self, release, rows, progress: Any) -> SharedWeights:
        """Train U and all users, weighting rows equally, and release U.

        `progress` may stop the training. Raises ValueError on overflow.
        """
        fits, U = self.begin()
        adam = new_adam(self.learning_rate)
        number = 0
        for number in range(1, self.n_rounds + 1):
            gradient = self._gradient(rows, fits, U, number - 1)
            if self.rules.rank:
                U = self.moved(U, adam, gradient, number - 1)
            if progress.step(number):
                break
        users, levels = fits.collected(rows)
        if not all(np.isfinite(part).all() for part in (U, *users, levels)):
            raise ValueError(TOO_LARGE)
        release("components", np.ascontiguousarray(U.T))
        return SharedWeights(
            U, users.weights.mean(axis=0), users.prompts.mean(axis=0), number,
            users, levels,
        )  # fmt: skip

    def _gradient(self, rows, fits: UserFits, U, number: int) -> np.ndarray:
        def part(block):
            total = np.zeros(U.shape)
            for gradients, weights, counts in self.trained(fits, block, U, number):
                total += gradients.T @ (counts[:, None] * weights)
            return total

        return sum(rows.map(part, self.n_jobs)) / max(int(rows.counts.sum()), 1)
