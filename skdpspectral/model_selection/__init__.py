"""Splits of rows for models that know their users.

Splitters live here; they see ids of users and no budgets.
"""

from ._per_user import PerUserKFold
from ._private_search import PrivateSearchCV
from ._private_split import PrivateSplit

__all__ = ["PerUserKFold", "PrivateSearchCV", "PrivateSplit"]
