"""Networks of dense layers that are trained by private Adam, and Adam itself."""

from ._adam import Adam, JMEAdam
from ._estimators import DPAdamClassifier, DPAdamRegressor
from ._personal_networks import LRSMLPRegressor

__all__ = [
    "Adam",
    "DPAdamClassifier",
    "DPAdamRegressor",
    "JMEAdam",
    "LRSMLPRegressor",
]
