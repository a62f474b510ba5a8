"""Splits of rows, and searches over parameters, under one guarantee."""

from ._private_search import PrivateSearchCV
from ._splits import PerUserKFold, PrivateSplit

__all__ = ["PerUserKFold", "PrivateSearchCV", "PrivateSplit"]
