"""Which rows of a table belong to which client."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._tables.cluster_clients import ClusterIds
from .._tables.ids import encode_ids
from .._tables.users import CLIENTS

# The client of all rows, where no clients are told apart.
ALL_ROWS = "all rows"


class Group(NamedTuple):
    """The rows of one client."""

    client: object
    name: str
    rows: slice | np.ndarray | list
    n_rows: int


def group_rows(ids, n_rows: int) -> list[Group]:
    """Divide rows among clients, in the order of the clients' first rows.

    Parameters
    ----------
    ids : array-like of shape (n_rows,) or None
        One hashable id a row; None puts all rows into one client.
    n_rows : int
        Number of rows.

    Returns
    -------
    list of Group
        Every row is in exactly one of them, which is checked.

    Raises
    ------
    ValueError, TypeError
        If the ids are no ids, or two clients have one name.
    """
    if ids is None:
        return [Group(ALL_ROWS, ALL_ROWS, slice(0, n_rows), n_rows)]
    if isinstance(ids, ClusterIds):
        # Each row of a part has one id: rows of two clients are disjoint.
        labels, members = ids.members()
        return _named(
            (label, rows, sum(member.n_rows for member in rows))
            for label, rows in zip(labels, members, strict=True)
        )
    codes, n_clients = encode_ids(ids, CLIENTS.ids)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=n_clients)
    blocks = np.split(order, np.cumsum(counts)[:-1])
    _check_disjoint(blocks, n_rows)
    labels = ids if isinstance(ids, (list, tuple)) else np.asarray(ids)

    def found():
        for block in blocks:
            first, last = int(block[0]), int(block[-1])
            whole = last - first + 1 == len(block)
            rows = slice(first, last + 1) if whole else block
            yield labels[block[0]], rows, len(block)

    return _named(found())


def _named(clients) -> list[Group]:
    """Name clients by their ids, each of which must have a name of its own."""
    groups, seen = [], set()
    for label, rows, n_rows in clients:
        name = str(label)
        if name in seen:
            raise ValueError(
                f"clients: two different ids have the name {name!r}; use ids of one "
                "kind"
            )
        seen.add(name)
        groups.append(Group(label, name, rows, n_rows))
    return groups


def _check_disjoint(blocks, n_rows: int) -> None:
    """Make sure of what parallel composition rests on: every row is in one block."""
    times = np.zeros(n_rows, dtype=np.intp)
    for block in blocks:
        np.add.at(times, block, 1)
    if not (times == 1).all():
        raise RuntimeError("rows of clients are not disjoint")
