"""Base of the estimators of ratings tables: catalog, plan, groups, users' models."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._base.estimator import PrivateEstimator, Seed
from .._base.personal import UserModels
from .._base.sklearn_compat import Interval
from .._tables.columns import IdIndex, id_array
from .._tables.table import table_shape
from ..accounting import PrivacyAccountant
from ..mechanisms import Neighbors, PrivacyPlan, Unit, check_count
from ._item_models import FoundItems
from ._kernels import MOST_ITEMS, MOST_RATERS, UserRatings
from ._ratings import (
    Ratings,
    open_path,
    read_catalog,
    read_range,
    refuse_another_order,
    units,
)


@dataclass(eq=False, repr=False)
class CatalogEstimator(PrivateEstimator):
    """Base class of estimators with `items`, `item_features` and `rating_range`."""

    _array_parameters: ClassVar[tuple[str, ...]] = (
        "items",
        "item_features",
        "rating_range",
    )
    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "user_feature": [Integral, str],
        "item_feature": [Integral, str],
        "items": ["array-like", None],
        "item_features": ["array-like", None],
        "rating_range": [tuple, list, np.ndarray, None],
    }

    n_components: int | None = None
    _: KW_ONLY
    epsilon: float | None = 1.0
    delta: float = 1e-6
    user_feature: int | str = "user_id"
    item_feature: int | str = "item_id"
    items: Any = None
    item_features: Any = None
    rating_range: Any = None
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

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
            As for :meth:`fit`. Its values are not read.

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
        table_shape(open_path(X))  # what has none is no table
        return self.privacy_plan(len(self._catalog(X)))

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

    def _catalog(self, X=None) -> IdIndex:
        """Return an index of the items; of a matrix, its columns by default."""
        if self.items is not None:
            refuse_another_order(self.item_features, self.items)
            return read_catalog(self.items)
        if sparse.issparse(X) and X.ndim == 2:
            return read_catalog(range(X.shape[1]))
        if self.item_features is not None:
            raise ValueError("item_features requires items=..., whose order it follows")
        raise ValueError(
            "items is required: pass the public catalog of item ids, such as "
            "items=range(n); the ids in the ratings are private"
        )

    def _released_items(self, X, y=None, begin=None):
        """Charge a fit, and release what its statistic tells of the items.

        ``begin(plan)`` returns the progress of a fit. Returns the catalog, the plan,
        the released items, and the users' ratings and ids.
        """
        unread = Ratings(self, X, y, reset=True)
        unread.warn_of_others()
        catalog = self._catalog(X)
        statistic = self._statistic(len(catalog))
        plan = self._plan(statistic)
        # It is charged here, and values are read from here on.
        release, ratings = self._start_release(plan, unread)
        rows, index = self._grouped(ratings, catalog)
        found = statistic.run(release, rows, begin(plan) if begin else None)
        return catalog, plan, found, rows, index

    def _grouped(self, ratings: Ratings, catalog: IdIndex):
        """Return the ratings of items of the catalog by user, and the users' ids."""
        rows, index = ratings.grouped(catalog, self._limits())
        if rows.n_users > MOST_RATERS:
            raise ValueError("user_feature must contain at most 2**31 users")
        return rows, index

    def _in_units(self, values):
        middle, quarter = units(self._limits())
        return middle + quarter * values

    def _set_items(self, catalog: IdIndex, found: FoundItems) -> None:
        """Set what was released of the items, in units of ratings, and the catalog."""
        self.items_ = catalog.ids.copy()
        self.item_popularity_ = found.popularity
        if not getattr(self, "implicit", False):
            self.level_ = float(self._in_units(found.model.level))
            self.item_offsets_ = units(self._limits())[1] * found.model.offsets

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True  # ids of users and items
        return tags


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
