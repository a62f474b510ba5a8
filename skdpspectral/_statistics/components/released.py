"""What releases of principal components leave: public values alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .scales import Scales


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
    above_noise : int
        How many components the released second moment tells from its noise.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    matrix: np.ndarray
    scales: Scales | None
    above_noise: int


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
    above_noise : int
        How many of them a released second moment tells from its noise.
    said : str, default=""
        What was chosen by releases, and why.
    covariance : ndarray of shape (p, p) or None, default=None
        That of all features, where it was released.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    total: float
    noise: float | None
    unit: float
    above_noise: int
    said: str = ""
    covariance: np.ndarray | None = None
