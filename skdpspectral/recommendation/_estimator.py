"""Base of the estimators of ratings tables: catalog, plan, groups, users' models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._base.estimator import PrivateEstimator
from .._base.personal import UserModels
from .._tables.clusters import ClusterUsers
from .._tables.ids import IdIndex, id_array
from .._tables.table import table_shape
from ..mechanisms import Neighbors, PrivacyPlan, Unit, check_count
from ._item_models import MOST_ITEMS, MOST_RATERS, FoundItems
from ._kernels import UserRatings
from ._kernels_models import ItemModel
from ._ratings import (
    Ratings,
    open_path,
    read_catalog,
    read_range,
    refuse_another_order,
    units,
)


class FittedItems(NamedTuple):
    """What a fit has released of the items, and the users' ratings and ids."""

    catalog: IdIndex
    plan: PrivacyPlan
    found: FoundItems
    rows: UserRatings | ClusterUsers
    index: IdIndex | None


class CatalogEstimator(PrivateEstimator):
    """Base class of estimators with `items`, `item_features` and `rating_range`."""

    def _statistic(self, n_items: int) -> Any:
        """Return what a fit with so many items releases."""
        raise NotImplementedError

    def privacy_plan(self, n_items):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_items : int
            Number of items of the catalog.

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
        n_rows, ratings = table_shape(open_path(X))[0], None
        if self.items is None and (sparse.issparse(X) or not self._is_private()):
            y = None if sparse.issparse(X) else np.zeros(n_rows)
            ratings = Ratings(clone(self), X, y, reset=True)
        return self.privacy_plan(len(self._catalog(ratings)))

    def _plan(self, statistic) -> PrivacyPlan:
        if len(statistic.features) > MOST_ITEMS:
            raise ValueError(
                f"items must be at most 2**26 - 1 = {MOST_ITEMS}: sums over the items "
                "of a user would not be exact enough for the guarantee"
            )
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

    def _catalog(self, ratings: Ratings | None = None) -> IdIndex:
        """Return an index of the items."""
        if self.items is not None:
            refuse_another_order(self.item_features, self.items)
            return read_catalog(self.items)
        if ratings is not None and ratings.n_items is not None:
            return read_catalog(range(ratings.n_items))
        if self.item_features is not None:
            raise ValueError("item_features requires items=..., whose order it follows")
        if self._is_private() or ratings is None:
            raise ValueError(
                "items is required: pass the public catalog of item ids, such as "
                "items=range(n); the ids in the ratings are private"
            )
        accountant = self._governing_accountant()
        if accountant is not None:  # a budget refuses before items are read
            accountant.check(self._plan(self._statistic(1)))
        return ratings.read().distinct_items().without_codes()

    def _released_items(self, X, y=None, begin=None) -> FittedItems:
        """Charge a fit, and release what its statistic tells of the items.

        `begin` returns the progress of a fit, given its plan.
        """
        unread = Ratings(self, X, y, reset=True)
        unread.warn_of_others()
        catalog = self._catalog(unread)
        statistic = self._statistic(len(catalog))
        plan = self._plan(statistic)
        # It is charged here, and values are read from here on.
        release, ratings = self._start_release(plan, unread)
        rows, index = self._grouped(ratings, catalog)
        found = statistic.run(release, rows, begin(plan) if begin else None)
        return FittedItems(catalog, plan, found, rows, index)

    def _grouped(self, ratings: Ratings, catalog: IdIndex):
        """Return the ratings of items of the catalog by user, and the users' ids."""
        rows, index = ratings.grouped(catalog, self._limits())
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


@dataclass(frozen=True)
class RaterModels(UserModels):
    """Weights of users on the items' features, and an array of each user's items."""

    entries: ClassVar[tuple[str, ...]] = ("weights", "items")

    weights: np.ndarray
    items: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> RaterModels:
        return cls(None, np.zeros((0, n_features)), np.zeros(0, dtype=object))

    @classmethod
    def fitted(cls, index: IdIndex, weights, rows: UserRatings) -> RaterModels:
        """Make models of users who were fitted to their ratings."""
        items = _of_arrays(np.split(rows.items, rows.pointer[1:-1])[: rows.n_users])
        return cls(index.without_codes(), weights, items)

    def find(self, users, name: str) -> np.ndarray:
        """Return codes of ids, -1 for unknown ones; errors name them."""
        ids = id_array(users, name)
        return self.codes(ids, len(ids), name)

    def weights_or_prior(self) -> np.ndarray:
        """Weights, and a row of zeros behind them that code -1 stands for."""
        return np.vstack([self.weights, np.zeros((1, self.weights.shape[1]))])

    def seen(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of a place in `codes` and an item that this user rated."""
        none = np.zeros(0, dtype=np.intp)
        own = [none if code < 0 else self.items[code] for code in codes]
        places = np.repeat(np.arange(len(codes)), list(map(len, own)))
        return places, np.concatenate([none, *own])

    def arrays(self, code: int | None = None) -> dict[str, np.ndarray]:
        """Return arrays by name, of all users or one; none of a negative code."""
        found = super().arrays(code)
        if found and code is not None:
            found["items"] = found["items"][0]
        return found

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> RaterModels:
        return cls(index, arrays["weights"], _of_arrays([arrays["items"]]))


def _of_arrays(arrays: list) -> np.ndarray:
    """Return an array of arrays, which numpy does not join."""
    out = np.empty(len(arrays), dtype=object)
    for place, array in enumerate(arrays):
        out[place] = array
    return out
