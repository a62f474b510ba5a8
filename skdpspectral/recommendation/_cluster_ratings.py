"""Ratings tables on a cluster, where the ratings of every user are gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from .._linalg.recommendation import last_of_each, latest_of_each
from .._linalg.recommendation_gathering import Part
from .._linalg.recommendation_rows import UserRatings
from .._statistics.item_moment import CodedRatings
from .._tables.cluster_tables import (
    ClusterTable,
    cluster_table,
    column_beside,
    column_of,
    in_own_words,
)
from .._tables.cluster_users import ClusterUsers
from .._tables.id_index import IdIndex
from .._tables.targets import check_beside_cluster, check_targets
from ._catalog import item_codes
from ._parameters import read_range, units
from ._ratings_tables import check_finite, compared_columns, refuse_same_names

_NAMES = ("user_feature", "item_feature")


@dataclass(frozen=True)
class ClusterRated:
    """A ratings table on a cluster.

    Parameters
    ----------
    parts : list of dask.delayed.Delayed
        Users, items and ratings of each part: tuples of arrays.
    """

    parts: list
    ratings: None = None  # they are with the parts

    @classmethod
    def of(
        cls, table: ClusterTable, columns: tuple[int, int], ratings: int | None, y
    ) -> ClusterRated:
        """Return users, items, and ratings of a column, or beside the table.

        Parameters
        ----------
        table : ClusterTable
            The table.
        columns : tuple of int
            Places of users and items.
        ratings : int or None
            Place of the ratings; None where they are beside the table.
        y : dask array or series, array-like or None
            Ratings beside the table; None for clicks.
        """
        from dask import delayed

        user, item = (table.apply(column_of, place) for place in columns)
        if ratings is not None:
            given = table.apply(column_of, ratings)
        elif y is not None:
            given = column_beside(y, table, "y")
        else:
            given = table.apply(_zeros)
        check = delayed(in_own_words(_checked), pure=True)
        return cls(list(map(check, user, item, given)))


class UnreadOnCluster(NamedTuple):
    """A ratings table on a cluster, of which the form was checked.

    Parameters
    ----------
    read : callable
        Returns a :class:`ClusterRated`; to be called once the fit is charged.
    names : list of str or None
        Names of the columns.
    """

    read: Callable[[], ClusterRated]
    names: list | None
    n_items: None = None

    def reading(self, beside) -> UnreadOnCluster:
        """Return the same: further columns are not read."""
        return self


def unread_on_cluster(estimator, X, y) -> UnreadOnCluster | None:
    """Check the form of a table on a cluster, for a fit; None where X is none.

    Parameters
    ----------
    estimator : estimator
        With parameters `user_feature` and `item_feature`; gets names and number of
        columns.
    X : object
        The table.
    y : dask array or series, or array-like, of shape (n_ratings,)
        Ratings.

    Raises
    ------
    ValueError, TypeError
        Naming X, y, user_feature or item_feature.
    """
    table = cluster_table(X)
    if table is None:
        return None
    if table.names is not None:
        refuse_same_names(table.names, "X")
    form = table.stand_in, table.names, table.shape
    columns = compared_columns(estimator, *form, reset=True)
    check_beside_cluster(estimator, y, table.shape[0])
    rated = ClusterRated.of(table, columns, None, y)
    return UnreadOnCluster(lambda: rated, table.names)


class ClusterCodes:
    """All ratings by codes, on a cluster.

    Parameters
    ----------
    table : ClusterRated
        The table.
    catalog : IdIndex or range
        Public items.
    """

    def __init__(self, table: ClusterRated, catalog) -> None:
        make = partial(_codes_of_users, catalog=catalog)
        self._users = ClusterUsers(table.parts, make, *_NAMES)

    def total(self, function: Callable) -> np.ndarray | None:
        """Return the sum of what a function makes of groups of users."""
        return self._users.reduce(function)


class ClusterRatings:
    """The last rating of every user and item, on a cluster.

    Parameters
    ----------
    table : ClusterRated
        The table.
    catalog : IdIndex or range
        Public items.
    rating_range : tuple (low, high)
        Public range that ratings are clipped to.
    most : int or None, default=None
        Ratings of a user that count: the last ones.
    """

    def __init__(self, table: ClusterRated, catalog, rating_range, most=None) -> None:
        make = partial(
            _ratings_of_users, catalog=catalog, rating_range=rating_range, most=most
        )
        self._users = ClusterUsers(table.parts, make, *_NAMES)
        counts = self._users.reduce(_count_users)
        self.n_users = 0 if counts is None else int(counts[0])

    def map(self, function: Callable, n_jobs: int | None = None) -> Iterator:
        """Yield the sum of what a function makes of all blocks of users.

        Parameters
        ----------
        function : callable
            Block -> sums over its users, exact in any order; public and picklable.
        n_jobs : int or None, default=None
            Unused: the cluster has its own threads.
        """
        total = self._users.reduce(partial(_sum_of_blocks, function=function))
        return iter(() if total is None else (total,))


def _zeros(part) -> np.ndarray:
    return np.zeros(len(part))


def _checked(users, items, ratings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    check_finite([users, items])
    return users, items, check_targets(None, ratings, len(users))


def _ratings_of_users(ids, items, ratings, *, catalog, rating_range, most):
    """Group ratings of known items by user, in quarters of the range."""
    index = IdIndex(ids, "user_feature") if len(ids) else None
    n_items = len(catalog)
    if index is None:
        return UserRatings((), np.zeros(0, dtype=np.int64), n_items)
    users, codes = index.codes, item_codes(catalog, items)
    ratings = np.clip(ratings, *read_range(rating_range))
    if most is not None:
        known = np.flatnonzero(codes >= 0)
        *found, rows = last_of_each(users[known], codes[known], ratings[known])
        kept = latest_of_each(found[0], rows, most)
        users, codes, ratings = (column[kept] for column in found)
    counts = np.bincount(users, minlength=len(index))
    part = Part(users, codes, ratings)
    return UserRatings([part], counts, n_items, *units(rating_range))


def _codes_of_users(ids, items, ratings, *, catalog) -> CodedRatings:
    if not len(ids):
        return CodedRatings(np.zeros(0, np.intp), np.zeros(0, np.intp), ratings)
    codes = IdIndex(ids, "user_feature").codes
    return CodedRatings(codes, item_codes(catalog, items), ratings)


def _count_users(ratings: UserRatings) -> np.ndarray:
    return np.array([ratings.n_users])


def _sum_of_blocks(ratings: UserRatings, function: Callable):
    total = None
    # What is kept by the workers stays as it is: a task may be run again.
    for steps in ratings.forgetful().map(function):
        total = steps if total is None else total + steps
    return total
