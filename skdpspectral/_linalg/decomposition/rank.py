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
    aspect = order / n_samples
    width = 2.0 * spread * math.sqrt(order)
    # A median that noise made negative says nothing of the rows' spread.
    width += max(median, 0.0) * (2.0 * math.sqrt(aspect) + aspect)
    return max(1, int(np.sum(values > median + _MARGIN * width)))
