"""Networks of dense layers that are trained by private Adam, and Adam itself.

Estimators import the core, kernels and tables alone, and factorizations from
`covariance`; other rooms import nothing from here. Networks of users have their
statistics in ``_shared_weights``, and what stays with users in ``_user_fits``.
"""

from ._adam import JMEAdam
from ._classifier import DPAdamClassifier
from ._network_choices import AlternatingAdam, count_parameters
from ._personal_networks import LRSMLPRegressor
from ._regressor import DPAdamRegressor

__all__ = [
    "AlternatingAdam",
    "DPAdamClassifier",
    "DPAdamRegressor",
    "JMEAdam",
    "LRSMLPRegressor",
    "count_parameters",
]
