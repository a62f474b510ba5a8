"""Private means and covariances of streams.

The estimator lives here with its stream, and in ``factorizations`` the workloads and
the matrices that shape noise, which are pure linear algebra.
"""

from ._jme import JMECovariance
from ._stream_estimator import MomentRelease
from .factorizations import BISR, Exponential, Window

__all__ = ["BISR", "Exponential", "JMECovariance", "MomentRelease", "Window"]
