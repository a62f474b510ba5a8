"""Differentially private spectral estimation and personalisation for scikit-learn."""

from ._item_embedding import DPItemEmbedding
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
    "DPItemEmbedding",
    "JMECovariance",
    "LRSRegressor",
    "LedgerError",
    "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning",
]
