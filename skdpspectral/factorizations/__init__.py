"""Workloads of streams and factorizations that shape their noise: pure arithmetic.

Names that are imported as themselves are for other folders, not for users.
"""

from ._factorizations import (
    BISR,
    Average,
    Exponential,
    NoiseGain,
    Prefix,
    Window,
    factorize,
    workload_error,
)
from ._factorizations import MOST_STEPS as MOST_STEPS
from ._factorizations import NAMES as NAMES
from ._factorizations import Factorization as Factorization
from ._factorizations import Pair as Pair
from ._factorizations import Workload as Workload
from ._factorizations import needs_steps as needs_steps

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
