"""Rounds of shared directions: least squares from sums of the users' moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..._linalg import linear_model as lrs
from ...mechanisms import Gaussian
from ..rounds import Rounds
from ..user_sums import planned_sum
from .users import Users


@dataclass(frozen=True)
class MomentRounds(Rounds):
    """Rounds in which users fit themselves at U, and their moments give the next U.

    Parameters
    ----------
    users : Users
        How users answer and are summed.
    n_rounds : int
        Number of rounds.
    n_before : int
        Releases of U before the first round.
    """

    users: Users
    n_rounds: int
    n_before: int

    @property
    def names(self) -> tuple[str, ...]:
        """One release a round."""
        return tuple(f"moments_{number}" for number in range(1, self.n_rounds + 1))

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one round: a sum over users of one vector of norm at most 1."""
        rank, d = self.users.rank, self.users.n_features
        width = lrs.n_curvature(rank, d) + rank * d
        return planned_sum(name, width, self.users.neighbors, mu)

    def run(
        self, release, rows_of: Callable, U, clips, progress: Callable
    ) -> np.ndarray:
        """Release all rounds, from U and in units of `clips`; return the last U.

        ``rows_of(step)`` are the users' rows for a release, and ``progress(step)`` is
        called after each.
        """
        rules = self.users.first_rules
        for step, name in enumerate(self.names, self.n_before + 1):
            total = self._released(release, name, clips, rows_of(step), rules, U)
            U = self._solved(total, release.plan[name].noise_std, clips[0])
            progress(step)
            rules = self.users.rules
        return U

    def _released(self, release, name: str, clips, rows, rules, U) -> np.ndarray:
        """Release the sum of the users' moments, in their own units again."""
        contributions = partial(self._contributions, clips=clips, rules=rules, U=U)
        total = self.users.released_sum(release, name, rows, contributions)
        size = lrs.n_curvature(self.users.rank, self.users.n_features)
        return np.concatenate([total[:size] * clips[0], total[size:] * clips[1]])

    def _contributions(self, block, rows, clips, rules, U):
        """Yield users' moments, in units of the clips."""
        yield from self.users.answers(block, rows, rules, U, clips)

    def _solved(self, total, noise_std: float, clip_curvature: float) -> np.ndarray:
        rank, d = self.users.rank, self.users.n_features
        # The noise of the curvature matrix, in spectral norm: its square has
        # expectation std^2 (r + 1)(d + 1) / 4 times the identity.
        floor = noise_std * clip_curvature * math.sqrt((rank + 1) * (d + 1))
        U = lrs.solve_moments(total, rank, d, floor)
        return U if self.users.rules.fixed else lrs.positive_qr(U)[0]
