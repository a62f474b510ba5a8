"""The directions that users' correlations have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ... import sensitivity
from ..._linalg import linear_model as lrs
from ...accounting import calibrate_gaussian
from ...mechanisms import Gaussian
from ..rounds import Rounds
from ..user_sums import MOST_USERS
from .users import Users


@dataclass(frozen=True)
class SpectralStart(Rounds):
    """Leading directions of the sum of s s', for each user's correlations s.

    Parameters
    ----------
    users : Users
        How users are summed.
    """

    users: Users

    @property
    def names(self) -> tuple[str, ...]:
        """One release."""
        return ("start",)

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan the sum: each user moves it by a matrix s s' of norm 1."""
        d = self.users.n_features
        return calibrate_gaussian(
            name,
            sensitivity.projector_sum_sensitivity(self.users.neighbors),
            mu,
            (lrs.n_packed(d),),
            summation_error=(d + 16) * 2.0**-52,
            magnitude=MOST_USERS,
        )

    def run(self, release, rows) -> np.ndarray:
        """Release the sum; return directions of shape (n_features, rank)."""
        total = self.users.released_sum(release, "start", rows, _contributions)
        return lrs.leading_directions(total, self.users.rank, self.users.n_features)


def _contributions(block, rows):
    """Yield what users' correlations are, packed, a few users at a time."""
    for part in lrs.parts_of(block, lrs.n_packed(block.X.shape[2])):
        yield lrs.start_moments(block.take(part))
