"""What a federation of groups of users asks of a recommender."""

from __future__ import annotations

from collections.abc import Callable

from .._statistics.billboard import Billboard
from .._statistics.item_models.answers import MOST_USERS
from ._parameters import read_range
from ._rated_tables import unread_rated


class GroupsOfUsers:
    """The parts of a fit: what is public, how rows are read, and what is made of them.

    A fit in one place goes through them, and so do the nodes of a federation.
    """

    def _billboard(self, n_features=None) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        if not self._is_private():
            raise ValueError("epsilon=None: groups of users need a budget")
        if n_features is not None:
            raise ValueError("n_features has no use for a recommender: leave it None")
        if self.items is None:
            raise ValueError("items is needed: all nodes need the same catalog")
        catalog = self._catalog(None)
        ids = catalog if isinstance(catalog, range) else catalog.ids
        rows = (ids, read_range(self.rating_range), bool(self.implicit))
        return Billboard(self._statistic(len(catalog)), (), rows)

    def _unread_group(self, board: Billboard, X, y=None) -> Callable:
        """Check the form of a group's ratings, and read no value; return what reads.

        ``read()`` returns the users' ratings and their ids.
        """
        unread = unread_rated(self, X, y, reset=True)
        return lambda: self._grouped(unread.read(), self._catalog(None))

    def _grouped(self, table, catalog):
        """Return ratings by user, and the ids of the users."""
        rows, index = self._grouped_ratings(table, catalog)
        if rows.n_users > MOST_USERS:
            raise ValueError("user_feature must hold at most 2**31 users")
        return rows, index

    def _finish(self, board: Billboard, found, plan, rows=None, index=None) -> None:
        """Make public attributes of what was released, and models of users at hand."""
        self._set_items(self._catalog(None), found)
        if rows is None:
            self.n_features_in_ = 2
        else:
            # What belongs to users, apart from all public attributes.
            self._personal = self._fitted_users(rows, index)
        self.privacy_ = plan
