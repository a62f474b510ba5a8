"""What regressors of one model a user share: ids, warnings and scores."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._tables.id_index import IdIndex
from .._tables.masks import refuse_masked
from .._tables.targets import check_targets
from .._tables.users import UserTable
from ..accounting import PrivacyLeakWarning
from .kept_users import KeepsUsers


class PersonalEstimator(KeepsUsers):
    """Base of regressors with a model for each user, beside what is released.

    A subclass has the parameters `user_feature` and `unknown_user`, keeps the models of
    its users in ``_personal``, and whether a fit was given users in ``_users_given``.
    """

    # -- users of rows ---------------------------------------------------------------

    def _warn_of_one_user(self, table) -> None:
        if table.has_users or not self._is_private():
            return
        warnings.warn(
            "all rows are taken for those of one user, and predictions come from them "
            "without noise; pass users=... or name their column by user_feature",
            PrivacyLeakWarning,
            stacklevel=3 + self._levels_around_fit,
        )

    def _index(self, table: UserTable) -> IdIndex | None:
        """Return the ids of a fit; None for a single user without one."""
        if table.users is None:
            return None
        return IdIndex(table.users, self._users_name())

    def _users_name(self) -> str:
        """What errors call the ids."""
        return "users" if self.user_feature is None else "user_feature"

    def _refuses_unknown(self) -> bool:
        """Whether unknown users are an error, which a private fit must not have."""
        if not isinstance(self.unknown_user, str) or self.unknown_user != "raise":
            return False
        if self._was_private():
            raise ValueError(
                'unknown_user="raise" needs a fit with epsilon=None, and this one was '
                "private: an error would tell who was in the training set; set "
                'unknown_user="shared"'
            )
        return True

    def _codes_of(self, table: UserTable) -> np.ndarray:
        """Return the code of each row's user, -1 for those without a model."""
        personal = self._models()
        if table.users is None and getattr(self, "_users_given", False):
            raise ValueError(
                "users are missing: fit was given users, and every row is predicted by "
                "the model of its user; pass users=..., or name a column of X by "
                "user_feature, which works under cross_val_score too"
            )
        if table.users is not None and not getattr(self, "_users_given", True):
            raise ValueError(
                "users were given to predict, but not to fit: predict without them, or "
                "fit with users=... or user_feature"
            )
        codes = personal.codes(table.users, len(table.X), self._users_name())
        if not len(personal.weights):
            codes = np.full(len(table.X), -1)
        if self._refuses_unknown() and np.any(codes < 0):
            raise ValueError(
                "users holds ids that were not in the fit; see unknown_user and "
                "personalize"
            )
        return codes

    def _code_of(self, user) -> int:
        """Return the code of one user, -1 if there is no model of that user."""
        check_is_fitted(self)
        personal = self._models()
        if user is None and getattr(self, "_users_given", False):
            raise ValueError("user is missing: fit was given users; pass the user's id")
        code = int(personal.codes(None if user is None else [user], 1, "user")[0])
        code = code if len(personal.weights) else -1
        if self._refuses_unknown() and code < 0:
            raise ValueError("user was not in the fit; see unknown_user, personalize")
        return code

    def _users_to_fit(self, table: UserTable, user) -> IdIndex | None:
        """Return the users of the rows; None for a single one without an id."""
        given = getattr(self, "_users_given", None)
        if table.users is not None:
            return self._users_of_rows(table.users, user, given)
        if user is None and given:
            raise ValueError("user is missing: fit was given users; pass the user's id")
        if user is None:
            return None
        if given is False:
            raise ValueError(
                "user was given, but no users to fit: fit with users=... or "
                "user_feature, or leave user out"
            )
        index = IdIndex([user], "user")
        index.codes = np.zeros(len(table.X), dtype=np.intp)
        self._models().check_kind(index, "user")
        return index

    def _users_of_rows(self, ids, user, given: bool | None) -> IdIndex:
        name = self._users_name()
        if given is False:
            raise ValueError(
                "users were given, but not to fit: fit with users=... or user_feature"
            )
        index = IdIndex(ids, name)
        if user is not None and (len(index) != 1 or index.find([user], "user")[0]):
            raise ValueError(
                "X must hold the rows of one user, the one that user names"
            )
        self._models().check_kind(index, name)
        return index

    # -- what is made of users' models -----------------------------------------------

    def score(self, X, y, sample_weight=None, *, users=None):
        """Coefficient of determination of predictions by the users' own models.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Columns as in fit.
        y : array-like of shape (n_rows,)
            Targets.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows in the score.
        users : array-like of shape (n_rows,) or None, default=None
            Ids, of the type that was given to fit.

        Returns
        -------
        float
            :math:`R^2`. Pooled over users it tells something of all of them, which
            no ledger accounts for.

        Warns
        -----
        PrivacyLeakWarning
            If the fit was private and had users.
        """
        predictions = self.predict(X, users=users)
        y = check_targets(self, y, len(predictions))
        refuse_masked(sample_weight, "sample_weight")
        if sample_weight is not None and np.shape(sample_weight) != y.shape:
            raise ValueError("sample_weight must hold one number for each row of X")
        if self._was_private() and getattr(self, "_users_given", False):
            warnings.warn(
                "a score pooled over users is a release of their private models and "
                "targets that no budget accounts for; do not publish it",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        return r2_score(y, predictions, sample_weight=sample_weight)

    @classmethod
    def _from_parts(cls, header: dict, arrays: dict):
        estimator = super()._from_parts(header, arrays)
        if hasattr(estimator, "_personal"):
            estimator._users_given = True
        return estimator
