"""The private second moment of bounded rows about a center, or of pairs.

A private mean that rows are measured from, and statistics of rows about it.

A private covariance within released directions, from clipped projections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import walks
from .._statistics.statistic import (
    HALF,
    Combination,
    Statistic,
    mean_summation_error,
    pair_order,
)
from .._tables.clipping import clip_rows
from .._tables.pairs import PairOrder
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact
from . import _kernels
from ._bounds import Pairs, PrivateMean, RowBounds, Searched

# Length below which rows keep theirs, in typical lengths: at most, and its square in
# units of one over the largest eigenvalue of the noise; by the variance that is kept on
# six tables and three simulations.
_HIGHEST_FLOOR, _FLOOR_OF_NOISE = 1.6, 0.004
_LEAST_LENGTH, _LARGEST_LENGTH = 1e-60, 1e60

# Name of a moment that is released with what a center would have cost.
EARLY = "second_moment_early"


def floor_of(typical: float, edge: float) -> float:
    """Length below which rows keep theirs, so that noise does not hide the moment.

    The longer it is, the more does the moment resemble that of unbounded rows, and the
    smaller it is beside its noise. `typical` is a length of many rows, and `edge` the
    largest eigenvalue of the noise on the moment of unit rows.
    """
    most = _FLOOR_OF_NOISE / _HIGHEST_FLOOR**2
    floor = typical * math.sqrt(_FLOOR_OF_NOISE / max(edge, most))
    return min(max(floor, _LEAST_LENGTH), _LARGEST_LENGTH)


def weight_of(origin: Any) -> float:
    """Weight of what is released of a mean: half of one over pairs."""
    return HALF if isinstance(origin, PairOrder) else 1.0


def plan_second_moment(
    name: str,
    n_samples: int,
    n_features: int,
    mu: float,
    *,
    weights: tuple[float, ...],
    radius: float = 1.0,
    width: int | None = None,
) -> tuple:
    """Plan a second moment of rows of norm at most `radius`; infinite mu for no noise.

    It is of shape (`n_features`,) * 2, or (`width`,) * 2 of projections. `weights` are
    those of :class:`RowBounds`.
    """
    shape, square = (n_features if width is None else width,) * 2, radius**2
    if not math.isfinite(mu):
        return (Exact(name, shape, symmetric=True),)
    moment = calibrate_gaussian(
        name,
        sensitivity.second_moment_sensitivity(radius, n_samples),
        mu,
        shape,
        symmetric=True,
        summation_error=mean_summation_error(square, n_samples, n_features, weights),
        magnitude=2.0 * square,
    )
    return (moment,)


def share_of(plan: Any, name: str, other: str) -> float:
    """Weight of one of two releases of a statistic in their mean, by their costs."""
    costs = [plan[each].mu ** 2 for each in (name, other)]
    return 0.5 if math.isinf(costs[0]) else costs[0] / (costs[0] + costs[1])


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of bounded rows, or half of that of pairs."""

    bounds: RowBounds
    n_samples: int
    name: str = "second_moment"

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        bounds = self.bounds
        size, more = (self.n_samples, bounds.n_features), {"weights": bounds.weights}
        return plan_second_moment(
            self.name, *size, mu, radius=bounds.second_radius, **more
        )

    def kernel(self, rows: Any, origin: Any, floor: float = 0.0) -> np.ndarray:
        """Exact second moment about a released mean; the lower triangle counts.

        Of pairs, half of it. Rows shorter than a released length, `floor`, keep theirs
        (:meth:`RowBounds.for_second_moment`).
        """
        bounds = self.bounds
        if not isinstance(origin, PairOrder):
            about = partial(bounds.for_second_moment, mean=origin, floor=floor)
            return _kernels.blocked_second_moment(rows, about)
        walk = bounds.pairs(origin, partial(bounds.for_pairs, floor=floor))
        kernel = partial(_kernels.sum_of_outer_products, n_features=bounds.n_features)
        moment = walks.reduce_rows(rows, walk, kernel)
        moment /= origin.n_pairs
        moment *= HALF
        return moment

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the second moment about a given mean, None for none, or of pairs."""
        (origin,) = given
        return self.release(release, self.kernel(rows, origin), origin)

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

    def squared_error(
        self, mu: float, rank: int, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Expected squared projection distance of its leading eigenvectors.

        For Gaussian rows, to first order; of statistical and private error. `signal`
        and `noise` are variances along the components beyond the noise, and across
        them, in units of the bounded rows; `paired` tells whether rows are compared in
        pairs.
        """
        gap, cross = self._law(rank, signal, noise)
        # Deviation of the noise off the diagonal.
        private = self.bounds.second_radius**2 / (self.n_samples * mu)
        sampling = cross / self.n_samples
        searched = isinstance(self.bounds.origin, Searched)
        if searched and self.bounds.clip is None and not paired:
            # Rows of a normal law are of about the same length.
            edge = 2.0 * math.sqrt(self.bounds.n_features) * private
            private *= max(1.0, floor_of(1.0, edge)) ** 2
        if paired:
            # Of pairs that share rows; exact for clipped differences of normal rows.
            order = pair_order(self.n_samples, self.bounds.n_features)
            sampling *= 1.0 + 0.5 / order.n_shifts
            private /= HALF
        entries = 2.0 * rank * (self.bounds.n_features - rank)
        return entries * (sampling + private**2) / gap**2

    def _law(self, rank: int, signal: float, noise: float) -> tuple[float, float]:
        """Gap, and variance of entries off the diagonal, of bounded Gaussian rows."""
        degrees, clip = self.bounds.n_features - rank, self.bounds.clip
        if clip is None:
            return _kernels.unit_row_moments(signal + noise, noise, rank, degrees)
        spread = rank * (signal + noise) + degrees * noise
        kept = min(1.0, clip**2 / spread)
        return kept * signal, kept**2 * noise * (signal + noise)


# Shares of mu**2 of a private mean, and of what is made of rows about it.
_SHARES = {"mean": 0.15, "rest": 1.0 - 0.15}


class Mean(Statistic):
    """The private mean of bounded rows, whose bounds have a `mean_radius`."""

    def __init__(self, bounds: RowBounds, n_samples: int) -> None:
        self.bounds, self.n_samples = bounds, n_samples

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        n, p, radius = self.n_samples, self.bounds.n_features, self.bounds.mean_radius
        if not math.isfinite(mu):
            return (Exact("mean", (p,)),)
        mean = calibrate_gaussian(
            "mean",
            sensitivity.mean_sensitivity(radius, n),
            mu,
            (p,),
            summation_error=mean_summation_error(radius, n, p),
            magnitude=2.0 * radius,
        )
        return (mean,)

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the mean of rows, in units of the box, where a mean can be."""
        mean = release("mean", _kernels.blocked_mean(rows, self.bounds.for_mean))
        return self.bounds.project_mean(mean)


class Centered(Combination):
    """A statistic of rows about a private mean, if there is one.

    The ``run`` of `rest` is given the mean in units of the box, the order of pairs, or
    None.
    """

    def __init__(self, bounds: RowBounds, n_samples: int, rest: Statistic) -> None:
        self.bounds, self.rest = bounds, rest
        self.order = None
        if isinstance(bounds.origin, Pairs):
            self.order = pair_order(n_samples, bounds.n_features)
        self.mean, parts, shares = None, {"rest": rest}, {"rest": 1.0}
        if isinstance(bounds.origin, PrivateMean):
            self.mean = Mean(bounds, n_samples)
            parts, shares = {"mean": self.mean, "rest": rest}, _SHARES
        super().__init__(parts, shares)

    def center(self, release: Any, rows: Any):
        """Release the mean; None without one, the order of the pairs with them."""
        return self.order if self.mean is None else self.mean.run(release, rows)

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the mean and the rest; return what the rest returns."""
        mean = self.center(release, rows)
        return self.rest.run(release, rows, mean, *given)

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what rows are measured from."""
        return self.bounds.remarks()


@dataclass(frozen=True)
class ProjectedMoment(Statistic):
    """The second moment of projections over their clip radius.

    `width` is the number of components that is planned for; fewer are padded with
    zeros. `weights` are those of :class:`RowBounds`.
    """

    name = "projected_moment"

    n_samples: int
    n_features: int
    width: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise.

        Its sensitivity is sqrt(2) / n: what lies across the components does not count.
        """
        size, more = (self.n_samples, self.n_features), {"weights": self.weights}
        return plan_second_moment(self.name, *size, mu, width=self.width, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment, in squared units of the rows: symmetric, of shape (r, r).

        Given are released orthonormal rows of shape (r, p), and the public or released
        length that projections are clipped to.
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
