"""Users on a cluster, who answer there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from .._linalg import linear_model as lrs
from .._tables.cluster_clients import ClusterUserTable
from .._tables.cluster_tables import common_type, numbers_of
from .._tables.cluster_users import ClusterUsers
from .._tables.ids import encode_ids
from .._tables.targets import check_targets
from ._offsets import rest_of


class ClusterUserRows:
    """Rows and targets of users, grouped on a cluster.

    Parameters
    ----------
    table : ClusterUserTable
        Rows, and whose they are.
    targets : list of dask.delayed.Delayed
        Targets of each part.
    offset : int or None
        Place of the offsets among the features.
    name : str
        What errors call the users.
    **how : object
        How users' rows are centered and scaled: as for ``UserRows``.
    """

    def __init__(
        self, table: ClusterUserTable, targets: list, offset, name: str, **how
    ) -> None:
        from dask import delayed

        dtype = common_type([table.table.dtypes[j] for j in table.columns])
        rows = table.table.apply(numbers_of, table.columns, dtype)
        together = delayed(_together, pure=True)
        parts = list(map(together, table.ids.parts, rows, targets))
        make = partial(_rows_of_users, offset=offset, name=name, **how)
        self._users = ClusterUsers(parts, make, name)
        self._part: tuple[int, int] | None = None

    def dealt(self, part: int, n_parts: int) -> ClusterUserRows:
        """Rows of one of several parts, which each user's rows are dealt to in turn.

        Parameters
        ----------
        part, n_parts : int
            Number of the part, from 0, and how many there are.
        """
        other = copy.copy(self)
        other._part = part, n_parts
        return other

    def sums(self, function: Callable, n_jobs=None) -> Iterator:
        """Yield the sum of what a function makes of all blocks of users.

        Parameters
        ----------
        function : callable
            Block, and the rows that it is one of -> sums over its users, exact in any
            order; public and picklable.
        n_jobs : int or None, default=None
            Unused: the cluster has its own threads.
        """
        kernel = partial(_sum_of_blocks, function=function, dealt=self._part)
        total = self._users.reduce(kernel)
        return iter(() if total is None else (total,))


def check_cluster(model, table) -> None:
    """Refuse what needs all users in one place.

    Raises
    ------
    ValueError
        Naming epsilon, or users.
    """
    if table.distant is None:
        return
    if not model._is_private():
        raise ValueError(
            "epsilon=None alternates between all users, which must be in memory: pass "
            "X.compute(), or a budget"
        )
    if not table.has_users:
        raise ValueError(
            "X is on a cluster, where all rows would be those of one user: pass "
            "users=... or name their column by user_feature"
        )


def _together(*columns) -> tuple:
    return columns


def _rows_of_users(ids, X, y, *, offset, name: str, **how) -> lrs.UserRows | None:
    if not len(ids):
        return None
    y = check_targets(None, y, len(ids))
    if offset is not None:
        y = rest_of(y, np.asarray(X[:, offset], dtype=np.float64))
        X = np.delete(X, offset, axis=1)
    return lrs.UserRows(X, y, *encode_ids(ids, name), **how)


def _sum_of_blocks(rows: lrs.UserRows | None, function: Callable, dealt=None):
    if rows is None:
        return None
    # Blocks are kept by the copy alone: a task may be run again.
    rows = copy.copy(rows) if dealt is None else rows.dealt(*dealt)
    total = None
    for found in rows.sums(function):
        total = found if total is None else total + found
    return total
