"""What mechanisms of principal components hand over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Components:
    """Released components, in units of the bounded rows.

    Parameters
    ----------
    mean : ndarray of shape (p,) or None
        Released mean.
    vectors : ndarray of shape (r, p)
        Orthonormal rows, leading first.
    values : ndarray of shape (r,)
        Released variances along them.
    total : float
        Released variance in all directions.
    noise : float or None
        Variance of a direction across them; None where only unit rows are known.
    unit : float
        Data units per unit of the variances' rows.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    total: float
    noise: float | None
    unit: float
