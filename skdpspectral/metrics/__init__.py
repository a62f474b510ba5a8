"""Private scorers, distances between subspaces, and variance kept.

What :func:`make_private_scorer` makes is private. None of the functions is: a score
computed on private rows, or against a quantity estimated from them without noise, is
itself a release.
"""

from ._scores import captured_variance, make_private_scorer, subspace_distance

__all__ = ["captured_variance", "make_private_scorer", "subspace_distance"]
