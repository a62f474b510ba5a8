"""Distances between subspaces, variance kept, Gaussians, and rankings within users.

What :func:`make_private_scorer` makes is private. None of the functions is: a score
computed on private rows, or against a quantity estimated from them without noise, is
itself a release.
"""

from ._private_scorer import make_private_scorer
from ._ranking import user_ndcg_score, user_recall_score
from ._score_kinds import captured_variance
from ._subspace import gaussian_kl, subspace_distance

__all__ = [
    "captured_variance",
    "gaussian_kl",
    "make_private_scorer",
    "subspace_distance",
    "user_ndcg_score",
    "user_recall_score",
]
