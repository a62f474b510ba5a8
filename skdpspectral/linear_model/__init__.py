"""Private linear models: one regression per user, with shared directions."""

from ._lrs import LRSRegressor
from ._parameters import (
    Alternation,
    GivenDirections,
    PrivateRounds,
    UserIntercept,
    UserWeights,
)
from ._users import personalize

__all__ = [
    "Alternation",
    "GivenDirections",
    "LRSRegressor",
    "PrivateRounds",
    "UserIntercept",
    "UserWeights",
    "personalize",
]
