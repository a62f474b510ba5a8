"""What users' curvatures and gradients are measured in: private medians of norms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

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
        counts = self._counts(rows, U)[wanted]
        first = np.zeros(len(wanted), dtype=int)
        last = np.full(len(wanted), 1 << _BISECTIONS)
        for name in self.names:
            middle = (first + last) // 2
            below = counts[range(len(wanted)), middle]
            votes = release(name, below - 0.5 * counts[:, -1])
            first = np.where(votes > 0, first, middle)
            last = np.where(votes > 0, middle, last)
        clips[wanted] = 10.0 ** _logarithm(0.5 * (first + last))
        return clips

    def _counts(self, rows, U) -> np.ndarray:
        """Count users whose norms at U are at most those on a grid; last, all users."""
        counts = np.zeros((2, (1 << _BISECTIONS) + 2), dtype=np.int64)
        for found in rows.sums(partial(self._placed, U=U), self.users.n_jobs):
            counts += found
        return counts.cumsum(axis=1)

    def _placed(self, block, rows, U) -> np.ndarray:
        """Count the users of a block between the norms on the grid."""
        points = 10.0 ** _logarithm(np.arange((1 << _BISECTIONS) + 1))
        counts = np.zeros((2, len(points) + 1), dtype=np.int64)
        rules = self.users.first_rules
        size = lrs.n_curvature(self.users.rank, self.users.n_features)
        for moments in self.users.answers(block, rows, rules, U):
            parts = moments[:, :size], moments[:, size:]
            for count, vectors in zip(counts, parts, strict=True):
                # What is not a number lies beyond all of them.
                places = np.searchsorted(points, lrs.row_norms(vectors))
                count += np.bincount(places, minlength=len(count))
        return counts


def _logarithm(place):
    """Logarithm of the norm at a place of the grid."""
    share = place / (1 << _BISECTIONS)
    return _SMALLEST_LOG10 + share * (_LARGEST_LOG10 - _SMALLEST_LOG10)
