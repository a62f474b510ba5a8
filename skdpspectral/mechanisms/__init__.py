"""What is released: frozen, data-free descriptions of private mechanisms.

A mechanism documents everything that the accounting needs to know about one
release. It holds no data, draws no noise and derives no sensitivity.
"""

from ._alternatives import Alternatives
from ._correlated import CorrelatedGaussian
from ._gaussian import GRID_BITS, Exact, Gaussian, Mechanism
from ._numbers import check_count, check_real, shown
from ._parallel_plan import ParallelPlan, read_plan
from ._plan import PrivacyPlan
from ._relations import Assumption, Neighbors, Unit

__all__ = [
    "GRID_BITS",
    "Alternatives",
    "Assumption",
    "CorrelatedGaussian",
    "Exact",
    "Gaussian",
    "Mechanism",
    "Neighbors",
    "ParallelPlan",
    "PrivacyPlan",
    "Unit",
    "check_count",
    "check_real",
    "read_plan",
    "shown",
]
