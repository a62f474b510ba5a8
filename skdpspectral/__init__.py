"""Differentially private spectral estimation and personalization for scikit-learn."""

from .accounting import (
    LedgerError,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from .covariance._jme import JMECovariance
from .decomposition._federated_pca import FederatedDPPCA
from .decomposition._pca import DPPCA
from .decomposition._sparse_pca import SparseDPPCA
from .linear_model._lrs import LRSRegressor
from .neural_network._classifier import DPAdamClassifier
from .neural_network._personal_networks import LRSMLPRegressor
from .neural_network._regressor import DPAdamRegressor
from .preprocessing._scaler import DPStandardScaler
from .recommendation._item_embedding import DPItemEmbedding
from .recommendation._matrix_factorization import DPMatrixFactorization

__version__ = "0.1.0"

__all__ = [
    "DPPCA",
    "DPAdamClassifier",
    "DPAdamRegressor",
    "DPItemEmbedding",
    "DPMatrixFactorization",
    "DPStandardScaler",
    "FederatedDPPCA",
    "JMECovariance",
    "LRSMLPRegressor",
    "LRSRegressor",
    "LedgerError",
    "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning",
    "SparseDPPCA",
]
