"""How many eigenvalues of a noisy matrix stand out of the bulk."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigvalsh

# Safety factor on the width of the bulk.
_MARGIN = 1.15


def select_rank(matrix: np.ndarray, spread: float, n_samples: int) -> int:
    """Count the eigenvalues above the edge of noise and of sampling error.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
        Second moment of n rows plus symmetric noise.
    spread : float
        Standard deviation of the noise off the diagonal.
    n_samples : int
        Number of rows n.

    Returns
    -------
    int
        At least 1: eigenvalues above ``m + 1.15 (2 s sqrt(p) + m (2 sqrt(p/n) +
        p/n))``, with m the median eigenvalue.
    """
    values = eigvalsh(matrix, check_finite=False)
    median, order = float(np.median(values)), len(values)
    width = _width(median, order, spread, n_samples)
    return max(1, int(np.sum(values > median + _MARGIN * width)))


def count_above_noise(
    values: np.ndarray, trace: float, order: int, spread: float, n_samples: int
) -> int:
    """Count leading eigenvalues above the edge of noise and of sampling error.

    Parameters
    ----------
    values : ndarray of shape (r,)
        Leading eigenvalues, of a second moment of n rows plus symmetric noise.
    trace : float
        Trace of the matrix.
    order : int
        Its number of rows.
    spread : float
        Standard deviation of the noise off the diagonal.
    n_samples : int
        Number of rows n.

    Returns
    -------
    int
        By the rule of :func:`select_rank`, with the mean of the other eigenvalues in
        place of the median.
    """
    others = (trace - float(np.sum(values))) / max(order - len(values), 1)
    others = others if len(values) < order else float(np.min(values))
    return int(
        np.sum(values > others + _MARGIN * _width(others, order, spread, n_samples))
    )


def _width(middle: float, order: int, spread: float, n_samples: int) -> float:
    """How far noise and sampling error carry eigenvalues beyond the middle one."""
    aspect = order / n_samples
    # A middle one that noise made negative says nothing of the rows' spread.
    sampling = max(middle, 0.0) * (2.0 * math.sqrt(aspect) + aspect)
    return 2.0 * spread * math.sqrt(order) + sampling
