"""How users answer a release, and how their answers are summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..._linalg import linear_model as lrs
from ...mechanisms import Neighbors
from ..user_sums import released_sum

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

    def answers(self, block, rows, rules, U, units=(1.0, 1.0)) -> Iterator:
        """Yield the users' moments at U, in some units, a few users at a time."""
        scores = lrs.shared_scores(block, U)
        squares = rows.column_squares(block)
        fit = lrs.thresholding_pursuit(block, scores, squares, rules, _LOCAL_STEPS)
        yield from lrs.user_moments(block, scores, fit, units)

    def released_sum(self, release, name: str, rows, contributions: Callable):
        """Release the sum of the users' vectors, each clipped to norm 1 as a whole."""
        return released_sum(release, name, rows, contributions, self.n_jobs)
