"""A private covariance within released directions, from clipped projections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _linalg, sensitivity
from ..._tables.clipping import clip_rows
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact
from ..combination import Statistic


@dataclass(frozen=True)
class ProjectedMoment(Statistic):
    """The second moment of projections over their clip radius.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows.
    width : int
        Number of components that is planned for; fewer are padded with zeros.
    """

    name = "projected_moment"

    n_samples: int
    n_features: int
    width: int

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise.

        Its sensitivity is sqrt(2) / n: what lies across the components does not count.
        """
        n, square = self.n_samples, (self.width, self.width)
        if not math.isfinite(mu):
            return (Exact(self.name, square, symmetric=True),)
        block = _linalg.rows_per_block(self.n_features)
        moment = calibrate_gaussian(
            self.name,
            sensitivity.second_moment_sensitivity(1.0, n),
            mu,
            square,
            symmetric=True,
            summation_error=sensitivity.summation_error(1.0, n, block),
            magnitude=2.0,
        )
        return (moment,)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment, in squared units of the rows.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : callable
            ``rows()`` yields blocks of rows.
        *given : components, radius
            Released orthonormal rows of shape (r, p), and the public or released
            length that projections are clipped to.

        Returns
        -------
        ndarray of shape (r, r)
            Symmetric.
        """
        components, radius = given
        rank, n_rows = len(components), 0
        total = np.zeros((self.width, self.width), order="F")
        for block in rows():
            with np.errstate(all="ignore"):
                scores = clip_rows(np.asarray(block @ components.T) / radius, 1.0)
            total[:rank, :rank] += scores.T @ scores
            n_rows += len(scores)
        released = release(self.name, total / n_rows)
        return released[:rank, :rank] * radius**2
