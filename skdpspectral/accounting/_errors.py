"""Errors and warnings about budgets, ledgers and leaks."""

from __future__ import annotations


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


class NoisyFitWarning(UserWarning):
    """Noise hides something that a fit was asked for; its guarantee holds.

    Components, features, targets, categories or a mean may be noise alone, or are left
    out: for this many rows and this budget, public numbers or releases say so.
    ``warnings.simplefilter("ignore", NoisyFitWarning)`` silences all warnings of this
    kind and no other.
    """


class PrivacyLeakWarning(UserWarning):
    """What was asked for protects nobody, or protects less than it seems to."""
