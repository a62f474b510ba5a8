"""What is released: frozen, data-free descriptions of private mechanisms.

A mechanism documents everything that the accounting needs to know about one
release. It holds no data, draws no noise and derives no sensitivity.
"""

from ._alternatives import Alternatives
from ._curves import ApproximateDP, PrivateSelection, SubsampledGaussian
from ._gaussian import CorrelatedGaussian, Exact, Gaussian, Mechanism
from ._parallel_plan import ParallelPlan, read_plan
from ._plan import PrivacyPlan
from ._relations import Assumption, Neighbors, Unit
from ._sampled import SampledGaussian
from ._shares import SharedGaussian

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
