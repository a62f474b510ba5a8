"""Errors and warnings about budgets, ledgers and leaks."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import warnings
from collections.abc import Iterator


class PrivacyBudgetError(RuntimeError):
    """A release would exceed the budget; nothing was charged or released.

    Parameters
    ----------
    message : str
        What was refused, and possible remedies.
    requested : float or None
        The requested epsilon, at the delta of the request.
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


# Modules between a user's line and a warning.
_BETWEEN = ("skdpspectral", "sklearn", "joblib", "contextlib")

_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("silent", default=False)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's line, which is outside of this package and scikit-learn."""
    if _silent.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Leave out warnings of a fit that is tried, and not made."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
