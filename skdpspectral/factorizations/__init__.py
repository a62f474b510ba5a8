"""Workloads of streams and factorizations that shape their noise: pure arithmetic."""

from ._choices import BISR, factorize
from ._errors import NoiseGain, workload_error
from ._factorizations import Factorization
from ._workloads import Average, Custom, Exponential, Prefix, Window, Workload

__all__ = [
    "BISR",
    "Average",
    "Custom",
    "Exponential",
    "Factorization",
    "NoiseGain",
    "Prefix",
    "Window",
    "Workload",
    "factorize",
    "workload_error",
]
