"""What mechanisms of principal components hand over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Scales(NamedTuple):
    """Released or public variances, and a clip of projections.

    Parameters
    ----------
    signal : float
        Mean variance along the components beyond the noise; positive.
    noise : float
        Mean variance across them; positive.
    radius : float or None
        Length that few projections exceed; None if it was not asked for.
    """

    signal: float
    noise: float
    radius: float | None


@dataclass(frozen=True)
class Directions:
    """Released components, and what else was released to find them.

    Parameters
    ----------
    mean : ndarray of shape (p,) or None
        Released mean, in units of the bounded rows.
    vectors : ndarray of shape (r, p)
        Orthonormal rows, leading first.
    values : ndarray of shape (r,)
        What the released second moment has along them.
    matrix : ndarray of shape (p, p)
        The released second moment.
    scales : Scales or None
        Variances that the mechanism needed; None where it needs none.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    matrix: np.ndarray
    scales: Scales | None


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
