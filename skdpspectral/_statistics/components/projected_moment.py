"""A private covariance within released directions, from clipped projections."""

from __future__ import annotations

import math

import numpy as np

from ... import _linalg, sensitivity
from ..._tables.clipping import clip_rows
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact

NAME = "projected_moment"


def plan_projected_moment(n_samples: int, n_features: int, width: int, mu: float):
    """Plan the release of the second moment of projections over their clip radius.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows.
    width : int
        Number of components that is planned for; fewer are padded with zeros.
    mu : float
        Its cost; infinite for a release without noise.

    Returns
    -------
    Mechanism
        Of sensitivity sqrt(2) / n: what lies across the components does not count.
    """
    square = (width, width)
    if not math.isfinite(mu):
        return Exact(NAME, square, symmetric=True)
    rows = _linalg.rows_per_block(n_features)
    return calibrate_gaussian(
        NAME,
        sensitivity.second_moment_sensitivity(1.0, n_samples),
        mu,
        square,
        symmetric=True,
        summation_error=sensitivity.summation_error(1.0, n_samples, rows),
        magnitude=2.0,
    )


def release_projected_moment(release, blocks, components, radius: float):
    """Release what :func:`plan_projected_moment` planned.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    blocks : callable
        ``blocks()`` yields blocks of rows.
    components : ndarray of shape (r, p)
        Released orthonormal rows.
    radius : float
        Public or released length that projections are clipped to.

    Returns
    -------
    ndarray of shape (r, r)
        Symmetric, in squared units of the rows.
    """
    rank, n_rows = len(components), 0
    total = np.zeros(release.plan[NAME].shape, order="F")
    for rows in blocks():
        with np.errstate(all="ignore"):
            scores = clip_rows(np.asarray(rows @ components.T) / radius, 1.0)
        total[:rank, :rank] += scores.T @ scores
        n_rows += len(scores)
    released = release(NAME, total / n_rows)
    return released[:rank, :rank] * radius**2
