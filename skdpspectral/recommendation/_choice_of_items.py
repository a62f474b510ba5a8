"""What estimators of ratings tables have in common: a catalog, and a plan of users."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._base.estimator import PrivateEstimator
from .._linalg.recommendation import last_of_each, latest_of_each
from .._linalg.recommendation_gathering import Part
from .._linalg.recommendation_rows import UserRatings
from .._statistics.combination import Statistic
from .._statistics.item_models.answers import MOST_USERS
from .._statistics.item_moment import CodedRatings
from .._tables.id_index import IdIndex
from .._tables.ids import column_names
from .._tables.rows import table_shape
from ..mechanisms import Neighbors, PrivacyPlan, Unit
from ..mechanisms._numbers import check_count
from ._catalog import (
    N_BUCKETS,
    catalog_of_data,
    index_of,
    item_codes,
    read_catalog,
)
from ._cluster_ratings import (
    ClusterCodes,
    ClusterRated,
    ClusterRatings,
    UnreadOnCluster,
    unread_on_cluster,
)
from ._parameters import read_range, units
from ._ratings_files import parquet_ratings
from ._ratings_tables import (
    RatingsTable,
    UnreadRatings,
    find_columns,
    unread_ratings,
    unread_ratings_beside,
)


class CatalogEstimator(PrivateEstimator):
    """An estimator with parameters `items`, `item_features` and `rating_range`."""

    def _statistic(self, n_items: int) -> Statistic:
        """Return what a fit with so many items releases."""
        raise NotImplementedError

    def privacy_plan(self, n_items):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_items : int
            Number of items of the catalog, or of buckets.

        Returns
        -------
        PrivacyPlan
            What a fit is charged with.

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
            As for :meth:`fit`; items are read only without privacy and a catalog.

        Returns
        -------
        PrivacyPlan
            What that fit is charged with.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid, or the catalog.
        """
        self._check_parameters()
        if parquet_ratings(X) is None:
            table_shape(X)
        table = None
        if self.items is None and (sparse.issparse(X) or not self._is_private()):
            table = unread_ratings(clone(self), X, reset=True)
        return self.privacy_plan(len(self._catalog(table)))

    def _plan(self, statistic: Statistic) -> PrivacyPlan:
        neighbors = Neighbors.ADD_REMOVE_ONE
        return self._planned(statistic, unit=Unit.USER, neighbors=neighbors)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        read_range(self.rating_range)

    def _catalog(self, table: UnreadRatings | None):
        """Return an index of items, or a number of buckets."""
        if self.items is None and table is not None and table.n_items is not None:
            return index_of(np.arange(table.n_items))
        if self.items is None and self.item_features is not None and table is not None:
            raise ValueError("item_features need items=..., whose order they follow")
        if self.items is None and not self._is_private():
            accountant = self._governing_accountant()
            if accountant is not None:  # a budget refuses before items are read
                accountant.check(self._plan(self._statistic(1)))
            return catalog_of_data(table.read().items)
        return read_catalog(self.items)

    def _unread(self, X, y) -> tuple[UnreadRatings | UnreadOnCluster, list]:
        """Check the form of a table and of its ratings, which may be in it."""
        distant = unread_on_cluster(self, X, y)
        if distant is not None:
            return distant, []
        unread = unread_ratings(self, X, reset=True)
        return unread, unread_ratings_beside(self, unread, y)

    def _user_ratings(
        self, table: RatingsTable | ClusterRated, catalog, ratings, index
    ):
        """Return the ratings of known items, grouped by user, in quarters."""
        if isinstance(table, ClusterRated):
            most = getattr(self, "max_ratings_per_user", None)
            return ClusterRatings(table, catalog, self.rating_range, most)
        items = item_codes(catalog, table.items)
        users, ratings = index.codes, np.clip(ratings, *read_range(self.rating_range))
        most = getattr(self, "max_ratings_per_user", None)
        if most is not None:
            known = np.flatnonzero(items >= 0)
            *found, rows = last_of_each(users[known], items[known], ratings[known])
            kept = latest_of_each(found[0], rows, most)
            users, items, ratings = (column[kept] for column in found)
        counts = np.bincount(users, minlength=len(index))
        part = Part(users, items, ratings)
        return UserRatings([part], counts, len(catalog), *units(self.rating_range))

    def _coded_ratings(self, table: RatingsTable | ClusterRated, catalog, ratings):
        """Return all ratings as they are, by codes."""
        if isinstance(table, ClusterRated):
            return ClusterCodes(table, catalog)
        codes = self._user_index(table).codes
        return CodedRatings(codes, item_codes(catalog, table.items), ratings)

    def _user_index(self, table: RatingsTable | ClusterRated) -> IdIndex | None:
        """Return the users of a fit, who must not be more than sums are exact for."""
        if isinstance(table, ClusterRated):
            return None
        index = IdIndex(table.users, "user_feature")
        if len(index) > MOST_USERS:
            raise ValueError("user_feature must hold at most 2**31 users")
        return index

    def _warn_of_columns(self, X, kept=(), remedy: str = "") -> None:
        """Say which columns of a table are not used, lest somebody expects it."""
        n_columns = self.n_features_in_
        if n_columns <= 2:
            return
        names = column_names(X)
        used = {*find_columns(self, names, n_columns), *kept}
        labels = [f"x{j}" for j in range(n_columns)] if names is None else names
        rest = [str(label) for j, label in enumerate(labels) if j not in used]
        if not rest:
            return
        warnings.warn(
            f"columns of X beside users and items are not used: {', '.join(rest[:5])}"
            f"{', ...' if len(rest) > 5 else ''}{remedy}",
            UserWarning,
            stacklevel=3 + self._levels_around_fit,
        )

    def _warn_of_buckets(self, catalog) -> None:
        if isinstance(catalog, range) and self.items is None:
            warnings.warn(
                f"items=None: item ids are hashed into {N_BUCKETS} buckets, since "
                "those of the data are private; pass the public catalog as items=...",
                UserWarning,
                stacklevel=3 + self._levels_around_fit,
            )
