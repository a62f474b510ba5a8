"""Splits of rows, and searches over parameters, under one guarantee."""

from ._private_search import PrivateSearchCV
from ._random_runs import RandomRuns
from ._splits import PerUserKFold, PrivateSplit
from ._vote import Vote

__all__ = ["PerUserKFold", "PrivateSearchCV", "PrivateSplit", "RandomRuns", "Vote"]
