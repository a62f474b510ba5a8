"""Weights that many users' networks share: with a budget, and without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._linalg.user_networks import UserNetworks
from .._statistics.combination import Statistic
from .._statistics.rounds import Rounds
from .._statistics.user_sums import planned_sum, released_sum
from ..mechanisms import Exact, Gaussian, Mechanism, Neighbors
from ._user_fits import UserFits, UserRules, new_adam, rate_of

# What a reader of the guarantee must know of networks that rest on these weights.
BILLBOARD = (
    "Weights, own features, sparse parts and levels stay with their users: what is "
    "predicted for a user of the fit is for that user alone (billboard model)."
)

TOO_LARGE = "X or y holds numbers with squares beyond float64: choose other units"


@dataclass(frozen=True)
class SharedWeights:
    """Shared weights, and the network of who has no other.

    Parameters
    ----------
    U : ndarray of shape (n_parameters, rank)
        Shared weights.
    weights : ndarray of shape (rank,)
        What they are combined by.
    prompt : ndarray of shape (prompt_size,)
        Features beside those of rows.
    n_iter : int
        Rounds.
    users : UserNetworks or None, default=None
        Parameters of all users, where nothing is private.
    levels : ndarray of shape (n_users,) or None, default=None
        Their levels.
    """

    U: np.ndarray
    weights: np.ndarray
    prompt: np.ndarray
    n_iter: int
    users: UserNetworks | None = None
    levels: np.ndarray | None = None


@dataclass(frozen=True)
class SharedSteps:
    """How shared weights are moved, all of it public.

    Parameters
    ----------
    n_rounds : int
        Steps of the shared weights.
    n_local_steps : int
        Steps of the users in each round.
    learning_rate : float
        Length of a step.
    weight_decay : float
        Share of the weights that a step of full length takes off, over its length.
    schedule : str
        How the length falls.
    """

    n_rounds: int
    n_local_steps: int
    learning_rate: float
    weight_decay: float
    schedule: str

    @property
    def n_user_steps(self) -> int:
        """Steps of each user in all rounds."""
        return self.n_rounds * self.n_local_steps

    def moved(self, U: np.ndarray, adam, gradient: np.ndarray, number: int):
        """Return shared weights after a round, of the next number from 0 on."""
        rate = rate_of(self.schedule, number, self.n_rounds)
        decay = rate * self.learning_rate * self.weight_decay
        return (1.0 - decay) * U + rate * adam.push(gradient, None)


@dataclass(frozen=True)
class GradientRounds(Rounds):
    """Rounds in which users train at U, and their gradients by U are summed.

    Parameters
    ----------
    rules : UserRules
        Of the users' training.
    steps : SharedSteps
        Of the shared weights.
    clip_norm : float
        Norm above which a user's gradient is scaled down.
    neighbors : Neighbors
        Add-remove-one or replace-one, of users.
    n_jobs : int or None, default=None
        Threads.
    """

    rules: UserRules
    steps: SharedSteps
    clip_norm: float
    neighbors: Neighbors
    n_jobs: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """One release a round; none where nothing is shared."""
        n_rounds = self.steps.n_rounds if self.rules.rank else 0
        return tuple(f"gradients_{number}" for number in range(1, n_rounds + 1))

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one round: a sum over users of one vector of norm at most 1."""
        width = self.rules.layout.n_parameters * self.rules.rank
        return planned_sum(name, width, self.neighbors, mu)

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return (BILLBOARD,)

    def run(self, release, rows, progress: Any) -> SharedWeights:
        """Release all rounds, from public weights on.

        Between releases every user answers from their own rows and earlier releases
        alone; nothing else that is computed here depends on more than one user.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : UserRows
            The users' rows.
        progress : FitProgress
            Told of every round.

        Returns
        -------
        SharedWeights
            Of releases and public numbers alone.
        """
        fits, U = UserFits(self.rules, self.steps.n_user_steps), self.rules.first_U
        adam = None
        for number, name in enumerate(self.names):
            total = self._released(release, name, rows, fits, U, number)
            if adam is None:
                std = release.plan[name].noise_std
                adam = new_adam(self.steps.learning_rate, "pp-debiased", std)
            gradient = total.reshape(U.shape[::-1]).T
            U = self.steps.moved(U, adam, gradient, number)
            progress.step(number + 1)
        prompt = np.zeros(self.rules.prompt_size)
        n_iter = max(len(self.names), 1)
        return SharedWeights(U, self.rules.prior, prompt, n_iter)

    def _released(self, release, name, rows, fits: UserFits, U, number: int):
        """Release the sum of the users' clipped gradients, in units of the clip."""
        n_steps = self.steps.n_local_steps

        def contributions(block, rows):
            for gradients, weights, _ in fits.steps(
                block, U, number * n_steps, n_steps
            ):
                outer = weights[:, :, None] * (gradients / self.clip_norm)[:, None]
                yield outer.reshape(len(outer), -1)

        return released_sum(release, name, rows, contributions, self.n_jobs)


@dataclass(frozen=True)
class ExactWeights(Statistic):
    """Shared weights and all users' networks, trained together without noise.

    Parameters
    ----------
    rules, steps, neighbors, n_jobs
        As of :class:`GradientRounds`.
    """

    rules: UserRules
    steps: SharedSteps
    neighbors: Neighbors
    n_jobs: int | None = None

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the exact weights, at an infinite cost."""
        shape = (self.rules.rank, self.rules.layout.n_parameters)
        return (Exact("components", shape),)

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return (BILLBOARD,)

    def run(self, release, rows, progress: Any) -> SharedWeights:
        """Train U and all users, each row counting once, and release U.

        Parameters
        ----------
        release, rows, progress
            As of :meth:`GradientRounds.run`; progress may stop the training.

        Returns
        -------
        SharedWeights
            With the users' parameters.

        Raises
        ------
        ValueError
            If numbers were too large.
        """
        fits, U = UserFits(self.rules, self.steps.n_user_steps), self.rules.first_U
        adam = new_adam(self.steps.learning_rate)
        number = 0
        for number in range(1, self.steps.n_rounds + 1):
            gradient = self._gradient(rows, fits, U, number - 1)
            if self.rules.rank:
                U = self.steps.moved(U, adam, gradient, number - 1)
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
        n_steps = self.steps.n_local_steps

        def part(block):
            total = np.zeros(U.shape)
            for gradients, weights, counts in fits.steps(
                block, U, number * n_steps, n_steps
            ):
                total += gradients.T @ (counts[:, None] * weights)
            return total

        return sum(rows.map(part, self.n_jobs)) / max(int(rows.counts.sum()), 1)
