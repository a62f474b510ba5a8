"""A private covariance within released directions, from clipped projections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ... import sensitivity
from ..._tables.clipping import clip_rows
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact
from ..combination import Statistic
from ..terms import summation_error


@dataclass(frozen=True)
class ProjectedMoment(Statistic):
    """The second moment of projections over their clip radius.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows.
    width : int
        Number of components that is planned for; fewer are padded with zeros.
    paired : bool or None, default=False
        Whether the terms are pairs of rows, of whose mean half is released; None where
        releases tell.
    """

    name = "projected_moment"

    n_samples: int
    n_features: int
    width: int
    paired: bool | None = False

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise.

        Its sensitivity is sqrt(2) / n: what lies across the components does not count.
        """
        n, square = self.n_samples, (self.width, self.width)
        if not math.isfinite(mu):
            return (Exact(self.name, square, symmetric=True),)
        moment = calibrate_gaussian(
            self.name,
            sensitivity.second_moment_sensitivity(1.0, n),
            mu,
            square,
            symmetric=True,
            summation_error=summation_error(1.0, n, self.n_features, self.paired),
            magnitude=2.0,
        )
        return (moment,)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment, in squared units of the rows.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : Terms
            Blocks of rows, or of differences.
        *given : components, radius
            Released orthonormal rows of shape (r, p), and the public or released
            length that projections are clipped to.

        Returns
        -------
        ndarray of shape (r, r)
            Symmetric.
        """
        components, radius = given
        rank = len(components)
        total = np.zeros((self.width, self.width), order="F")
        total[:rank, :rank] = rows.reduce(
            partial(_sum_of_projections, components=components, radius=radius)
        )
        released = rows.undo(release(self.name, total / rows.divisor))
        return released[:rank, :rank] * radius**2


def _sum_of_projections(blocks, components, radius: float) -> np.ndarray:
    """Sum of outer products of projections over their clip radius."""
    total = np.zeros((len(components),) * 2, order="F")
    for block in blocks:
        with np.errstate(all="ignore"):
            scores = clip_rows(np.asarray(block @ components.T) / radius, 1.0)
        total += scores.T @ scores
    return total
