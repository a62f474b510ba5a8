"""Generators of the papers' models, and real data sets with public bounds."""

from ._datasets import (
    fetch_movielens,
    load_digits,
    make_low_rank_sparse_tasks,
    make_ratings,
    make_spiked_covariance,
)

__all__ = [
    "fetch_movielens",
    "load_digits",
    "make_low_rank_sparse_tasks",
    "make_ratings",
    "make_spiked_covariance",
]
