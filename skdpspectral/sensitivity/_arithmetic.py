"""What rounding and public boxes add: bounds without a neighbor."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def _check_rows(n_samples: int) -> None:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")


def box_radius(half_widths: npt.ArrayLike) -> float:
    r"""Radius of the smallest ball about a box's midpoint that holds the box.

    Parameters
    ----------
    half_widths : array-like of shape (n_features,)
        Half of the box's extent along each feature.

    Returns
    -------
    float
        :math:`\|h\|_2`, rounded up.
    """
    half_widths = np.asarray(half_widths, dtype=np.float64)
    largest = float(np.max(np.abs(half_widths)))
    if largest == 0.0:
        return 0.0
    rounding = 1.0 + (half_widths.size + 8) * 2.0**-53
    return largest * float(np.linalg.norm(half_widths / largest)) * rounding


def summation_error(
    bound: float, n_samples: int, block_rows: int, blocks_together: int | None = None
) -> float:
    r"""Largest error of a mean over n rows that is summed in blocks of b rows.

    Parameters
    ----------
    bound : float
        Public bound on the norm of the mean of the absolute contributions.
    n_samples : int
        Number of rows n.
    block_rows : int
        Rows a block b: summed in any order, then added one block after another.
    blocks_together : int or None, default=None
        Number c of blocks that are added so, before their sums are, one after another;
        None for all of them.

    Returns
    -------
    float
        :math:`\gamma B` with :math:`\gamma = (b + K + 16) 2^{-52}` for
        :math:`K = \lceil n/b \rceil` blocks, and :math:`c + \lceil K/c \rceil` in
        place of a larger K.

    Notes
    -----
    The sixteen further units cover the rounding of products, of the division by n,
    and the slack of :func:`skdpspectral._tables.clipping.clip_rows`.
    """
    _check_rows(n_samples)
    rows = min(block_rows, n_samples)
    blocks = math.ceil(n_samples / rows)
    if blocks_together is not None and blocks > blocks_together:
        blocks = blocks_together + math.ceil(blocks / blocks_together)
    return bound * (rows + blocks + 16) * 2.0**-52
