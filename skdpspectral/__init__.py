"""Differentially private spectral estimation and personalization for scikit-learn."""

from typing import TYPE_CHECKING

from . import _on_demand

if TYPE_CHECKING:
    from .accounting._errors import LedgerError, PrivacyBudgetError, PrivacyLeakWarning
    from .accounting._ledger.accountant import PrivacyAccountant
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


_HOMES = {
    "accounting._errors": ("LedgerError", "PrivacyBudgetError", "PrivacyLeakWarning"),
    "accounting._ledger.accountant": ("PrivacyAccountant",),
    "covariance._jme": ("JMECovariance",),
    "decomposition._federated_pca": ("FederatedDPPCA",),
    "decomposition._pca": ("DPPCA",),
    "decomposition._sparse_pca": ("SparseDPPCA",),
    "linear_model._lrs": ("LRSRegressor",),
    "neural_network._classifier": ("DPAdamClassifier",),
    "neural_network._personal_networks": ("LRSMLPRegressor",),
    "neural_network._regressor": ("DPAdamRegressor",),
    "preprocessing._scaler": ("DPStandardScaler",),
    "recommendation._item_embedding": ("DPItemEmbedding",),
    "recommendation._matrix_factorization": ("DPMatrixFactorization",),
}


_ROOMS = (
    "accounting",
    "audit",
    "covariance",
    "datasets",
    "decomposition",
    "factorizations",
    "federation",
    "linear_model",
    "mechanisms",
    "metrics",
    "model_selection",
    "neural_network",
    "plotting",
    "preprocessing",
    "recommendation",
    "theory",
)


_INNER = ("sensitivity",)


__getattr__, __dir__ = _on_demand.names_of(__name__, _HOMES, _ROOMS, _INNER)
