"""Rows of users and clients on a cluster, gathered there by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter, getitem
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import murmurhash3_32

from .._linalg.walks import add_sums, scrambled_keys
from .clusters import (
    ClusterRows,
    ClusterTable,
    PartError,
    PublicMessage,
    Sent,
    added_on_cluster,
    check_as_long,
    column_beside,
    column_of,
    computed,
    kept_on_cluster,
    numbers_of,
    task,
)
from .files import common_type
from .ids import check_one_kind, codes_and_rows, id_array, joined_ids, kinds_of


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
        how = {"name": self.ids.name, "columns": self.columns, "dtype": dtype}
        divide = task(_divided_by_client, **how)
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
    table. Each of `parts` is a tuple of arrays: ids, and further columns. Kernels
    receive ``make(ids, *columns)`` of a group, which must be pure, public and
    picklable. `names` are those of the leading id columns, each of which must be of one
    kind.
    """

    def __init__(self, parts: list, make: Callable, *names: str) -> None:
        n_groups = min(len(parts), _MOST_GROUPS)
        divide = task(_divided_by_user, public=True, n_groups=n_groups, names=names)
        agree, take = task(_agreeing_kinds, public=True), task(getitem)
        gather, made = task(_gathered), Sent(make).task()
        divided = [divide(part) for part in parts]
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
