"""A center of rows without public bounds, found in steps: what it releases, and how.

First a typical distance between rows, then how far they lie from the origin; from there
clipped means, whose radius shrinks by released numbers, close in on the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import RowWalk, Walked
from .._tables.clipping import clip_rows
from .._tables.pairs import PairOrder, PairWalk, PoolWalk
from ..accounting import calibrate_gaussian, split_mu
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Exact, Gaussian
from .combination import Statistic
from .row_bounds import RowBounds

# Rows that a center is made from, at most: more would only take time.
_MOST_ROWS = 1 << 17
# Clips of the first step, and of others, in units of the length that rows have then.
_FIRST_CLIP, _CLIP = 1.1, 1.1
# Clips that noise allows, at most.
_WIDEST_CLIP = 4.0


class Sample(NamedTuple):
    """Rows from all over a table that a center is made from, by its shape alone.

    Parameters
    ----------
    bounds : RowBounds
        How rows are brought to units of a box.
    order : PairOrder
        How the whole table is paired.
    n_pools, n_rows : int
        Pools of rows that are used, and rows in them.
    """

    bounds: RowBounds
    order: PairOrder
    n_pools: int
    n_rows: int

    @classmethod
    def of(cls, bounds: RowBounds, n_samples: int) -> Sample:
        """Return the rows to use of so many."""
        order = PairOrder(n_samples, bounds.n_features, 1)
        n_pools = min(order.n_pools, -(-_MOST_ROWS * order.n_pools // n_samples))
        return cls(bounds, order, n_pools, order.rows_of(n_pools))

    def _mapped(self, block) -> np.ndarray:
        box = self.bounds.box
        return np.asarray(block, np.float64) if box is None else box.to_unit(block)

    def about(self, X, point, then=None) -> Walked:
        """Walk over blocks of rows less a point, and what is made of them."""
        about = partial(self._about, point=point, then=then)
        if self.n_rows == self.order.n_samples:
            # Their order is of no account: sums over all of them are.
            return Walked(X, RowWalk(about, self.order.block_rows))
        return Walked(X, PoolWalk(self.order, self.n_pools, about))

    def _about(self, block, point, then) -> np.ndarray:
        with np.errstate(over="ignore"):
            about = self._mapped(block) - point
        return about if then is None else then(about)

    def distances(self, X) -> Walked:
        """Walk over lengths of differences, over the root of two."""
        walk = PairWalk(self.order, self._mapped, self.n_pools, _half_lengths)
        return Walked(X, walk)

    def summation_error(self) -> float:
        """Largest rounding error of a mean of rows of the unit ball."""
        block = self.order.block_rows
        n_blocks = self.n_rows // block + self.n_pools
        return sensitivity.summation_error(1.0, n_blocks * block, block)


def _half_lengths(differences: np.ndarray) -> np.ndarray:
    return math.sqrt(0.5) * lengths_of(differences)


def lengths_of(rows: np.ndarray) -> np.ndarray:
    """Lengths of rows; of huge ones infinity, of tiny ones zero."""
    with np.errstate(all="ignore"):
        return np.sqrt(np.vecdot(rows, rows))


@dataclass(frozen=True)
class Quantile(Statistic):
    """A length below which about a share of terms lies, by noisy halvings.

    Parameters
    ----------
    name : str
        What names of the releases begin with.
    n_steps : int
        Number of halvings, each on a logarithmic scale.
    level : float
        The share.
    moved : float
        How far one row moves a share.
    """

    name: str
    n_steps: int
    level: float
    moved: float

    def mechanisms(self, mu: float) -> tuple:
        """Plan the releases at a total cost of mu; infinite for no noise."""
        names = [f"{self.name}_{step}" for step in range(1, self.n_steps + 1)]
        rounding = {"summation_error": 2.0**-50}
        return calibrate_alike(names, self.moved, mu, (1,), **rounding)

    def run(self, release: Any, rows: Any, *given: Any) -> float:
        """Return the length; `rows` walks over blocks of lengths, given is their range.

        The range is one of powers of two.
        """
        low, high = given
        points = np.linspace(low, high, 2**self.n_steps + 1)
        counts = rows.reduce(partial(_counts_of_lengths, points=points))
        shares = np.cumsum(counts) / counts.sum()
        first, last = 0, 2**self.n_steps
        for step in range(1, self.n_steps + 1):
            middle = (first + last) // 2
            vote = release(f"{self.name}_{step}", [shares[middle] - self.level])
            first, last = (first, middle) if vote[0] > 0.0 else (middle, last)
        return 2.0 ** float(0.5 * (points[first] + points[last]))


def _counts_of_lengths(blocks, points: np.ndarray) -> np.ndarray:
    """Lengths between powers of two."""
    counts = np.zeros(len(points) + 1, dtype=np.int64)
    for lengths in blocks:
        with np.errstate(divide="ignore"):
            # A row that is not finite counts as a long one.
            logs = np.nan_to_num(np.log2(lengths), nan=np.inf, posinf=np.inf)
        counts += np.bincount(np.searchsorted(points, logs), minlength=len(counts))
    return counts


@dataclass(frozen=True)
class CenterSteps(Statistic):
    """Clipped means that close in on the rows.

    Parameters
    ----------
    sample : Sample
        Rows that are used.
    shares : tuple of float
        Shares of the cost of the steps.
    name : str, default="center"
        What names of the releases begin with.
    """

    sample: Sample
    shares: tuple[float, ...]
    name: str = "center"

    @property
    def names(self) -> list[str]:
        """Names of the releases."""
        return [f"{self.name}_{step}" for step in range(1, len(self.shares) + 1)]

    def mechanisms(self, mu: float) -> tuple:
        """Plan the releases at a total cost of mu; infinite for no noise."""
        shape = (self.sample.bounds.n_features,)
        if not math.isfinite(mu):
            return tuple(Exact(name, shape) for name in self.names)
        moved = sensitivity.mean_sensitivity(1.0, self.sample.n_rows)
        rounding = {"summation_error": self.sample.summation_error(), "magnitude": 2.0}
        costs, steps = split_mu(mu, list(self.shares)), list[Gaussian]()
        for cost, paid in groupby(zip(costs, self.names, strict=True), itemgetter(0)):
            names = [name for _, name in paid]
            first = calibrate_gaussian(names[0], moved, cost, shape, **rounding)
            steps.extend(first.repeated(names))
        return tuple(steps)

    def course(self, plan: Any, typical: float, reach: float, allowed: float = 0.0):
        """Radii of the steps, and weights and length of the error of their average.

        Parameters
        ----------
        plan : PrivacyPlan
            With the noise of the steps.
        typical, reach : float
            Released typical distance of rows, and their distance from the start.
        allowed : float, default=0.0
            Length of noise that does no harm: clips are wider where it allows it, as a
            center of clipped rows is not their mean.

        Returns
        -------
        radii, weights : list of float
            One a step, from released and public numbers alone.
        error : float
            Expected length of the noise of the average.
        """
        n_features = self.sample.bounds.n_features
        radius, radii, errors = _FIRST_CLIP * reach, [], []
        for step, name in enumerate(self.names):
            unit = getattr(plan[name], "noise_std", 0.0)
            wide = 0.0
            if 2 * step >= len(self.names):
                harmless = allowed / max(unit * math.sqrt(n_features), 1e-150)
                wide = min(harmless, _WIDEST_CLIP * typical)
            radii.append(min(max(radius, wide, 1e-60), 1e60))
            noise = unit * radii[-1]
            errors.append(noise * math.sqrt(n_features))
            longer = math.hypot(typical, errors[-1] + noise)
            radius = min(radius, _CLIP * longer)
        precision = np.array([max(error, 1e-150) ** -2.0 for error in errors])
        # From far away clipped rows are pulled to where the steps began.
        precision[: len(errors) // 2] = 0.0
        weights = precision / precision.sum()
        return radii, weights.tolist(), float(np.hypot.reduce(weights * errors))

    @staticmethod
    def narrowed(n_steps: int, factor: float, n_features: int) -> float:
        """How far steps narrow the first radius, in which noise is `factor` long."""
        radius = _CLIP * factor * (1.0 + 1.0 / math.sqrt(n_features))
        return float(_FIRST_CLIP * radius ** (n_steps - 1))

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the steps of given radii; return their average of given weights."""
        radii, weights = given
        point = np.zeros(self.sample.bounds.n_features)
        center = np.zeros_like(point)
        for name, radius, weight in zip(self.names, radii, weights, strict=True):
            kernel = partial(_sum_of_clipped, radius=radius, n_features=len(point))
            total = self.sample.about(rows, point).reduce(kernel)
            mean = total / self.sample.n_rows / radius
            point = point + radius * release(name, mean, overwrite=True)
            center += weight * point
        return center


def _sum_of_clipped(blocks, radius: float, n_features: int) -> np.ndarray:
    """Sum of clipped rows, in their own memory."""
    total = np.zeros(n_features)
    for block in blocks:
        total += clip_rows(block, radius, out=block).sum(axis=0)
    return total


@dataclass(frozen=True)
class Nearness(Statistic):
    """How much of the rows is near a center: where its error would point them.

    Two means over rows x about the center, of numbers in [0, 1]: of
    min(1, e^2 / x^2) with the error e of the center, which is what a unit row gets of
    it, and of the same with a typical distance in place of e.

    Parameters
    ----------
    sample : Sample
        Rows that are used.
    name : str, default="center_nearness"
        Name of the release.
    """

    sample: Sample
    name: str = "center_nearness"

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        if not math.isfinite(mu):
            return (Exact(self.name, (2,)),)
        half = sensitivity.box_radius([0.5, 0.5])
        nearness = calibrate_gaussian(
            self.name,
            sensitivity.mean_sensitivity(half, self.sample.n_rows),
            mu,
            (2,),
            summation_error=2.0 * self.sample.summation_error(),
        )
        return (nearness,)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the two means of rows about a given center, for given lengths."""
        center, *lengths = given
        least = max(self.sample.bounds.clip or 0.0, 1e-150)
        kernel = partial(_sums_of_nearness, lengths=np.array(lengths), least=least)
        total = self.sample.about(rows, center).reduce(kernel)
        return release(self.name, total / self.sample.n_rows)


def _sums_of_nearness(blocks, lengths: np.ndarray, least: float) -> np.ndarray:
    """Sums of the shares of rows that errors of two lengths would make up."""
    total = np.zeros(2)
    for block in blocks:
        distances = np.maximum(lengths_of(block), least)
        shares = np.minimum(lengths[:, None] / distances, 1.0)
        total += np.nan_to_num(shares**2).sum(axis=1)
    return total
