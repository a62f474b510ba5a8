"""Sums over the blocks of a table, of rows or of pairs of rows; threads of such work.

A *walk* yields the blocks of a table; a *kernel* returns sums over them. Both are
public and can be pickled: rows on a cluster are reduced there, part by part, and only
sums of parts are sent back.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from threadpoolctl import ThreadpoolController

# Rows per block, at most, and where they are wide: small enough for the cache, large
# enough for the BLAS.
BLOCK_ROWS, _WIDE_ROWS = 2048, 1024

# Blocks whose sums are added one after another, before these totals are added: a term
# of a long table is rounded few times.
BLOCKS_TOGETHER = 2048

# Numbers per block that stay in the cache, and of very wide rows, where memory stays
# far below that of the data.
_CACHED_NUMBERS, _BLOCK_NUMBERS = 1 << 16, 1 << 23
Block = Any
Sums = Any  # an array, or a tuple of arrays, of sums over all blocks
Kernel = Callable[[Iterable[Block]], Sums]


def rows_per_block(n_features: int) -> int:
    """Return the rows per block: `BLOCK_ROWS`, fewer where rows are wide."""
    cached = max(_WIDE_ROWS, _CACHED_NUMBERS // n_features)
    return max(1, min(BLOCK_ROWS, cached, _BLOCK_NUMBERS // n_features))


def row_blocks(n_rows: int, block_rows: int = BLOCK_ROWS) -> list[slice]:
    """Return slices that cover rows 0..n_rows in order."""
    starts = range(0, n_rows, block_rows)
    return [slice(start, min(start + block_rows, n_rows)) for start in starts]


class Walk(Protocol):
    """The blocks of a table, in the order in which a kernel receives them."""

    def blocks(self, X: Any) -> Iterator[Block]:
        """Yield blocks; each may be overwritten when the next one is requested."""


def reduce_rows(X: Any, walk: Walk, kernel: Kernel) -> Sums:
    """Return the sums of a kernel over the blocks of a table.

    For local rows, the same walk gives the same bits. Sums of parts on a cluster are
    added in another order, within the bound of :ref:`lemma-summation`.
    """
    if hasattr(X, "reduce"):
        return X.reduce(walk, kernel)
    return sum_blocks(kernel, walk.blocks(X))


def sum_blocks(kernel: Kernel, blocks: Iterator[Block]) -> Sums:
    """Return the sums of a kernel, applied to several blocks at a time."""
    total, ended = None, list[bool]()
    while not ended:
        more = kernel(_together(blocks, ended))
        total = more if total is None else add_sums([total, more])
    return total


def _together(blocks: Iterator[Block], ended: list[bool]) -> Iterator[Block]:
    """Yield some blocks, read when the kernel requests them; note the last one."""
    for _ in range(BLOCKS_TOGETHER):
        try:
            yield next(blocks)
        except StopIteration:
            ended.append(True)
            return


def add_sums(parts: Iterable[Sums]) -> Sums:
    """Add up sums of parts in order, without writing to them."""
    parts = iter(parts)
    first = next(parts)
    several = isinstance(first, tuple)
    total = [np.array(one) for one in (first if several else (first,))]
    for part in parts:
        for one, more in zip(total, part if several else (part,), strict=True):
            one += more
    return tuple(total) if several else total[0]


@dataclass(frozen=True)
class Writing:
    """A map of rows, ``row_map(block, out=out)``, that reuses memory for results."""

    row_map: Callable

    def __call__(self, block: Block) -> Block:
        return self.row_map(block, out=None)

    def results(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield the mapped blocks, in memory that the next one takes."""
        memory = np.empty((0, 0))
        for block in blocks:
            if not isinstance(block, np.ndarray):
                yield self(block)
                continue
            if len(memory) < len(block):
                memory = np.empty_like(block, dtype=np.float64, subok=False)
            out = memory[: len(block)]
            result = self.row_map(block, out=out)
            del block, out  # before the next one is read
            yield result


def mapped_blocks(row_map: Callable | None, blocks: Iterator):
    """Return an iterator over mapped blocks, or the blocks if `row_map` is None."""
    if isinstance(row_map, Writing):
        return row_map.results(blocks)
    return blocks if row_map is None else map(row_map, blocks)


@dataclass(frozen=True)
class RowWalk:
    """All rows in order, in blocks that `row_map` maps before the kernel."""

    row_map: Callable | None = None
    block_rows: int | None = None

    def blocks(self, X: Any) -> Iterator[Block]:
        """Yield the blocks of a table, or of part of one."""
        size = self.block_rows or rows_per_block(X.shape[1])
        # No name is kept: what is yielded is freed before the next is read.
        blocks = (X[rows] for rows in row_blocks(X.shape[0], size))
        return mapped_blocks(self.row_map, blocks)


@dataclass(frozen=True)
class Walked:
    """A table, possibly on a cluster, and a walk over it."""

    rows: Any
    walk: Walk

    def reduce(self, kernel: Kernel) -> Sums:
        """Return the sums of a kernel over the blocks (:func:`reduce_rows`)."""
        return reduce_rows(self.rows, self.walk, kernel)


Task = TypeVar("Task")
Result = TypeVar("Result")

# From this order on, products and decompositions are worth several threads.
_THREADED_ORDER = 300


def quietly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function so that its arithmetic tells no values by a warning."""

    @functools.wraps(function)
    def quiet(*args, **kwargs):
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return quiet


def map_in_threads(
    function: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None = None
) -> Iterator[Result]:
    """Apply a function to every task, quietly; yield the results in order."""

    @quietly
    def small(task: Task) -> Result:
        with blas_threads(0):
            return function(task)

    if n_jobs in (None, 1):
        return map(small, tasks)
    jobs = (delayed(small)(task) for task in tasks)
    return iter(Parallel(n_jobs, prefer="threads", return_as="generator")(jobs))


# A handler of signals that fits a model in the middle of this does not wait for itself.
_lock = threading.RLock()

# Threads within a part of a fit, and whether its matrices are large: lists, so that two
# parts of a thread are two.
_parts: list[list] = []

# What the pools of the process were before they were limited; empty where they are not.
_limits: list = []


@contextlib.contextmanager
def blas_threads(order: int) -> Iterator[None]:
    """Use one BLAS thread for small matrices, and all threads for large ones.

    A fit enters the context with `order` 0, and parts with large matrices enter it
    again; `order` is the public length of the shorter side. The limit applies to the
    process: it holds while any thread is in a small part and none in a large one.
    """
    part = [threading.get_ident(), order >= _THREADED_ORDER]
    # All of it: an interrupt may come while the pools are being limited.
    try:
        with _lock:
            _parts.append(part)
            _limit()
        yield
    finally:
        with _lock:
            _parts[:] = [other for other in _parts if other is not part]
            _limit()


def _limit() -> None:
    """Limit the BLAS pools or release them, depending on what threads are computing."""
    threads, of_large = {part[0] for part in _parts}, {p[0] for p in _parts if p[1]}
    wanted = threads > of_large
    if wanted and not _limits:
        _limits.append(_pools().limit(limits=1, user_api="blas"))
        _leave_to_others()
    elif _limits and not wanted:
        while _limits:  # the outermost last, if a handler came in between
            _limits[0].restore_original_limits()
            del _limits[:1]  # only now: an interrupt would leave nobody to lift it
        _leave_to_others()


def _leave_to_others() -> None:
    """Let any thread set the next limit; newer threadpoolctl keeps it to the first."""
    for pool in _pools().lib_controllers:
        getattr(pool, "clear_controlling_thread", _pools)()


@functools.cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def _keep_own_parts() -> None:
    """Forget, in a forked child, the parts of the parent's threads."""
    own = threading.get_ident()
    _parts[:] = [part for part in _parts if part[0] == own]
    _lock.release()


# A child inherits locks as they are: it must not fork off while another thread has this
# one, which nobody would ever release there.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_keep_own_parts,
    )


# Rows of a layer from which their product costs more than to add it to a sum.
_TOGETHER = 512


def outer_products(rows) -> np.ndarray:
    """Return the sum of outer products of rows, of which the lower triangle counts."""
    if sparse.issparse(rows):
        return (rows.T @ rows).toarray()
    # A symmetric rank-k update, like scipy's but with other threads let run.
    rows = np.ascontiguousarray(rows)
    return (rows.T @ rows).T


def sum_of_outer_products(blocks: Iterable, n_features: int) -> np.ndarray:
    """Return the sum of outer products of rows, in Fortran order; lower triangle.

    Blocks are summed on their own before: the rounding error grows with the rows of one
    plus the number of blocks.
    """
    return sums_of_layers(((block,) for block in blocks), n_features, 1)[0]


def sums_of_layers(
    blocks: Iterable, n_features: int, n_layers: int
) -> tuple[np.ndarray, ...]:
    """Return sums of outer products of `n_layers` parts of rows; lower triangles.

    Short parts of several blocks are summed as one, of no more rows than a block has.
    """
    shape = (n_features, n_features)
    layers = [np.zeros(shape, order="F") for _ in range(n_layers)]
    waiting: list[list[np.ndarray]] = [[] for _ in layers]
    with blas_threads(n_features):
        for parts in blocks:
            most = min(parts[0].shape[0], _TOGETHER)
            for layer, part, others in zip(layers, parts, waiting, strict=True):
                if others and sum(map(len, others)) + part.shape[0] > most:
                    layer += outer_products(np.concatenate(others))
                    others.clear()
                if sparse.issparse(part) or 0 < most <= len(part):
                    layer += outer_products(part)
                elif len(part):
                    others.append(part.copy())  # the next block takes its memory
        for layer, others in zip(layers, waiting, strict=True):
            if others:
                layer += outer_products(np.concatenate(others))
    return tuple(layers)


RowMap = Callable[[np.ndarray], np.ndarray]


def blocked_second_moment(
    X, row_map: RowMap, block_rows: int | None = None
) -> np.ndarray:
    """Return the mean outer product of mapped rows; lower triangle, Fortran order."""
    kernel = functools.partial(sum_of_outer_products, n_features=X.shape[1])
    total = reduce_rows(X, RowWalk(row_map, block_rows), kernel)
    total /= X.shape[0]
    return total


def row_squares(rows) -> np.ndarray:
    """Return squared lengths of dense or sparse rows, which may overflow."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.vecdot(rows, rows)


# -- pairs of rows ---------------------------------------------------------------------


def row_differences(first, second, *, out=None):
    """Return differences of dense or sparse rows in float64, each of two rows alone.

    One that overflows is computed from halves: its direction is correct, and its length
    up to a factor of two. NaN affects its own feature only.
    """
    if sparse.issparse(first):
        return _sparse_differences(first, second)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.subtract(first, second, out=out, dtype=np.float64)
        # One sum tells whether there is anything to look for.
        if np.isfinite(np.vdot(out, out)):
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


# Rows of a pool, and numbers in it: some megabytes. Of the pairs of its slices, about
# one in so many is from a single slice. Rows for each pair that a row is the first of.
_POOL_ROWS, _POOL_NUMBERS = 1 << 14, 1 << 22
_POOL_SLICES, _ROWS_A_SHIFT = 16, 4


@dataclass(frozen=True)
class PairOrder:
    """The pairs of rows of a table, determined by its shape, in blocks and pools.

    Every row is in `2 * n_shifts` pairs, `n_shifts` times as the first and as often as
    the second one; there are more rows than that, or two. The order is pseudorandom,
    and the same for every form of a table, on every machine. Rows are read once, in
    slices from all over the table that are mixed in memory, a *pool* at a time, so that
    rows of a sorted table are paired with distant ones.
    """

    n_samples: int
    n_features: int
    n_shifts: int

    def __post_init__(self) -> None:
        # Of two rows there is one pair, which then counts twice; a row alone is its own
        # partner, and their difference zero.
        if not 1 <= self.n_shifts <= max(1, (self.n_samples - 1) // 2):
            raise ValueError(
                f"n_samples={self.n_samples} is too few for {self.n_shifts} pairs per "
                "row"
            )

    @property
    def block_rows(self) -> int:
        return min(rows_per_block(self.n_features), self.n_samples)

    @property
    def n_pairs(self) -> int:
        return self.n_samples * self.n_shifts

    @property
    def n_pools(self) -> int:
        return self._slices[2]

    @property
    def _slices(self) -> tuple[int, int, int]:
        """Rows of a slice, and the numbers of slices and pools."""
        # Rows of a pool, about: not many where rows are wide.
        most = min(_POOL_ROWS, _POOL_NUMBERS // self.n_features)
        pool_rows = max(most, _ROWS_A_SHIFT * self.n_shifts)
        size = 1
        if self.n_samples > pool_rows:
            size = max(1, pool_rows // _POOL_SLICES)
        n_slices = -(-self.n_samples // size)
        return size, n_slices, max(1, n_slices // (pool_rows // size))

    @property
    def n_blocks(self) -> int:
        whole, larger, last = self._pools_of_a_size()
        size, block = self._slices[0], self.block_rows
        blocks = larger * math.ceil((whole + 1) * size / block)
        blocks += (self.n_pools - larger - 1) * math.ceil(whole * size / block)
        return self.n_shifts * (blocks + math.ceil(last / block))

    def _pools_of_a_size(self) -> tuple[int, int, int]:
        """Return slices per pool, the number of larger pools, and rows of the last."""
        size, n_slices, n_pools = self._slices
        whole, larger = divmod(n_slices, n_pools)
        # The slice that may be shorter than others is in the last pool.
        before = (n_pools - 1) * whole + min(larger, n_pools - 1)
        return whole, larger, self.n_samples - before * size

    def _starts_of_pools(self) -> Iterator[np.ndarray]:
        """Yield, per pool, where the slices begin that are read together, in order."""
        size, n_slices, n_pools = self._slices
        order = np.append(scrambled(n_slices - 1), n_slices - 1)
        for numbers in np.array_split(order, n_pools):
            yield np.sort(numbers) * size

    def reads_of_pools(self, n_pools: int | None = None) -> Iterator[list[slice]]:
        """Yield the slices to read for each of the first pools, without reading."""
        for starts in itertools.islice(self._starts_of_pools(), n_pools):
            yield list(self._reads(starts))

    def _reads(self, starts: np.ndarray) -> Iterator[slice]:
        """Yield slices to read, each of at most one block of consecutive rows."""
        size = self._slices[0]
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
        return (n_pools * whole + min(larger, n_pools)) * self._slices[0]

    def pools_with(self, n_rows: int) -> int:
        """Return the number of pools with about `n_rows` rows, at most all pools."""
        return min(self.n_pools, -(-n_rows * self.n_pools // self.n_samples))

    def pools(self, X) -> Iterator:
        """Yield pools of rows, and their places in order; they are paired scrambled."""
        for starts in self._starts_of_pools():
            places = (starts[:, None] + np.arange(self._slices[0])).ravel()
            places = places[places < self.n_samples]
            if not hasattr(X, "sample"):
                yield X, places
                continue
            # Each slice is read into memory before the next one.
            pool, filled = np.empty((len(places), self.n_features), X.common_dtype), 0
            for part in self._reads(starts):
                first, filled = filled, filled + part.stop - part.start
                pool[first:filled] = X[part]
            yield pool, np.arange(filled)

    def first_pools(self, X, n_pools: int | None) -> Iterable:
        """Return the first pools of :meth:`pools`; None for all."""
        if n_pools is None or not hasattr(X, "sample"):
            return itertools.islice(self.pools(X), n_pools)
        key, n_rows = (self, n_pools), self.rows_of(n_pools)
        return X.sample(key, n_rows, lambda: itertools.islice(self.pools(X), n_pools))


@functools.lru_cache(maxsize=8)
def scrambled(size: int) -> np.ndarray:
    """Return 0, ..., size - 1 in a pseudorandom order that is the same everywhere."""
    # The finalizer of splitmix64 (Steele, Lea and Flood 2014), a bijection: no ties.
    keys = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    order = np.argsort(keys)
    order.flags.writeable = False
    return order


def _blocks_of_a_pool(rows, places, order: PairOrder) -> Iterator:
    for start in range(0, len(places), order.block_rows):
        found = places[start : start + order.block_rows]
        first, last = int(found[0]), int(found[-1]) + 1
        alike = last - first == len(found)  # a slice needs no copy
        yield rows[first:last] if alike else rows[found]


def _pairs_of_a_pool(rows, places, order: PairOrder, row_map, difference) -> Iterator:
    memory, differences, places = None, None, places[scrambled(len(places))]
    if not sparse.issparse(rows):
        shape = order.block_rows + order.n_shifts, order.n_features
        memory, differences = np.empty(shape, rows.dtype), np.empty(shape)
    for start in range(0, len(places), order.block_rows):
        count = min(order.block_rows, len(places) - start)
        taken = np.arange(start, start + count + order.n_shifts) % len(places)
        block = places[taken]
        if memory is None:
            block = rows[block]
        else:  # all places are in range: "clip" only spares a copy
            block = np.take(rows, block, 0, memory[: len(block)], "clip")
        block = block if row_map is None else row_map(block)
        out = None if differences is None else differences[:count]
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
        return mapped_blocks(self.then, _blocks_of_a_pool(rows, places, self.order))


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
