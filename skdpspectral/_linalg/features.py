"""Sums over rows for the locations and scales of features."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from .walks import RowWalk, reduce_rows

# Nodes of a histogram: 2**k and 1.5 * 2**k, two an octave. The leading bits of a
# float64 say between which of them it lies.
_SHIFT, _MANTISSA, _ONE = 51, (1 << 52) - 1, 1023 << 52
_INFINITE = 2047 << 52

# Contributions are multiples of this, so that sums of fewer than 2**37 of them are
# exact in any order.
_UNIT = 2.0**-16
_CORNER = 2.0**16

# Where a block has fewer numbers than this share of the nodes, they are added one by
# one.
_FEW = 0.125

# Numbers that are wound around circles together: they stay in the cache.
_TOGETHER = 1 << 15


def node_values(first_octave: int, n_nodes: int) -> np.ndarray:
    """Return the nodes from ``2**first_octave`` on: 1, 1.5, 2, 3, 4, 6, ... of it."""
    node = np.arange(n_nodes)
    return np.ldexp(np.where(node % 2, 1.5, 1.0), first_octave + node // 2)


class DifferenceCounts:
    """Counts of the sizes of differences of each feature, to which blocks are added.

    A difference d between two nodes u < v has the weight (d^2 - u^2) / (v^2 - u^2) on v
    and the rest of 1 on u, so that the mean of squared nodes is that of squared
    differences. A difference below the first node has no weight, as have a tie and a
    NaN, and one beyond the last node counts as that node. `first_octave` is the
    logarithm of the first node, at least -1022. `total`, of shape (n_features,
    n_nodes), is the sum of the weights of `n_pairs` pairs.
    """

    def __init__(self, n_features: int, first_octave: int, n_nodes: int):
        self.total = np.zeros((n_features, n_nodes))
        self.n_pairs = 0
        self._first = 2 * (first_octave + 1023)

    def update(self, differences) -> DifferenceCounts:
        """Add differences of shape (b, n_features), float64, or sparse CSR."""
        n_features, n_nodes = self.total.shape
        if sparse.issparse(differences):
            differences = _summed(differences)
            values = differences.data
            start = n_nodes * differences.indices.astype(np.int64)
        else:
            # Feature by feature: a histogram stays in the cache while it is filled.
            values = np.ravel(differences, order="F")
            start = np.repeat(n_nodes * np.arange(n_features), len(differences))
        bits = np.abs(values).view(np.int64)
        node = (bits >> _SHIFT) - self._first
        counted = (node >= 0) & (bits <= _INFINITE)
        if not counted.all():
            bits, node, start = bits[counted], node[counted], start[counted]
        upper = _upper_weights(bits)
        upper[node >= n_nodes - 1] = 0.0
        np.minimum(node, n_nodes - 1, out=node)
        self._add(np.add(node, start, out=node), upper)
        self.n_pairs += differences.shape[0]
        return self

    def _add(self, place, upper) -> None:
        flat = self.total.reshape(-1)
        if len(place) < _FEW * flat.size:
            np.add.at(flat, place, 1.0 - upper)
            np.add.at(flat, np.minimum(place + 1, flat.size - 1), upper)
            return
        flat += np.bincount(place, minlength=flat.size)
        above = np.bincount(place, upper, minlength=flat.size)
        flat -= above
        # The last node of a feature has nothing above it.
        flat[1:] += above[:-1]


def _summed(rows):
    """Return sparse rows with one entry a place, whatever their flags say."""
    parts = (rows.data, rows.indices, rows.indptr)
    rows = sparse.csr_array(parts, shape=rows.shape, copy=True)
    with np.errstate(all="ignore"):
        rows.sum_duplicates()
    return rows


def _upper_weights(bits: np.ndarray) -> np.ndarray:
    """Weights on the nodes above numbers that are given by their bits."""
    within = ((bits & _MANTISSA) | _ONE).view(np.float64)
    # Between 1 and 1.5, and between 1.5 and 2.
    low = 0.8 * (np.square(within, out=within) - 1.0)
    upper = np.where(low < 1.0, low, (low - 1.0) * (1.25 / 1.75))
    np.rint(np.multiply(upper, 1.0 / _UNIT, out=upper), out=upper)
    return np.multiply(upper, _UNIT, out=upper)


def sum_over_rows(X, sums, row_map=None) -> np.ndarray:
    """Sum a function over float64 blocks of rows, under a row map if there is one."""
    return reduce_rows(X, RowWalk(row_map), partial(_added, sums=sums))


def _added(blocks, sums) -> np.ndarray:
    total = np.zeros(())
    for block in blocks:
        total = total + sums(np.asarray(block, dtype=np.float64))
    return total


def octaves_of_differences(blocks, n_features: int, first_octave: int, n_octaves: int):
    """Counts of differences by octaves, of shape (n_features, n_octaves).

    A difference in [2**k, 2**(k + 1)) is in octave k; those beyond the first or the
    last octave are in these. Ties and NaN are in none.
    """
    total = np.zeros(n_features * n_octaves)
    for differences in blocks:
        if sparse.issparse(differences):
            differences = _summed(differences)
            values, column = differences.data, differences.indices
        else:
            values = np.ravel(differences, order="F")
            column = np.repeat(np.arange(n_features), len(differences))
        bits = np.abs(values).view(np.int64)
        counted = (bits > 0) & (bits <= _INFINITE)
        octave = (bits[counted] >> 52) - 1023 - first_octave
        place = np.clip(octave, 0, n_octaves - 1) + n_octaves * column[counted].astype(
            np.int64
        )
        total += np.bincount(place, minlength=len(total))
    return total.reshape(n_features, n_octaves)


def counts_of_differences(blocks, n_features: int, first_octave: int, n_nodes: int):
    """Total of :class:`DifferenceCounts` of differences that come in blocks."""
    counts = DifferenceCounts(n_features, first_octave, n_nodes)
    for differences in blocks:
        counts.update(differences)
    return counts.total


def phase_sums(rows: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Return sums of the phases of b rows on circles of the lengths ``2**exponents``.

    The circle is a square with corners (1, 0), (0, 1), (-1, 0), (0, -1): a phase is
    piecewise linear in the value, exactly periodic, and at most 1 long; that of NaN is
    the origin. Exponents have shape (p, n_periods), and sums (p, n_periods, 2).
    """
    sums = np.zeros((*exponents.shape, 2))
    with np.errstate(over="ignore", under="ignore"):
        powers = np.ldexp(1.0, -exponents.T)
    step = max(1, _TOGETHER // rows.shape[1])
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        missing = np.isnan(block)
        some_missing = missing.any()
        for level, power in enumerate(powers):
            steps = _steps_around(block, power)
            along = np.subtract(_CORNER, np.abs(steps))
            if some_missing:
                along[missing] = 0.0
            sums[:, level, 0] += along.sum(axis=0)
            across = np.subtract(_CORNER, np.abs(along, out=along), out=along)
            if some_missing:
                across[missing] = 0.0
            sums[:, level, 1] += np.copysign(across, steps, out=across).sum(axis=0)
    return sums * _UNIT


def _steps_around(rows: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Whole steps from a multiple of a circle's length, half a turn at most."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        turns = rows * power
        turns -= np.rint(turns)
        if not np.isfinite(turns.sum()):
            # What overflows a circle is everywhere on it.
            turns[~np.isfinite(turns)] = 0.0
    turns *= 4.0 * _CORNER
    return np.rint(turns, out=turns)


def counts_in_cells(rows: np.ndarray, exponents: np.ndarray, n_cells: int):
    """Return counts of values in cells on circles, of shape (p, n_cells).

    A cell is ``2**exponent`` wide, cell 0 begins at 0, and a circle has `n_cells`
    cells. NaN is in no cell, and neither is what has no cell within float64.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cells = np.floor(np.ldexp(rows, -exponents))
        counted = np.isfinite(cells)
        place = np.mod(cells, n_cells, where=counted, out=np.zeros_like(cells))
    place += n_cells * np.arange(rows.shape[1])
    counts = np.bincount(
        place[counted].astype(np.int64), minlength=n_cells * rows.shape[1]
    )
    return counts.reshape(rows.shape[1], n_cells).astype(np.float64)


def unwind_phases(phases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Return the places, (p,), that mean phases point to, longest circle first.

    Phases of shape (p, n_periods, 2) begin with the shortest circle. Places are within
    half of the longest circle from 0.
    """
    along, across = phases[..., 0], phases[..., 1]
    length = np.abs(along) + np.abs(across)
    length[length == 0.0] = 1.0
    turns = np.copysign(0.25 * (1.0 - along / length), across)
    # In units of the shortest circle, so that nothing overflows before the end.
    lengths = np.ldexp(1.0, exponents - exponents[:, :1])
    place = turns[:, -1] * lengths[:, -1]
    for level in range(exponents.shape[1] - 2, -1, -1):
        length, turn = lengths[:, level], turns[:, level]
        place = (np.rint(place / length - turn) + turn) * length
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(place, exponents[:, 0])


def moment_sums(rows: np.ndarray, center, radius, holes=False) -> np.ndarray:
    """Return sums over rows of z and z^2, of shape (p, 2).

    z is a value about a center in units of a radius, clipped to [-1, 1], and 0 for NaN.
    With `holes` a third column counts the values that are no NaN.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cut = np.subtract(rows, center, dtype=np.float64)
        cut /= radius
        np.clip(cut, -1.0, 1.0, out=cut)
    sums = np.full((rows.shape[1], 3 if holes else 2), float(len(rows)))
    if not np.isfinite(cut.sum()):
        # Missing, or of a file that has changed since it was checked.
        missing = ~np.isfinite(cut)
        cut[missing] = 0.0
        sums[:, 2:] -= missing.sum(axis=0)[:, None]
    sums[:, 0] = cut.sum(axis=0)
    sums[:, 1] = np.square(cut, out=cut).sum(axis=0)
    return sums
