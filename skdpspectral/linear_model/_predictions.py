"""Models of users and predictions made from them: the users' side of the billboard."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._linalg import linear_model as lrs
from .._tables.id_index import IdIndex
from .._tables.masks import refuse_masked
from .._tables.targets import check_targets
from .._tables.users import UserTable
from ..accounting import PrivacyLeakWarning
from ._offsets import read_like_fit
from ._personal_models import PersonalModels


class PersonalPredictions:
    """What an estimator of one model a user offers its users, once U is there."""

    def _fixed(self) -> bool:
        """Whether users have no weights of their own."""
        return self.shared_weights == "fixed"

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

    def _user_rows(self, table: UserTable, y, index, scale) -> lrs.UserRows:
        n_rows = len(table.X)
        codes = np.zeros(n_rows, dtype=np.intp) if index is None else index.codes
        return lrs.UserRows(
            table.X,
            y,
            codes,
            1 if index is None else len(index),
            columns=table.columns,
            scale=scale,
            **self._centered(),
        )

    def _rules(self, n_features: int, prior: np.ndarray) -> lrs.LocalRules:
        most = n_features if self.sparsity is None else int(self.sparsity)
        return lrs.LocalRules(
            sparsity=min(most, n_features),
            ridge_shared=float(self.ridge_shared),
            ridge_sparse=float(self.ridge_sparse),
            prior=prior,
            fixed=self._fixed(),
            free=most >= n_features and self.ridge_sparse > 0.0,
        )

    def _public_prior(self, rank: int) -> np.ndarray:
        return np.full(rank, 1.0 if self._fixed() else 0.0)

    def _centered(self) -> dict:
        """How users' rows are centered."""
        level = lrs.Level(self.prior_intercept or 0.0, float(self.ridge_intercept))
        return {"center": self.fit_intercept == "user", "level": level}

    def _users_beside(self, found, rows, rules):
        """Fit each user by their own rows and U: nothing of this leaves the user."""
        if found.users is not None:  # without privacy
            return found.users
        return lrs.fit_users(rows, found.U, rules, self.n_jobs)

    def predict(self, X, *, users=None):
        """Predict every row by the model of its user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Columns as in fit.
        users : array-like of shape (n_rows,) or None, default=None
            Ids, of the type that was given to fit.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions; only a user may see those of their own model.

        Raises
        ------
        ValueError
            If users are missing though fit had them, if their type is another one,
            or, with ``unknown_user="raise"``, if one was not in the fit.
        """
        check_is_fitted(self)
        table, offsets = read_like_fit(self, X, users)
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
        models = personal.with_shared(self.weights_, self.intercept_)
        return offsets + models.predict(table.features, codes, self.components_)

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

    def _users_name(self) -> str:
        """What errors call the ids."""
        return "users" if self.user_feature is None else "user_feature"

    def _models(self) -> PersonalModels:
        """Return the users' models; none of them in a published copy."""
        empty = PersonalModels.empty(len(self.components_))
        return getattr(self, "_personal", empty)

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

    # -- users -------------------------------------------------------------------------

    def get_coef(self, user=None):
        """Return the coefficients of one user, for that user alone.

        Parameters
        ----------
        user : hashable or None, default=None
            Id; None for the only user of a fit without users.

        Returns
        -------
        ndarray of shape (n_features,)
            :math:`U w + b`, in units of the data; those of the shared model if the
            user is unknown.

        Raises
        ------
        ValueError
            If the user is unknown and ``unknown_user="raise"``, or the id is missing
            or of another type.
        """
        code, models = self._model_of(user)
        return models.coef(code, self.components_)

    def get_intercept(self, user=None):
        """Return the intercept of one user, as :meth:`get_coef` does coefficients."""
        code, models = self._model_of(user)
        return float(models.intercepts[code])

    def _model_of(self, user) -> tuple[int, PersonalModels]:
        check_is_fitted(self)
        personal = self._models()
        if user is None and getattr(self, "_users_given", False):
            raise ValueError("user is missing: fit was given users; pass the user's id")
        code = int(personal.codes(None if user is None else [user], 1, "user")[0])
        code = code if len(personal.weights) else -1
        if self._refuses_unknown() and code < 0:
            raise ValueError("user was not in the fit; see unknown_user, personalize")
        return code, personal.with_shared(self.weights_, self.intercept_)

    def __getstate__(self):
        state = super().__getstate__()
        if "_personal" in state and self._was_private():
            warnings.warn(
                "this copy of LRSRegressor carries the parameters of its users, which "
                "are not private; hand on publish() instead",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        return state
