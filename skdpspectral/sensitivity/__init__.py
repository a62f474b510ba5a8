"""Why a release is private: one function a lemma, public bounds to a float.

Every function takes public numbers only and returns the largest change, over
neighboring data sets, of a statistic. The proofs are in the theory part of the
documentation, whose index ties each lemma to its function and its test.
"""

from ._joint_moments import (
    clipped_moments_sensitivity,
    concatenated_moments_ratio,
    difference_counts_sensitivity,
    feature_moments_sensitivity,
    free_moment_weight,
    free_trace_weight,
    gradient_moments_sensitivity,
    gradient_norm,
    joint_moment_ratio,
    joint_moments_sensitivity,
    phase_sensitivity,
    second_moment_ratio,
    separate_moments_ratio,
    squared_batch_sensitivity,
)
from ._moments import (
    box_radius,
    cross_moment_sensitivity,
    mean_sensitivity,
    pair_mean_sensitivity,
    pair_moment_sensitivity,
    power_product_error,
    power_product_sensitivity,
    second_moment_sensitivity,
    summation_error,
)
from ._spiked import (
    paper_moment_sensitivity,
    paper_projector_sensitivity,
    spiked_moment_sensitivity,
    spiked_projector_sensitivity,
)
from ._users import (
    confusion_diameter,
    counted_score_sensitivity,
    projector_sum_sensitivity,
    regression_diameter,
    score_sensitivity,
    sum_sensitivity,
    vote_sensitivity,
)

__all__ = [
    "box_radius",
    "clipped_moments_sensitivity",
    "concatenated_moments_ratio",
    "confusion_diameter",
    "counted_score_sensitivity",
    "cross_moment_sensitivity",
    "difference_counts_sensitivity",
    "feature_moments_sensitivity",
    "free_moment_weight",
    "free_trace_weight",
    "gradient_moments_sensitivity",
    "gradient_norm",
    "joint_moment_ratio",
    "joint_moments_sensitivity",
    "mean_sensitivity",
    "pair_mean_sensitivity",
    "pair_moment_sensitivity",
    "paper_moment_sensitivity",
    "paper_projector_sensitivity",
    "phase_sensitivity",
    "power_product_error",
    "power_product_sensitivity",
    "projector_sum_sensitivity",
    "regression_diameter",
    "score_sensitivity",
    "second_moment_ratio",
    "second_moment_sensitivity",
    "separate_moments_ratio",
    "spiked_moment_sensitivity",
    "spiked_projector_sensitivity",
    "squared_batch_sensitivity",
    "sum_sensitivity",
    "summation_error",
    "vote_sensitivity",
]
