"""Errors and warnings about budgets, ledgers and leaks."""

from __future__ import annotations


class PrivacyBudgetError(RuntimeError):
    """A release would exceed the budget; nothing was charged or released.

    Parameters
    ----------
    message : str
        What was refused, and possible remedies.
    requested : float or None
        The requested epsilon, at the ledger's delta.
    remaining : float or None
        The remaining epsilon, at the ledger's delta.
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
    """A ledger file is missing, damaged, not a ledger, or of another version."""


class NoisyFitWarning(UserWarning):
    """Part of a result is lost in the noise; the guarantee still holds.

    For this number of rows and this budget, public numbers or releases show that
    components, features, targets, categories or a mean are only noise or were left out.
    To silence only these warnings, use
    ``warnings.simplefilter("ignore", NoisyFitWarning)``.
    """


class PrivacyLeakWarning(UserWarning):
    """The requested operation gives no privacy, or less than it may appear to."""
