"""How users answer a release, and how their answers are summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..._linalg import linear_model as lrs
from ..._tables.clipping import clip_rows
from ...mechanisms import Neighbors

# Users that sums are exact for: more than codes of 32 bits can tell apart.
MOST_USERS = 2.0**32
# Steps of hard-thresholding pursuit by which every user answers a release.
_LOCAL_STEPS = 10


@dataclass(frozen=True)
class Users:
    """What is public of the users, and how their vectors are made and summed.

    Parameters
    ----------
    rules : LocalRules
        Rules of the users' fits.
    n_features : int
        Number of features.
    neighbors : Neighbors
        Add-remove-one or replace-one, of users.
    n_jobs : int or None, default=None
        Threads.
    """

    rules: lrs.LocalRules
    n_features: int
    neighbors: Neighbors
    n_jobs: int | None = None

    @property
    def rank(self) -> int:
        """Number of shared directions."""
        return len(self.rules.prior)

    @property
    def first_rules(self) -> lrs.LocalRules:
        """Rules of the first answer: from no direction, that of one model for all."""
        return replace(self.rules, sparsity=0) if self.rules.fixed else self.rules

    def answers(self, block, rows, rules, U) -> Iterator[tuple]:
        """Yield the users' moments at U, a few users at a time."""
        scores = lrs.shared_scores(block, U)
        squares = rows.column_squares(block)
        fit = lrs.thresholding_pursuit(block, scores, squares, rules, _LOCAL_STEPS)
        yield from lrs.user_moments(block, scores, fit)

    def released_sum(self, release, name: str, rows, contributions: Callable):
        """Release the sum of the users' vectors, each clipped to norm 1 as a whole.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        name : str
            Of the release.
        rows : UserRows, or of the same method
            The users' rows.
        contributions : callable
            ``contributions(block, rows)``: yields one vector a user, a few at a time.
        """
        planned = release.plan[name]
        grid = planned.grid
        part = partial(_sum_of_answers, contributions=contributions, grid=grid)
        total = np.zeros(planned.shape)
        for steps in rows.sums(part, self.n_jobs):
            total += steps
        return release(name, total * grid, overwrite=True)


def _sum_of_answers(block, rows, contributions: Callable, grid: float):
    """Sum the vectors of a block's users, each clipped, in whole steps of a grid."""
    return sum(
        lrs.sum_on_grid(_clipped(vectors), grid)
        for vectors in contributions(block, rows)
    )


def _clipped(vectors: np.ndarray) -> np.ndarray:
    """Clip each user's vector to norm 1, with the same bits whoever else is there."""
    return clip_rows(vectors, 1.0, out=lrs.empty_stack(*vectors.shape))
