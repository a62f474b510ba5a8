"""Rows of dask collections, reduced to sums on the cluster that keeps them.

Every part of the rows is summed where it lies, sums are added up in a tree, and one
sum comes back. What travels to the cluster is a walk and a kernel: public functions
and numbers, and what was released before, or came from there (the exact mean of rows
that are measured about it). No noise is drawn there. Tasks are functions
of their arguments and write to none of them, so that one which is run again, after a
worker was lost, gives the sum that it gave before; each part counts once.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from .._linalg import DistantRows, Kernel, add_sums, sum_blocks
from .mapped_rows import MappedRows
from .pairs import PairOrder, PairWalk, PoolWalk, scrambled
from .sliced_rows import SlicedRows

# Sums that one task adds up.
_TOGETHER = 8


class ClusterRows(SlicedRows, DistantRows):
    """Rows of which parts lie on a cluster, and are reduced there.

    Parameters
    ----------
    parts : list of dask.delayed.Delayed
        Arrays of numpy of shape (n_rows, n_features), in the order of the rows.
    sizes : list of int
        Their numbers of rows.
    n_features : int
        Number of features.
    dtype : dtype, default=float64
        Type of the numbers.
    source : dask.array.Array or None, default=None
        The same rows, to be read by slices; None where nobody does.
    named : object or None, default=None
        A table without rows that has the names of the features; None for no names.
    """

    def __init__(
        self,
        parts: list,
        sizes: list[int],
        n_features: int,
        dtype: Any = np.float64,
        source: Any = None,
        named: Any = None,
    ) -> None:
        super().__init__(source, (sum(sizes), n_features), np.dtype(dtype))
        # Of parts without rows nothing is asked.
        self._parts = [p for p, size in zip(parts, sizes, strict=True) if size]
        self._sizes = [size for size in sizes if size]
        self._ends = list(accumulate(self._sizes))
        self._row_map: Callable | None = None
        self._samples: dict[tuple[PairOrder, int], list] = {}
        self.named = self if named is None else named

    @property
    def common_dtype(self) -> np.dtype:
        """Type that holds any slice."""
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows into this process, as a transform does."""
        block = super().__getitem__(rows)
        return block if self._row_map is None else self._row_map(block)

    def mapped(self, row_map: Callable) -> ClusterRows:
        """Return the rows under a map that treats each row alone."""
        other = object.__new__(ClusterRows)
        other.__dict__.update(self.__dict__)
        first = self._row_map
        other._row_map = row_map if first is None else _Composed(first, row_map)
        return other

    def reduce(self, walk: Any, kernel: Kernel) -> Any:
        """Return what a kernel makes of all blocks of a walk."""
        from dask import delayed

        # A name of its own: no sum of another reduction is taken for one of these.
        name = f"skdpspectral-{uuid.uuid4()}"
        job = delayed(_Job(walk, kernel, self._row_map, self.shape[1]), name=name)
        if isinstance(walk, (PairWalk, PoolWalk)):
            pools = self._pools(walk.order, walk.n_pools)
            sums = [delayed(_sums_of_pool, pure=True)(job, pool) for pool in pools]
        else:
            summed = delayed(_sums_of_part, pure=True)
            parts = zip(self._parts, self._sizes, strict=True)
            sums = [summed(job, part, size) for part, size in parts]
        return added_on_cluster(sums, add_sums)

    def _pools(self, order: PairOrder, n_pools: int | None) -> list:
        """Return tasks that gather the rows of the first pools.

        Rows travel between workers for that. Those of a sample stay with them, as it
        is used several times.
        """
        from dask import delayed

        if n_pools is None:
            return list(self._gathered(order, None, delayed))
        key = order, n_pools
        if key not in self._samples:
            pools = list(self._gathered(order, n_pools, delayed))
            self._samples[key] = kept_on_cluster(pools)
        return self._samples[key]

    def _gathered(self, order, n_pools, delayed) -> Iterator:
        cut = delayed(_cut, pure=True)
        gather = delayed(_joined, pure=True)
        for reads in order.reads_of_pools(n_pools):
            pieces = (piece for read in reads for piece in self._pieces(read))
            yield gather(
                [
                    cut(self._parts[part], self._sizes[part], self.shape[1], *span)
                    for part, *span in pieces
                ]
            )

    def _pieces(self, rows: slice) -> Iterator[tuple[int, int, int]]:
        """Yield the parts that rows lie in, and where."""
        start = rows.start
        while start < rows.stop:
            part = bisect_right(self._ends, start)
            stop = min(rows.stop, self._ends[part])
            first = self._ends[part] - self._sizes[part]
            yield part, start - first, stop - first
            start = stop


class PartError(ValueError):
    """A part of the rows that is not what its collection says; quotes no value."""


class _Composed:
    """One map of rows after another."""

    def __init__(self, first: Callable, second: Callable) -> None:
        self._first, self._second = first, second

    def __call__(self, block):
        return self._second(self._first(block))


class _Job:
    """What is done with each part: all that travels to the workers."""

    def __init__(self, walk, kernel: Kernel, row_map, n_features: int) -> None:
        self.walk, self.kernel = walk, kernel
        self.row_map, self.n_features = row_map, n_features

    def table(self, rows):
        """Return rows under the map of the table."""
        return rows if self.row_map is None else MappedRows(rows, self.row_map)

    def sums(self, blocks: Iterator) -> Any:
        """Apply the kernel quietly: a warning would tell of somebody's values."""
        with np.errstate(all="ignore"):
            return sum_blocks(self.kernel, blocks)


def _sums_of_part(job: _Job, part, n_rows: int):
    rows = job.table(_checked(part, n_rows, job.n_features))
    return job.sums(job.walk.blocks(rows))


def _sums_of_pool(job: _Job, pool):
    with np.errstate(all="ignore"):
        rows = pool if job.row_map is None else job.row_map(pool)
    return job.sums(job.walk.blocks_of_a_pool(rows, scrambled(len(pool))))


def _checked(part, n_rows: int, n_features: int) -> SlicedRows:
    """Return a part as a table, of which each slice is checked when it is read."""
    shape = (n_rows, n_features)
    if getattr(part, "shape", None) != shape:
        raise PartError(
            "X: a part of the rows has another shape than its collection says; call "
            "X.compute_chunk_sizes() first"
        )
    return SlicedRows(part, shape, np.dtype(np.float64))


def _cut(part, n_rows: int, n_features: int, start: int, stop: int) -> np.ndarray:
    # A copy: the part itself need not be kept.
    return np.array(_checked(part, n_rows, n_features)[start:stop], np.float64)


def _joined(pieces: list) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _groups(items: list) -> Iterator[list]:
    for start in range(0, len(items), _TOGETHER):
        yield items[start : start + _TOGETHER]


def added_on_cluster(sums: list, add: Callable) -> Any:
    """Return the sum of what tasks give, added up in a tree, in their order."""
    from dask import delayed

    together = delayed(add, pure=True)
    while len(sums) > 1:
        sums = [together(group) for group in _groups(sums)]
    return told_apart(sums[0].compute)


def kept_on_cluster(tasks: list) -> list:
    """Return tasks whose results stay with the workers."""
    from dask import persist

    return list(told_apart(lambda: persist(*tasks)))


def told_apart(run: Callable) -> Any:
    """Run tasks; errors of theirs are told in words that quote nobody's values.

    Raises
    ------
    ValueError
        Naming X, and the kind of the error alone.
    """
    try:
        return run()
    except MemoryError:
        raise
    except PartError as error:
        said = str(error)
    except Exception as error:
        said = (
            f"X could not be reduced on its cluster ({type(error).__name__}); the "
            "workers' logs say where"
        )
    raise ValueError(said)
