"""Sums over the blocks of a table, wherever its rows are; threads of such work.

A *walk* yields the blocks of a table; a *kernel* returns sums over them. Both are
public and can be pickled: rows on a cluster are reduced there, part by part, and only
sums of parts are sent back.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from threadpoolctl import ThreadpoolController

# Rows per block: small enough for the cache, large enough for the BLAS.
BLOCK_ROWS = 2048

# Blocks whose sums are added one after another, before these totals are added: a term
# of a long table is rounded few times.
BLOCKS_TOGETHER = 2048

# Numbers per block of wide rows: memory stays far below that of the data.
_BLOCK_NUMBERS = 1 << 23
Block = Any

# An array, or a tuple of arrays, of sums over all blocks.
Sums = Any
Kernel = Callable[[Iterable[Block]], Sums]


def rows_per_block(n_features: int) -> int:
    """Return the rows per block: `BLOCK_ROWS`, fewer where rows are wide."""
    return max(1, min(BLOCK_ROWS, _BLOCK_NUMBERS // n_features))


def row_blocks(n_rows: int, block_rows: int = BLOCK_ROWS) -> list[slice]:
    """Return slices that cover rows 0..n_rows in order."""
    starts = range(0, n_rows, block_rows)
    return [slice(start, min(start + block_rows, n_rows)) for start in starts]


def scrambled_keys(numbers: np.ndarray) -> np.ndarray:
    """Map uint64 numbers to pseudorandom ones, bijectively and portably."""
    # The finalizer of splitmix64 (Steele, Lea and Flood 2014), a bijection: no ties.
    keys = numbers * np.uint64(0x9E3779B97F4A7C15)
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return keys


class Walk(Protocol):
    """The blocks of a table, in the order in which a kernel receives them."""

    def blocks(self, X: Any) -> Iterator[Block]:
        """Yield blocks; each may be overwritten when the next one is requested."""


def reduce_rows(X: Any, walk: Walk, kernel: Kernel) -> Sums:
    """Return the sums of a kernel over the blocks of a table.

    Sums over groups of blocks are added up, so that kernels must not divide by the
    number of blocks. For local rows, the same walk gives the same bits. Rows on a
    cluster have a method `reduce`, which requires a walk of this package; their sums
    are added in another order, within the bound of :ref:`lemma-summation`.
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
    """A map of rows that reuses memory for its results.

    ``row_map(block, out=out)`` writes to a float64 array of the block's shape, which
    may be the block; with ``out=None``, as for sparse rows, it allocates.
    """

    row_map: Callable

    def __call__(self, block: Block) -> Block:
        return self.row_map(block, out=None)

    def results(self, blocks: Iterator[Block], owned: bool = False) -> Iterator[Block]:
        """Yield the mapped blocks; `owned` blocks may be overwritten."""
        memory = np.empty((0, 0))
        for block in blocks:
            if not isinstance(block, np.ndarray):
                yield self(block)
                continue
            out = block
            if not owned or block.dtype != np.float64:
                if len(memory) < len(block):
                    memory = np.empty_like(block, dtype=np.float64, subok=False)
                out = memory[: len(block)]
            result = self.row_map(block, out=out)
            del block, out  # before the next one is read
            yield result


def mapped_blocks(row_map: Callable | None, blocks: Iterator, owned: bool = False):
    """Return an iterator over mapped blocks, or the blocks if `row_map` is None."""
    if isinstance(row_map, Writing):
        return row_map.results(blocks, owned)
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
    """Wrap a function so that its floating-point arithmetic neither warns nor raises.

    A warning would reveal something about values. Threads of joblib start with numpy's
    defaults, so that errors are ignored in each call.
    """

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

    Threads of small products spin while waiting, which multiplies CPU time on a busy
    machine. A fit enters the context with `order` 0, and parts with large matrices
    enter it again; `order` is the public length of the shorter side.

    The limit applies to the process, because bits depend on the number of threads: it
    holds while any thread is in a small part and none in a large one. A limit that
    another thread has set by threadpoolctl may apply instead.
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


class OuterProductSum:
    """Sum of outer products of rows, in Fortran order; only its lower triangle counts.

    Each block is summed on its own and then added to `total`, so that the rounding
    error grows with rows per block plus number of blocks.
    """

    def __init__(self, n_features: int):
        self.total = np.zeros((n_features, n_features), order="F")
        self.n_rows = 0

    def update(self, rows: np.ndarray) -> OuterProductSum:
        """Add rows of shape (b, n_features), float64, or sparse."""
        if sparse.issparse(rows):
            self.total += (rows.T @ rows).toarray()
        else:
            # A symmetric rank-k update, like scipy's but with other threads let run.
            rows = np.ascontiguousarray(rows)
            block = (rows.T @ rows).T
            if self.n_rows:
                self.total += block
            else:
                self.total = block
        self.n_rows += rows.shape[0]
        return self


RowMap = Callable[[np.ndarray], np.ndarray]


def sum_of_outer_products(blocks: Iterable, n_features: int) -> np.ndarray:
    """Return the sum of outer products of dense or sparse rows; lower triangle."""
    return sums_of_layers(((block,) for block in blocks), n_features, 1)[0]


def sums_of_layers(
    blocks: Iterable, n_features: int, n_layers: int
) -> tuple[np.ndarray, ...]:
    """Return sums of outer products of `n_layers` parts of rows; lower triangles.

    Short parts of several blocks are summed as one, of no more rows than a block has.
    """
    layers = [OuterProductSum(n_features) for _ in range(n_layers)]
    waiting: list[list[np.ndarray]] = [[] for _ in layers]
    with blas_threads(n_features):
        for parts in blocks:
            most = min(parts[0].shape[0], _TOGETHER)
            for layer, part, others in zip(layers, parts, waiting, strict=True):
                if others and sum(map(len, others)) + part.shape[0] > most:
                    layer.update(np.concatenate(others))
                    others.clear()
                if sparse.issparse(part) or 0 < most <= len(part):
                    layer.update(part)
                elif len(part):
                    others.append(part.copy())  # the next block takes its memory
        for layer, others in zip(layers, waiting, strict=True):
            if others:
                layer.update(np.concatenate(others))
    return tuple(layer.total for layer in layers)


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
