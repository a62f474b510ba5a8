"""Statements of what was promised: for the person responsible and auditors."""

from ._statement import Statement, statement

__all__ = ["Statement", "statement"]
