"""Pure linear algebra: arrays to arrays, without noise, budgets or estimators."""

from ._eigen import flip_signs, top_eigh
from ._moment_rows import MomentRows, project_covariance, project_spectrum
from ._moments import (
    BLOCK_ROWS,
    SecondMoment,
    blocked_mean,
    blocked_second_moment,
    row_blocks,
    rows_per_block,
)
from ._power_step import (
    floor_eigenvalues,
    leading_first,
    orthonormal_rows,
    residual,
    shifted_power_step,
    squared_parts,
)
from ._rank import select_rank
from ._spiked_noise import (
    band_shapes,
    noisy_projector_vectors,
    top_right_vectors,
)
from ._unit_rows import unit_row_moments

__all__ = [
    "BLOCK_ROWS",
    "MomentRows",
    "SecondMoment",
    "band_shapes",
    "blocked_mean",
    "blocked_second_moment",
    "flip_signs",
    "floor_eigenvalues",
    "leading_first",
    "noisy_projector_vectors",
    "orthonormal_rows",
    "project_covariance",
    "project_spectrum",
    "residual",
    "row_blocks",
    "rows_per_block",
    "select_rank",
    "shifted_power_step",
    "squared_parts",
    "top_eigh",
    "top_right_vectors",
    "unit_row_moments",
]
