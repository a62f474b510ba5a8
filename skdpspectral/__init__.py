"""Differentially private spectral estimation and personalisation for scikit-learn."""

from ._jme import JMECovariance
from ._lrs import LRSRegressor
from ._pca import DPPCA
from .accounting import (
    LedgerError,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)

__version__ = "0.1.0"

__all__ = [
    "DPPCA",
    "JMECovariance",
    "LRSRegressor",
    "LedgerError",
    "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning",
]
