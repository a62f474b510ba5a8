"""Workloads of streams and factorizations that shape their noise: pure arithmetic."""

from ._choices import BISR, factorize, needs_steps
from ._errors import GappedGain, NoiseGain, workload_error
from ._factorizations import (
    Buffers,
    Factorization,
    optimal_matrix,
    optimize_buffers,
    prefix_buffers,
)
from ._workloads import Average, Custom, Exponential, Prefix, Window, Workload

__all__ = [
    "BISR",
    "Average",
    "Buffers",
    "Custom",
    "Exponential",
    "Factorization",
    "GappedGain",
    "NoiseGain",
    "Prefix",
    "Window",
    "Workload",
    "factorize",
    "needs_steps",
    "optimal_matrix",
    "optimize_buffers",
    "prefix_buffers",
    "workload_error",
]
