"""Private linear models: of one table, and one per user with shared directions."""

from ._lrs import Alternation, LRSRegressor, PrivateRounds, UserIntercept
from ._ridge import DPRidge, DPRidgeClassifier

__all__ = [
    "Alternation",
    "DPRidge",
    "DPRidgeClassifier",
    "LRSRegressor",
    "PrivateRounds",
    "UserIntercept",
]
