"""Base of the estimators of ratings tables: catalog, plan, groups, users' models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._base.estimator import PrivateEstimator
from .._statistics.statistic import Statistic
from .._tables.columns import column_names
from .._tables.files import parquet
from .._tables.ids import IdIndex, joined_ids
from .._tables.table import table_shape
from ..accounting._errors import warn
from ..mechanisms import Neighbors, PrivacyPlan, Unit, check_count
from ._item_models import MOST_RATERS, FoundItems
from ._kernels import RatingsChunk, UserRatings
from ._kernels_models import ItemModel
from ._ratings_by_part import (
    ClusterParts,
    ClusterRatings,
    RatingsByPart,
    UnreadParts,
    unread_parts,
)
from ._table_columns import (
    N_BUCKETS,
    catalog_of_data,
    find_columns,
    index_of,
    item_codes,
    open_path,
    read_catalog,
    read_range,
    refuse_another_order,
    units,
)


class FittedItems(NamedTuple):
    """What a fit has released of the items, and the users' ratings and ids."""

    catalog: Any
    plan: PrivacyPlan
    found: FoundItems
    rows: UserRatings | ClusterRatings
    index: IdIndex | None


class CatalogEstimator(PrivateEstimator):
    """Base class of estimators with `items`, `item_features` and `rating_range`."""

    def _statistic(self, n_items: int) -> Statistic:
        """Return what a fit with so many items releases."""
        raise NotImplementedError

    def privacy_plan(self, n_items):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_items : int
            Number of items of the catalog, or of hash buckets.

        Returns
        -------
        PrivacyPlan
            The plan that a fit is charged for.

        Raises
        ------
        ValueError
            If a parameter is invalid.
        """
        self._check_parameters()
        return self._plan(self._statistic(check_count("n_items", n_items)))

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_ratings, n_columns)
            As for :meth:`fit`. Items are only read if there is neither privacy nor a
            catalog.

        Returns
        -------
        PrivacyPlan
            The plan that this fit is charged for.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the catalog is invalid.
        """
        self._check_parameters()
        n_rows, table = table_shape(open_path(X))[0], None
        if self.items is None and (sparse.issparse(X) or not self._is_private()):
            y = None if sparse.issparse(X) else np.zeros(n_rows)
            table = unread_parts(clone(self), X, y, reset=True)
        return self.privacy_plan(len(self._catalog(table)))

    def _plan(self, statistic: Statistic) -> PrivacyPlan:
        neighbors = Neighbors.ADD_REMOVE_ONE
        return self._planned(statistic, unit=Unit.USER, neighbors=neighbors)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.rating_range is not None:
            read_range(self.rating_range)

    def _limits(self) -> tuple[float, float]:
        """Return the range of ratings, which must be given unless there are none."""
        if self.rating_range is not None:
            return read_range(self.rating_range)
        if getattr(self, "implicit", False):
            return 0.0, 1.0
        raise ValueError(
            "rating_range is required: pass the public range of the ratings, such as "
            "rating_range=(1, 5); it must not be taken from the ratings"
        )

    def _catalog(self, table: UnreadParts | None):
        """Return an index of items, or a number of buckets."""
        if self.items is None and table is not None and table.n_items is not None:
            return index_of(np.arange(table.n_items))
        if self.items is None and self.item_features is not None and table is not None:
            raise ValueError("item_features requires items=..., whose order it follows")
        if self.items is None and not self._is_private():
            accountant = self._governing_accountant()
            if accountant is not None:  # a budget refuses before items are read
                accountant.check(self._plan(self._statistic(1)))
            found = table.read()
            if isinstance(found, ClusterParts):
                raise ValueError("items is required for X on a cluster")
            return catalog_of_data(found.items)
        refuse_another_order(self.item_features, self.items)
        return read_catalog(self.items)

    def _set_catalog(self, catalog) -> None:
        """Set the ids of the items, or the numbers of their buckets."""
        self.hashed_ = isinstance(catalog, range)
        n_items = len(catalog)
        ids = np.arange(n_items) if self.hashed_ else catalog.ids
        self.items_ = ids.copy()

    def _fitted_catalog(self):
        """Return the catalog of the last fit."""
        return range(len(self.items_)) if self.hashed_ else index_of(self.items_)

    def _released_items(self, X, y=None, begin=None) -> FittedItems:
        """Charge a fit, and release what its statistic tells of the items.

        `begin` returns the progress of a fit, given its plan.
        """
        unread = unread_parts(self, X, y, reset=True)
        given = y is not None or getattr(self, "implicit", False)
        self._warn_of_columns(X, getattr(self, "rating_feature", None), given)
        catalog = self._catalog(unread)
        self._warn_of_buckets(catalog)
        statistic = self._statistic(len(catalog))
        plan = self._plan(statistic)
        # It is charged here, and values are read from here on.
        release, table = self._start_release(plan, unread)
        rows, index = self._grouped(table, catalog)
        found = statistic.run(release, rows, begin(plan) if begin else None)
        return FittedItems(catalog, plan, found, rows, index)

    def _grouped(self, table: RatingsByPart | ClusterParts, catalog):
        """Return the ratings of items of the catalog by user, and the users' ids."""
        limits = self._limits()
        rows: UserRatings | ClusterRatings
        index: IdIndex | None
        if isinstance(table, ClusterParts):
            rows, index = ClusterRatings(table, catalog, limits), None
        else:
            found, counts = table.counted_users()
            index = found

            def parts():
                for users, items, ratings in table.parts():
                    # Codes of the rows are at hand if the table is one part.
                    known = found.codes is not None
                    codes = found.codes if known else found.find(users, "user_feature")
                    ratings = np.clip(ratings, *limits)
                    yield RatingsChunk(codes, item_codes(catalog, items), ratings)

            rows = UserRatings(parts(), counts, len(catalog), *units(limits))
        if rows.n_users > MOST_RATERS:
            raise ValueError("user_feature must contain at most 2**31 users")
        return rows, index

    def _units(self) -> tuple[float, float]:
        return units(self._limits())

    def _in_units(self, values):
        middle, quarter = self._units()
        return middle + quarter * values

    def _set_offsets(self, model: ItemModel) -> None:
        self.level_ = float(self._in_units(model.level))
        self.item_offsets_ = self._units()[1] * model.offsets

    def _warn_of_columns(self, X, ratings: str | None, given: bool) -> None:
        """Warn of columns that are not used; one holds ratings that are not given."""
        file = parquet(open_path(X))
        names = column_names(X) if file is None else file.names
        n_columns = self.n_features_in_ if names is None else len(names)
        if n_columns <= 2:
            return
        used = find_columns(self, names, n_columns)
        labels = [f"x{j}" for j in range(n_columns)] if names is None else names
        rest = [str(label) for j, label in enumerate(labels) if j not in used]
        rest = [label for label in rest if given or label != ratings]
        if rest:
            warn(
                "columns of X besides users and items are not used: "
                f"{', '.join(rest[:5])}{', ...' if len(rest) > 5 else ''}",
                UserWarning,
            )

    def _warn_of_buckets(self, catalog) -> None:
        if isinstance(catalog, range) and self.items is None:
            warn(
                f"items=None: item ids are hashed into {N_BUCKETS} buckets, because "
                "the item ids in the data are private; pass the public catalog as "
                "items=...",
                UserWarning,
            )


@dataclass(frozen=True)
class RaterModels:
    """Weights of users, and the items that they rated.

    `index`: ids; None for no user.
    `weights` (n_users, q): weights on the items' features.
    `pointer` (n_users + 1,): where the items of each user begin and end.
    """

    entries: ClassVar[tuple[str, ...]] = ("weights", "items")

    index: IdIndex | None
    weights: np.ndarray
    pointer: np.ndarray
    items: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> RaterModels:
        none = np.zeros(0, dtype=np.int32)
        return cls(None, np.zeros((0, n_features)), np.zeros(1, dtype=np.int64), none)

    @classmethod
    def fitted(cls, index: IdIndex, weights, rows: UserRatings) -> RaterModels:
        """Make models of users who were fitted to their ratings."""
        return cls(index.without_codes(), weights, rows.pointer, rows.items)

    def codes(self, users, name: str) -> np.ndarray:
        """Codes of ids, -1 for unknown ones; errors name them."""
        if self.index is None:
            return np.full(len(IdIndex(users, name).codes), -1)
        return self.index.find(users, name)

    def weights_or_prior(self) -> np.ndarray:
        """Weights, and a row of zeros behind them that code -1 stands for."""
        return np.vstack([self.weights, np.zeros((1, self.weights.shape[1]))])

    def seen(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of a place in `codes` and an item that this user rated."""
        starts = self.pointer[codes]
        counts = np.where(codes < 0, 0, self.pointer[codes + 1] - starts)
        places = np.repeat(np.arange(len(codes)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, self.items[np.repeat(starts, counts) + within]

    def code_of(self, user) -> int:
        """Code of one user, -1 for an unknown one."""
        return int(self.codes([user], "user")[0])

    def arrays(self, code: int) -> dict[str, np.ndarray]:
        """Arrays of one user, without the id; none of a negative code."""
        if code < 0:
            return {}
        items = self.items[self.pointer[code] : self.pointer[code + 1]]
        return {"weights": self.weights[code : code + 1], "items": items}

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> RaterModels:
        """Make models of what :meth:`arrays` gave of one user."""
        return cls(index, pointer=np.array([0, len(arrays["items"])]), **arrays)

    def updated(self, new: RaterModels) -> RaterModels:
        """Return models with those of some users replaced or added."""
        if self.index is None:
            return new
        codes = self.index.find(new.index.ids, "users")
        kept = np.ones(len(self.weights), dtype=bool)
        kept[codes[codes >= 0]] = False
        _, items = self.seen(np.flatnonzero(kept))
        counts = np.concatenate([np.diff(self.pointer)[kept], np.diff(new.pointer)])
        ids = joined_ids([self.index.ids[kept], new.index.ids], "users")
        return RaterModels(
            IdIndex(ids, "users").without_codes(),
            np.concatenate([self.weights[kept], new.weights]),
            np.concatenate(([0], np.cumsum(counts))),
            np.concatenate([items, new.items]),
        )
