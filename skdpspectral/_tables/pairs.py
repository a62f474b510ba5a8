"""Pairs of rows from all over a table, in an order that does not depend on values.

The order is pseudorandom, depends only on the table's shape, and is the same for
arrays, files and sparse rows, on every machine. Rows are read once, in slices from all
over the table that are mixed in memory, a *pool* at a time, so that rows of a sorted
table are paired with distant ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import sparse

from .._linalg.walks import Writing, mapped_blocks, rows_per_block, scrambled_keys
from .files import SlicedRows


def row_differences(first, second, *, out=None):
    """Return differences of rows in float64, up to a public factor.

    A difference that overflows is computed from halves: its direction is correct, and
    its length up to a factor of two. NaN affects its own feature only. Each result
    depends on its two rows alone. Tables have shape (b, p); the result of CSR matrices
    is sparse, dense results are written to `out`.
    """
    if sparse.issparse(first):
        return _sparse_differences(first, second)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.subtract(first, second, out=out, dtype=np.float64)
        # One sum tells whether there is anything to look for.
        if np.isfinite(out.sum()):
            return out
        large = np.isinf(out).any(axis=1)
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


def sign_differences(first, second, *, out=None):
    """Return the signs of :func:`row_differences`, feature by feature: 1, 0 or -1."""
    if sparse.issparse(first):
        first, second = sparse.csr_array(first), sparse.csr_array(second)
        signs = sparse.csr_array(first > second, dtype=np.float64)
        return sparse.csr_array(signs - sparse.csr_array(first < second, dtype=float))
    with np.errstate(invalid="ignore"):
        above, below = np.greater(first, second), np.less(first, second)
    return np.subtract(above, below, out=out, dtype=np.float64)


# Rows of a pool, and numbers in it: some megabytes.
_POOL_ROWS, _POOL_NUMBERS = 1 << 14, 1 << 22

# Slices of a pool: of its pairs, about one in so many is from a single slice.
_POOL_SLICES = 16

# Rows of a pool, at least, for each pair that a row is the first of.
_ROWS_A_SHIFT = 4


@dataclass(frozen=True)
class PairOrder:
    """The pairs of rows of a table, determined by its shape.

    Every row is in `2 * n_shifts` pairs, `n_shifts` times as the first and as often as
    the second one; there are more rows than that, or two. `block_rows` is the largest
    number of pairs in a block; `n_pairs`, `n_pools` and `n_blocks` count pairs, pools
    and blocks.
    """

    n_samples: int
    n_features: int
    n_shifts: int

    # What follows from these, worked out once.
    block_rows: int = field(init=False, repr=False, compare=False)
    n_pairs: int = field(init=False, repr=False, compare=False)
    n_pools: int = field(init=False, repr=False, compare=False)
    n_blocks: int = field(init=False, repr=False, compare=False)
    _slice_rows: int = field(init=False, repr=False, compare=False)
    _n_slices: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Of two rows there is one pair, which then counts twice; a row alone is its own
        # partner, and their difference zero.
        if not 1 <= self.n_shifts <= max(1, (self.n_samples - 1) // 2):
            raise ValueError(
                f"n_samples={self.n_samples} is too few for {self.n_shifts} pairs per "
                "row"
            )
        # Rows of a pool, about: not many where rows are wide.
        most = min(_POOL_ROWS, _POOL_NUMBERS // self.n_features)
        pool_rows = max(most, _ROWS_A_SHIFT * self.n_shifts)
        slice_rows = 1
        if self.n_samples > pool_rows:
            slice_rows = max(1, pool_rows // _POOL_SLICES)
        n_slices = -(-self.n_samples // slice_rows)
        numbers = {
            "block_rows": min(rows_per_block(self.n_features), self.n_samples),
            "n_pairs": self.n_samples * self.n_shifts,
            "n_pools": max(1, n_slices // (pool_rows // slice_rows)),
            "_slice_rows": slice_rows,
            "_n_slices": n_slices,
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_blocks", self._count_blocks())

    def _count_blocks(self) -> int:
        whole, larger, last = self._pools_of_a_size()
        size, block = self._slice_rows, self.block_rows
        blocks = larger * math.ceil((whole + 1) * size / block)
        blocks += (self.n_pools - larger - 1) * math.ceil(whole * size / block)
        return self.n_shifts * (blocks + math.ceil(last / block))

    def _pools_of_a_size(self) -> tuple[int, int, int]:
        """Return slices per pool, the number of larger pools, and rows of the last."""
        whole, larger = divmod(self._n_slices, self.n_pools)
        # The slice that may be shorter than others is in the last pool.
        before = (self.n_pools - 1) * whole + min(larger, self.n_pools - 1)
        return whole, larger, self.n_samples - before * self._slice_rows

    def _slices_of_pools(self) -> Iterator[np.ndarray]:
        """Yield, per pool, the numbers of the slices that are read together."""
        order = np.append(scrambled(self._n_slices - 1), self._n_slices - 1)
        yield from np.array_split(order, self.n_pools)

    def _pool(self, X: SlicedRows, starts: np.ndarray, n_rows: int) -> np.ndarray:
        """Read the rows of a pool, each slice into memory before the next one."""
        pool = np.empty((n_rows, self.n_features), X.common_dtype)
        filled = 0
        for part in self._reads(starts):
            first, filled = filled, filled + part.stop - part.start
            pool[first:filled] = X[part]
        return pool

    def reads_of_pools(self, n_pools: int | None = None) -> Iterator[list[slice]]:
        """Yield the slices to read for each of the first pools, without reading."""
        for numbers in itertools.islice(self._slices_of_pools(), n_pools):
            yield list(self._reads(np.sort(numbers) * self._slice_rows))

    def _reads(self, starts: np.ndarray) -> Iterator[slice]:
        """Yield slices to read, each of at most one block of consecutive rows."""
        size = self._slice_rows
        breaks = np.flatnonzero(np.diff(starts) != size) + 1
        for run in np.split(starts, breaks):
            last = min(int(run[-1]) + size, self.n_samples)
            for start in range(int(run[0]), last, self.block_rows):
                yield slice(start, min(start + self.block_rows, last))

    def rows_of(self, n_pools: int) -> int:
        """Number of rows of the first pools."""
        whole, larger, _ = self._pools_of_a_size()
        if n_pools == self.n_pools:
            return self.n_samples
        return (n_pools * whole + min(larger, n_pools)) * self._slice_rows

    def pools_with(self, n_rows: int) -> int:
        """Return the number of pools with about `n_rows` rows, at most all pools."""
        return min(self.n_pools, -(-n_rows * self.n_pools // self.n_samples))

    def pools(self, X) -> Iterator:
        """Yield pools of rows, and the order in which the rows of each are paired."""
        size = self._slice_rows
        for numbers in self._slices_of_pools():
            starts = np.sort(numbers) * size
            places = (starts[:, None] + np.arange(size)).ravel()
            places = places[places < self.n_samples]
            mixed = scrambled(len(places))
            if not isinstance(X, SlicedRows):
                yield X, places[mixed]
                continue
            yield self._pool(X, starts, len(places)), mixed

    def first_pools(self, X, n_pools: int | None) -> Iterable:
        """Return the first pools of :meth:`pools`; None for all."""
        if n_pools is None or not isinstance(X, SlicedRows):
            return itertools.islice(self.pools(X), n_pools)
        key, n_rows = (self, n_pools), self.rows_of(n_pools)
        return X.sample(key, n_rows, lambda: itertools.islice(self.pools(X), n_pools))


@lru_cache(maxsize=8)
def scrambled(size: int) -> np.ndarray:
    """Return 0, ..., size - 1 in a pseudorandom order that is the same everywhere."""
    order = np.argsort(scrambled_keys(np.arange(1, size + 1, dtype=np.uint64)))
    order.flags.writeable = False
    return order


def _taken(rows, places, memory, order: PairOrder):
    """Return rows at `places`; dense rows and their differences reuse `memory`."""
    if sparse.issparse(rows):
        return rows[places], None
    if memory is None:
        most = order.block_rows + order.n_shifts
        shape = (most, order.n_features)
        memory = np.empty(shape, rows.dtype), np.empty(shape)
    # All places are in range: "clip" only spares a copy.
    taken = np.take(rows, places, axis=0, out=memory[0][: len(places)], mode="clip")
    return taken, memory


def _blocks_of_a_pool(rows, places, order: PairOrder, again: bool) -> Iterator:
    # Pairs need them mixed; rows one by one are read sooner as they lie.
    places = np.sort(places)
    again = again and isinstance(rows, np.ndarray) and rows.flags.c_contiguous
    memory = np.empty((order.block_rows if again else 0, rows.shape[1]), rows.dtype)
    for start in range(0, len(places), order.block_rows):
        some = places[start : start + order.block_rows]
        if again:
            # All places are in range: "clip" only spares a copy.
            yield np.take(rows, some, axis=0, out=memory[: len(some)], mode="clip")
        else:
            yield rows[some]


def _pairs_of_a_pool(rows, places, order: PairOrder, row_map, difference) -> Iterator:
    memory = None
    for start in range(0, len(places), order.block_rows):
        count = min(order.block_rows, len(places) - start)
        taken = np.arange(start, start + count + order.n_shifts) % len(places)
        block, memory = _taken(rows, places[taken], memory, order)
        block = block if row_map is None else row_map(block)
        out = None if memory is None else memory[1][:count]
        for shift in range(1, order.n_shifts + 1):
            yield difference(block[:count], block[shift : shift + count], out=out)


@dataclass(frozen=True)
class PoolWalk:
    """Blocks of the rows of the first `n_pools` pools, None for all."""

    order: PairOrder
    n_pools: int | None = None
    then: Callable | None = None

    def blocks(self, X) -> Iterator:
        """Yield the blocks of a table."""
        for rows, places in self.order.first_pools(X, self.n_pools):
            yield from self.blocks_of_a_pool(rows, places)

    def blocks_of_a_pool(self, rows, places) -> Iterator:
        """Yield the blocks of one pool, whose rows are at `places` of a table."""
        again = isinstance(self.then, Writing)
        blocks = _blocks_of_a_pool(rows, places, self.order, again)
        return mapped_blocks(self.then, blocks, owned=True)


@dataclass(frozen=True)
class PairWalk:
    """Blocks of differences of paired rows, of shape (b, n_features), in float64."""

    order: PairOrder
    row_map: Callable | None = None
    n_pools: int | None = None
    then: Callable | None = None
    difference: Callable = row_differences

    blocks = PoolWalk.blocks

    def blocks_of_a_pool(self, rows, places) -> Iterator:
        """Yield the blocks of one pool, whose rows are at `places` of a table."""
        pairs = rows, places, self.order, self.row_map, self.difference
        for block in _pairs_of_a_pool(*pairs):
            yield block if self.then is None else self.then(block)
