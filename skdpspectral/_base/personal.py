"""Base of estimators with one model per user: ids, files, warnings and scores."""

from __future__ import annotations

import json
import warnings
import zipfile
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._tables.entries import refuse_masked
from .._tables.ids import IdIndex
from .._tables.users import UserTable, check_targets
from ..accounting import PrivacyLeakWarning

# Names of a user's entries, beside those of `publish`, begin so.
_OF_USER = "user_"


def pooled_score(estimator, y, predictions, sample_weight, *, private: bool) -> float:
    """Score predictions for several users, with a warning if their fit was private."""
    refuse_masked(sample_weight, "sample_weight")
    if sample_weight is not None and np.shape(sample_weight) != predictions.shape:
        raise ValueError("sample_weight must hold one number for each row of X")
    if private:
        warnings.warn(
            "a score pooled over users is a release of their private models and "
            f"{estimator._pooled_values} that no budget accounts for; do not publish "
            "it",
            PrivacyLeakWarning,
            stacklevel=3,
        )
    return r2_score(y, predictions, sample_weight=sample_weight)


class KeepsUsers:
    """Base of estimators that keep a model for each user in ``_personal``.

    Models are of a class with ``entries``, the names of a user's arrays,
    ``code_of(user)``, ``arrays(code)`` and ``of_file(index, arrays)``.
    """

    _models_class: ClassVar[Any]
    _pooled_values: ClassVar[str] = "targets"

    def _models(self) -> Any:
        """Return the users' models; none of them in a published copy."""
        raise NotImplementedError

    def save(self, path, *, user=None):
        """Write what :meth:`publish` gives as an ``.npz`` file of arrays and JSON.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing one is replaced.
        user : str or int or None, default=None
            A user whose own model is written beside it, for that user's device alone.

        Raises
        ------
        ValueError
            If there is no model of that user; no file is written.
        TypeError
            If the id is neither a string nor a number; no file is written.
        """
        check_is_fitted(self)
        published: Any = super()
        if user is None:
            published.save(path)
            return
        models = self._models()
        own = models.arrays(models.code_of(user))
        if not own:
            raise ValueError("user has no model: personalize it first")
        plain = user.item() if isinstance(user, np.generic) else user
        if not isinstance(plain, (str, int, float)):
            raise TypeError("user must be a string or a number to be written")
        published.save(path)
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
        return estimator

    def __getstate__(self):
        state = super().__getstate__()
        if "_personal" in state and self._was_private():
            warnings.warn(
                f"this copy of {type(self).__name__} carries the models of its users, "
                "which are not private; hand on publish() instead",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        return state


class PersonalEstimator(KeepsUsers):
    """Base of regressors with a model for each user, beside what is released.

    A subclass has the parameters `user_feature` and `unknown_user`, keeps the models of
    its users in ``_personal``, and whether a fit was given users in ``_users_given``.
    """

    user_feature: int | str | None

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
        private = self._was_private() and getattr(self, "_users_given", False)
        return pooled_score(self, y, predictions, sample_weight, private=private)

    @classmethod
    def _from_parts(cls, header: dict, arrays: dict):
        estimator = super()._from_parts(header, arrays)
        if hasattr(estimator, "_personal"):
            estimator._users_given = True
        return estimator


@dataclass(frozen=True)
class UserModels:
    """Parameters of users: arrays with one entry a user along the first axis.

    A subclass names its arrays, and those that may grow wider to make room for the
    models of further users.
    """

    entries: ClassVar[tuple[str, ...]] = ()
    widened: ClassVar[tuple[str, ...]] = ()

    index: IdIndex | None

    def codes(self, users, n_rows: int, name: str) -> np.ndarray:
        """Codes of the rows' users, -1 for unknown ones; errors name the ids."""
        if users is None:
            return np.zeros(n_rows, dtype=np.intp)
        if self.index is None:
            return np.full(n_rows, -1)
        return self.index.find(users, name)

    def code_of(self, user) -> int:
        """Code of one user, -1 for an unknown one."""
        return int(self.codes([user], 1, "user")[0])

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> UserModels:
        """Make models of what :meth:`arrays` gave of one user."""
        return cls(index, **arrays)

    def check_kind(self, index: IdIndex, name: str) -> None:
        """Refuse ids of another kind than those that there are; errors name them."""
        if self.index is not None:
            self.index.find(index.ids, name)

    def arrays(self, code: int | None = None) -> dict[str, np.ndarray]:
        """Parameters by name: of all users, or of one; none of a negative code."""
        if code is None:
            return {name: getattr(self, name) for name in self.entries}
        if code < 0:
            return {}
        chosen = slice(code, code + 1)
        return {name: getattr(self, name)[chosen].copy() for name in self.entries}

    def updated(self, new: UserModels) -> UserModels:
        """Return models with those of some users replaced or added.

        `new`: models of users, known or not; of a single one without an id, that alone.
        """
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
            if name in self.widened:
                value, own = _alike_wide(value, own)
            arrays[name] = np.concatenate([value, own[added]])
            arrays[name][codes[known]] = own[known]
        return replace(self, index=index, **arrays)


def _alike_wide(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Pad rows with zeros to the width of the wider."""
    width = max(first.shape[1], second.shape[1])
    return [np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (first, second)]


def finite_or_zero(values: np.ndarray) -> np.ndarray:
    """Take zero for what a user's extreme rows have put beyond float64."""
    return np.where(np.isfinite(values), values, 0.0)
