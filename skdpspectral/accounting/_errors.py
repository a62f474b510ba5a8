"""Errors and warnings about budgets, ledgers and leaks.

Packages that only some ledgers need, and errors that name them.
"""

from __future__ import annotations

import importlib
from typing import Any


class PrivacyBudgetError(RuntimeError):
    """A release would exceed the budget; nothing was charged or released.

    Parameters
    ----------
    message : str
        What was refused, and what can be done.
    requested : float or None
        The epsilon that was asked for, at the ledger's delta.
    remaining : float or None
        The epsilon that is left, at the ledger's delta.
    """

    def __init__(
        self,
        message: str,
        requested: float | None = None,
        remaining: float | None = None,
    ) -> None:
        super().__init__(message, requested, remaining)
        self.requested = requested
        self.remaining = remaining

    def __str__(self) -> str:
        return str(self.args[0])


class LedgerError(RuntimeError):
    """A ledger file is missing, foreign, damaged or of another version."""


class PrivacyLeakWarning(UserWarning):
    """What was asked for protects nobody, or protects less than it seems to."""


def psycopg() -> Any:
    """Return the client of PostgreSQL, or say how to install it."""
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise ImportError(
            "a ledger at postgresql://... needs psycopg 3: "
            "pip install 'skdpspectral[postgres]'"
        ) from error
