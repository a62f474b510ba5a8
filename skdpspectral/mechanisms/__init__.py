"""What is released: frozen, data-free descriptions of private mechanisms.

A mechanism documents everything that the accounting needs to know about one
release. It holds no data, draws no noise and derives no sensitivity.
"""

from ._curves import ApproximateDP, PrivateSelection, SubsampledGaussian
from ._gaussian import (
    CorrelatedGaussian,
    Exact,
    Gaussian,
    Mechanism,
    SampledGaussian,
    SharedGaussian,
)
from ._plan import Alternatives, ParallelPlan, PrivacyPlan, read_plan
from ._relations import Assumption, Neighbors, Unit

__all__ = [
    "Alternatives",
    "ApproximateDP",
    "Assumption",
    "CorrelatedGaussian",
    "Exact",
    "Gaussian",
    "Mechanism",
    "Neighbors",
    "ParallelPlan",
    "PrivacyPlan",
    "PrivateSelection",
    "SampledGaussian",
    "SharedGaussian",
    "SubsampledGaussian",
    "Unit",
    "read_plan",
]
