"""Rows of clients on a cluster: who has which of them, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from .cluster_rows import ClusterRows, PartError, kept_on_cluster, told_apart
from .cluster_tables import (
    ClusterTable,
    check_as_long,
    column_beside,
    column_of,
    common_type,
    in_own_words,
    numbers_of,
)
from .exact_ids import check_exact
from .ids import codes_and_rows, encode_array, id_array, joined_ids, kept_apart


class Member(NamedTuple):
    """Rows of a client in one part of a table.

    Parameters
    ----------
    part, code : int
        The part, and the client's number in it.
    n_rows : int
        Number of rows.
    client : object
        Its id there.
    """

    part: int
    code: int
    n_rows: int
    client: Any


@dataclass(frozen=True)
class ClusterIds:
    """One id a row, on a cluster.

    Parameters
    ----------
    parts : list of dask.delayed.Delayed
        Ids of the rows of each part.
    name : str
        What errors call them.
    """

    parts: list
    name: str

    def members(self) -> tuple[np.ndarray, list[list[Member]]]:
        """Return distinct ids by their first rows, and where the rows of each lie.

        Raises
        ------
        ValueError
            If ids are missing, or not exact; none is quoted.
        """
        from dask import compute, delayed

        count = delayed(in_own_words(partial(_counted, name=self.name)), pure=True)
        found = told_apart(lambda: compute(*map(count, self.parts)))
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
    """Rows of features on a cluster, and the ids that they belong to.

    Parameters
    ----------
    table : ClusterTable
        The whole table.
    columns : list of int
        Places of the features.
    ids : ClusterIds or None
        One id a row.
    """

    table: ClusterTable
    columns: list[int]
    ids: ClusterIds | None

    @property
    def X(self) -> ClusterRows:
        """All rows of features."""
        return self.table.rows(self.columns)

    def features_of(self, clients: list) -> Iterator[ClusterRows]:
        """Yield the features of the rows of each client.

        Every part is read once, and divided among its clients where it lies: they
        are asked one after another.

        Parameters
        ----------
        clients : list of list of Member
            Their rows, as :meth:`ClusterIds.members` tells them. Without ids, one whose
            rows are all.
        """
        if self.ids is None:
            yield self.X
            return
        from dask import delayed

        dtype = common_type([self.table.dtypes[j] for j in self.columns])
        divide = partial(
            _divided, name=self.ids.name, columns=self.columns, dtype=dtype
        )
        divide = delayed(divide, pure=True)
        told = _told(clients, len(self.table.parts))
        together = zip(self.table.parts, self.ids.parts, told, strict=True)
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
        return ClusterIds(table.apply(column_of, place), name)
    return ClusterIds(column_beside(kept_apart(beside), table, name), name)


def _counted(ids, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids of a part by their first rows, and how many rows each has."""
    check_exact(ids, name)
    ids = id_array(ids, name)
    codes, first = codes_and_rows(ids, name)
    return ids[first], np.bincount(codes, minlength=len(first))


def _told(clients: list, n_parts: int) -> list[tuple[np.ndarray, np.ndarray]]:
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


def _divided(part, ids, told, name: str, columns, dtype) -> tuple:
    """Rows of a part, those of each client together, and where each client's end."""
    rows = numbers_of(part, columns, dtype)  # whose errors may quote values
    ids = in_own_words(id_array)(ids, name)
    in_own_words(check_as_long)(name, ids, rows)
    codes, first = in_own_words(codes_and_rows)(ids, name)
    counts = np.bincount(codes, minlength=len(first))
    names = np.fromiter(ids[first], dtype=object, count=len(first))
    # By these, and no others, each of its rows is charged to a client's budget.
    if not (np.array_equal(names, told[0]) and np.array_equal(counts, told[1])):
        raise PartError(
            "X: a part has other clients, or in another order, when it is read again; "
            "persist what is drawn or shuffled anew each time"
        )
    return rows[np.argsort(codes, kind="stable")], np.cumsum(counts)


def _rows_of_client(divided: tuple[np.ndarray, np.ndarray], code: int) -> np.ndarray:
    rows, ends = divided
    return rows[ends[code - 1] if code else 0 : ends[code]]
