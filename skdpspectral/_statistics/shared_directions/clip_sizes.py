"""What users' curvatures and gradients are measured in: private medians of norms."""

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

# Steps of the bisections for the users' median norms, on a logarithmic scale.
_BISECTIONS = 12
_SMALLEST_LOG10, _LARGEST_LOG10 = -8.0, 8.0


@dataclass(frozen=True)
class ClipSizes(Rounds):
    """Units of curvature and gradient: public ones, or private medians of the norms.

    Every step of the bisections releases by how much more of the users lie below
    than above the tried values; of the noisy answers only the signs are used.

    Parameters
    ----------
    users : Users
        How users answer.
    curvature, gradient : float or None
        Public units; None for a median.
    """

    users: Users
    curvature: float | None
    gradient: float | None

    @property
    def n_medians(self) -> int:
        """Medians that are estimated: 0, 1 or 2."""
        return [self.curvature, self.gradient].count(None)

    @property
    def names(self) -> tuple[str, ...]:
        """One release a step; none where both units are public."""
        steps = range(1, _BISECTIONS + 1) if self.n_medians else ()
        return tuple(f"median_{step}" for step in steps)

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan the votes of one step: each user votes on every median at once."""
        return calibrate_gaussian(
            name,
            sensitivity.vote_sensitivity(self.n_medians, self.users.neighbors),
            mu,
            (self.n_medians,),
            magnitude=0.5 * MOST_USERS,
        )

    def run(self, release, rows, U) -> np.ndarray:
        """Release the votes; return the units of curvature and gradient at U."""
        clips = np.array([self.curvature, self.gradient], dtype=np.float64)
        wanted = np.flatnonzero(np.isnan(clips))
        if not len(wanted):
            return clips
        norms = self._norms(rows, U)
        low = np.full(len(wanted), _SMALLEST_LOG10)
        high = np.full(len(wanted), _LARGEST_LOG10)
        for name in self.names:
            middle = 0.5 * (low + high)
            below = norms[:, wanted] <= 10.0**middle
            votes = release(name, below.sum(axis=0) - 0.5 * len(norms))
            low = np.where(votes > 0, low, middle)
            high = np.where(votes > 0, middle, high)
        clips[wanted] = 10.0 ** (0.5 * (low + high))
        return clips

    def _norms(self, rows, U) -> np.ndarray:
        """Norms of each user's curvature and gradient at U: (n_users, 2)."""
        norms = np.zeros((rows.n_users, 2))
        rules = self.users.first_rules

        def part(block):
            found = [
                np.stack([lrs.row_norms(curvature), lrs.row_norms(gradient)], axis=1)
                for curvature, gradient in self.users.answers(block, rows, rules, U)
            ]
            return block.users, np.concatenate(found)

        for users, own in rows.map(part, self.users.n_jobs):
            norms[users] = own
        return norms
