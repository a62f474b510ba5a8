"""Sums over users of one answer each, and how they are released."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ... import sensitivity
from ..._linalg.recommendation_answers import STEP
from ..._linalg.recommendation_rows import RatingsBlock, UserRatings
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact, Mechanism, Neighbors
from ..combination import Statistic

# Users that sums are exact for.
MOST_USERS = 2.0**31
# Items that the bound of what a user answers holds for: terms of a sum.
MOST_ITEMS = 2**26 - 1


class Answers(NamedTuple):
    """A released sum.

    Parameters
    ----------
    total : ndarray
        The sum with its noise.
    noise_std : float
        Standard deviation of the noise; 0 without privacy.
    """

    total: np.ndarray
    noise_std: float


@dataclass(frozen=True)
class SumOfAnswers(Statistic):
    """The sum over users of one vector each, of norm at most 1, in whole steps.

    Parameters
    ----------
    name : str
        Of the release.
    shape : tuple of int
        Of the sum.
    n_jobs : int or None
        Threads.
    """

    name: str
    shape: tuple[int, ...]
    n_jobs: int | None = None

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the sum: a user moves it by a vector of norm at most 1."""
        if not math.isfinite(mu):
            return (Exact(self.name, self.shape),)
        return (
            calibrate_gaussian(
                self.name,
                sensitivity.sum_sensitivity(1.0, Neighbors.ADD_REMOVE_ONE),
                mu,
                self.shape,
                magnitude=MOST_USERS,
            ),
        )

    def run(
        self,
        release,
        rows: UserRatings,
        answer: Callable[[RatingsBlock], np.ndarray],
    ) -> Answers:
        """Release the sum of what `answer` gives for each block, in whole steps.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : UserRatings
            The ratings of all users.
        answer : callable
            Sums the vectors of a block's users.
        """
        total = np.zeros(self.shape)
        for steps in rows.map(answer, self.n_jobs):
            total += steps
        planned = release.plan[self.name]
        released = release(self.name, total * STEP, overwrite=True)
        return Answers(released, getattr(planned, "noise_std", 0.0))
