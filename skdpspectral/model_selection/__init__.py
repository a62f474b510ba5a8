"""Splits of rows, and searches over parameters, under one guarantee."""

from ._private_search import PrivateSearchCV
from ._splits import PrivateSplit

__all__ = ["PrivateSearchCV", "PrivateSplit"]
