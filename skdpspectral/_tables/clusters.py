"""Tables of dask, reduced to sums on the cluster that keeps them.

Each part of the rows is reduced where it lies, sums are added up in a tree, and one sum
is returned. Walks and kernels are sent to the cluster: public functions, and numbers
that are public, released, or computed there (the exact mean of rows). No noise is drawn
there. Tasks do not write to their arguments, so that a task that runs again after a
worker was lost returns the same sum, and each part counts once.
"""

from __future__ import annotations

import sys
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import attrgetter, getitem
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import murmurhash3_32

from .._linalg.walks import Kernel, add_sums, scrambled_keys, sum_blocks
from .columns import as_array, column_at, refuse_masked
from .files import NO_COMPLEX, NO_DATES, MappedRows, SlicedRows, check_real, common_type
from .ids import check_one_kind, codes_and_rows, id_array, joined_ids, kinds_of
from .pairs import PairOrder, PairWalk, PoolWalk, scrambled

# Sums that one task adds up.
_TOGETHER = 8


class ClusterRows(SlicedRows):
    """Rows whose parts lie on a cluster, and are reduced there.

    `parts` are tasks for arrays of shape (n_rows, n_features), in order; `sizes` are
    their numbers of rows. `source` is the same as a dask array, for slices; `named` is
    a table without rows that has the feature names.
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
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Read a slice of rows into this process, for a transform."""
        block = super().__getitem__(rows)
        return block if self._row_map is None else self._row_map(block)

    def mapped(self, row_map: Callable) -> ClusterRows:
        """Return the rows under a row-wise map."""
        other = object.__new__(ClusterRows)
        other.__dict__.update(self.__dict__)
        first = self._row_map
        other._row_map = row_map if first is None else _Composed(first, row_map)
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
        if n_pools is None:
            return list(self._gathered(order, None))
        key = order, n_pools
        if key not in self._samples:
            pools = list(self._gathered(order, n_pools))
            self._samples[key] = kept_on_cluster(pools)
        return self._samples[key]

    def _gathered(self, order, n_pools) -> Iterator:
        cut, gather = task(_cut), task(_joined)
        for reads in order.reads_of_pools(n_pools):
            pieces = (piece for read in reads for piece in self._pieces(read))
            yield gather(
                [
                    cut(self._parts[part], self._sizes[part], self.shape[1], *span)
                    for part, *span in pieces
                ]
            )

    def _pieces(self, rows: slice) -> Iterator[tuple[int, int, int]]:
        """Yield the parts that contain `rows`, and the slices in them."""
        start = rows.start
        while start < rows.stop:
            part = bisect_right(self._ends, start)
            stop = min(rows.stop, self._ends[part])
            first = self._ends[part] - self._sizes[part]
            yield part, start - first, stop - first
            start = stop


def task(function: Callable, *, public: bool = False, **named: Any) -> Callable:
    """Return a function that makes tasks of a pure function.

    `public` is whether its error messages contain no values, and are passed on.
    """
    from dask import delayed

    function = partial(function, **named) if named else function
    return delayed(PublicMessage(function) if public else function, pure=True)


class Sent:
    """A function that is sent to the workers once, and not with every task."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def task(self):
        """Return a task with a name of its own: none is taken for another."""
        from dask import delayed

        return delayed(self, name=f"skdpspectral-{uuid.uuid4()}")


class PartError(ValueError):
    """A part differs from what its collection declares; quotes no value."""


class _Composed:
    """Composition of two row maps."""

    def __init__(self, first: Callable, second: Callable) -> None:
        self._first, self._second = first, second

    def __call__(self, block):
        return self._second(self._first(block))


class _Job(Sent):
    """The kernel of a walk that is sent to the workers."""

    def __init__(self, walk, kernel: Kernel, row_map, n_features: int) -> None:
        super().__init__(kernel)
        self.walk = walk
        self.row_map, self.n_features = row_map, n_features

    def table(self, rows):
        """Return rows under the map of the table."""
        return rows if self.row_map is None else MappedRows(rows, self.row_map)

    def sums(self, blocks: Iterator) -> Any:
        """Apply the kernel quietly: a warning would reveal something about values."""
        with np.errstate(all="ignore"):
            return sum_blocks(self.function, blocks)


def _sums_of_part(job: _Job, part, n_rows: int):
    rows = job.table(_checked(part, n_rows, job.n_features))
    return job.sums(job.walk.blocks(rows))


def _sums_of_pool(job: _Job, pool):
    with np.errstate(all="ignore"):
        rows = pool if job.row_map is None else job.row_map(pool)
    return job.sums(job.walk.blocks_of_a_pool(rows, scrambled(len(pool))))


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


def _parts_beside(parts: tuple, first: int, step: int) -> np.ndarray:
    columns = [np.asarray(part, dtype=np.float64) for part in parts]
    return np.column_stack(columns)[first::step]


def _joined(pieces: list) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _groups(items: list) -> Iterator[list]:
    for start in range(0, len(items), _TOGETHER):
        yield items[start : start + _TOGETHER]


def added_on_cluster(sums: list, add: Callable) -> Any:
    """Return the sum of the results of tasks, added in a tree, in order."""
    together = task(add)
    while len(sums) > 1:
        sums = [together(group) for group in _groups(sums)]
    return run_on_cluster(sums[0].compute)


def kept_on_cluster(tasks: list) -> list:
    """Return tasks whose results stay with the workers."""
    from dask import persist

    return list(run_on_cluster(lambda: persist(*tasks)))


def computed(tasks: list) -> tuple:
    """Return the results of tasks."""
    from dask import compute

    return run_on_cluster(lambda: compute(*tasks))


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
            f"X could not be reduced on its cluster ({type(error).__name__}); the "
            "workers' logs say where"
        )
    raise ValueError(said)


def cluster_table(X) -> ClusterTable | None:
    """Return a dask array or dataframe as a table of parts; None for other types."""
    if is_cluster_array(X):
        return _table_of_array(X)
    frame = sys.modules.get("dask.dataframe")
    if frame is not None and isinstance(X, frame.DataFrame):
        return _table_of_frame(X)
    return None


def brought_here(X):
    """Return a dask collection as a table or column in memory; others unchanged."""
    return run_on_cluster(X.compute) if is_on_cluster(X) else X


def is_on_cluster(X) -> bool:
    """Return whether X is an array, dataframe or series of dask."""
    frame = sys.modules.get("dask.dataframe")
    kinds = () if frame is None else (frame.DataFrame, frame.Series)
    return is_cluster_array(X) or isinstance(X, kinds)


def is_cluster_array(X) -> bool:
    """Return whether X is a dask array, without importing dask."""
    array = sys.modules.get("dask.array")
    return array is not None and isinstance(X, array.Array)


@dataclass(frozen=True)
class ClusterTable:
    """Parts of a table on a cluster: arrays, or frames of pandas.

    `parts` are tasks in the order of the rows, and `sizes` their numbers of rows;
    `dtypes` and `names` are those of the columns. `like` is a table without values
    that has these columns; `source` is the dask array, if it is one.
    """

    parts: list
    sizes: list[int]
    dtypes: list
    names: list | None
    like: Any
    source: Any = None

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
        whole = columns is None and self.source is not None
        parts = self.parts if whole else self.apply(numbers_of, columns, dtype)
        size, named = len(chosen), None if self.names is None else self.like
        source = self.source
        if source is None and columns is None:
            source = _array_of_parts(parts, self.sizes, size, dtype)
        return ClusterRows(parts, self.sizes, size, dtype, source, named)

    def apply(self, function: Callable, *arguments: Any) -> list:
        """Return tasks that apply a pure function to every part."""
        apply = task(function)
        return [apply(part, *arguments) for part in self.parts]


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
    return ClusterTable(parts, sizes, [X.dtype] * X.shape[1], None, like, X)


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
    sizes = computed(list(map(task(len), parts)))
    return ClusterTable(parts, list(sizes), list(X.dtypes), names, X._meta)


def _check_names(part, names: list):
    """Return a part; raise if its columns are in another order."""
    if not hasattr(part, "columns") or list(part.columns) != names:
        raise ValueError(
            "X: a part has different columns from its collection, or has them in "
            "another order"
        )
    return part


def _array_of_parts(parts, sizes, n_features: int, dtype):
    from dask import array

    blocks = [
        array.from_delayed(part, (size, n_features), dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return array.concatenate(blocks)


def numbers_of(part, columns, dtype) -> np.ndarray:
    """Return some columns of a part as numbers; None selects all."""
    if isinstance(part, np.ndarray):
        return part if columns is None else part[:, columns]
    part = part if columns is None else part.iloc[:, columns]
    if _own_type(part) != dtype or part.isna().to_numpy().any():
        # As of a missing whole number: found with others that are not finite.
        return part.to_numpy(np.float64, na_value=np.nan)
    return part.to_numpy(dtype)


def _own_type(part) -> np.dtype:
    """Return the common type of a part's columns, whatever the collection declares."""
    kinds = {getattr(dtype, "kind", "O") for dtype in part.dtypes}
    if kinds & set("mMc"):
        raise PartError(NO_DATES if kinds & set("mM") else NO_COMPLEX)
    return np.dtype(np.float64) if "O" in kinds else common_type(list(part.dtypes))


def column_of(part, place: int) -> np.ndarray:
    """Return a column of a part as an array of the part's own type."""
    if isinstance(part, np.ndarray):
        return part[:, place]
    return as_array(column_at(part, place))


def column_beside(column, table: ClusterTable, name: str) -> Callable[[], list]:
    """Return a function that reads a column given beside a table.

    It returns tasks for the parts of the column, and is called after the fit is
    charged. A column in memory is sent to the workers; the caller checks its form. It
    must have one entry per row; rows correspond by their places.
    """
    wrong = ValueError(f"X and {name} have inconsistent numbers of samples")
    array = task(_plain_column, public=True, name=name)
    if is_cluster_array(column):
        if column.ndim != 1 or column.shape[0] != table.shape[0]:
            raise wrong
        parts = column.rechunk((tuple(table.sizes),)).to_delayed().tolist()
        return lambda: list(map(array, parts))
    if hasattr(column, "to_delayed"):
        if getattr(column, "ndim", 1) != 1:
            raise ValueError(f"{name} must be one column, got a dataframe")
        parts = list(column.to_delayed())
        sizes = computed(list(map(task(len), parts)))
        if sum(sizes) != table.shape[0]:
            raise wrong
        return lambda: _aligned(list(map(array, parts)), sizes, table.sizes)

    def slices() -> list:
        values = as_array(column, name).ravel()
        if len(values) != table.shape[0]:
            raise wrong
        return cut_for_parts(values, table.sizes)

    return slices


def cut_for_parts(values: np.ndarray, sizes: list[int]) -> list:
    """Return tasks for the parts of an array that is sent to the cluster."""
    from dask import delayed

    pieces = np.split(values, np.cumsum(sizes)[:-1])
    return [delayed(piece, traverse=False) for piece in pieces]


def _aligned(parts: list, sizes, wanted: list[int]) -> list:
    """Return parts of a column cut anew: dask joins small files, for a column alone."""
    from dask import array

    if list(sizes) == wanted:
        return parts
    pairs = zip(parts, sizes, strict=True)
    whole = [array.from_delayed(part, (size,), float) for part, size in pairs]
    return array.concatenate(whole).rechunk((tuple(wanted),)).to_delayed().tolist()


def _plain_column(part, name: str) -> np.ndarray:
    """Return a part of a column; refuse masks, which numpy would ignore."""
    refuse_masked(part, name)
    return np.asarray(part)


def check_as_long(name: str, ids, *columns) -> None:
    """Refuse columns of a part whose length differs from that of the ids."""
    if any(len(column) != len(ids) for column in columns):
        raise ValueError(
            f"X, {name} and y must have the same number of rows in each part"
        )


class PublicMessage:
    """A check of a part whose error messages, without values, are passed on."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __call__(self, *arguments, **named):
        try:
            return self._function(*arguments, **named)
        except (ValueError, TypeError) as error:
            said = str(error)
        raise PartError(said)


class Member(NamedTuple):
    """Rows of a client in one part of a table: its number `code`, and its id there."""

    part: int
    code: int
    n_rows: int
    client: Any


@dataclass(frozen=True)
class ClusterIds:
    """One id per row, on a cluster: ``read()`` returns a task for each part."""

    read: Callable[[], list]
    name: str

    @property
    def parts(self) -> list:
        """Tasks for the ids of each part."""
        return self.read()

    def members(self) -> tuple[np.ndarray, list[list[Member]]]:
        """Return distinct ids by first appearance, and the parts with their rows."""
        count = task(_counted, public=True, name=self.name)
        found = computed(list(map(count, self.parts)))
        joined = joined_ids([labels for labels, _ in found], self.name)
        codes, first = codes_and_rows(joined)
        members: list[list[Member]] = [[] for _ in first]
        place = 0
        for number, (labels, counts) in enumerate(found):
            for code, n_rows in enumerate(counts.tolist()):
                member = Member(number, code, n_rows, labels[code])
                members[codes[place]].append(member)
                place += 1
        return joined[first], members


@dataclass(frozen=True)
class ClusterUserTable:
    """Feature columns of rows on a cluster, and the ids of the rows."""

    table: ClusterTable
    columns: list[int]
    ids: ClusterIds | None

    @property
    def X(self) -> ClusterRows:
        """All rows of features."""
        return self.table.rows(self.columns)

    def features_of(self, clients: list) -> Iterator[ClusterRows]:
        """Yield the features of each client's rows; without ids, those of all rows.

        Every part is read once, and divided among its clients on its worker.
        """
        if self.ids is None:
            yield self.X
            return
        dtype = common_type([self.table.dtypes[j] for j in self.columns])
        name, columns = self.ids.name, self.columns
        divide = task(_divided_by_client, name=name, columns=columns, dtype=dtype)
        expected = _clients_by_part(clients, len(self.table.parts))
        together = zip(self.table.parts, self.ids.parts, expected, strict=True)
        divided = kept_on_cluster([divide(*each) for each in together])
        piece = task(_rows_of_client)
        for rows in clients:
            parts = [piece(divided[member.part], member.code) for member in rows]
            sizes = [member.n_rows for member in rows]
            yield ClusterRows(parts, sizes, len(self.columns), dtype)


def cluster_ids(table: ClusterTable, place: int | None, beside, name: str):
    """Return the ids of a table: a column of it, or those given beside it."""
    if place is None and beside is None:
        return None
    if place is not None:
        return ClusterIds(lambda: table.apply(column_of, place), name)
    return ClusterIds(column_beside(beside, table, name), name)


def _counted(ids, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct ids of a part by first appearance, and their numbers of rows."""
    ids = id_array(ids, name)
    codes, first = codes_and_rows(ids)
    return ids[first], np.bincount(codes, minlength=len(first))


def _clients_by_part(
    clients: list, n_parts: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the clients of each part by increasing code, and their rows."""
    members: list[list[Member]] = [[] for _ in range(n_parts)]
    for rows in clients:
        for member in rows:
            members[member.part].append(member)
    found = []
    for part in members:
        part.sort(key=attrgetter("code"))
        names = np.fromiter((m.client for m in part), dtype=object, count=len(part))
        found.append((names, np.array([m.n_rows for m in part], dtype=np.intp)))
    return found


def _divided_by_client(part, ids, expected, name: str, columns, dtype) -> tuple:
    """Return rows of a part grouped by client, and the end of each group."""
    rows = numbers_of(part, columns, dtype)  # whose errors may quote values
    ids = PublicMessage(id_array)(ids, name)
    PublicMessage(check_as_long)(name, ids, rows)
    codes, first = codes_and_rows(ids)
    counts = np.bincount(codes, minlength=len(first))
    names = np.fromiter(ids[first], dtype=object, count=len(first))
    # By these, and no others, each of its rows is charged to a client's budget.
    if not (np.array_equal(names, expected[0]) and np.array_equal(counts, expected[1])):
        raise PartError(
            "X: a part has different clients, or has them in another order, when it "
            "is read again; persist data that is drawn or shuffled anew each time"
        )
    return rows[np.argsort(codes, kind="stable")], np.cumsum(counts)


def _rows_of_client(divided: tuple[np.ndarray, np.ndarray], code: int) -> np.ndarray:
    rows, ends = divided
    return rows[ends[code - 1] if code else 0 : ends[code]]


# Groups of users, at most: every part of a table is divided into so many pieces.
_MOST_GROUPS = 64


class ClusterUsers:
    """Groups of users on a cluster, each with all rows of its users.

    Workers keep the groups for several rounds; rows of a user are in the order of the
    table. `columns` has tasks for the parts of ids, and of further columns. Kernels
    receive ``make(ids, *columns)`` of a group, which must be pure, public and
    picklable. `names` are those of the leading id columns, each of which must be of one
    kind.
    """

    def __init__(self, columns: list, make: Callable, *names: str) -> None:
        n_groups = min(len(columns[0]), _MOST_GROUPS)
        divide = task(_divided_by_user, public=True, n_groups=n_groups, names=names)
        agree, take = task(_agreeing_kinds, public=True), task(getitem)
        gather, made = task(_gathered), Sent(make).task()
        divided = [divide(part) for part in zip(*columns, strict=True)]
        # No group is made before the kinds of all parts are known to agree.
        agreed = agree([take(pieces, n_groups) for pieces in divided], names)
        self._groups = kept_on_cluster(
            [
                gather(made, [take(pieces, group) for pieces in divided], agreed)
                for group in range(n_groups)
            ]
        )

    def reduce(self, kernel: Callable) -> Any:
        """Return the sum of a kernel over all groups; None if all results are None.

        Sums are whole numbers of steps, exact in any order.
        """
        sent, apply = Sent(kernel).task(), task(_applied)
        sums = [apply(sent, group) for group in self._groups]
        return added_on_cluster(sums, _add_some)


def _divided_by_user(columns, n_groups: int, names: tuple[str, ...]) -> list:
    """Divide rows among groups of users by a hash of the user's id.

    The last entry has the kinds of the ids in each id column.
    """
    named, others = zip(columns, names, strict=False), columns[len(names) :]
    ids = [id_array(column, name) for column, name in named]
    check_as_long(names[0], ids[0], *ids, *others)
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
    join, n_ids = PublicMessage(joined_ids), len(names)
    ids = [join(*found) for found in zip(columns, names, strict=False)]
    others = [np.concatenate(arrays) for arrays in columns[n_ids:]]
    return PublicMessage(make.function)(*ids, *others)


def _applied(kernel: Sent, group):
    with np.errstate(all="ignore"):  # a warning would tell of somebody's values
        return kernel.function(group)


def _add_some(parts: list):
    """Add up sums, some of which are None for groups without users."""
    some = [part for part in parts if part is not None]
    return add_sums(some) if some else None
