"""Differentially private spectral estimation and personalization for scikit-learn."""

from typing import TYPE_CHECKING

from . import _on_demand

if TYPE_CHECKING:
    from .accounting._errors import LedgerError as LedgerError
    from .accounting._errors import NoisyFitWarning as NoisyFitWarning
    from .accounting._errors import PrivacyBudgetError as PrivacyBudgetError
    from .accounting._errors import PrivacyLeakWarning as PrivacyLeakWarning
    from .accounting._ledger.accountant import PrivacyAccountant as PrivacyAccountant
    from .covariance._covariance import DPCovariance as DPCovariance
    from .covariance._jme import JMECovariance as JMECovariance
    from .decomposition._federated_pca import FederatedDPPCA as FederatedDPPCA
    from .decomposition._federated_pca import SparseDPPCA as SparseDPPCA
    from .decomposition._pca import DPPCA as DPPCA
    from .decomposition._spiked import SpikedPCA as SpikedPCA
    from .linear_model._lrs import LRSRegressor as LRSRegressor
    from .linear_model._ridge import DPRidge as DPRidge
    from .linear_model._ridge import DPRidgeClassifier as DPRidgeClassifier
    from .neural_network._estimators import DPAdamClassifier as DPAdamClassifier
    from .neural_network._estimators import DPAdamRegressor as DPAdamRegressor
    from .neural_network._personal_networks import LRSMLPRegressor as LRSMLPRegressor
    from .preprocessing._scaler import DPStandardScaler as DPStandardScaler
    from .preprocessing._vectorizer import DPTableVectorizer as DPTableVectorizer
    from .recommendation._estimators import DPItemEmbedding as DPItemEmbedding
    from .recommendation._estimators import (
        DPMatrixFactorization as DPMatrixFactorization,
    )
    from .statements._statement import statement as statement

__version__ = "0.1.0"

_HOMES = {
    "accounting._errors": "LedgerError NoisyFitWarning PrivacyBudgetError "
    "PrivacyLeakWarning",
    "accounting._ledger.accountant": "PrivacyAccountant",
    "covariance._covariance": "DPCovariance",
    "covariance._jme": "JMECovariance",
    "decomposition._federated_pca": "FederatedDPPCA SparseDPPCA",
    "decomposition._pca": "DPPCA",
    "decomposition._spiked": "SpikedPCA",
    "linear_model._lrs": "LRSRegressor",
    "linear_model._ridge": "DPRidge DPRidgeClassifier",
    "neural_network._estimators": "DPAdamClassifier DPAdamRegressor",
    "neural_network._personal_networks": "LRSMLPRegressor",
    "preprocessing._scaler": "DPStandardScaler",
    "preprocessing._vectorizer": "DPTableVectorizer",
    "recommendation._estimators": "DPItemEmbedding DPMatrixFactorization",
    "statements._statement": "statement",
}
_ROOMS = (
    "accounting audit covariance datasets decomposition federation linear_model "
    "mechanisms metrics model_selection neural_network pipeline plotting preprocessing "
    "recommendation statements"
)
_INNER = "factorizations sensitivity"

__getattr__, __dir__, __all__ = _on_demand.names_of(__name__, _HOMES, _ROOMS, _INNER)
