"""Empirical lower bounds on privacy loss, and reports about pipelines."""

from .._base.privacy_report import privacy_report, publish
from ._audit import AuditResult, Canaries, audit_in_few_fits, pairs_of_features

__all__ = [
    "AuditResult",
    "Canaries",
    "audit_in_few_fits",
    "pairs_of_features",
    "privacy_report",
    "publish",
]
