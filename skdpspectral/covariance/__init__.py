"""Private means and covariances of streams.

The estimator lives here with its stream, and in ``factorizations`` the workloads and
the matrices that shape noise, which are pure linear algebra.
"""

from ..factorizations._choices import BISR
from ..factorizations._workloads import Exponential, Window
from ._jme import JMECovariance
from ._moments import AssumeCentered, BaselineMoments, JointMoments
from ._stream_estimator import MomentRelease

__all__ = [
    "BISR",
    "AssumeCentered",
    "BaselineMoments",
    "Exponential",
    "JMECovariance",
    "JointMoments",
    "MomentRelease",
    "Window",
]
