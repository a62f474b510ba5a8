"""Networks of dense layers that are trained by private Adam, and Adam itself.

Estimators import the core, kernels and tables alone, and factorizations from
`covariance`; other rooms import nothing from here.
"""

from ._adam import JMEAdam
from ._classifier import DPAdamClassifier
from ._regressor import DPAdamRegressor

__all__ = ["DPAdamClassifier", "DPAdamRegressor", "JMEAdam"]
