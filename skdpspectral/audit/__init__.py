"""Empirical lower bounds on privacy loss, and reports about pipelines."""

from .._base.privacy_report import privacy_report, publish
from ._audit import AuditResult, audit_in_few_fits
from ._canaries import (
    Canaries,
    clipped_gradients,
    joining_users,
    pairs_of_categories,
    pairs_of_features,
    two_tables,
)

__all__ = [
    "AuditResult",
    "Canaries",
    "audit_in_few_fits",
    "clipped_gradients",
    "joining_users",
    "pairs_of_categories",
    "pairs_of_features",
    "privacy_report",
    "publish",
    "two_tables",
]
