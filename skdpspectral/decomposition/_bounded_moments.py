"""Private moments of bounded rows, and their products with columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._base.sklearn_compat import StrOptions
from .._base.strategies import register
from .._linalg import walks
from .._statistics.row_bounds import (
    CENTERS_OF_CLIENTS,
    PrivateMean,
    RowBounds,
    plan_second_moment,
    weight_of,
)
from .._statistics.statistic import (
    HALF,
    Combination,
    Statistic,
    pair_order,
)
from .._tables.clipping import clip_rows
from .._tables.pairs import PairOrder
from ..accounting._gaussian import calibrate_alike
from . import _kernels

register(PrivateMean)

CENTER_OF_CLIENTS = [StrOptions(set(CENTERS_OF_CLIENTS)), PrivateMean]


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of bounded rows, or half of that of pairs."""

    bounds: RowBounds
    n_samples: int
    name: str = "second_moment"

    def mechanisms(self, mu: float) -> tuple:
        bounds = self.bounds
        size, more = (self.n_samples, bounds.n_features), {"weights": bounds.weights}
        return plan_second_moment(
            self.name, *size, mu, radius=bounds.second_radius, **more
        )

    def kernel(self, rows: Any, origin: Any, floor: float = 0.0) -> np.ndarray:
        """Exact second moment about a released mean, or half of that of pairs."""
        bounds = self.bounds
        if not isinstance(origin, PairOrder):
            about = partial(bounds.for_second_moment, mean=origin, floor=floor)
            return walks.blocked_second_moment(rows, walks.Writing(about))
        walk = bounds.pairs(origin, partial(bounds.for_pairs, floor=floor))
        kernel = partial(walks.sum_of_outer_products, n_features=bounds.n_features)
        moment = walks.reduce_rows(rows, walk, kernel)
        moment /= origin.n_pairs
        moment *= HALF
        return moment

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the second moment about a given mean, None for none, or of pairs.

        A floor of lengths may be given too, as in :meth:`kernel`.
        """
        origin, *floor = given
        return self.release(release, self.kernel(rows, origin, *floor), origin)

    def release(self, release: Any, exact: np.ndarray, origin: Any) -> np.ndarray:
        """Release what :meth:`kernel` gave; its memory is used again."""
        released = release(self.name, exact, overwrite=True)
        if weight_of(origin) != 1.0:
            released /= weight_of(origin)
        return released

    def noise_std(self, plan: Any, origin: Any) -> float:
        """Deviation of the noise off the diagonal of what :meth:`run` gives."""
        planned = getattr(plan[self.name], "noise_std", 0.0)
        return planned / math.sqrt(2.0) / weight_of(origin)


@dataclass(frozen=True)
class ProjectedMoment(Statistic):
    """The second moment of at most `width` projections over their clip radius."""

    name = "projected_moment"

    n_samples: int
    n_features: int
    width: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release, of sensitivity sqrt(2) / n; infinite mu for no noise."""
        size, more = (self.n_samples, self.n_features), {"weights": self.weights}
        return plan_second_moment(self.name, *size, mu, width=self.width, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment, of shape (r, r), in squared units of the rows.

        Given are released orthonormal rows of shape (r, p) and a public or released
        clip radius.
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


# Largest ||Q'Q - I|| of a basis of orthonormal columns.
LARGEST_DEFECT = 2.0**-40

# Shares of mu**2 of the rounds and of a covariance, once a mean is paid.
_ITERATION_SHARES = {"rounds": 1.0 - 0.15, "within": 0.15}


@dataclass(frozen=True)
class PowerProduct(Statistic):
    """The second moment (half of it for pairs) times `width` orthonormal columns."""

    bounds: RowBounds
    n_samples: int
    width: int
    name: str

    def mechanisms(self, mu: float) -> tuple:
        n, shape = self.n_samples, (self.bounds.n_features, self.width)
        radius = self.bounds.second_radius
        # Of half a mean over pairs, whose terms are more.
        terms, weight = (n, walks.rows_per_block(shape[0])), 1.0
        if self.bounds.weights == (HALF,):
            order, weight = pair_order(n, shape[0]), HALF
            terms = order.n_blocks * order.block_rows, order.block_rows
        given = radius, *terms, *shape, LARGEST_DEFECT, walks.BLOCKS_TOGETHER
        error = weight * sensitivity.power_product_error(*given)
        more = {"summation_error": error, "magnitude": 2.0 * radius**2}
        more["lemma"] = "power-product"
        moved = sensitivity.power_product_sensitivity(radius, n, self.width)
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the product, of a given mean (or None) and basis."""
        origin, basis = given
        bounds, weight = self.bounds, weight_of(origin)
        if isinstance(origin, PairOrder):
            kernel = partial(_kernels.sum_of_products, columns=basis)
            walk = bounds.pairs(origin, bounds.for_pairs)
            total = walks.reduce_rows(rows, walk, kernel)
            product = weight * (total / origin.n_pairs)
        else:
            about = partial(bounds.for_second_moment, mean=origin)
            product = _kernels.blocked_product(rows, walks.Writing(about), basis)
        released = release(self.name, product)
        return released if weight == 1.0 else released / weight


class PowerIteration(Combination):
    """A second moment to start from, rounds of products, and a covariance.

    Start and rounds cost the same. Products are named ``"power_1"`` and so on. Without
    `start`, rounds or a covariance begin at a public basis.
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
        self.rounds = Combination(steps, dict.fromkeys(steps, 1.0 / max(len(steps), 1)))
        parts: dict[str, Statistic] = {"rounds": self.rounds}
        shares = {"rounds": 1.0}
        self.within = None
        if covariance:
            self.within = ProjectedMoment(n, bounds.n_features, rank, bounds.weights)
            parts, shares = {**parts, "within": self.within}, _ITERATION_SHARES
            if not steps:  # within a public basis: all of the budget is for it
                parts, shares = {"within": self.within}, {"within": 1.0}
        super().__init__(parts, shares)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release a round of a given name, with what else is given."""
        return self.rounds.run(release, rows, *given)
