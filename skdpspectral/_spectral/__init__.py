"""Pure linear algebra: arrays to arrays, without noise, budgets or estimators."""

from ._eigen import flip_signs, top_eigh
from ._moment_rows import MomentRows, project_covariance, project_spectrum
from ._moments import (
    BLOCK_ROWS,
    SecondMoment,
    blocked_mean,
    blocked_second_moment,
    row_blocks,
)

__all__ = [
    "BLOCK_ROWS",
    "MomentRows",
    "SecondMoment",
    "blocked_mean",
    "blocked_second_moment",
    "flip_signs",
    "project_covariance",
    "project_spectrum",
    "row_blocks",
    "top_eigh",
]
