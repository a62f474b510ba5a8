"""Private power iterations with bases that others send, one step at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ... import _linalg, sensitivity
from ..._tables.pairs import PairOrder
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact
from ..combination import AsAsked, Combination, Statistic
from ..row_bounds import RowBounds
from ..second_moment import SecondMoment
from ..terms import HALF, pair_order, weight_of
from .projected_moment import ProjectedMoment

# Largest ||Q'Q - I|| of a basis of orthonormal columns.
LARGEST_DEFECT = 2.0**-40
# Shares of mu**2 of the rounds and of a covariance, once a mean is paid.
_SHARES = {"rounds": 1.0 - 0.15, "within": 0.15}


@dataclass(frozen=True)
class PowerProduct(Statistic):
    """The second moment of bounded rows about a mean, times orthonormal columns.

    Of pairs, half of it.

    Parameters
    ----------
    bounds : RowBounds
        How rows are bounded.
    n_samples : int
        Public number of rows.
    width : int
        Number of columns.
    name : str
        Name of the release.
    """

    bounds: RowBounds
    n_samples: int
    width: int
    name: str

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        n, shape = self.n_samples, (self.bounds.n_features, self.width)
        if not math.isfinite(mu):
            return (Exact(self.name, shape),)
        radius = self.bounds.second_radius
        # Of half a mean over pairs, whose terms are more.
        terms, weight = (n, _linalg.rows_per_block(shape[0])), 1.0
        if self.bounds.paired:
            order, weight = pair_order(n, shape[0]), HALF
            terms = order.n_blocks * order.block_rows, order.block_rows
        given = radius, *terms, *shape, LARGEST_DEFECT, _linalg.BLOCKS_TOGETHER
        error = sensitivity.power_product_error(*given)
        product = calibrate_gaussian(
            self.name,
            sensitivity.power_product_sensitivity(radius, n, self.width),
            mu,
            shape,
            summation_error=weight * error,
            magnitude=2.0 * radius**2,
        )
        return (product,)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the product, of a given mean (or None) and basis."""
        origin, basis = given
        bounds, weight = self.bounds, weight_of(origin)
        if isinstance(origin, PairOrder):
            kernel = partial(_linalg.sum_of_products, columns=basis)
            walk = bounds.pairs(origin, bounds.for_pairs)
            total = _linalg.reduce_rows(rows, walk, kernel)
            product = weight * (total / origin.n_pairs)
        else:
            about = partial(bounds.for_second_moment, mean=origin)
            product = _linalg.blocked_product(rows, about, basis)
        released = release(self.name, product)
        return released if weight == 1.0 else released / weight


class PowerIteration(Combination):
    """A second moment to start from, rounds of products, and a covariance.

    The start and the rounds cost the same.

    Parameters
    ----------
    moment : SecondMoment
        The start.
    rank : int
        Number of components.
    start : bool
        Whether the start is released at all; without it there are rounds from a public
        one, or a covariance within it.
    n_rounds : int
        Number of products, ``"power_1"`` and so on.
    covariance : bool
        Whether a covariance within a basis is released last.
    """

    def __init__(
        self,
        moment: SecondMoment,
        rank: int,
        start: bool,
        n_rounds: int,
        covariance: bool,
    ) -> None:
        bounds, n = moment.bounds, moment.n_samples
        steps: dict[str, Statistic] = {moment.name: moment} if start else {}
        for name in [f"power_{t}" for t in range(1, n_rounds + 1)]:
            steps[name] = PowerProduct(bounds, n, rank, name)
        self.rounds = AsAsked(steps, dict.fromkeys(steps, 1.0 / max(len(steps), 1)))
        self._parts, self._shares = {"rounds": self.rounds}, {"rounds": 1.0}
        self.within = None
        if covariance:
            self.within = ProjectedMoment(n, bounds.n_features, rank, bounds.paired)
            self._parts = {"rounds": self.rounds, "within": self.within}
            self._shares = _SHARES
            if not steps:  # within a public basis: all of the budget is for it
                self._parts, self._shares = {"within": self.within}, {"within": 1.0}

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release a round of a given name, with what else is given."""
        return self.rounds.run(release, rows, *given)
