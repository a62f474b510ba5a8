"""Tables of dask, reduced to sums on the cluster that keeps them.

Each part of the rows is reduced where it lies, sums are added up in a tree, and one sum
is returned. Walks and kernels are sent to the cluster: public functions, and numbers
that are public, released, or computed there (the exact mean of rows). No noise is drawn
there. Tasks do not write to their arguments, so that a task that runs again after a
worker was lost returns the same sum, and each part counts once.
"""

from __future__ import annotations

import copy
import sys
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import getitem
from typing import Any

import numpy as np
from sklearn.utils import murmurhash3_32

from .._linalg.walks import Kernel, add_sums, quietly, scrambled_keys, sum_blocks
from .columns import as_array, column_at
from .files import NO_COMPLEX, NO_DATES, MappedRows, SlicedRows, check_real, common_type
from .ids import check_one_kind, codes_and_rows, id_array, joined_ids, kinds_of
from .pairs import PairOrder, PairWalk, PoolWalk, scrambled

# Sums that one task adds up.
_TOGETHER = 8

# Groups of users, at most: every part of a table is divided into so many pieces.
_MOST_GROUPS = 64


# -- tasks -----------------------------------------------------------------------------


def task(function: Callable, *, public: bool = False, **named: Any) -> Callable:
    """Return a function that makes tasks of a pure function.

    `public` is whether its error messages contain no values, and are passed on.
    """
    from dask import delayed

    function = partial(function, **named) if named else function
    return delayed(partial(_public, function) if public else function, pure=True)


def _public(function: Callable, *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except (ValueError, TypeError) as error:
        said = str(error)
    raise PartError(said)


class PartError(ValueError):
    """A part differs from what its collection declares; quotes no value."""


class Sent:
    """A function that is sent to the workers once, and not with every task."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def task(self):
        """Return a task with a name of its own: none is taken for another."""
        from dask import delayed

        return delayed(self, name=f"skdpspectral-{uuid.uuid4()}")


def run_on_cluster(run: Callable) -> Any:
    """Run tasks; an error becomes a ValueError that quotes no value."""
    try:
        return run()
    except MemoryError:
        raise
    except PartError as error:
        said = str(error)
    except Exception as error:
        said = (
            f"X could not be read on its cluster ({type(error).__name__}); the "
            "workers' logs say where"
        )
    raise ValueError(said)


def added_on_cluster(sums: list, add: Callable) -> Any:
    """Return the sum of the results of tasks, added in a tree, in order."""
    together = task(add)
    while len(sums) > 1:
        starts = range(0, len(sums), _TOGETHER)
        sums = [together(sums[start : start + _TOGETHER]) for start in starts]
    return run_on_cluster(sums[0].compute)


def kept_on_cluster(tasks: list) -> list:
    """Return tasks whose results stay with the workers."""
    from dask import persist

    return list(run_on_cluster(lambda: persist(*tasks)))


def _lengths(parts: list) -> list[int]:
    from dask import compute

    return list(run_on_cluster(lambda: compute(*map(task(len), parts))))


# -- collections of dask ---------------------------------------------------------------


def is_on_cluster(X) -> bool:
    """Return whether X is an array, dataframe or series of dask, which is imported."""
    frame = sys.modules.get("dask.dataframe")
    kinds = () if frame is None else (frame.DataFrame, frame.Series)
    return _is_array(X) or isinstance(X, kinds)


def _is_array(X) -> bool:
    array = sys.modules.get("dask.array")
    return array is not None and isinstance(X, array.Array)


def brought_here(X):
    """Return a dask collection as a table or column in memory; others unchanged."""
    return run_on_cluster(X.compute) if is_on_cluster(X) else X


def column_parts(column, name: str) -> Iterator[np.ndarray]:
    """Read the parts of a column of dask, one after another."""
    if column.ndim != 1:
        raise ValueError(f"{name} must be one column, got {column.ndim} dimensions")
    for part in np.ravel(column.to_delayed()):
        yield run_on_cluster(task(as_array, public=True, name=name)(part).compute)


def refuse_on_cluster(X, estimator: str, name: str = "X") -> None:
    """Refuse dask collections, for an estimator whose rows must be in memory."""
    if is_on_cluster(X):
        raise TypeError(
            f"{estimator} does not take dask collections as {name}: pass "
            f"{name}.compute()"
        )


def cluster_table(X) -> ClusterTable | None:
    """Return a dask array or dataframe as a table of parts; None for other types."""
    if _is_array(X):
        return _table_of_array(X)
    if is_on_cluster(X) and X.ndim == 2:
        return _table_of_frame(X)
    return None


@dataclass(frozen=True)
class ClusterTable:
    """Parts of a table on a cluster: arrays, or frames of pandas.

    `parts` are tasks in the order of the rows, and `sizes` their numbers of rows;
    `dtypes` and `names` are those of the columns. `like` is a table without values
    that has these columns.
    """

    parts: list
    sizes: list[int]
    dtypes: list
    names: list | None
    like: Any

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), len(self.dtypes)

    def rows(self, columns: list[int] | None = None) -> ClusterRows:
        """Return some columns as numeric rows; None selects all."""
        chosen = range(len(self.dtypes)) if columns is None else columns
        for j in chosen:
            name = "X" if self.names is None else f"X[{self.names[j]!r}]"
            check_real(self.dtypes[j], name)
        dtype = common_type([self.dtypes[j] for j in chosen])
        parts = self.apply(_numbers_of, columns, dtype)
        named = None if self.names is None else self.like
        return ClusterRows(parts, self.sizes, len(chosen), dtype, named)

    def apply(self, function: Callable, *arguments: Any) -> list:
        """Return tasks that apply a pure function to every part."""
        apply = task(function)
        return [apply(part, *arguments) for part in self.parts]

    def column(self, place: int) -> list:
        """Return tasks for the parts of a column, in their own type."""
        return self.apply(_column_of, place)

    def beside(self, column, name: str) -> Callable[[], list]:
        """Return a function that reads a column given beside the table.

        It returns tasks for the parts of the column, and is called after the fit is
        charged. A column in memory is sent to the workers; the caller checks its form.
        It must have one entry per row; rows correspond by their places.
        """
        wrong = ValueError(f"X and {name} have inconsistent numbers of samples")
        if not is_on_cluster(column):

            def slices() -> list:
                values = as_array(column, name).ravel()
                if len(values) != self.shape[0]:
                    raise wrong
                return self.cut(values)

            return slices
        if column.ndim != 1:
            raise ValueError(f"{name} must be one column, got a dataframe")
        parts = column.to_delayed()
        sizes = list(column.chunks[0]) if _is_array(column) else _lengths(parts)
        if sum(sizes) != self.shape[0]:
            raise wrong
        checked = task(as_array, public=True, name=name)
        return lambda: self._cut_anew(list(map(checked, parts)), sizes)

    def _cut_anew(self, parts: list, sizes: list[int]) -> list:
        """Return parts of a column cut anew: dask joins small files, for a column."""
        from dask import array

        if sizes == self.sizes:
            return parts
        pairs = zip(parts, sizes, strict=True)
        whole = [array.from_delayed(part, (size,), float) for part, size in pairs]
        cut = array.concatenate(whole).rechunk((tuple(self.sizes),))
        return cut.to_delayed().tolist()

    def cut(self, values: np.ndarray) -> list:
        """Return tasks for the parts of an array that is sent to the cluster."""
        from dask import delayed

        pieces = np.split(values, np.cumsum(self.sizes)[:-1])
        return [delayed(piece, traverse=False) for piece in pieces]


def _table_of_array(X) -> ClusterTable:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got X of {X.ndim} dimensions instead")
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            "X.shape must be two integers that are known in advance: call "
            "X.compute_chunk_sizes() first"
        )
    check_real(X.dtype)
    if not isinstance(X._meta, np.ndarray) or isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(
            f"X is a dask array of {type(X._meta).__name__}: its parts must be numpy "
            "arrays; convert them with map_blocks"
        )
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    parts, sizes = whole.to_delayed().ravel().tolist(), list(map(int, X.chunks[0]))
    like = np.broadcast_to(0.0, X.shape)
    return ClusterTable(parts, sizes, [X.dtype] * X.shape[1], None, like)


def _table_of_frame(X) -> ClusterTable:
    if not len(X.columns):
        raise ValueError(
            "Found array with 0 feature(s) (shape=(n_samples, 0)) while a minimum of "
            "1 is required for X."
        )
    names = list(X.columns)
    check = task(_check_names, public=True, names=names)
    parts = list(map(check, X.to_delayed()))
    # Asked for of the very parts: files that are read anew might be cut otherwise.
    return ClusterTable(parts, _lengths(parts), list(X.dtypes), names, X._meta)


def _check_names(part, names: list):
    """Return a part; raise if its columns are in another order."""
    if not hasattr(part, "columns") or list(part.columns) != names:
        raise ValueError(
            "X: a part has different columns from its collection, or has them in "
            "another order"
        )
    return part


def _numbers_of(part, columns, dtype) -> np.ndarray:
    """Return some columns of a part as numbers; None selects all."""
    if isinstance(part, np.ndarray):
        return part if columns is None else part[:, columns]
    part = part if columns is None else part.iloc[:, columns]
    # The part's own type counts, whatever the collection declares.
    kinds = {getattr(dtype, "kind", "O") for dtype in part.dtypes}
    if kinds & set("mMc"):
        raise PartError(NO_DATES if kinds & set("mM") else NO_COMPLEX)
    own = np.float64 if "O" in kinds else common_type(list(part.dtypes))
    if own != dtype or part.isna().to_numpy().any():
        # As of a missing whole number: found with others that are not finite.
        return part.to_numpy(np.float64, na_value=np.nan)
    return part.to_numpy(dtype)


def _column_of(part, place: int) -> np.ndarray:
    if isinstance(part, np.ndarray):
        return part[:, place]
    return as_array(column_at(part, place))


# -- rows ------------------------------------------------------------------------------


class ClusterRows(SlicedRows):
    """Rows whose parts lie on a cluster, and are reduced there.

    `parts` are tasks for arrays of shape (n_rows, n_features), in order; `sizes` are
    their numbers of rows. `named` is a table without rows that has the feature names.
    """

    def __init__(
        self,
        parts: list,
        sizes: list[int],
        n_features: int,
        dtype: Any = np.float64,
        named: Any = None,
    ) -> None:
        super().__init__(None, (sum(sizes), n_features), np.dtype(dtype))
        self.parts = parts
        # Of parts without rows nothing is asked.
        self._parts = [p for p, size in zip(parts, sizes, strict=True) if size]
        self._sizes = [size for size in sizes if size]
        self._ends = list(accumulate(self._sizes))
        self._row_map: Callable | None = None
        self._samples: dict[tuple[PairOrder, int], list] = {}
        self.named = self if named is None else named

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows into this process, for a transform."""
        start, stop, _ = rows.indices(self.shape[0])
        pieces = task(_joined)(self._cuts(slice(start, stop)))
        block = run_on_cluster(pieces.compute)
        return block if self._row_map is None else self._row_map(block)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Read the rows at some places, which every part takes from its own."""
        order, take, width = np.argsort(places), task(_taken), self.shape[1]
        ends = np.searchsorted(places[order], self._ends)
        pieces: list = []
        first = 0
        for part, size, stop, last in zip(
            self._parts, self._sizes, self._ends, ends, strict=True
        ):
            own = places[order[first:last]] - (stop - size)
            pieces.append(take(part, size, width, own))
            first = last
        found = run_on_cluster(task(_joined)(pieces).compute)
        out = np.empty_like(found)
        out[order] = found
        return out

    def mapped(self, row_map: Callable) -> ClusterRows:
        """Return the rows under a row-wise map."""
        other, first = copy.copy(self), self._row_map
        other._row_map = row_map if first is None else partial(_then, first, row_map)
        return other

    def beside(self, others: list[ClusterRows], step: int = 1) -> ClusterRows:
        """Return every `step`-th row of this table and others, side by side."""
        tables, join = [self, *others], task(_parts_beside)
        first = [-start % step for start in [0, *self._ends[:-1]]]
        several = zip(*(table._parts for table in tables), strict=True)
        parts = [join(*each, step) for each in zip(several, first, strict=True)]
        pairs = zip(self._sizes, first, strict=True)
        sizes = [max(-(-(size - at) // step), 0) for size, at in pairs]
        return ClusterRows(parts, sizes, sum(table.shape[1] for table in tables))

    def reduce(self, walk: Any, kernel: Kernel) -> Any:
        """Return the result of a kernel on all blocks of a walk."""
        job = _Job(walk, kernel, self._row_map, self.shape[1]).task()
        if isinstance(walk, (PairWalk, PoolWalk)):
            pools = self._pools(walk.order, walk.n_pools)
            sums = [task(_sums_of_pool)(job, pool) for pool in pools]
        else:
            summed = task(_sums_of_part)
            parts = zip(self._parts, self._sizes, strict=True)
            sums = [summed(job, part, size) for part, size in parts]
        return added_on_cluster(sums, add_sums)

    def _pools(self, order: PairOrder, n_pools: int | None) -> list:
        """Return tasks that gather the rows of the first pools on workers."""
        key, gather = (order, n_pools), task(_joined)
        if n_pools is not None and key in self._samples:
            return self._samples[key]
        pools = [
            gather([piece for read in reads for piece in self._cuts(read)])
            for reads in order.reads_of_pools(n_pools)
        ]
        if n_pools is not None:  # of a sample, which is requested several times
            pools = self._samples[key] = kept_on_cluster(pools)
        return pools

    def _cuts(self, rows: slice) -> list:
        """Return tasks for the pieces of parts that contain some rows."""
        cut, pieces, start = task(_cut), [], rows.start
        while start < rows.stop:
            part = bisect_right(self._ends, start)
            stop, size = min(rows.stop, self._ends[part]), self._sizes[part]
            first = self._ends[part] - size
            span = start - first, stop - first
            pieces.append(cut(self._parts[part], size, self.shape[1], *span))
            start = stop
        return pieces


class _Job(Sent):
    """The kernel of a walk that is sent to the workers."""

    def __init__(self, walk, kernel: Kernel, row_map, n_features: int) -> None:
        super().__init__(kernel)
        self.walk, self.row_map, self.n_features = walk, row_map, n_features


# A warning of a worker would reveal something about values.
@quietly
def _sums_of_part(job: _Job, part, n_rows: int):
    rows: Any = _checked(part, n_rows, job.n_features)
    rows = rows if job.row_map is None else MappedRows(rows, job.row_map)
    return sum_blocks(job.function, job.walk.blocks(rows))


@quietly
def _sums_of_pool(job: _Job, pool):
    rows = pool if job.row_map is None else job.row_map(pool)
    blocks = job.walk.blocks_of_a_pool(rows, scrambled(len(pool)))
    return sum_blocks(job.function, blocks)


def _checked(part, n_rows: int, n_features: int) -> SlicedRows:
    """Return a part as a table whose slices are checked when they are read."""
    shape = (n_rows, n_features)
    if getattr(part, "shape", None) != shape:
        raise PartError(
            "X: a part has a different shape from the one that its collection states; "
            "call X.compute_chunk_sizes() first"
        )
    return SlicedRows(part, shape, np.dtype(np.float64))


def _cut(part, n_rows: int, n_features: int, start: int, stop: int) -> np.ndarray:
    # A copy: the part itself need not be kept.
    return np.array(_checked(part, n_rows, n_features)[start:stop], np.float64)


def _taken(part, n_rows: int, n_features: int, places: np.ndarray) -> np.ndarray:
    # A column has one dimension. All rows were checked before.
    return np.asarray(part, np.float64).reshape(n_rows, n_features)[places]


def _then(first: Callable, second: Callable, block):
    return second(first(block))


def _parts_beside(parts: tuple, first: int, step: int) -> np.ndarray:
    columns = [np.asarray(part, dtype=np.float64) for part in parts]
    return np.column_stack(columns)[first::step]


def _joined(pieces: list) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


# -- users -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterUserTable:
    """Rows of features on a cluster; ``ids()`` has tasks for the ids of each part."""

    rows: ClusterRows
    ids: Callable[[], list] | None

    def by_user(self, targets: list, make: Callable, name: str) -> ClusterUsers:
        """Return groups of users with their rows and targets."""
        return ClusterUsers([self.ids(), self.rows.parts, targets], make, name)


class ClusterUsers:
    """Groups of users on a cluster, each with all rows of its users.

    Workers keep the groups for several rounds; rows of a user are in the order of the
    table. `columns` has tasks for the parts of ids, and of further columns. Kernels
    receive ``make(ids, *columns)`` of a group, which must be pure, public and
    picklable, and None for no user. `names` are those of the leading id columns, each
    of which must be of one kind.
    """

    def __init__(self, columns: list, make: Callable, *names: str) -> None:
        n_groups = min(len(columns[0]), _MOST_GROUPS)
        divide = task(_divided_by_user, public=True, n_groups=n_groups, names=names)
        agree, take = task(_agreeing_kinds, public=True), task(getitem)
        gather, made = task(_gathered, public=True), Sent(make).task()
        divided = [divide(part) for part in zip(*columns, strict=True)]
        # No group is made before the kinds of all parts are known to agree.
        agreed = agree([take(pieces, n_groups) for pieces in divided], names)
        self._groups = kept_on_cluster(
            [
                gather(made, [take(pieces, group) for pieces in divided], agreed)
                for group in range(n_groups)
            ]
        )

    @property
    def n_users(self) -> int:
        """Number of users, which is counted on the cluster."""
        return int(self._total(_count_users) or 0)

    def map(self, function: Callable, n_jobs: int | None = None) -> Iterator:
        """Yield the sum of a picklable function over all blocks of users."""
        return self._sum("map", function)

    def sums(self, function: Callable, n_jobs: int | None = None) -> Iterator:
        """Yield the sum of a picklable ``function(block, rows)`` over all blocks."""
        return self._sum("sums", function)

    def _sum(self, method: str, function: Callable) -> Iterator:
        walk = partial(_sum_of_blocks, method)
        total = self._total(partial(walk, function))
        return iter(() if total is None else (total,))

    def _total(self, kernel: Callable) -> Any:
        """Return the sum of a kernel over all groups with users: exact in any order."""
        sent, apply = Sent(kernel).task(), task(_applied)
        sums = [apply(sent, group) for group in self._groups]
        return added_on_cluster(sums, _add_some)


def _count_users(rows) -> np.ndarray:
    return np.array(rows.n_users)


def _sum_of_blocks(method: str, function: Callable, rows):
    total = None
    # Blocks are kept by the copy alone: a task may be run again.
    for found in getattr(copy.copy(rows), method)(function):
        total = found if total is None else total + found
    return total


def _divided_by_user(columns, n_groups: int, names: tuple[str, ...]) -> list:
    """Divide rows among groups of users by a hash of the user's id.

    The last entry has the kinds of the ids in each id column.
    """
    named, others = zip(columns, names, strict=False), columns[len(names) :]
    ids = [id_array(column, name) for column, name in named]
    if any(len(column) != len(ids[0]) for column in (*ids, *others)):
        raise ValueError(
            f"X, {names[0]} and y must have the same number of rows in each part"
        )
    group = _hashes(ids[0]) % np.uint64(n_groups)
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group.astype(np.intp), minlength=n_groups))[:-1]
    pieces = [np.split(column[order], ends) for column in (*ids, *others)]
    return [*zip(*pieces, strict=True), list(map(kinds_of, ids))]


def _agreeing_kinds(parts: list, names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse id columns of several kinds; return the names of the others."""
    for name, *kinds in zip(names, *parts, strict=True):
        check_one_kind(set().union(*kinds), name)
    return names


def _hashes(ids: np.ndarray) -> np.ndarray:
    """Return hashes of ids that are the same in every process."""
    if ids.dtype != object:
        return scrambled_keys(ids.view(np.uint64))
    codes, first = codes_and_rows(ids)
    texts = (key.encode("utf-8", "surrogatepass") for key in ids[first].tolist())
    found = [murmurhash3_32(text, positive=True) for text in texts]
    return np.array(found, dtype=np.uint64)[codes]


def _gathered(make: Sent, pieces: list, names: tuple[str, ...]):
    columns = list(zip(*pieces, strict=True))
    ids = [joined_ids(found, name) for found, name in zip(columns, names, strict=False)]
    return make.function(*ids, *map(np.concatenate, columns[len(names) :]))


@quietly
def _applied(kernel: Sent, group):
    return None if group is None else kernel.function(group)


def _add_some(parts: list):
    """Add up sums, some of which are None for groups without users."""
    some = [part for part in parts if part is not None]
    return add_sums(some) if some else None
