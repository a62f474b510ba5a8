"""What a mean is over: rows about a point, or pairs of rows.

One row is in twice as large a share of the pairs as it is of the rows. Of a mean over
pairs *half* is therefore released, which has the sensitivity of a mean over rows: one
plan serves for both, and which of the two it is may be chosen by earlier releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _linalg, sensitivity
from .._tables.pairs import PairOrder

# Pairs that a row is the first of, where a table has up to so many numbers, and where
# it has more: they lower the sampling error, and cost time.
_SHIFTS, _FEWEST_SHIFTS = ((1 << 20, 8), (1 << 22, 4)), 2
# What is released of a mean over pairs.
HALF = 0.5


def pair_order(n_samples: int, n_features: int) -> PairOrder:
    """Return which rows of a table of that shape are paired."""
    numbers = n_samples * n_features
    wanted = (shifts for most, shifts in _SHIFTS if numbers <= most)
    shifts = min(next(wanted, _FEWEST_SHIFTS), max(1, (n_samples - 1) // 2))
    return PairOrder(n_samples, n_features, shifts)


def weight_of(origin: Any) -> float:
    """Share of a mean that is released: all of it, or half of one over pairs."""
    return HALF if isinstance(origin, PairOrder) else 1.0


def summation_error(
    bound: float, n_samples: int, n_features: int, paired: bool | None
) -> float:
    """Largest error of what is released of a mean of terms, from rounding.

    Parameters
    ----------
    bound : float
        Bound on the norm of the mean of the moduli of the terms.
    n_samples, n_features : int
        Public shape of the rows.
    paired : bool or None
        Whether terms are pairs; None where releases tell.
    """
    block, together = _linalg.rows_per_block(n_features), _linalg.BLOCKS_TOGETHER
    rows = sensitivity.summation_error(bound, n_samples, block, together)
    if paired is False:
        return rows
    order = pair_order(n_samples, n_features)
    terms = order.n_blocks * order.block_rows
    size = order.block_rows
    pairs = HALF * sensitivity.summation_error(bound, terms, size, together)
    return pairs if paired else max(rows, pairs)


@dataclass(frozen=True)
class Terms:
    """Blocks of rows about a point, or of differences over the root of two.

    Parameters
    ----------
    walked : Walked
        The rows, and the walk that yields the blocks.
    n_terms : int
        Their number.
    weight : float, default=1.0
        What is released of their mean.
    """

    walked: _linalg.Walked
    n_terms: int
    weight: float = 1.0

    def reduce(self, kernel: _linalg.Kernel) -> Any:
        """Return the sums that a kernel makes of the blocks."""
        return self.walked.reduce(kernel)

    @property
    def divisor(self) -> float:
        """What a sum of the terms is divided by to be released."""
        return self.n_terms / self.weight

    def undo(self, released: np.ndarray) -> np.ndarray:
        """Return the released mean of the terms from what was released of it."""
        return released if self.weight == 1.0 else released / self.weight
