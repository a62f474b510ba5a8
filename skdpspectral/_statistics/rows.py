"""Walks over the rows of a table, over a sample of them, and over their differences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg.walks import RowWalk, Walked, Writing, row_squares
from .._tables.clipping import Box
from .._tables.pairs import (
    PairOrder,
    PairWalk,
    PoolWalk,
    row_differences,
    sign_differences,
)
from .statistic import pair_order


class Sample(NamedTuple):
    """Numbers of pools, and of the rows in them, of which `rounding` bounds a mean's.

    It is a bound on the rounding error of the mean of rows in the unit ball.
    """

    pools: int
    n_rows: int
    rounding: float

    @classmethod
    def of(cls, order: PairOrder, wanted: float) -> Sample:
        """Return a sample of about `wanted` rows, or of all of them."""
        pools = order.pools_with(math.ceil(min(wanted, order.n_samples)))
        n_rows, block = order.rows_of(pools), order.block_rows
        terms = (n_rows // block + pools) * block  # blocks may be short
        return cls(pools, n_rows, sensitivity.summation_error(1.0, terms, block))


@dataclass(frozen=True)
class Rows:
    """Rows of a table of public shape (n, p), in units of a public `box` if any.

    Samples and pairs are chosen by place alone. With `ranks`, differences are signs.
    """

    n: int
    p: int
    box: Box | None = None
    ranks: bool = False

    @cached_property
    def sampling(self) -> PairOrder:
        """Order of which samples are the first pools; each row has two neighbors."""
        return PairOrder(self.n, self.p, 1)

    def sample(self, wanted: float) -> Sample:
        """Return a sample of about `wanted` rows, or of all of them."""
        return Sample.of(self.sampling, wanted)

    def about(self, X: Any, center: Any, sample: Sample | None = None) -> Walked:
        """Walk over all rows, or those of a sample, minus a center or None."""
        row_map = Writing(partial(self._minus, center=center))
        if sample is None or sample.n_rows == self.n:
            return Walked(X, RowWalk(row_map, self.sampling.block_rows))
        return Walked(X, PoolWalk(self.sampling, sample.pools, row_map))

    def _minus(self, block, center, out=None):
        if self.box is not None:
            block = out = self.box.to_unit(block, out=out)
        if center is None:  # blocks may be overwritten; sparse ones stay sparse
            if out is None or block is out:
                return block
            center = 0.0
        with np.errstate(over="ignore"):
            return np.subtract(block, center, out=out, dtype=np.float64)

    @property
    def n_pairs(self) -> int:
        """Return the number of pairs of all rows."""
        return pair_order(self.n, self.p).n_pairs

    def differences(self, X: Any, sample: Sample | None = None) -> Walked:
        """Walk over differences of paired rows over the root of two, or their signs."""
        order, pools = pair_order(self.n, self.p), None
        if sample is not None:  # each row is in two pairs of the sample
            order, pools = self.sampling, sample.pools
        unit = None if self.box is None or self.ranks else self.box.to_unit
        signs = sign_differences if self.ranks else row_differences
        return Walked(X, PairWalk(order, unit, pools, _halved, signs))

    @property
    def unit(self) -> float:
        """Return the data units in a unit of the box, where all features have one."""
        return 1.0 if self.box is None else float(self.box.unit[0])

    def to_data(self, center: np.ndarray | None) -> np.ndarray:
        """Return a center, None for the origin, in units of the data."""
        center = np.zeros(self.p) if center is None else center
        if self.box is None:
            return center
        return self.box.midpoint + self.box.unit * center


def _halved(difference):
    difference *= math.sqrt(0.5)
    return difference


def squares(rows) -> np.ndarray:
    """Return squared lengths of rows: infinite on overflow, 0 on underflow."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(row_squares(rows), nan=np.inf, posinf=np.inf)


# A row's vote is shared between two neighbors in so many parts: sums are exact.
PARTS = 1024


def count_shared(places: np.ndarray, size: int) -> np.ndarray:
    """Count numbers from 0 to `size` - 1, each shared between the integers about it.

    The two parts of a number add up to `PARTS`; none is negative.
    """
    places = np.clip(PARTS * places, 0, PARTS * (size - 1) - 1).astype(np.int64)
    whole, part = np.divmod(places, PARTS)
    counts = np.bincount(whole, PARTS - part, size)
    return counts + np.bincount(whole + 1, part, size)
