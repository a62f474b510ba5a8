"""Pure linear algebra: arrays to arrays, without noise, budgets or estimators."""

from .covariance import MomentRows, project_covariance, project_spectrum
from .decomposition.differences import row_differences
from .decomposition.eigen import flip_signs, top_eigh
from .decomposition.moments import (
    BLOCK_ROWS,
    SecondMoment,
    blocked_mean,
    blocked_second_moment,
    row_blocks,
    rows_per_block,
)
from .decomposition.power_step import (
    floor_eigenvalues,
    leading_first,
    orthonormal_rows,
    residual,
    shifted_power_step,
    squared_parts,
)
from .decomposition.rank import select_rank
from .decomposition.spiked_noise import (
    band_shapes,
    noisy_projector_vectors,
    top_right_vectors,
)
from .decomposition.unit_rows import unit_row_moments
from .federation import (
    blocked_product,
    independent_columns,
    inverse_variance_weights,
    largest_rows,
    orthonormal_columns,
    pack_lower,
    sparse_subspace,
    spike_strength,
    subspace_variances,
    top_of_projectors,
    truncated_basis,
    unpack_lower,
    weighted_median,
)
from .linear_model.per_user import combined_columns, totals
from .preprocessing import (
    DifferenceCounts,
    moment_sums,
    node_values,
    phase_sums,
    sum_over_rows,
    unwind_phases,
)

__all__ = [
    "BLOCK_ROWS",
    "DifferenceCounts",
    "MomentRows",
    "SecondMoment",
    "band_shapes",
    "blocked_mean",
    "blocked_product",
    "blocked_second_moment",
    "combined_columns",
    "flip_signs",
    "floor_eigenvalues",
    "independent_columns",
    "inverse_variance_weights",
    "largest_rows",
    "leading_first",
    "moment_sums",
    "node_values",
    "noisy_projector_vectors",
    "orthonormal_columns",
    "orthonormal_rows",
    "pack_lower",
    "phase_sums",
    "project_covariance",
    "project_spectrum",
    "residual",
    "row_blocks",
    "row_differences",
    "rows_per_block",
    "select_rank",
    "shifted_power_step",
    "sparse_subspace",
    "spike_strength",
    "squared_parts",
    "subspace_variances",
    "sum_over_rows",
    "top_eigh",
    "top_of_projectors",
    "top_right_vectors",
    "totals",
    "truncated_basis",
    "unit_row_moments",
    "unpack_lower",
    "unwind_phases",
    "weighted_median",
]
