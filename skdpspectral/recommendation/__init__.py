"""Private recommenders and item embeddings, from tables of users, items and ratings."""

from ._estimators import DPItemEmbedding, DPMatrixFactorization

__all__ = ["DPItemEmbedding", "DPMatrixFactorization"]
