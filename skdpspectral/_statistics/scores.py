"""Means of what rows, or users, contribute to a score of predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import _linalg, sensitivity
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact, Mechanism
from .combination import Statistic
from .item_moment import MOST_USERS

# Contributions that are added up in one go.
_BLOCK = 4096
# What each user adds to the count of users: as much as its value may weigh.
HALF = 0.5


class Found(NamedTuple):
    """A score as it was released.

    Parameters
    ----------
    means : ndarray of shape (width,)
        Means of contributions.
    std : float
        Standard deviation of the noise of each of them.
    """

    means: np.ndarray
    std: float


@dataclass(frozen=True)
class RowScore(Statistic):
    """Mean over held-out rows of what they contribute to a score.

    Parameters
    ----------
    width : int
        Numbers that a row contributes.
    diameter, radius : float
        Largest distance of two contributions, and bound on their norms.
    n_terms : int
        Public number of contributions.
    n_times : int, default=1
        Largest number of them that are of one row.
    """

    width: int
    diameter: float
    radius: float
    n_terms: int
    n_times: int = 1

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the release at a cost of mu; infinite for no noise."""
        if not math.isfinite(mu):
            return (Exact("score", (self.width,)),)
        return (
            calibrate_gaussian(
                "score",
                sensitivity.score_sensitivity(
                    self.diameter, self.n_terms, self.n_times
                ),
                mu,
                (self.width,),
                summation_error=sensitivity.summation_error(
                    self.radius, self.n_terms, _BLOCK
                ),
                magnitude=2.0 * self.radius,
            ),
        )

    def run(self, release: Any, rows: Any, *given: Any) -> Found:
        """Release the mean of contributions, an array of shape (n_terms, width)."""
        if len(rows) != self.n_terms:
            raise ValueError("the number of held-out rows has changed")
        total = np.zeros(self.width)
        for block in _linalg.row_blocks(len(rows), _BLOCK):
            total += rows[block].sum(axis=0)
        means = release("score", total / self.n_terms)
        return Found(means, _deviation(release.plan["score"]))


@dataclass(frozen=True)
class UserScore(Statistic):
    """Mean over users, whose number is private, of values in [-1/2, 1/2]."""

    width: int = 1

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the release at a cost of mu; infinite for no noise."""
        if not math.isfinite(mu):
            return (Exact("score", (2,)),)
        return (
            calibrate_gaussian(
                "score",
                sensitivity.counted_score_sensitivity(HALF, HALF),
                mu,
                (2,),
                magnitude=MOST_USERS,
            ),
        )

    def run(self, release: Any, rows: Any, *given: Any) -> Found:
        """Release sum and count of users' values, an array of shape (n_users,)."""
        mechanism = release.plan["score"]
        grid = getattr(mechanism, "grid", 2.0**-32)
        # Integers of the grid add up exactly, whoever is in the data.
        total = np.rint(rows / grid).sum() * grid
        counted = release("score", np.array([total, HALF * len(rows)]))
        std = _deviation(mechanism)
        n_users = max(float(counted[1]) / HALF, 2.0 * std / HALF, 1.0)
        mean = float(counted[0]) / n_users
        spread = math.hypot(1.0, mean / HALF)
        return Found(np.array([mean]), std * spread / n_users)


def _deviation(mechanism: Any) -> float:
    """Standard deviation of the noise of a mechanism, which `Exact` has none of."""
    return 0.0 if isinstance(mechanism, Exact) else float(mechanism.noise_std)
