"""Private principal components: of one table, of clients' tables, and sparse ones."""

from typing import TYPE_CHECKING

from .. import _on_demand

if TYPE_CHECKING:  # what is imported on demand
    from ._bounded_moments import PrivateMean
    from ._federated_pca import Aggregation, ComponentCovariance, FederatedDPPCA
    from ._pca import DPPCA
    from ._pca_mechanisms import Auto, Gaussian, SpikedModel, TwoStage
    from ._sparse_pca import SparseDPPCA

__all__ = [
    "DPPCA",
    "Aggregation",
    "Auto",
    "ComponentCovariance",
    "FederatedDPPCA",
    "Gaussian",
    "PrivateMean",
    "SparseDPPCA",
    "SpikedModel",
    "TwoStage",
]
_HOMES = {
    "_bounded_moments": ("PrivateMean",),
    "_federated_pca": ("Aggregation", "ComponentCovariance", "FederatedDPPCA"),
    "_pca": ("DPPCA",),
    "_sparse_pca": ("SparseDPPCA",),
    "_pca_mechanisms": ("Auto", "Gaussian", "SpikedModel", "TwoStage"),
}
__getattr__, __dir__ = _on_demand.names_of(__name__, _HOMES)
