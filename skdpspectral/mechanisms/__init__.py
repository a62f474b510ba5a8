"""What is released: frozen, data-free descriptions of private mechanisms.

A mechanism documents everything that the accounting needs to know about one
release. It holds no data, draws no noise and derives no sensitivity. Names that are
imported as themselves are for other folders, and not part of the reference.
"""

from ._plan import Alternatives as Alternatives
from ._plan import ApproximateDP, PrivacyPlan, SubsampledGaussian
from ._plan import Assumption as Assumption
from ._plan import Concern as Concern
from ._plan import CorrelatedGaussian as CorrelatedGaussian
from ._plan import Exact as Exact
from ._plan import ExponentialMechanism as ExponentialMechanism
from ._plan import Gaussian as Gaussian
from ._plan import Mechanism as Mechanism
from ._plan import Neighbors as Neighbors
from ._plan import ParallelPlan as ParallelPlan
from ._plan import Remark as Remark
from ._plan import SampledGaussian as SampledGaussian
from ._plan import SharedGaussian as SharedGaussian
from ._plan import ThresholdedGaussian as ThresholdedGaussian
from ._plan import Unit as Unit
from ._plan import check_count as check_count
from ._plan import check_real as check_real
from ._plan import html_table as html_table
from ._plan import shown as shown

__all__ = ["ApproximateDP", "PrivacyPlan", "SubsampledGaussian"]
