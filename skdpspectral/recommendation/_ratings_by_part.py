"""Users, items and ratings of tables, read part by part or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._tables.clusters import ClusterTable, ClusterUsers, brought_here
from .._tables.columns import as_numbers, read_quietly, refuse_masked
from .._tables.files import Parquet, SlicedRows, sliced_rows
from .._tables.ids import IdIndex, id_array, joined_ids
from .._tables.table import (
    DeferredRead,
    Table,
    check_targets,
    checked_parts,
    deferred_targets,
)
from ._kernels import RatingsChunk, UserRatings
from ._table_columns import (
    check_matrix,
    compared_columns,
    entries_of,
    item_codes,
    open_path,
    units,
)

_NAMES = ("user_feature", "item_feature")


@dataclass(frozen=True)
class ClusterParts:
    """A ratings table on a cluster.

    `columns`: tasks for the parts of users, items and ratings.
    """

    columns: list

    @classmethod
    def of(cls, table: ClusterTable, columns: tuple[int, int], targets) -> ClusterParts:
        """Read users, items and ratings, which may be beside the table."""
        user, item = map(table.column, columns)
        if targets.position is not None:
            given = checked_parts(table.column(targets.position))
        else:
            given = targets.unread.read() if targets.unread else table.apply(_zeros)
        return cls([user, item, given])


class ClusterRatings:
    """The last rating of every user and item, on a cluster."""

    def __init__(self, table: ClusterParts, catalog, rating_range) -> None:
        how = {"catalog": catalog, "rating_range": rating_range}
        make = partial(_ratings_of_users, **how)
        self._users = ClusterUsers(table.columns, make, *_NAMES)
        counts = self._users.reduce(_count_users)
        self.n_users = 0 if counts is None else int(counts[0])

    def map(self, function: Callable, n_jobs: int | None = None) -> Iterator:
        """Yield the sum of what a function makes of all blocks of users."""
        total = self._users.reduce(partial(_sum_of_blocks, function=function))
        return iter(() if total is None else (total,))


def _zeros(part) -> np.ndarray:
    return np.zeros(len(part))


def _ratings_of_users(ids, items, ratings, *, catalog, rating_range) -> UserRatings:
    """Group ratings of known items by user, in quarters of the range."""
    n_items = len(catalog)
    if not len(ids):
        return UserRatings((), np.zeros(0, dtype=np.int64), n_items)
    index, ratings = IdIndex(ids, "user_feature"), np.clip(ratings, *rating_range)
    counts = np.bincount(index.codes, minlength=len(index))
    part = RatingsChunk(index.codes, item_codes(catalog, items), ratings)
    return UserRatings([part], counts, n_items, *units(rating_range))


def _count_users(ratings: UserRatings) -> np.ndarray:
    return np.array([ratings.n_users])


def _sum_of_blocks(ratings: UserRatings, function: Callable):
    total = None
    for steps in ratings.map(function):
        total = steps if total is None else total + steps
    return total


# Distinct ids of parts that are put together at once.
_MERGED_IDS = 1 << 20


class RatingRows(NamedTuple):
    """Some rows of a ratings table.

    `users`, `items` (n_rows,): ids.
    `ratings` (n_rows,): finite numbers, float64.
    """

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray


@dataclass(frozen=True)
class RatingsByPart:
    """A table of users, items and ratings, of which only a part need be in memory.

    `parts`: reads the table, from its first row on: an iterator of :class:`RatingRows`.
    `is_read`: whether it is one part that was read already: the same rows each time.
    """

    parts: Callable[[], Iterator[RatingRows]]
    is_read: bool

    def counted_users(self) -> tuple[IdIndex, np.ndarray]:
        """Return the users and their numbers of rows.

        Returns `index`: users in the order of their first rows; with the codes of the
        rows if those were read already; `counts` (n_users,): rows of each user.
        """
        index, counts = _counted((part.users for part in self.parts()), "user_feature")
        # Of what is read again, codes of the first reading may be another user's.
        return index if self.is_read else index.without_codes(), counts

    @property
    def items(self) -> np.ndarray:
        return _counted((part.items for part in self.parts()), "item_feature")[0].ids


class UnreadParts(NamedTuple):
    """A ratings table of which the form was checked, and no value was read.

    `n_items`: columns of a sparse matrix.
    `read`: returns a :class:`RatingsByPart`; to be called once the fit is charged.
    """

    n_items: int | None
    read: Callable[[], RatingsByPart | ClusterParts]


def unread_parts(estimator, X, y, *, reset: bool) -> UnreadParts:
    """Check the form of a table and of its ratings, and read no value."""
    if not reset:  # what is made of them has a number a row, here
        X, y = brought_here(X), brought_here(y)
    if sparse.issparse(X):
        return _unread_matrix(estimator, X, y, reset)
    table = Table.form(open_path(X))
    columns = compared_columns(estimator, table, reset=reset)
    targets, n_rows = _Targets.of(estimator, y, table), table.shape[0]
    if isinstance(table, ClusterTable):
        how = table, columns, targets
        return UnreadParts(None, lambda: ClusterParts.of(*how))

    def read_here() -> RatingsByPart:
        ready = targets.with_slices(n_rows)
        if not table.is_read:
            return RatingsByPart(lambda: _parts(table, columns, ready), False)
        parts = list(_parts(table, columns, ready))
        return RatingsByPart(lambda: iter(parts), True)

    return UnreadParts(None, read_here)


def _unread_matrix(estimator, X, y, reset: bool) -> UnreadParts:
    check_matrix(estimator, X, reset=reset)
    if y is not None:
        raise ValueError(
            "y must be None if X is a sparse matrix of users x items, whose entries "
            "are the ratings; for a pipeline, make a table from X.tocoo()"
        )

    def read() -> RatingsByPart:
        rows = RatingRows(*entries_of(X))
        return RatingsByPart(lambda: iter([rows]), True)

    return UnreadParts(X.shape[1], read)


@dataclass(frozen=True)
class _Targets:
    """Ratings beside a table, or in a column of it.

    `position`: of the column; None where they are beside the table.
    """

    estimator: object
    y: object
    name: str | None
    position: int | None
    unread: DeferredRead | None = None

    @classmethod
    def of(cls, estimator, y, table: Table | ClusterTable | Parquet) -> _Targets:
        """Check the form of ratings; say where they are."""
        name, names = getattr(estimator, "rating_feature", None), table.names
        implicit = getattr(estimator, "implicit", False)
        if y is None and implicit:
            return cls(estimator, None, name, None)
        if y is None and names is not None and name in names:
            return cls(estimator, None, name, list(names).index(name))
        if y is None and name is not None:
            # As scikit-learn's estimators say it, and what else there is.
            raise ValueError(
                f"{type(estimator).__name__} requires y to be passed, but the target "
                f"y is None, and X has no column named rating_feature={name!r}; pass a "
                "matrix of users x items as scipy.sparse.csr_array(X)"
            )
        beside = table if isinstance(table, ClusterTable) else None
        unread = deferred_targets(estimator, y, table.shape[0], beside=beside)
        if implicit:
            return cls(estimator, None, name, None)
        return cls(estimator, y, name, None, unread)

    @property
    def beside(self) -> tuple[int, ...]:
        """Positions of columns of the table that hold ratings."""
        return () if self.position is None else (self.position,)

    def with_slices(self, n_rows: int) -> _Targets:
        """Return the same, of which rows can be read by slices."""
        y = self.y
        if y is None or isinstance(y, (list, tuple)):
            return self
        if isinstance(y, np.ndarray) and y.ndim == 1:
            refuse_masked(y, "y")
            mapped = sliced_rows(y[:, None])  # whose pages are given back
            return self if mapped is None else replace(self, y=mapped)
        if hasattr(y, "__getitem__") and not hasattr(y, "iloc"):
            return self
        return replace(self, y=check_targets(self.estimator, y, n_rows))

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Ratings of some rows, of those that are beside the table."""
        if self.y is None:
            return np.zeros(stop - start)  # clicks
        y: Any = self.y
        if isinstance(y, SlicedRows):
            part = y[start:stop][:, 0]
        else:  # foreign arrays too, whose own words may quote values
            part = read_quietly(lambda: y[start:stop])
        return check_targets(self.estimator, part, stop - start)

    def numbers(self, column: np.ndarray) -> np.ndarray:
        """Ratings of a column of the table."""
        numbers = as_numbers(column, "biufO")
        if numbers is None or not np.isfinite(numbers).all():
            raise ValueError(
                f"rating_feature={self.name!r} must name a column of finite numbers: "
                "drop or fill rows without a rating"
            )
        return numbers


def _parts(table, columns: tuple[int, int], targets: _Targets) -> Iterator[RatingRows]:
    start, places = 0, [*columns, *targets.beside]
    for users, items, *ratings in table.blocks(places):
        stop = start + len(users)
        given = targets.numbers(*ratings) if ratings else targets.rows(start, stop)
        start = stop
        yield RatingRows(
            id_array(users, "user_feature"), id_array(items, "item_feature"), given
        )


def _counted(columns, name: str) -> tuple[IdIndex, np.ndarray]:
    """Index the ids of several columns, one below another, and count them."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    index, n_columns, n_waiting = None, 0, 0
    for column in columns:
        index, n_columns = IdIndex(column, name), n_columns + 1
        found.append((index.ids, np.bincount(index.codes, minlength=len(index))))
        n_waiting += len(index)
        if n_waiting > _MERGED_IDS + 2 * len(found[0][0]):
            found = [_merged(found, name)]
            n_waiting = len(found[0][0])
    if n_columns == 1:
        return index, found[0][1]
    ids, counts = _merged(found, name)
    return IdIndex(ids, name).without_codes(), counts


def _merged(found: list, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Put distinct ids of several parts together, and add up their counts."""
    index = IdIndex(joined_ids([ids for ids, _ in found], name), name)
    counts = np.zeros(len(index), dtype=np.int64)
    np.add.at(counts, index.codes, np.concatenate([counts for _, counts in found]))
    return index.ids, counts
