"""Kernels of low rank plus sparse regression over many users, by one name."""

from ._lrs_local import LocalRules, cold_fit, shared_scores, thresholding_pursuit
from ._lrs_moments import (
    leading_directions,
    n_curvature,
    n_packed,
    row_norms,
    solve_moments,
    start_moments,
    sum_on_grid,
    user_moments,
)
from ._lrs_shared import positive_qr
from ._lrs_solver import Alternation, UserParameters, fit_users
from ._per_user import empty_stack
from ._user_rows import Block, UserRows, column_scales

__all__ = [
    "Alternation",
    "Block",
    "LocalRules",
    "UserParameters",
    "UserRows",
    "cold_fit",
    "column_scales",
    "empty_stack",
    "fit_users",
    "leading_directions",
    "n_curvature",
    "n_packed",
    "positive_qr",
    "row_norms",
    "shared_scores",
    "solve_moments",
    "start_moments",
    "sum_on_grid",
    "thresholding_pursuit",
    "user_moments",
]
