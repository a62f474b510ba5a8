"""Networks of dense layers that are trained by private Adam, and Adam itself."""

from ._adam import Adam, AdamStability, JMEAdam
from ._estimators import DPAdamClassifier, DPAdamRegressor
from ._network_choices import AlternatingAdam, UserNetwork, count_parameters
from ._personal_networks import LRSMLPRegressor

__all__ = [
    "Adam",
    "AdamStability",
    "AlternatingAdam",
    "DPAdamClassifier",
    "DPAdamRegressor",
    "JMEAdam",
    "LRSMLPRegressor",
    "UserNetwork",
    "count_parameters",
]
