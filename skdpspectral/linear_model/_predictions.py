"""Models of users and predictions made from them: the users' side of the billboard."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._linalg import linear_model as lrs
from .._tables.users import UserTable
from ._offsets import read_like_fit
from ._personal_models import PersonalModels


class PersonalPredictions:
    """What an estimator of one model a user offers its users, once U is there."""

    def _fixed(self) -> bool:
        """Whether users have no weights of their own."""
        return self.shared_weights == "fixed"

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
        codes = self._codes_of(table)
        models = self._models().with_shared(self.weights_, self.intercept_)
        return offsets + models.predict(table.features, codes, self.components_)

    def _models(self) -> PersonalModels:
        """Return the users' models; none of them in a published copy."""
        empty = PersonalModels.empty(len(self.components_))
        return getattr(self, "_personal", empty)

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
        code = self._code_of(user)
        return code, self._models().with_shared(self.weights_, self.intercept_)
