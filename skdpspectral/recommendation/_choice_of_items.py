"""What estimators of ratings tables have in common: a catalog, and a plan of users."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._base.estimator import PrivateEstimator
from .._statistics.combination import Statistic
from .._tables.rows import table_shape
from ..mechanisms import Neighbors, PrivacyPlan, Unit
from ..mechanisms._numbers import check_count
from ._catalog import N_BUCKETS, catalog_of_data, index_of, read_catalog
from ._parameters import read_range
from ._ratings_files import parquet_ratings
from ._ratings_tables import UnreadRatings, unread_ratings


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

    def _warn_of_buckets(self, catalog) -> None:
        if isinstance(catalog, range) and self.items is None:
            warnings.warn(
                f"items=None: item ids are hashed into {N_BUCKETS} buckets, since "
                "those of the data are private; pass the public catalog as items=...",
                UserWarning,
                stacklevel=3 + self._levels_around_fit,
            )
