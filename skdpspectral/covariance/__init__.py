"""Private means and covariances of streams, and the strategies of the estimator."""

from ..factorizations import BISR, Exponential, Window
from ._covariance import DPCovariance
from ._jme import JMECovariance, JointMoments

__all__ = [
    "BISR",
    "DPCovariance",
    "Exponential",
    "JMECovariance",
    "JointMoments",
    "Window",
]
