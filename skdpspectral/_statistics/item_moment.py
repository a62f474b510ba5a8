"""The second moment of users x items, one row of unit norm a user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .. import _linalg, sensitivity
from .._linalg import recommendation as user_item
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact, Mechanism, Neighbors
from .combination import Statistic

# Users that sums are exact for.
MOST_USERS = 2.0**31


class CodedRatings(NamedTuple):
    """Ratings of users, by numbers.

    Parameters
    ----------
    users : ndarray of shape (n_ratings,)
        Codes of users.
    items : ndarray of shape (n_ratings,)
        Codes of items; -1 for those outside the catalog.
    values : ndarray of shape (n_ratings,)
        Finite ratings.
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class ItemMoment(Statistic):
    """Leading directions of the sum of x x' over users, for rows x of unit norm.

    Parameters
    ----------
    n_items : int
        Items of the public catalog.
    n_components : int
        Directions that are asked for; with 0 nothing is released.
    rating_range : tuple (low, high), default=(1.0, 5.0)
        Public range that ratings are clipped to, and measured from the middle of.
    max_ratings_per_user : int or None, default=None
        Ratings of a user that count, the last ones.
    """

    n_items: int
    n_components: int
    rating_range: tuple[float, float] = (1.0, 5.0)
    max_ratings_per_user: int | None = None

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the sum: a user moves it by a matrix x x' of Frobenius norm 1."""
        shape = (self.n_items, self.n_items)
        if not self.n_components:
            return ()
        if not math.isfinite(mu):
            return (Exact("second_moment", shape, symmetric=True),)
        return (
            calibrate_gaussian(
                "second_moment",
                sensitivity.projector_sum_sensitivity(Neighbors.ADD_REMOVE_ONE),
                mu,
                shape,
                symmetric=True,
                magnitude=MOST_USERS,
            ),
        )

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return ("The catalog of items is taken to be public.",)

    def run(self, release, rows: CodedRatings) -> tuple[np.ndarray, np.ndarray]:
        """Release the sum; return its components and their eigenvalues.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : CodedRatings
            The ratings of all users.

        Returns
        -------
        components : ndarray of shape (n_components, n_items)
            Orthonormal rows, leading first; no more than items.
        values : ndarray of shape (n_components,)
            Eigenvalues, floored at 0.
        """
        rank = min(self.n_components, self.n_items)
        if not rank:
            return np.zeros((0, self.n_items)), np.zeros(0)
        moment = release("second_moment", self._moment(rows), overwrite=True)
        noise = getattr(release.plan["second_moment"], "noise_std", 0.0)
        values, components = _linalg.top_eigh(moment, rank, noise / math.sqrt(2.0))
        return components, np.maximum(values, 0.0)

    def _moment(self, rows: CodedRatings) -> np.ndarray:
        """Sum over users of x x', exact: items x items."""
        if not isinstance(rows, CodedRatings):  # of groups of users on a cluster
            total = rows.total(self._moment)
            return np.zeros((self.n_items,) * 2) if total is None else total
        low, high = self.rating_range
        known = np.flatnonzero(rows.items >= 0)
        # Halves first: neither the middle nor the difference overflows.
        centered = np.clip(rows.values[known], low, high) - (0.5 * low + 0.5 * high)
        users, items = rows.users[known], rows.items[known]
        with np.errstate(all="ignore"):  # an error would tell of somebody's ratings
            return user_item.second_moment(
                users, items, centered, self.n_items, self.max_ratings_per_user
            )
