"""Networks of dense layers that are trained by private Adam, and Adam itself."""

from ._adam import Adam, JMEAdam
from ._estimators import DPAdamClassifier, DPAdamRegressor
from ._network_choices import AlternatingAdam, UserNetwork
from ._personal_networks import LRSMLPRegressor

__all__ = [
    "Adam",
    "AlternatingAdam",
    "DPAdamClassifier",
    "DPAdamRegressor",
    "JMEAdam",
    "LRSMLPRegressor",
    "UserNetwork",
]
