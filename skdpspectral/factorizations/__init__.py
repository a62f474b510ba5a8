"""Workloads of streams and factorizations that shape their noise: pure arithmetic.

Names that are imported as themselves are for other folders, not for users.
"""

from ._choices import BISR, factorize
from ._factorizations import Factorization as Factorization
from ._factorizations import NoiseGain, workload_error
from ._workloads import Average, Exponential, Prefix, Window
from ._workloads import Workload as Workload

__all__ = [
    "BISR",
    "Average",
    "Exponential",
    "NoiseGain",
    "Prefix",
    "Window",
    "factorize",
    "workload_error",
]
