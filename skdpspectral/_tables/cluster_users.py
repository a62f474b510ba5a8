"""Users whose rows lie on a cluster, gathered there: every user's rows in one place."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from numbers import Number
from operator import getitem
from typing import Any

import numpy as np
from sklearn.utils import murmurhash3_32

from .._linalg import add_sums, scrambled_keys
from .cluster_rows import added_on_cluster, kept_on_cluster
from .cluster_tables import check_as_long, in_own_words
from .exact_ids import check_exact
from .ids import (
    check_ids,
    check_kinds,
    codes_and_rows,
    id_array,
    joined_ids,
    kinds_of,
)

_NUMBERS: tuple = (Number, np.bool_)
# Groups of users, at most: every part of a table is divided into so many pieces.
_MOST_GROUPS = 64


class ClusterUsers:
    """Groups of users on a cluster, each of which has all rows of its users.

    They are kept by the workers, so that users can answer several rounds; rows of a
    user come in the order of the table.

    Parameters
    ----------
    parts : list of dask.delayed.Delayed
        Ids of the rows of each part of a table, and further columns: tuples of arrays.
    make : callable
        ``make(ids, *columns)`` of all rows of some users: what kernels are given. Pure,
        public and picklable.
    *names : str
        What errors call the ids of users, and of further columns that are ids. Those
        of a column must be of one kind in all parts, as in a table in memory.
    """

    def __init__(self, parts: list, make: Callable, *names: str) -> None:
        from dask import delayed

        n_groups = min(len(parts), _MOST_GROUPS)
        divide = partial(_divided, n_groups=n_groups, names=names)
        divide = delayed(in_own_words(divide), pure=True)
        agree = delayed(in_own_words(_checked_kinds), pure=True)
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

        Parameters
        ----------
        kernel : callable
            What was made of a group -> sums over its users, which are whole numbers
            of steps: they add up without rounding, in any order.
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


def _divided(columns, n_groups: int, names: tuple[str, ...]) -> list:
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
    kinds = [kinds_of(column) if len(column) else frozenset() for column in ids]
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
    if isinstance(key, _NUMBERS):
        number = np.array([int(key) % 2**64], dtype=np.uint64)
        return int(scrambled_keys(number)[0])
    if not isinstance(key, (str, bytes)):
        raise TypeError(f"{name} on a cluster must be numbers, times or strings")
    text = key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")
    return murmurhash3_32(text, positive=True)


def _gathered(make: _Made, pieces: list, names: tuple[str, ...]):
    columns = list(zip(*pieces, strict=True))
    join, n_ids = in_own_words(joined_ids), len(names)
    ids = [join(*found) for found in zip(columns, names, strict=False)]
    others = [np.concatenate(arrays) for arrays in columns[n_ids:]]
    return in_own_words(make.function)(*ids, *others)


def _applied(kernel: _Made, group):
    with np.errstate(all="ignore"):  # a warning would tell of somebody's values
        return kernel.function(group)


def _add_some(parts: list):
    """Add up sums, of which groups without users have none."""
    some = [part for part in parts if part is not None]
    return add_sums(some) if some else None
