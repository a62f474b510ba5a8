"""Private principal components: of one table, of clients' tables, and sparse ones.

Estimators alone live here; what they release is in ``_statistics.components``, and
other rooms import the public classes only.
"""

from ._federated_pca import FederatedDPPCA
from ._pca import DPPCA
from ._sparse_pca import SparseDPPCA

__all__ = ["DPPCA", "FederatedDPPCA", "SparseDPPCA"]
