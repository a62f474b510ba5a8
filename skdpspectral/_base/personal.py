"""Base of estimators with one model per user: ids, files, warnings and scores."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._linalg import per_user
from .._tables.columns import IdIndex, refuse_masked
from .._tables.table import UserTable, check_targets, table_shape
from ..accounting import PrivacyLeakWarning
from ..accounting._errors import warn
from ..mechanisms import PrivacyPlan, Unit, check_count
from .documented import documented

# Names of a user's entries, beside those of `publish`, begin so.
_OF_USER = "user_"

_LARGEST = np.finfo(float).max


def pooled_score(estimator, y, predictions, sample_weight, *, private: bool) -> float:
    """Score predictions for several users, with a warning if their fit was private."""
    refuse_masked(sample_weight, "sample_weight")
    if sample_weight is not None and np.shape(sample_weight) != predictions.shape:
        raise ValueError("sample_weight must contain one number for each row of X")
    if private:
        warn(
            "a score pooled over users is a release of their private models and "
            f"{estimator._pooled_values} that no budget accounts for; do not publish "
            "it",
            PrivacyLeakWarning,
        )
    return r2_score(y, predictions, sample_weight=sample_weight)


class KeepsUsers:
    """Base class of estimators that keep :class:`UserModels` in ``_personal``."""

    _models_class: ClassVar[Any]
    _pooled_values: ClassVar[str] = "targets"

    # Returns the users' models; a published copy has none.
    _models: ClassVar[Callable[..., Any]]
    # Describes the prediction for unknown users, from public values.
    _shared_prediction: ClassVar[Callable[..., str]]

    def _warn_of_unknown(self, codes: np.ndarray, rows="rows") -> None:
        """Warn of rows, or of "users" with lists, whose users have no model.

        Their number depends on who was in the fit, which only the holder of users'
        models may learn. A copy without models issues the same warning for all users.
        """
        n_unknown = np.count_nonzero(codes < 0)
        if not len(self._models().weights):
            said = (
                f"this {type(self).__name__} is a published copy without models of "
                f"users: all {rows}"
            )
        elif n_unknown:
            whose = "belong to" if rows == "rows" else "are"
            said = (
                f"{n_unknown} of {len(codes)} {rows} {whose} users that were neither "
                "in the fit nor personalized: they"
            )
        else:
            return
        said += f" are predicted by {self._shared_prediction()}"
        if rows == "users":
            said += ", and all get the same list"
        elif len(self._models().weights):
            said += ". Folds of PrivateSplit(whole_users=False) test users' own models"
        said += ". personalize() fits models of users to their own rows"
        warn(said, UserWarning)

    def save(self, path, *, user=None):
        """Save the result of :meth:`publish` as an ``.npz`` file of arrays and JSON.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced.
        user : str or int or None, default=None
            User whose own model is saved as well, for that user's device alone.

        Raises
        ------
        ValueError
            If there is no model of that user. No file is written.
        """
        check_is_fitted(self)
        if user is None:
            super().save(path)
            return
        models = self._models()
        own = models.arrays(models.code_of(user))
        if not own:
            raise ValueError("user has no model: personalize it first")
        plain = user.item() if isinstance(user, np.generic) else user
        super().save(path)
        entries = {"id": np.array(json.dumps(plain)), **own}
        with zipfile.ZipFile(path, "a") as archive:
            for name, value in entries.items():
                with archive.open(f"{_OF_USER}{name}.npy", "w") as file:
                    np.save(file, value, allow_pickle=False)

    @classmethod
    def _from_parts(cls, header: dict, arrays: dict) -> Any:
        user, names = arrays.pop(f"{_OF_USER}id", None), cls._models_class.entries
        own = {name: arrays.pop(f"{_OF_USER}{name}", None) for name in names}
        estimator = super()._from_parts(header, arrays)  # type: ignore[misc]
        if user is not None:
            index = IdIndex([json.loads(str(user))], "user").without_codes()
            estimator._personal = cls._models_class.of_file(index, own)
            estimator._users_given = True
        return estimator

    def __getstate__(self):
        state = super().__getstate__()
        if "_personal" in state and self._was_private():
            warn(
                f"this copy of {type(self).__name__} carries the models of its users, "
                "which are not private; share the result of publish() instead",
                PrivacyLeakWarning,
            )
        return state


@documented
class PersonalEstimator(KeepsUsers):
    """Base class of regressors with a personal model per user.

    A fit stores in ``_users_given`` whether it received users.
    """

    user_feature: int | str | None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.single_output = True
        # A column of ids: whole numbers, or strings.
        tags.input_tags.categorical = self.user_feature is not None
        return tags

    # -- what a fit will release -----------------------------------------------------

    # Returns the statistic of a fit for a number of features.
    _statistic: ClassVar[Callable[..., Any]]
    # Returns the number of columns of X that are not features.
    _n_beside: ClassVar[Callable[..., int]]

    def _plan(self, statistic) -> PrivacyPlan:
        """Return the plan of a statistic, whose unit is a user with all rows."""
        how: dict[str, Any] = {"unit": Unit.USER, "neighbors": statistic.neighbors}
        return super()._planned(statistic, **how)  # type: ignore[misc]

    def privacy_plan(self, n_features):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_features : int
            Number of features, without columns of users and offsets.

        Returns
        -------
        PrivacyPlan
            The plan that a fit is charged for, for any number of users and rows.

        Raises
        ------
        ValueError
            If a parameter is invalid.
        """
        self._check_parameters()
        return self._plan(self._statistic(check_count("n_features", n_features)))

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        {plan_of_rows}
        """
        self._check_parameters()
        return self.privacy_plan(table_shape(X)[1] - self._n_beside())

    # -- users of rows ---------------------------------------------------------------

    def _ids_of_fit(self, users):
        """Return the ids given beside rows, or those of the rows of the pipeline."""
        at_hand = self._users_at_hand()
        return users if at_hand is None or users is not None else at_hand.ids

    def _warn_of_one_user(self, table) -> None:
        if table.ids is not None or not self._is_private():
            return
        warn(
            "all rows are treated as the rows of one user, and predictions are "
            "computed from them without noise; pass users=... or name their column "
            "with user_feature",
            PrivacyLeakWarning,
        )

    def _index(self, table: UserTable) -> IdIndex | None:
        """Return the ids of a fit; None for a single user without an id."""
        if table.users is None:
            return None
        return IdIndex(table.users, self._users_name())

    def _users_name(self) -> str:
        """What errors call the ids."""
        return "users" if self.user_feature is None else "user_feature"

    def _check_given(self, ids, name: str) -> None:
        """Refuse ids that are missing, or that are unknown to a fit without users."""
        given = getattr(self, "_users_given", None)
        if ids is None and given:
            raise ValueError(
                f"{name} must be passed, because fit was given users: pass {name}=... "
                "or name a column of X with user_feature, which also works in "
                "cross_val_score"
            )
        if ids is not None and given is False:
            raise ValueError(
                f"{name} must be left out, because fit was given no users: fit with "
                "users=... or user_feature"
            )

    def _code_of(self, user) -> int:
        """Return the code of one user."""
        check_is_fitted(self)
        self._check_given(user, "user")
        return self._models().code_of(user)

    def _users_to_fit(self, table: UserTable, user) -> IdIndex | None:
        """Return the users of the rows; None for a single one without an id."""
        if table.users is None:
            name = "user"
            self._check_given(user, name)
            if user is None:
                return None
            index = IdIndex([user], name)
            index.codes = np.zeros(len(table.X), dtype=np.intp)
        else:
            name = self._users_name()
            self._check_given(table.users, "users")
            index = IdIndex(table.users, name)
            if user is not None and (len(index) != 1 or index.find([user], "user")[0]):
                raise ValueError(
                    "X must contain the rows of one user only, the one that user names"
                )
        self._models().check_kind(index, name)
        return index

    # -- predictions and further users: no budget is spent ---------------------------

    # Subclasses read rows and offsets like the fit (`_read_like_fit`), predict rows of
    # users with codes, below 0 without a model (`_predicted`), and fit models of users
    # to their rows minus the offsets (`_fit_users`).

    def predict(self, X, *, users=None):
        """Predict each row with the model of its user.

        Parameters
        ----------
        {X_like_fit}
        {users_like_fit}

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions. Only a user may see the predictions of their own model.

        Raises
        ------
        ValueError
            If users are missing although fit received them, or if their type differs.

        Warns
        -----
        UserWarning
            If users without a model are predicted with the shared model. The warning
            counts their rows, and thereby reveals who was in the fit. A published copy
            has no models and issues this warning for every user.
        """
        check_is_fitted(self)
        table, offsets = self._read_like_fit(X, users)
        self._check_given(table.users, "users")
        ids, name = table.users, self._users_name()
        codes = self._models().codes(ids, len(table.X), name)
        self._warn_of_unknown(codes)
        # A warning would reveal something about the values of some user.
        with np.errstate(all="ignore"):
            return offsets + self._predicted(table, codes)

    def personalize(self, X, y, user=None, *, users=None):
        """Fit models of some users to the released shared part, and store them.

        This also works on a published copy, so that users can run it where their rows
        are. Stored models of these users are replaced, and all others are kept. No
        budget is spent.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            All rows of one or more users, with the same columns as in fit.
        y : array-like of shape (n_rows,)
            Targets of these rows.
        user : hashable or None, default=None
            Id of the user of all rows. None uses `users` or the column `user_feature`.
            If fit received no users, None stands for the only user.
        users : array-like of shape (n_rows,) or None, default=None
            User ids of the rows, new or known.

        Returns
        -------
        self : object
            The estimator, which can now predict for these users.

        Raises
        ------
        ValueError
            If X or y is invalid, rows belong to users other than `user`, or parameters
            that define columns or units were changed since the fit.

        Notes
        -----
        At the end of a pipeline, this is
        ``model[-1].personalize(model[:-1].transform(X), y)``.
        """
        check_is_fitted(self)
        # Each on its own: what no fit accepts may be valid for a user.
        super()._check_parameters()
        table, offsets = self._read_like_fit(X, users)
        y = subtract_offsets(check_targets(self, y, len(table.X)), offsets)
        index = self._users_to_fit(table, user)
        self._personal = self._models().updated(self._fit_users(table, y, index))
        self._users_given = index is not None
        return self

    def score(self, X, y, sample_weight=None, *, users=None):
        """Return the coefficient of determination of the users' own models.

        Parameters
        ----------
        {X_like_fit}
        y : array-like of shape (n_rows,)
            Targets.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows in the score.
        {users_like_fit}

        Returns
        -------
        float
            :math:`R^2`. A score pooled over users reveals information about all of
            them, which no ledger records.

        Warns
        -----
        PrivacyLeakWarning
            If the fit was private and had users.
        UserWarning
            If users without a model are predicted, as in :meth:`predict`.
        """
        predictions = self.predict(X, users=users)
        y = check_targets(self, y, len(predictions))
        private = self._was_private() and getattr(self, "_users_given", False)
        return pooled_score(self, y, predictions, sample_weight, private=private)


@dataclass(frozen=True)
class UserModels:
    """Parameters of users: arrays whose first axis is the user, `weights` among them.

    A subclass names its arrays, and those that grow wider for models of further users.
    """

    entries: ClassVar[tuple[str, ...]] = ()
    widened: ClassVar[tuple[str, ...]] = ()

    index: IdIndex | None
    weights: np.ndarray

    @classmethod
    def cleaned(cls, index: IdIndex | None, *arrays) -> Any:
        """Return models of fitted users, with 0 in place of overflows.

        `index` is None for a single user without an id.
        """
        index = None if index is None else index.without_codes()
        return cls(index, *map(finite_or_zero, arrays))

    def codes(self, users, n_rows: int, name: str) -> np.ndarray:
        """Return codes of the rows' users, -1 for unknown ones; errors name the ids."""
        if users is None and len(self.weights):
            return np.zeros(n_rows, dtype=np.intp)
        if self.index is None:
            return np.full(n_rows, -1)
        return self.index.find(users, name)

    def code_of(self, user) -> int:
        """Return the code of one user, -1 if unknown; None is the only user."""
        return int(self.codes(None if user is None else [user], 1, "user")[0])

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> UserModels:
        """Return a model from the result of :meth:`arrays` for one user."""
        return cls(index, **arrays)

    def check_kind(self, index: IdIndex, name: str) -> None:
        """Refuse ids of another kind than the present ones; errors name them."""
        if self.index is not None:
            self.index.find(index.ids, name)

    def arrays(self, code: int | None = None) -> dict[str, np.ndarray]:
        """Return parameters by name, of all users or one; none for a negative code."""
        if code is None:
            return {name: getattr(self, name) for name in self.entries}
        if code < 0:
            return {}
        chosen = slice(code, code + 1)
        return {name: getattr(self, name)[chosen].copy() for name in self.entries}

    def updated(self, new: UserModels) -> UserModels:
        """Return models in which those of some users are replaced or added."""
        if self.index is None or new.index is None:
            return new
        codes = self.index.find(new.index.ids, "users")
        known, added = codes >= 0, np.flatnonzero(codes < 0)
        index = self.index
        if len(added):
            index = index.joined(new.index.ids[added])
        arrays = {}
        for name, value in self.arrays().items():
            own = getattr(new, name)
            if name in self.widened:  # the narrower ones are padded with zeros
                width = max(value.shape[1], own.shape[1])
                value, own = (
                    np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (value, own)
                )
            arrays[name] = np.concatenate([value, own[added]])
            arrays[name][codes[known]] = own[known]
        return replace(self, index=index, **arrays)


def finite_or_zero(values: np.ndarray) -> np.ndarray:
    """Replace overflows due to a user's extreme rows by zero."""
    return np.where(np.isfinite(values), values, np.zeros((), values.dtype))


def subtract_offsets(y: np.ndarray, offsets) -> np.ndarray:
    """Return targets minus offsets, row by row; always finite."""
    with np.errstate(all="ignore"):  # an overflow would tell of somebody's target
        return np.clip(y - offsets, -_LARGEST, _LARGEST)


def rows_by_user(
    table: UserTable, y, index: IdIndex | None, **how
) -> per_user.GroupedRows:
    """Group rows and targets by user; without an `index` all are those of one."""
    one = index is None
    codes = np.zeros(len(table.X), dtype=np.intp) if one else index.codes
    n_users = 1 if one else len(index)
    return per_user.GroupedRows(table.X, y, codes, n_users, **how)
