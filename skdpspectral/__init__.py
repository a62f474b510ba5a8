"""Differentially private spectral estimation and personalization for scikit-learn."""

from typing import TYPE_CHECKING

from . import _on_demand

if TYPE_CHECKING:
    from .accounting._errors import (
        LedgerError,
        NoisyFitWarning,
        PrivacyBudgetError,
        PrivacyLeakWarning,
    )
    from .accounting._ledger.accountant import PrivacyAccountant
    from .covariance._jme import JMECovariance
    from .decomposition._federated_pca import FederatedDPPCA
    from .decomposition._pca import DPPCA
    from .decomposition._sparse_pca import SparseDPPCA
    from .linear_model._lrs import LRSRegressor
    from .linear_model._ridge import DPRidge, DPRidgeClassifier
    from .neural_network._estimators import DPAdamClassifier, DPAdamRegressor
    from .neural_network._personal_networks import LRSMLPRegressor
    from .preprocessing._scaler import DPStandardScaler
    from .preprocessing._vectorizer import DPTableVectorizer
    from .recommendation._item_embedding import DPItemEmbedding
    from .recommendation._matrix_factorization import DPMatrixFactorization
    from .statements._statement import statement

__version__ = "0.1.0"


__all__ = [
    "DPPCA",
    "DPAdamClassifier",
    "DPAdamRegressor",
    "DPItemEmbedding",
    "DPMatrixFactorization",
    "DPRidge",
    "DPRidgeClassifier",
    "DPStandardScaler",
    "DPTableVectorizer",
    "FederatedDPPCA",
    "JMECovariance",
    "LRSMLPRegressor",
    "LRSRegressor",
    "LedgerError",
    "NoisyFitWarning",
    "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning",
    "SparseDPPCA",
    "statement",
]


_HOMES = {
    "accounting._errors": (
        "LedgerError",
        "NoisyFitWarning",
        "PrivacyBudgetError",
        "PrivacyLeakWarning",
    ),
    "accounting._ledger.accountant": ("PrivacyAccountant",),
    "covariance._jme": ("JMECovariance",),
    "decomposition._federated_pca": ("FederatedDPPCA",),
    "decomposition._pca": ("DPPCA",),
    "decomposition._sparse_pca": ("SparseDPPCA",),
    "linear_model._lrs": ("LRSRegressor",),
    "linear_model._ridge": ("DPRidge", "DPRidgeClassifier"),
    "neural_network._estimators": ("DPAdamClassifier", "DPAdamRegressor"),
    "neural_network._personal_networks": ("LRSMLPRegressor",),
    "preprocessing._scaler": ("DPStandardScaler",),
    "preprocessing._vectorizer": ("DPTableVectorizer",),
    "recommendation._item_embedding": ("DPItemEmbedding",),
    "recommendation._matrix_factorization": ("DPMatrixFactorization",),
    "statements._statement": ("statement",),
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
    "pipeline",
    "plotting",
    "preprocessing",
    "recommendation",
    "statements",
)


_INNER = ("sensitivity",)


__getattr__, __dir__ = _on_demand.names_of(__name__, _HOMES, _ROOMS, _INNER)
