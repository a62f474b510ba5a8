r"""What users contribute to the shared part of a low rank plus sparse regression.

Every function makes one vector a user, of that user's own rows and U alone and with
the same bits in whatever block the user stands; a sum of such vectors, noisy or not,
is all that the shared part is made from.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import local, per_user
from .shared import (
    curvature_matrix,
    packed_outer,
    unpack_symmetric,
    write_packed_grams,
)
from .user_rows import Block

# Numbers of the contributions that are in memory together.
_PART_NUMBERS = 1 << 18


def n_packed(size: int) -> int:
    """Numbers in a packed symmetric matrix."""
    return size * (size + 1) // 2


def n_curvature(rank: int, n_features: int) -> int:
    """Numbers in a packed element of Sym(r) (x) Sym(d)."""
    return n_packed(rank) * n_packed(n_features)


def parts_of(block: Block, width: int) -> Iterator[slice]:
    """Users of a block whose vectors of some width are in memory together."""
    size = max(1, _PART_NUMBERS // max(1, width))
    return (slice(start, start + size) for start in range(0, len(block), size))


def start_moments(block: Block) -> np.ndarray:
    """Packed s s' of each user's correlations s = X'y, scaled to unit norm.

    Parameters
    ----------
    block : Block
        Rows and targets.

    Returns
    -------
    ndarray of shape (n_users, d (d + 1) / 2)
        Vectors of unit norm, or zero.
    """
    with np.errstate(all="ignore"):  # 0 / 0 of a user without correlations
        s = per_user.products(block.y[:, None], block.X)[:, 0]
        s = s / np.abs(s).max(axis=1, initial=0.0, keepdims=True)
        s = s / per_user.norms(s)[:, None]
    return packed_outer(np.where(np.isfinite(s), s, 0.0))


def leading_directions(total: np.ndarray, rank: int, n_features: int) -> np.ndarray:
    """Leading eigenvectors, by value, of a packed symmetric d x d matrix: (d, r)."""
    matrix = unpack_symmetric(total[None], n_features)[0]
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :rank]


def user_moments(
    block: Block, scores: np.ndarray, fit: local.LocalFit, units=(1.0, 1.0)
) -> Iterator[np.ndarray]:
    r"""Packed (w w') (x) G/m and X'(y - X b) w'/m, a few users at a time.

    Parameters
    ----------
    block : Block
        Rows and targets.
    scores : ndarray of shape (n_users, rank, height)
        (XU)'.
    fit : LocalFit
        Parameters of the users at U.
    units : tuple of float, default=(1.0, 1.0)
        What the two parts are divided by.

    Yields
    ------
    ndarray of shape (n_some, n_curvature + rank * n_features)
        Elements of Sym(r) (x) Sym(d), flattened, and behind them r stacked vectors of
        d numbers. It is laid out as ``per_user.empty_stack`` does.
    """
    rank, d = scores.shape[1], block.X.shape[2]
    # y - X b = residual + X U w
    shared = per_user.products(fit.weights[:, None, :], scores)[:, 0]
    target = fit.residual + shared
    for part in parts_of(block, n_curvature(rank, d)):
        yield _moments(block.take(part), fit.weights[part], target[part], units)


def _moments(block: Block, weights: np.ndarray, target: np.ndarray, units):
    (n_users, rank), d = weights.shape, block.X.shape[2]
    n_first = n_curvature(rank, d)
    counts = np.maximum(block.counts, 1)[:, None]
    right = per_user.products(target[:, None], block.X)
    out = per_user.empty_stack(n_users, n_first + rank * d)
    curvature = out[:, :n_first].reshape(n_users, n_packed(rank), n_packed(d))
    outer = packed_outer(weights) / (counts * units[0])
    if rank == 1:
        write_packed_grams(block, outer, curvature[:, 0])
    else:
        grams = np.empty((n_users, n_packed(d)))
        write_packed_grams(block, np.ones((n_users, 1)), grams)
        np.multiply(outer[:, :, None], grams[:, None, :], out=curvature)
    gradient = out[:, n_first:].reshape(n_users, rank, d)
    np.multiply((weights / (counts * units[1]))[:, :, None], right, out=gradient)
    return out


def row_norms(vectors: np.ndarray) -> np.ndarray:
    """Norm of each row; infinite where it is beyond float64."""
    norms = per_user.norms(vectors)
    return np.where(np.isnan(norms), np.inf, norms)


def sum_on_grid(contributions: np.ndarray, grid: float) -> np.ndarray:
    """Sum vectors rounded to a grid, in grid steps: exact, in any order."""
    steps = contributions / grid
    return np.rint(steps, out=steps).sum(axis=0)


def solve_moments(total: np.ndarray, rank: int, n_features: int, floor: float):
    """Least-squares U from summed contributions.

    Parameters
    ----------
    total : ndarray of shape (n_curvature + rank * n_features,)
        Sum of contributions, both parts in units of their own.
    rank, n_features : int
        r and d.
    floor : float
        Least eigenvalue that the curvature is taken to have.

    Returns
    -------
    ndarray of shape (n_features, rank)
        The least-squares U, not orthonormal.
    """
    size = n_curvature(rank, n_features)
    packed = total[:size].reshape(n_packed(rank), -1)
    values, vectors = np.linalg.eigh(curvature_matrix(packed, rank, n_features))
    values = np.maximum(values, max(floor, np.finfo(float).tiny))
    solution = vectors @ ((vectors.T @ total[size:]) / values)
    return solution.reshape(rank, n_features).T
