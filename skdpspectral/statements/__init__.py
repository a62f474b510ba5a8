"""Statements of what was promised: for the person responsible, auditors, registries."""

from ._statement import Statement, statement

__all__ = ["Statement", "statement"]
