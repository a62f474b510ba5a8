"""Pure linear algebra: arrays to arrays, without noise, budgets or estimators."""

from ._eigen import flip_signs, top_eigh
from ._moments import (
    BLOCK_ROWS,
    SecondMoment,
    blocked_mean,
    blocked_second_moment,
    pack_moments,
    row_blocks,
    unpack_moments,
)

__all__ = [
    "BLOCK_ROWS",
    "SecondMoment",
    "blocked_mean",
    "blocked_second_moment",
    "flip_signs",
    "pack_moments",
    "row_blocks",
    "top_eigh",
    "unpack_moments",
]
