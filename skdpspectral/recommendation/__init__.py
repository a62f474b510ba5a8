"""Private models of tables of users, items and ratings.

Estimators live here with the public catalogs of items and the reading of ratings;
they import the core and ``_tables``, and no other room of estimators.
"""

from ._item_embedding import DPItemEmbedding
from ._matrix_factorization import DPMatrixFactorization

__all__ = ["DPItemEmbedding", "DPMatrixFactorization"]
