"""Histograms of lengths and clipped means, of which clients find a center together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg.walks import RowWalk, Walked, Writing
from .._tables.clipping import clip_rows
from .._tables.pairs import PairOrder, PairWalk, PoolWalk
from ..accounting._gaussian import calibrate_alike
from .row_bounds import RowBounds
from .statistic import HALF, Statistic

# Rows that a center is made from, at most: more would only take time.
_MOST_ROWS = 1 << 17


@dataclass(frozen=True)
class Sample:
    """The rows that a center is computed from, chosen by the table's shape.

    These are `n_rows` rows in the first `n_pools` pools of `order`. A mean of rows in
    the unit ball has the sensitivity `moved` and a rounding error of at most
    `rounding`.
    """

    bounds: RowBounds
    order: PairOrder
    n_pools: int
    n_rows: int
    moved: float = field(init=False)
    rounding: float = field(init=False)

    def __post_init__(self) -> None:
        block, n_rows = self.order.block_rows, self.n_rows
        terms = (n_rows // block + self.n_pools) * block
        numbers = {
            "moved": sensitivity.mean_sensitivity(1.0, n_rows),
            "rounding": sensitivity.summation_error(1.0, terms, block),
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, bounds: RowBounds, n_samples: int) -> Sample:
        """Return the sample of a table of `n_samples` rows."""
        order = PairOrder(n_samples, bounds.n_features, 1)
        n_pools = order.pools_with(_MOST_ROWS)
        return cls(bounds, order, n_pools, order.rows_of(n_pools))

    def _mapped(self, block, out=None) -> np.ndarray:
        box = self.bounds.box
        if box is None:
            return np.asarray(block, np.float64)
        return box.to_unit(block, out=out)

    def about(self, X, point) -> Walked:
        """Walk over blocks of rows minus a point."""
        return self._walked(X, partial(self._about, point=point))

    def lengths(self, X) -> Walked:
        """Walk over lengths of rows."""
        return self._walked(X, self._lengths)

    def _walked(self, X, row_map) -> Walked:
        if self.n_rows == self.order.n_samples:
            # Their order is of no account: sums over all of them are.
            return Walked(X, RowWalk(Writing(row_map), self.order.block_rows))
        return Walked(X, PoolWalk(self.order, self.n_pools, Writing(row_map)))

    def _about(self, block, point, out=None) -> np.ndarray:
        if self.bounds.box is not None:
            block = self.bounds.box.to_unit(block, out=out)
        with np.errstate(over="ignore"):
            return np.subtract(block, point, out=out, dtype=np.float64)

    def _lengths(self, block, out=None) -> np.ndarray:
        return row_lengths(self._mapped(block, out))

    def distances(self, X) -> Walked:
        """Walk over lengths of differences, divided by the root of two."""
        walk = PairWalk(self.order, self._mapped, self.n_pools, _half_lengths)
        return Walked(X, walk)


def _half_lengths(differences: np.ndarray) -> np.ndarray:
    return math.sqrt(0.5) * row_lengths(differences)


def row_lengths(rows: np.ndarray) -> np.ndarray:
    """Return lengths of rows, infinity on overflow and zero on underflow."""
    with np.errstate(all="ignore"):
        return np.sqrt(np.vecdot(rows, rows))


def counts_of_lengths(blocks, points: np.ndarray) -> np.ndarray:
    """Count lengths between powers of two."""
    counts = np.zeros(len(points) + 1, dtype=np.int64)
    for lengths in blocks:
        with np.errstate(divide="ignore"):
            # A row that is not finite counts as a long one.
            logs = np.nan_to_num(np.log2(lengths), nan=np.inf, posinf=np.inf)
        counts += np.bincount(np.searchsorted(points, logs), minlength=len(counts))
    return counts


# Lengths that are told from each other: half-octaves of all that float64 can square.
EDGES = np.linspace(-199.0, 199.0, 797)
N_LENGTHS = len(EDGES) + 1
# Quantiles of the lengths.
PAIR_LEVEL, ROW_LEVEL = 0.6, 0.65
# What a histogram of half the differences, and one of the rows, sum up to.
TOTALS = (HALF, 1.0)


@dataclass(frozen=True)
class Lengths(Statistic):
    """Histograms of lengths: of half of the differences between rows, and of rows.

    One row moves each by at most sqrt(2) / n, and both by 2 / n.
    """

    sample: Sample
    name: str = "lengths"

    def mechanisms(self, mu: float) -> tuple:
        moved = sensitivity.mean_sensitivity(1.0, self.sample.n_rows)
        rounding = {"summation_error": 2.0**-50, "lemma": "length-shares shared-center"}
        shape = (len(TOTALS), N_LENGTHS)
        return calibrate_alike([self.name], moved, mu, shape, **rounding)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        kernel, exact = partial(counts_of_lengths, points=EDGES), []
        walks = self.sample.distances(rows), self.sample.lengths(rows)
        for total, walked in zip(TOTALS, walks, strict=True):
            counts = walked.reduce(kernel)
            exact.append(total * (counts / counts.sum()))
        return release(self.name, np.stack(exact))


def quantile_of(shares: np.ndarray, level: float) -> float:
    """Return a length below which a share of others lies."""
    sums = np.cumsum(shares)
    place = min(max(int(np.searchsorted(sums, level)), 1), N_LENGTHS - 2)
    within = (level - sums[place - 1]) / max(shares[place], 1e-12)
    within = min(max(within, 0.0), 1.0)
    step = EDGES[place] - EDGES[place - 1]
    return 2.0 ** float(EDGES[place - 1] + step * within)


@dataclass(frozen=True)
class CenterSteps(Statistic):
    """Clipped means that approach the rows of a sample, step by step.

    `shares` are the steps' shares of mu**2.
    """

    sample: Sample
    shares: tuple[float, ...]
    name: str = "center"

    @property
    def step_names(self) -> list[str]:
        return [f"{self.name}_{step}" for step in range(1, len(self.shares) + 1)]

    def mechanisms(self, mu: float) -> tuple:
        moved, shape = self.sample.moved, (self.sample.bounds.n_features,)
        rounding = {"summation_error": self.sample.rounding, "magnitude": 2.0}
        rounding["lemma"] = "private-center"
        return tuple(
            step
            for name, share in zip(self.step_names, self.shares, strict=True)
            for step in calibrate_alike(
                [name], moved, mu * math.sqrt(share), shape, **rounding
            )
        )

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release a step, as :meth:`mean` does."""
        return self.mean(release, rows, *given)

    def mean(self, release: Any, rows: Any, name: str, point, radius: float):
        """Release the mean of rows about a point, clipped at a radius, over it."""
        kernel = partial(_sum_of_clipped, radius=radius, n_features=len(point))
        total = self.sample.about(rows, point).reduce(kernel)
        mean = total / self.sample.n_rows / radius
        return release(name, mean, overwrite=True)


def _sum_of_clipped(blocks, radius: float, n_features: int) -> np.ndarray:
    """Sum clipped rows, in their own memory."""
    total = np.zeros(n_features)
    for block in blocks:
        total += clip_rows(block, radius, out=block).sum(axis=0)
    return total
