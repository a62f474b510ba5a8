"""What is released: frozen, data-free descriptions of private mechanisms.

A mechanism documents everything that the accounting needs to know about one
release. It holds no data, draws no noise and derives no sensitivity. Names that are
imported as themselves are for other folders, and not part of the reference.
"""

from ._plan import Alternatives as Alternatives
from ._plan import Concern as Concern
from ._plan import ParallelPlan as ParallelPlan
from ._plan import PrivacyPlan
from ._plan import Remark as Remark
from ._plan import html_table as html_table
from ._planned_releases import ApproximateDP, SubsampledGaussian
from ._planned_releases import Assumption as Assumption
from ._planned_releases import CorrelatedGaussian as CorrelatedGaussian
from ._planned_releases import Exact as Exact
from ._planned_releases import ExponentialMechanism as ExponentialMechanism
from ._planned_releases import Gaussian as Gaussian
from ._planned_releases import Mechanism as Mechanism
from ._planned_releases import Neighbors as Neighbors
from ._planned_releases import SampledGaussian as SampledGaussian
from ._planned_releases import SharedGaussian as SharedGaussian
from ._planned_releases import ThresholdedGaussian as ThresholdedGaussian
from ._planned_releases import Unit as Unit
from ._planned_releases import check_count as check_count
from ._planned_releases import check_real as check_real
from ._planned_releases import shown as shown

__all__ = ["ApproximateDP", "PrivacyPlan", "SubsampledGaussian"]
