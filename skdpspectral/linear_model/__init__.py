"""Private linear models: of one table, and one per user with shared directions."""

from ._lrs import LRSRegressor, personalize
from ._parameters import (
    Alternation,
    GivenDirections,
    PrivateRounds,
    UserIntercept,
    UserWeights,
)
from ._ridge import DPRidge, DPRidgeClassifier

__all__ = [
    "Alternation",
    "DPRidge",
    "DPRidgeClassifier",
    "GivenDirections",
    "LRSRegressor",
    "PrivateRounds",
    "UserIntercept",
    "UserWeights",
    "personalize",
]
