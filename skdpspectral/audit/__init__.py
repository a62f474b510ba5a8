"""Empirical lower bounds on privacy loss, and reports about pipelines."""

from .._base.privacy_report import privacy_report, publish
from ._epsilon import audit_epsilon

__all__ = [
    "audit_epsilon",
    "privacy_report",
    "publish",
]
