"""Distances between subspaces, variance kept, Gaussians, rankings within users.

None of these functions is private: a score computed on private rows, or against a
quantity estimated from them without noise, is itself a release.
"""

from ._ranking import make_user_scorer, user_ndcg_score, user_recall_score
from ._subspace import captured_variance, gaussian_kl, subspace_distance

__all__ = [
    "captured_variance",
    "gaussian_kl",
    "make_user_scorer",
    "subspace_distance",
    "user_ndcg_score",
    "user_recall_score",
]
