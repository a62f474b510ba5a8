"""Differences of rows, whatever finite values they hold."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def row_differences(first, second, *, out=None):
    """Rows less other rows, in float64, up to a public factor.

    A difference that overflows is made of the halves of both rows: its direction is
    right, and so is its length but for a factor of two beyond what float64 can hold.
    Each result depends on its own two rows alone.

    Parameters
    ----------
    first, second : ndarray or sparse CSR matrix of shape (b, p)
        Rows.
    out : ndarray of shape (b, p), optional
        Where to write, float64. Unused for sparse rows.

    Returns
    -------
    ndarray or sparse CSR matrix of shape (b, p)
        Differences; sparse ones fill no zeros but those of either row.
    """
    if sparse.issparse(first):
        return _sparse_differences(first, second)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.subtract(first, second, out=out, dtype=np.float64)
        # One sum tells whether there is anything to look for.
        if np.isfinite(out.sum()):
            return out
        large = ~np.isfinite(out).all(axis=1)
        halves = [0.5 * np.asarray(rows[large], np.float64) for rows in (first, second)]
        out[large] = halves[0] - halves[1]
    return out


def _sparse_differences(first, second):
    first, second = (
        sparse.csr_array(rows, dtype=np.float64) for rows in (first, second)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        found = sparse.csr_array(first - second)
        if np.isfinite(found.data).all():
            return found
        lengths = np.diff(found.indptr)
        owner = np.repeat(np.arange(found.shape[0]), lengths)
        factors = np.ones(found.shape[0])
        factors[owner[~np.isfinite(found.data)]] = 0.5
        # Powers of two: what is not halved keeps its bits.
        halve = sparse.dia_array((factors[None], [0]), shape=(len(factors),) * 2)
        return sparse.csr_array(halve @ first - halve @ second)
