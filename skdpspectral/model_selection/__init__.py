"""Splits of rows for models that know their users.

Splitters live here; they see ids of users and no budgets.
"""

from ._private_search import PrivateSearchCV
from ._splits import PerUserKFold, PrivateSplit

__all__ = ["PerUserKFold", "PrivateSearchCV", "PrivateSplit"]
