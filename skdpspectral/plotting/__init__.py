"""Displays of what privacy costs and what noise does; they need matplotlib to draw."""

from ._displays import (
    AuditDisplay,
    ClientWeightsDisplay,
    ComponentsDisplay,
    EffectsDisplay,
    LedgerDisplay,
    PrivacyUtilityDisplay,
    ScoresDisplay,
    StreamDisplay,
)

__all__ = [
    "AuditDisplay",
    "ClientWeightsDisplay",
    "ComponentsDisplay",
    "EffectsDisplay",
    "LedgerDisplay",
    "PrivacyUtilityDisplay",
    "ScoresDisplay",
    "StreamDisplay",
]
