"""Private recommenders and item embeddings, from tables of users, items and ratings."""

from ._item_embedding import DPItemEmbedding
from ._matrix_factorization import DPMatrixFactorization

__all__ = ["DPItemEmbedding", "DPMatrixFactorization"]
