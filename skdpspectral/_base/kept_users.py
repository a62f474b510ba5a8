"""Models of users beside what is released: copies of them, and files."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from ..accounting import PrivacyLeakWarning
from .user_files import read_user_entries, write_user_entries


class KeepsUsers:
    """Base of estimators that keep a model for each user in ``_personal``.

    Models are of a class with ``entries``, the names of a user's arrays,
    ``code_of(user)``, ``arrays(code)`` and ``of_file(index, arrays)``.
    """

    _models_class: ClassVar[Any]

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
        models = self._models()
        code = -1 if user is None else models.code_of(user)
        publish: Any = super()
        write_user_entries(publish.save, path, user, models.arrays(code))

    @classmethod
    def _from_parts(cls, header: dict, arrays: dict) -> Any:
        index, own = read_user_entries(arrays, cls._models_class.entries)
        estimator = super()._from_parts(header, arrays)  # type: ignore[misc]
        if index is not None:
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
