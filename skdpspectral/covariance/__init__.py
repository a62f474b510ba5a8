"""Private means and covariances of streams, and the strategies of the estimator."""

from ..factorizations._choices import BISR
from ..factorizations._workloads import Exponential, Window
from ._covariance import DPCovariance
from ._jme import JMECovariance
from ._moments import AssumeCentered, JointMoments

__all__ = [
    "BISR",
    "AssumeCentered",
    "DPCovariance",
    "Exponential",
    "JMECovariance",
    "JointMoments",
    "Window",
]
