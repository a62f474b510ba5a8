"""Private principal components: of one table, of clients' tables, and sparse ones."""

from typing import TYPE_CHECKING

from .. import _on_demand

if TYPE_CHECKING:  # what is imported on demand
    from ._federated_pca import FederatedDPPCA as FederatedDPPCA
    from ._federated_pca import SparseDPPCA as SparseDPPCA
    from ._pca import DPPCA as DPPCA
    from ._spiked import SpikedModel as SpikedModel
    from ._spiked import SpikedPCA as SpikedPCA

_HOMES = {
    "_federated_pca": "FederatedDPPCA SparseDPPCA",
    "_pca": "DPPCA",
    "_spiked": "SpikedModel SpikedPCA",
}
__getattr__, __dir__, __all__ = _on_demand.names_of(__name__, _HOMES)
