"""Random numbers that are public: they owe nothing to data, and protect nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def public_order(n_units: int) -> npt.NDArray[np.intp]:
    """Return positions in a random order, the same for every table of so many rows.

    Parameters
    ----------
    n_units : int
        Number of positions.

    Returns
    -------
    ndarray of shape (n_units,)
        A permutation.
    """
    return np.random.default_rng(n_units).permutation(n_units)


def public_start(seed: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return numbers that are uniform in [-1, 1), the same for every equal seed.

    Parameters
    ----------
    seed : int
        Public, at least 0.
    shape : tuple of int
        How many.

    Returns
    -------
    ndarray
        Of that shape.
    """
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=shape)
