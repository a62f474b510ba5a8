"""Distances between subspaces, variance kept, Gaussians, rankings and lists of users.

What :func:`make_private_scorer` makes is private. None of the functions is: a score
computed on private rows, or against a quantity estimated from them without noise, is
itself a release.
"""

from ._private_scorer import make_private_scorer
from ._ranking import (
    catalog_coverage_score,
    list_ndcg_score,
    list_recall_score,
    make_user_scorer,
    user_ndcg_score,
    user_recall_score,
)
from ._score_kinds import captured_variance
from ._subspace import gaussian_kl, subspace_distance

__all__ = [
    "captured_variance",
    "catalog_coverage_score",
    "gaussian_kl",
    "list_ndcg_score",
    "list_recall_score",
    "make_private_scorer",
    "make_user_scorer",
    "subspace_distance",
    "user_ndcg_score",
    "user_recall_score",
]
