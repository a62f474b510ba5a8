"""What a federation of groups of users asks of an estimator of one model a user."""

from __future__ import annotations

from collections.abc import Callable

from .._statistics.billboard import Billboard
from .._tables.cluster_clients import ClusterUserTable
from .._tables.rows import Unread
from .._tables.targets import unread_targets_of
from .._tables.users import UnreadTable, unread_users
from ..mechanisms._numbers import check_count
from . import _parameters as parameters
from ._cluster_rows import ClusterUserRows, check_cluster
from ._offsets import find_offset, rest_of, without_offset
from ._personal_models import PersonalModels


class GroupsOfUsers:
    """The parts of a fit: what is public, how rows are read, and what is made of them.

    A fit in one place goes through them, and so do the nodes of a federation.
    """

    def _billboard(self, n_features) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        if not self._is_private():
            raise ValueError("epsilon=None: groups of users need a budget")
        if n_features is None:
            raise ValueError("n_features is needed for an LRSRegressor")
        if not self.n_components:
            raise ValueError("n_components=0: nothing would be released")
        if parameters.is_frozen(self):
            raise ValueError("n_rounds=0: nothing would be released")
        if self.fresh_rows:
            raise ValueError(
                "fresh_rows=True is not for groups of users, who answer by all rows in "
                "every round: leave fresh_rows=False"
            )
        if isinstance(self.init, str) and self.init == "random":
            raise ValueError(
                'init="random" would be another one at every node: draw one, and pass '
                "the array"
            )
        d = check_count("n_features", n_features)
        start = parameters.start_of(self, None, parameters.given_start(self, d), d)
        given = (start, parameters.public_scale(self, d))
        rows = (self.fit_intercept, self.prior_intercept, float(self.ridge_intercept))
        return Billboard(parameters.shared_statistic(self, d), given, rows)

    def _unread_group(self, board: Billboard, X, y, *, users=None) -> Callable:
        """Check the form of a group's rows, and read no value; return what reads them.

        ``read()`` returns the users' rows and their ids.
        """
        table, targets, offset, d = self._unread(X, y, users)
        scale = board.given[1]
        if len(scale) != d:
            raise ValueError(
                f"X has {d} features beside users and offsets, the task has "
                f"n_features={len(scale)}"
            )
        return lambda: self._grouped(table.read(), targets.read(), offset, scale)

    def _unread(self, X, y, users) -> tuple[UnreadTable, Unread, int | None, int]:
        """Check the form of rows and targets; return the place of offsets, and d."""
        table = unread_users(self, X, users, self.user_feature, reset=True)
        targets = unread_targets_of(self, y, table)
        check_cluster(self, table)
        offset = find_offset(self, X, table.n_features)
        return table, targets, offset, table.n_features - (offset is not None)

    def _grouped(self, table, targets, offset, scale):
        """Return rows by user, and the ids of the users."""
        if isinstance(table, ClusterUserTable):
            given = table, targets, offset, self._users_name()
            return ClusterUserRows(*given, **self._centered(), scale=scale), None
        table, offsets = without_offset(table, offset)
        index = self._index(table)
        rows = self._user_rows(table, rest_of(targets, offsets), index, scale)
        return rows, index

    def _finish(self, board: Billboard, found, plan, rows=None, index=None) -> None:
        """Make public attributes of what was released, and models of users at hand."""
        self._keep(found)
        beside = (self.user_feature, self.offset_feature)
        if rows is None:
            n_others = sum(feature is not None for feature in beside)
            self.n_features_in_ = len(self.scale_) + n_others
        else:
            self._keep_users(found, rows, index, board.statistic.users.rules)
        self.privacy_ = plan

    def _keep_users(self, found, rows, index, rules) -> None:
        """Fit users beside what was found, apart from all that is public."""
        if isinstance(rows, ClusterUserRows):
            self._personal = PersonalModels.empty(len(self.components_))
            self._users_given = True
            return
        fit = self._users_beside(found, rows, rules)
        self._personal = PersonalModels.fitted(
            rows, fit, index, self.scale_, self.components_
        )
        self._users_given = index is not None
