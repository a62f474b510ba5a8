"""Sums over rows for the locations and scales of features."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from .walks import RowWalk, Writing, mapped_blocks, reduce_rows

# Nodes of a histogram: 2**k and 1.5 * 2**k, two an octave. The leading bits of a
# float64 say between which of them it lies.
_SHIFT, _MANTISSA, _ONE = 51, (1 << 52) - 1, 1023 << 52
_INFINITE = 2047 << 52

# Contributions are multiples of this, so that sums of fewer than 2**37 of them are
# exact in any order.
_UNIT = 2.0**-16
_CORNER = 2.0**16
# What counts a value in steps, of which it adds 2**16 at most: sums of fewer than 2**17
# values of a block are exact.
_COUNTED = 2.0**34

# Numbers that are wound around circles together: they stay in the cache.
_TOGETHER = 1 << 15
# Numbers of some features that are counted together, for the same reason.
_PANEL = 1 << 14


def node_values(first_octave: int, n_nodes: int) -> np.ndarray:
    """Return the nodes 1, 1.5, 2, 3, 4, 6, ... times ``2**first_octave``."""
    node = np.arange(n_nodes)
    return np.ldexp(np.where(node % 2, 1.5, 1.0), first_octave + node // 2)


def counts_of_differences(blocks, n_features: int, first_octave: int, n_nodes: int):
    """Return histograms of the sizes of differences, of shape (n_features, n_nodes).

    A difference d between nodes u < v adds (d^2 - u^2) / (v^2 - u^2) to v and the rest
    of 1 to u. Ties, NaN and those below 2**first_octave >= 2**-1022 are not counted.
    """
    total, first = np.zeros((n_features, n_nodes)), 2 * (first_octave + 1023)
    for differences in blocks:
        size = n_features
        if not sparse.issparse(differences):
            size = max(1, _PANEL // max(1, len(differences)))
        for start in range(0, n_features, size):
            columns = slice(start, start + size)
            some = _values_and_columns(differences[:, columns])
            _count_differences(total[columns], first, *some)
    return total


def _count_differences(total: np.ndarray, first: int, values, column) -> None:
    """Add values of the given columns to their histograms."""
    n_features, n_nodes = total.shape
    bits = np.abs(values).view(np.int64)
    node = (bits >> _SHIFT) - first
    if node.min(initial=0) < 0 or bits.max(initial=0) > _INFINITE:
        counted = (node >= 0) & (bits <= _INFINITE)
        bits, node, column = bits[counted], node[counted], column[counted]
    if not len(node):
        return
    steps = _upper_steps((bits & _MANTISSA) | _ONE)
    high = min(int(node.max()), n_nodes - 1)
    if high == n_nodes - 1:
        steps[node >= high] = 0.0
        np.minimum(node, high, out=node)
    low = int(node.min())
    # Of all nodes, those of this block: their histograms stay in the cache. Counts and
    # weights are one sum, which is exact.
    size = high - low + 2
    steps += _COUNTED
    both = np.bincount(node - low + size * column, steps, minlength=n_features * size)
    weights = np.floor(both / _COUNTED)
    above = (both - weights * _COUNTED) * _UNIT
    weights -= above
    weights[1:] += above[:-1]
    # The last node of a feature has nothing above it.
    nodes = total[:, low : low + size]
    nodes += weights.reshape(n_features, size)[:, : nodes.shape[1]]


def _values_and_columns(differences) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of dense or sparse differences, and the column of each."""
    if sparse.issparse(differences):
        differences = _summed(differences)
        return differences.data, differences.indices.astype(np.int64)
    # Feature by feature: a histogram stays in the cache while it is filled.
    columns = np.repeat(np.arange(differences.shape[1]), len(differences))
    return np.ravel(differences, order="F"), columns


def _summed(rows):
    """Return sparse rows without duplicate entries, whatever their flags claim."""
    parts = (rows.data, rows.indices, rows.indptr)
    rows = sparse.csr_array(parts, shape=rows.shape, copy=True)
    with np.errstate(all="ignore"):
        rows.sum_duplicates()
    return rows


def _upper_steps(bits: np.ndarray) -> np.ndarray:
    """Return upper nodes' weights in steps for bits of [1, 2); overwrites `bits`."""
    low = bits.view(np.float64)
    np.square(low, out=low)
    low -= 1.0
    low *= 0.8 / _UNIT
    # Between 1 and 1.5, and between 1.5 and 2: here the first is at least one node.
    high = low - _CORNER
    high *= 1.25 / 1.75
    # Bits of negative numbers are the largest: the minimum is the one of the two that
    # is between 0 and one node.
    np.minimum(low.view(np.uint64), high.view(np.uint64), out=low.view(np.uint64))
    return np.rint(low, out=low)


def sum_over_rows(X, sums, row_map=None) -> np.ndarray:
    """Sum a function over float64 blocks of rows, optionally mapped first."""
    return sum_over_blocks(X, RowWalk(row_map and Writing(row_map)), sums)


def sum_over_blocks(X, walk, sums) -> np.ndarray:
    """Sum a function over the blocks of a walk, in float64."""
    return reduce_rows(X, walk, partial(_added, sums=sums))


def _added(blocks, sums) -> np.ndarray:
    total, blocks = np.zeros(()), (np.asarray(b, dtype=np.float64) for b in blocks)
    for found in mapped_blocks(sums, blocks):
        total = total + found
    return total


def octaves_of_differences(blocks, n_features: int, first_octave: int, n_octaves: int):
    """Count differences in [2**k, 2**(k + 1)); no ties, and ends take the rest."""
    total = np.zeros(n_features * n_octaves)
    for differences in blocks:
        values, column = _values_and_columns(differences)
        bits = np.abs(values).view(np.int64)
        counted = (bits > 0) & (bits <= _INFINITE)
        octave = (bits[counted] >> 52) - 1023 - first_octave
        place = np.clip(octave, 0, n_octaves - 1) + n_octaves * column[counted]
        total += np.bincount(place, minlength=len(total))
    return total.reshape(n_features, n_octaves)


def phase_sums(rows: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Sum phases on circles of lengths ``2**exponents``: (p, n_periods, 2)."""
    # A circle is the square with corners (1, 0), (0, 1), (-1, 0), (0, -1): phases are
    # exactly periodic and at most 1 long; NaN maps to the origin.
    sums = np.zeros((exponents.shape[1], 2, rows.shape[1]))
    step = max(1, min(_TOGETHER // rows.shape[1], len(rows)))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        powers = np.tile(np.ldexp(1.0, -exponents.T), step)
        memory = np.empty((2, step, rows.shape[1]))
        for start in range(0, len(rows), step):
            block = np.ascontiguousarray(rows[start : start + step])
            for level, power in enumerate(powers):
                sums[level] += _sums_around(block, power, memory)
    return np.ascontiguousarray(sums.transpose(2, 0, 1)) * _UNIT


def _sums_around(block: np.ndarray, power: np.ndarray, memory: np.ndarray):
    """Return sums of phases on one circle of length 1 / `power`, exact, in steps."""
    turns, sizes = memory[:, : len(block)]
    np.multiply(block, power[: block.size].reshape(block.shape), out=turns)
    turns -= np.rint(turns, out=sizes)
    turns *= 4.0 * _CORNER
    # Steps from a multiple of the circle's length, half a turn at most.
    steps = np.rint(turns, out=turns)
    ones, count = np.ones(len(block)), len(block)
    distances = ones @ np.abs(steps, out=sizes)
    if not np.isfinite(distances).all():
        # What overflows a circle is everywhere on it, and a missing value is nowhere.
        steps[~np.isfinite(steps)] = 0.0
        distances, count = ones @ np.abs(steps), count - np.isnan(block).sum(axis=0)
    along = count * _CORNER - distances
    # Across they grow to the corners, and shrink again.
    across = 2.0 * (ones @ np.clip(steps, -_CORNER, _CORNER, out=sizes)) - ones @ steps
    return along, across


def counts_in_cells(rows: np.ndarray, exponents: np.ndarray, n_cells: int):
    """Count values in cells ``2**exponents`` wide on circles: (p, n_cells)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cells = np.floor(np.ldexp(rows, -exponents))
        counted = np.isfinite(cells)  # neither NaN nor beyond float64
        place = np.mod(cells, n_cells, where=counted, out=np.zeros_like(cells))
    place += n_cells * np.arange(rows.shape[1])
    counts = np.bincount(
        place[counted].astype(np.int64), minlength=n_cells * rows.shape[1]
    )
    return counts.reshape(rows.shape[1], n_cells).astype(np.float64)


def unwind_phases(phases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Return locations, (p,), from mean phases, shortest circle first."""
    along, across = phases[..., 0], phases[..., 1]
    length = np.abs(along) + np.abs(across)
    length[length == 0.0] = 1.0
    turns = np.copysign(0.25 * (1.0 - along / length), across)
    # In units of the shortest circle, so that nothing overflows before the end.
    lengths = np.ldexp(1.0, exponents - exponents[:, :1])
    place = turns[:, -1] * lengths[:, -1]  # within half of the longest circle
    for level in range(exponents.shape[1] - 2, -1, -1):
        length, turn = lengths[:, level], turns[:, level]
        place = (np.rint(place / length - turn) + turn) * length
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(place, exponents[:, 0])


def moment_sums(rows: np.ndarray, center, radius, holes=False, out=None) -> np.ndarray:
    """Return sums of clipped z and z^2 and, with `holes`, of values: (p, 2 or 3)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cut = np.subtract(rows, center, out=out, dtype=np.float64)
        cut /= radius
        np.clip(cut, -1.0, 1.0, out=cut)
    sums = np.full((rows.shape[1], 3 if holes else 2), float(len(rows)))
    sums[:, 0] = cut.sum(axis=0)
    if not np.isfinite(sums[:, 0]).all():
        # Missing, or of a file that has changed since it was checked.
        missing = ~np.isfinite(cut)
        cut[missing] = 0.0
        sums[:, 2:] -= missing.sum(axis=0)[:, None]
        sums[:, 0] = cut.sum(axis=0)
    sums[:, 1] = np.square(cut, out=cut).sum(axis=0)
    return sums
