"""Splits of rows for models that know their users.

Splitters live here; they see ids of users and no budgets.
"""

from ._per_user import PerUserKFold

__all__ = ["PerUserKFold"]
