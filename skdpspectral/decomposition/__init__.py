"""Private principal components: of one table, of clients' tables, and sparse ones.

Estimators live here, and the objects that choose how they release and what rows are
measured from; what is released is in ``_statistics.components``, and other rooms
import the public classes only.
"""

from .._base.strategies import register as _register
from .._statistics.centers import PrivateMean
from .._statistics.components.strategies import Auto, Gaussian, SpikedModel, TwoStage
from ._federated_pca import FederatedDPPCA
from ._pca import DPPCA
from ._sparse_pca import SparseDPPCA

for _strategy in (Auto, Gaussian, PrivateMean, SpikedModel, TwoStage):
    _register(_strategy)

__all__ = [
    "DPPCA",
    "Auto",
    "FederatedDPPCA",
    "Gaussian",
    "PrivateMean",
    "SparseDPPCA",
    "SpikedModel",
    "TwoStage",
]
