"""What estimators share: the way of a fit, publishing, progress, versions.

Everything here is below all estimators; ``sklearn_compat`` alone imports private names
of scikit-learn.
"""

from .estimator import PrivateEstimator

__all__ = ["PrivateEstimator"]
