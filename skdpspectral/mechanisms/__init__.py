"""What is released: frozen, data-free descriptions of private mechanisms.

A mechanism documents everything that the accounting needs to know about one
release. It holds no data, draws no noise and derives no sensitivity. Names that are
imported as themselves are for other folders, and not part of the reference.
"""

from ._curves import ApproximateDP, PrivateSelection, SubsampledGaussian
from ._gaussian import CorrelatedGaussian as CorrelatedGaussian
from ._gaussian import Exact as Exact
from ._gaussian import Gaussian as Gaussian
from ._gaussian import Mechanism as Mechanism
from ._gaussian import SampledGaussian as SampledGaussian
from ._gaussian import SharedGaussian as SharedGaussian
from ._plan import Alternatives as Alternatives
from ._plan import ParallelPlan as ParallelPlan
from ._plan import PrivacyPlan, read_plan
from ._relations import Assumption as Assumption
from ._relations import Neighbors as Neighbors
from ._relations import Unit as Unit

__all__ = [
    "ApproximateDP",
    "PrivacyPlan",
    "PrivateSelection",
    "SubsampledGaussian",
    "read_plan",
]
