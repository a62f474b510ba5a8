"""Kernels of low rank plus sparse regression over many users, by one name."""

from .local import LocalRules, shared_scores
from .moments import (
    leading_directions,
    n_curvature,
    n_packed,
    parts_of,
    row_norms,
    solve_moments,
    start_moments,
    sum_on_grid,
    user_moments,
)
from .per_user import empty_stack, stacked
from .pursuits import cold_fit, thresholding_pursuit
from .shared import positive_qr
from .solver import Alternation, UserParameters, fit_users
from .user_rows import Block, Level, UserRows, column_scales

__all__ = [
    "Alternation",
    "Block",
    "Level",
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
    "parts_of",
    "positive_qr",
    "row_norms",
    "shared_scores",
    "solve_moments",
    "stacked",
    "start_moments",
    "sum_on_grid",
    "thresholding_pursuit",
    "user_moments",
]
