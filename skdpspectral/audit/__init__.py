"""Empirical lower bounds on privacy loss, and reports about pipelines."""

from .._base.privacy_report import (
    PrivacyReport,
    StepReport,
    privacy_report,
    publish,
)
from ._epsilon import AuditResult, audit_epsilon, mu_lower_bound

__all__ = [
    "AuditResult",
    "PrivacyReport",
    "StepReport",
    "audit_epsilon",
    "mu_lower_bound",
    "privacy_report",
    "publish",
]
