"""Displays of what privacy costs and what noise does; they need matplotlib to draw."""

from ._displays import (
    AuditDisplay,
    EffectsDisplay,
    LedgerDisplay,
    PrivacyUtilityDisplay,
    ScoresDisplay,
)

__all__ = [
    "AuditDisplay",
    "EffectsDisplay",
    "LedgerDisplay",
    "PrivacyUtilityDisplay",
    "ScoresDisplay",
]
