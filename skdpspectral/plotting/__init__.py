"""Displays of what privacy costs; they need matplotlib only to draw."""

from ._privacy_utility import PrivacyUtilityDisplay

__all__ = ["PrivacyUtilityDisplay"]
