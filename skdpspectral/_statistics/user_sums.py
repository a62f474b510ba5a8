"""Sums over users of one clipped vector each: how they are planned and released."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .. import sensitivity
from .._linalg import linear_model as lrs
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian
from ..mechanisms import Gaussian, Neighbors

# Users that sums are exact for: more than codes of 32 bits can tell apart.
MOST_USERS = 2.0**32
# What clip_rows may leave a vector longer than one, twice.
_CLIP_SLACK = 8.0 * 2.0**-52


def planned_sum(name: str, width: int, neighbors: Neighbors, mu: float) -> Gaussian:
    """Plan the release of a sum over users of one vector of norm at most 1.

    Parameters
    ----------
    name : str
        Of the release.
    width : int
        Entries of a vector.
    neighbors : Neighbors
        Add-remove-one or replace-one, of users.
    mu : float
        Its cost, finite.
    """
    return calibrate_gaussian(
        name,
        sensitivity.sum_sensitivity(1.0, neighbors),
        mu,
        (width,),
        summation_error=_CLIP_SLACK,
        magnitude=MOST_USERS,
    )


def released_sum(
    release, name: str, rows, contributions: Callable, n_jobs: int | None = None
) -> np.ndarray:
    """Release the sum of the users' vectors, each clipped to norm 1 as a whole.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    name : str
        Of the release.
    rows : UserRows, or of the same method
        The users' rows.
    contributions : callable
        ``contributions(block, rows)``: yields one vector a user, a few at a time;
        they may be overwritten.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    ndarray
        The sum, with its noise.
    """
    planned = release.plan[name]
    grid = planned.grid
    part = partial(_sum_of_answers, contributions=contributions, grid=grid)
    total = np.zeros(planned.shape)
    for steps in rows.sums(part, n_jobs):
        total += steps
    return release(name, total * grid, overwrite=True)


def _sum_of_answers(block, rows, contributions: Callable, grid: float):
    """Sum the vectors of a block's users, each clipped, in whole steps of a grid."""
    return sum(
        lrs.sum_on_grid(clipped(vectors), grid)
        for vectors in contributions(block, rows)
    )


def clipped(vectors: np.ndarray) -> np.ndarray:
    """Clip each user's vector to norm 1, with the same bits whoever else is there.

    It may overwrite them.
    """
    vectors = lrs.stacked(vectors)
    return clip_rows(vectors, 1.0, out=vectors)
