"""What estimators share; ``sklearn_compat`` alone imports scikit-learn's privates."""

from .estimator import PrivateEstimator

__all__ = ["PrivateEstimator"]
