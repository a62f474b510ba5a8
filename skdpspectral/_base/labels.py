"""Labels of classifiers: public classes, and targets of labels."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from .._tables.rows import DeferredRead
from .._tables.users import deferred_labels
from ..accounting import PrivacyLeakWarning
from ..mechanisms import check_count


class PrivateClassifier(ClassifierMixin):
    """Mixin of classifiers whose `classes` are public.

    Left of a private estimator, which has a parameter `classes` and ``_outputs``: one
    column for two classes, or else one column per class.
    """

    _class_constraints: ClassVar[dict] = {"classes": ["array-like", None]}

    classes: Any
    classes_: np.ndarray

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc]
        if self.classes is not None:
            # Any other array would turn numbers beside texts into texts.
            classes = np.asarray(self.classes, dtype=object)
            try:
                named = len(np.unique(classes)) if classes.ndim == 1 else 0
                # A label that is no number equals none.
                named *= np.array_equal(classes, classes)
            except TypeError:  # of labels that have no order
                named = 0
            if named < max(2, classes.size):
                raise ValueError(
                    "classes must name two or more labels of one kind, each once, got "
                    f"{classes}"
                )

    def _n_outputs(self, n_classes: int | None) -> int:
        """Return the number of outputs of a planned fit; None takes `classes`, or 2."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else np.size(self.classes)
        return n_outputs_of(check_count("n_classes", n_classes))

    def _deferred_labels(self, y, n_rows: int, levels: int = 0) -> DeferredRead:
        """Note the classes, and check the form of the labels.

        With ``classes=None`` the labels that occur are public, and are looked at here.
        What is wrong with them is not, and is said once the fit is charged. There are
        `levels` calls between the fit and this one.
        """
        known = self._known_classes(y)
        unread = deferred_labels(self, y, n_rows)
        if known is not None:
            self.classes_ = _publishable(known)
            return unread
        self._warn_of_classes(levels)
        try:
            self.classes_ = self._occurring(unread.read())
        except ValueError:
            self.classes_ = np.array([False, True])

        def read():
            labels = unread.read()
            self._occurring(labels)  # first: others may quote what cannot be sorted
            check_classification_targets(_in_one_type(labels))
            return labels

        return replace(unread, read=read)

    def _occurring(self, labels: np.ndarray) -> np.ndarray:
        """Return the labels that occur, or an error about them."""
        try:
            known = np.unique(_in_one_type(labels))
        except MemoryError:
            raise
        except Exception:  # of foreign labels: their words may quote them
            known = None
        if known is None:
            raise ValueError("y must hold labels of one kind, which can be sorted")
        if len(known) < 2:
            raise ValueError(
                f"{type(self).__name__} requires at least two classes and found one "
                "class; name all classes with classes=[...]"
            )
        return _publishable(known)

    def _known_classes(self, y) -> np.ndarray | None:
        """Return the classes if they are public: named, or those of booleans.

        Categories of a column are mostly made from the labels that occur in it.
        """
        if self.classes is not None:
            return np.unique(np.asarray(self.classes))
        dtype = getattr(y, "dtype", None)
        return np.array([False, True]) if dtype == np.bool_ else None

    def _unprotected(self) -> str | None:
        if self.classes is not None:
            return None
        return "classes=None publishes which labels occur in y: give classes=[...]"

    def _warn_of_classes(self, levels: int) -> None:
        if self._is_private():
            warnings.warn(
                "classes=None: the labels in y are assumed to be public knowledge and "
                "are not protected; pass them as classes=[...]",
                PrivacyLeakWarning,
                stacklevel=4 + self._levels_around_fit + levels,
            )

    def _one_hot(self, labels: np.ndarray) -> np.ndarray:
        """Return targets of 0 and 1, of shape (n_samples, n_outputs)."""
        codes = _codes(self.classes_, labels)
        if codes is None:
            raise ValueError(
                "y has labels that are not among classes; name all of them"
            )
        if len(self.classes_) == 2:
            return codes[:, None].astype(np.float64)
        return (codes[:, None] == np.arange(len(self.classes_))).astype(np.float64)

    def decision_function(self, X):
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Score of the second of two classes, positive if it is predicted; or one
            score per class.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X):
        """Return the class of the highest score of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        outputs = self._outputs(X)
        if outputs.shape[1] == 1:
            return self.classes_[(outputs[:, 0] > 0.0).astype(int)]
        return self.classes_[outputs.argmax(axis=1)]


def _in_one_type(labels: np.ndarray) -> np.ndarray | list:
    """Return labels whose type holds all of them: they are public, and so is it."""
    return labels.tolist() if labels.dtype == object else labels


def _publishable(classes: np.ndarray) -> np.ndarray:
    """Return classes; texts among objects as an array of texts."""
    texts = classes.dtype == object and all(isinstance(c, str) for c in classes)
    return classes.astype(str) if texts else classes


def _codes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
    """Return the places of labels among sorted classes; None if one is not there."""
    try:
        codes = np.searchsorted(classes, labels)
        codes = np.minimum(codes, len(classes) - 1)
        return codes if np.array_equal(classes[codes], labels) else None
    except MemoryError:
        raise
    except Exception:  # which would quote what was compared, if by labels' own words
        return None


def n_outputs_of(n_classes: int) -> int:
    """Return the number of outputs of a classifier of so many classes."""
    return 1 if n_classes == 2 else n_classes
