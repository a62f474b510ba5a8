"""Rows of clients and of users on a cluster, gathered there by their ids."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Number
from operator import attrgetter, getitem
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import murmurhash3_32

from .._linalg.walks import add_sums, scrambled_keys
from .clusters import (
    ClusterRows,
    ClusterTable,
    PartError,
    added_on_cluster,
    check_as_long,
    column_beside,
    column_of,
    common_type,
    kept_on_cluster,
    numbers_of,
    run_on_cluster,
    with_public_message,
)
from .ids import (
    check_exact,
    check_ids,
    check_kinds,
    codes_and_rows,
    encode_array,
    id_array,
    id_kinds,
    joined_ids,
    list_as_objects,
    words_of_instant,
)


class Member(NamedTuple):
    """Rows of a client in one part of a table: its number `code` and id there."""

    part: int
    code: int
    n_rows: int
    client: Any


@dataclass(frozen=True)
class ClusterIds:
    """One id a row, on a cluster: ``read()`` returns tasks for those of each part."""

    read: Callable[[], list]
    name: str

    @property
    def parts(self) -> list:
        """Tasks for the ids of the rows of each part."""
        return self.read()

    def members(self) -> tuple[np.ndarray, list[list[Member]]]:
        """Return distinct ids by their first rows, and where the rows of each lie.

        Ids that are missing or not exact are refused; none is quoted.
        """
        from dask import compute, delayed

        count = delayed(
            with_public_message(partial(_counted, name=self.name)), pure=True
        )
        found = run_on_cluster(lambda: compute(*map(count, self.parts)))
        joined = joined_ids([labels for labels, _ in found], self.name)
        codes, n_ids = encode_array(joined, self.name)
        members: list[list[Member]] = [[] for _ in range(n_ids)]
        place = 0
        for number, (labels, counts) in enumerate(found):
            for code, n_rows in enumerate(counts.tolist()):
                member = Member(number, code, n_rows, labels[code])
                members[codes[place]].append(member)
                place += 1
        first = np.unique(codes, return_index=True)[1]
        return joined[first], members


@dataclass(frozen=True)
class ClusterUserTable:
    """Rows of features on a cluster, at some columns, and the ids that they have."""

    table: ClusterTable
    columns: list[int]
    ids: ClusterIds | None

    @property
    def X(self) -> ClusterRows:
        """All rows of features."""
        return self.table.rows(self.columns)

    def features_of(self, clients: list) -> Iterator[ClusterRows]:
        """Yield the features of the rows of each client.

        Every part is read once, and divided among its clients where it lies: they are
        asked one after another. Without ids there is one client, whose rows are all.
        """
        if self.ids is None:
            yield self.X
            return
        from dask import delayed

        dtype = common_type([self.table.dtypes[j] for j in self.columns])
        divide = partial(
            _divided_by_client, name=self.ids.name, columns=self.columns, dtype=dtype
        )
        divide = delayed(divide, pure=True)
        expected = _clients_by_part(clients, len(self.table.parts))
        together = zip(self.table.parts, self.ids.parts, expected, strict=True)
        divided = kept_on_cluster([divide(*each) for each in together])
        piece = delayed(_rows_of_client, pure=True)
        for rows in clients:
            parts = [piece(divided[member.part], member.code) for member in rows]
            sizes = [member.n_rows for member in rows]
            yield ClusterRows(parts, sizes, len(self.columns), dtype)


def cluster_ids(table: ClusterTable, place: int | None, beside, name: str):
    """Return the ids of a table: a column of it, or what is given beside it."""
    if place is None and beside is None:
        return None
    if place is not None:
        return ClusterIds(lambda: table.apply(column_of, place), name)
    return ClusterIds(column_beside(list_as_objects(beside), table, name), name)


def _counted(ids, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids of a part by their first rows, and how many rows each has."""
    check_exact(ids, name)
    ids = id_array(ids, name)
    codes, first = codes_and_rows(ids, name)
    return ids[first], np.bincount(codes, minlength=len(first))


def _clients_by_part(
    clients: list, n_parts: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the clients of each part in the order of their codes, and their rows."""
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
    """Rows of a part, those of each client together, and where each client's end."""
    rows = numbers_of(part, columns, dtype)  # whose errors may quote values
    ids = with_public_message(id_array)(ids, name)
    with_public_message(check_as_long)(name, ids, rows)
    codes, first = with_public_message(codes_and_rows)(ids, name)
    counts = np.bincount(codes, minlength=len(first))
    names = np.fromiter(ids[first], dtype=object, count=len(first))
    # By these, and no others, each of its rows is charged to a client's budget.
    if not (np.array_equal(names, expected[0]) and np.array_equal(counts, expected[1])):
        raise PartError(
            "X: a part has other clients, or in another order, when it is read again; "
            "persist what is drawn or shuffled anew each time"
        )
    return rows[np.argsort(codes, kind="stable")], np.cumsum(counts)


def _rows_of_client(divided: tuple[np.ndarray, np.ndarray], code: int) -> np.ndarray:
    rows, ends = divided
    return rows[ends[code - 1] if code else 0 : ends[code]]


_NUMBERS: tuple = (Number, np.bool_)

# Groups of users, at most: every part of a table is divided into so many pieces.
_MOST_GROUPS = 64


class ClusterUsers:
    """Groups of users on a cluster, each of which has all rows of its users.

    They are kept by the workers, so that users can answer several rounds; rows of a
    user come in the order of the table. Each of `parts` gives a tuple of arrays: ids of
    the rows, and further columns. ``make(ids, *columns)`` of all rows of some users is
    what kernels are given: it is pure, public and picklable. `names` are those of the
    first columns, which are ids: each must be of one kind in all parts, as in memory.
    """

    def __init__(self, parts: list, make: Callable, *names: str) -> None:
        from dask import delayed

        n_groups = min(len(parts), _MOST_GROUPS)
        divide = partial(_divided_by_user, n_groups=n_groups, names=names)
        divide = delayed(with_public_message(divide), pure=True)
        agree = delayed(with_public_message(_checked_kinds), pure=True)
        make = delayed(_Made(make), name=f"skdpspectral-{uuid.uuid4()}")
        gather = delayed(_gathered, pure=True)
        take = delayed(getitem, pure=True)
        divided = [divide(part) for part in parts]
        # No group is made before the kinds of all parts are known to agree.
        agreed = agree([take(pieces, n_groups) for pieces in divided], names)
        self._groups = kept_on_cluster(
            [
                gather(make, [take(pieces, group) for pieces in divided], agreed)
                for group in range(n_groups)
            ]
        )

    def reduce(self, kernel: Callable) -> Any:
        """Return the sums that a kernel makes of all groups; None where all are None.

        The sums are whole numbers of steps: they add up without rounding, in any order.
        """
        from dask import delayed

        kernel = delayed(_Made(kernel), name=f"skdpspectral-{uuid.uuid4()}")
        apply = delayed(_applied, pure=True)
        sums = [apply(kernel, group) for group in self._groups]
        return added_on_cluster(sums, _add_some)


class _Made:
    """A function that travels to the workers once, and not with every task."""

    def __init__(self, function: Callable) -> None:
        self.function = function


def _divided_by_user(columns, n_groups: int, names: tuple[str, ...]) -> list:
    """Divide rows among groups of users, by a hash of each user's id alone.

    The last entry has the kinds of the ids in each column of them.
    """
    named, others = zip(columns, names, strict=False), columns[len(names) :]
    ids = [_checked_ids(column, name) for column, name in named]
    users, name = ids[0], names[0]
    check_as_long(name, users, *ids, *others)
    group = _hashes(users, name) % np.uint64(n_groups)
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group.astype(np.intp), minlength=n_groups))[:-1]
    pieces = [np.split(column[order], ends) for column in (*ids, *others)]
    # A part without rows has no say.
    kinds = [id_kinds(column) if len(column) else frozenset() for column in ids]
    return [*zip(*pieces, strict=True), kinds]


def _checked_ids(ids, name: str) -> np.ndarray:
    check_exact(ids, name)
    ids = id_array(ids, name)
    check_ids(ids, name)
    return ids


def _checked_kinds(parts: list, names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse columns whose ids are of several kinds; return the names of the others."""
    for name, *kinds in zip(names, *parts, strict=True):
        check_kinds(frozenset().union(*kinds), name)
    return names


def _hashes(ids: np.ndarray, name: str) -> np.ndarray:
    """Hashes of ids: of equal ones the same, in every process."""
    if ids.dtype.kind in "mM":
        ids = ids.astype(f"{ids.dtype.kind}8[ns]").view(np.int64)
    if ids.dtype.kind in "biuf":
        # Floats are whole, and equal integers have equal hashes.
        with np.errstate(all="ignore"):
            return scrambled_keys(ids.astype(np.int64).view(np.uint64))
    codes, first = codes_and_rows(ids, name)
    found = [_hashed(key, name) for key in ids[first].tolist()]
    return np.array(found, dtype=np.uint64)[codes]


def _hashed(key: Any, name: str) -> int:
    if isinstance(key, _NUMBERS) and _is_finite(key):
        number = np.array([int(key) % 2**64], dtype=np.uint64)
        return int(scrambled_keys(number)[0])
    if isinstance(key, tuple):
        key = "tuple " + " ".join(str(_hashed(part, name)) for part in key)
    elif isinstance(key, datetime.datetime) and key.tzinfo is not None:
        key = words_of_instant(key)
    elif hasattr(key, "freqstr") and hasattr(key, "ordinal"):  # a period of pandas
        key = f"period {key.freqstr} {key.ordinal}"
    if not isinstance(key, (str, bytes)):
        raise TypeError(
            f"{name} on a cluster must be numbers, times, periods, strings, or tuples "
            "of numbers and strings"
        )
    text = key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")
    return murmurhash3_32(text, positive=True)


def _is_finite(number: Any) -> bool:
    return bool(number == number and abs(number) != math.inf)


def _gathered(make: _Made, pieces: list, names: tuple[str, ...]):
    columns = list(zip(*pieces, strict=True))
    join, n_ids = with_public_message(joined_ids), len(names)
    ids = [join(*found) for found in zip(columns, names, strict=False)]
    others = [np.concatenate(arrays) for arrays in columns[n_ids:]]
    return with_public_message(make.function)(*ids, *others)


def _applied(kernel: _Made, group):
    with np.errstate(all="ignore"):  # a warning would tell of somebody's values
        return kernel.function(group)


def _add_some(parts: list):
    """Add up sums, of which groups without users have none."""
    some = [part for part in parts if part is not None]
    return add_sums(some) if some else None
