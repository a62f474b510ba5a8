"""Pure linear algebra: arrays to arrays, without noise, budgets or estimators."""

from ._aggregation import (
    blocked_product,
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
)
from ._eigen import flip_signs, top_eigh
from ._moments import (
    BLOCK_ROWS,
    SecondMoment,
    blocked_mean,
    blocked_second_moment,
    row_blocks,
)

__all__ = [
    "BLOCK_ROWS",
    "SecondMoment",
    "blocked_mean",
    "blocked_product",
    "blocked_second_moment",
    "flip_signs",
    "inverse_variance_weights",
    "largest_rows",
    "orthonormal_columns",
    "pack_lower",
    "row_blocks",
    "sparse_subspace",
    "spike_strength",
    "subspace_variances",
    "top_eigh",
    "top_of_projectors",
    "truncated_basis",
    "unpack_lower",
]
