"""Mixins: classifiers with public classes, and densities under a released moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._tables.columns import DATES, NUMBER, TEXTS, dtypes_of, kind_of, read_quietly
from .._tables.table import DeferredRead, deferred_targets, map_rows
from ..accounting import PrivacyLeakWarning
from ..accounting._errors import warn
from ..mechanisms import check_count
from .documented import documented

# Kinds of labels; those of other objects are unknown.
_KINDS: dict[str, Any] = {"number": (Number, np.bool_), "text": str, "bytes": bytes}
# What a model of components is made of, all of it in squared units of the data.
_VARIANCES = {"explained_variance_", "noise_variance_"}


class PrivateClassifier(ClassifierMixin):
    """Mixin of classifiers with public `classes`, before a class with ``_outputs``."""

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
                    "classes must contain two or more different labels, all of one "
                    f"kind, got {classes}"
                )

    def _n_outputs(self, n_classes: int | None) -> int:
        """Return the number of planned outputs; None uses `classes`, or 2."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else np.size(self.classes)
        return n_outputs_of(check_count("n_classes", n_classes))

    def _deferred_labels(self, y, n_rows: int) -> DeferredRead:
        """Set the classes, and check the form of the labels.

        With ``classes=None`` the labels that occur are public and read here. Other
        errors about them are raised after the charge.
        """
        unread = deferred_targets(self, y, n_rows, labels=True)
        if self.classes is not None:
            self._check_kind(y)
            self.classes_ = _publishable(np.unique(np.asarray(self.classes)))
            return unread
        if self._is_private():
            warn(
                "classes=None: the labels in y are assumed to be public knowledge and "
                "are not protected; pass them as classes=[...]",
                PrivacyLeakWarning,
            )
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

    def _check_kind(self, y) -> None:
        """Refuse labels that by their dtype are none of the classes."""
        classes = {
            next((name for name, kind in _KINDS.items() if isinstance(label, kind)), "")
            for label in self.classes
        }
        for dtype in dtypes_of(y):
            kind = kind_of(dtype)
            found = (kind == NUMBER) * "number" or (kind in DATES) * "date"
            if kind in TEXTS:
                bytes_ = "binary" in str(dtype) or getattr(dtype, "kind", "") == "S"
                found = "bytes" if bytes_ else "text"
            if "" not in classes and found not in {"", *classes}:
                raise ValueError(
                    f"y has labels of dtype {dtype}, which are none of the classes: "
                    "pass classes as y has them, or convert y"
                )

    def _occurring(self, labels: np.ndarray) -> np.ndarray:
        """Return the labels that occur; raise if they are invalid."""
        said = "y must contain labels of one kind, so that they can be sorted"
        known = read_quietly(lambda: np.unique(_in_one_type(labels)), said)
        if len(known) < 2:
            raise ValueError(
                f"{type(self).__name__} requires at least two classes and found one "
                "class; name all classes with classes=[...]"
            )
        return _publishable(known)

    def _unprotected(self) -> str | None:
        if self.classes is not None:
            return None
        return "classes=None publishes which labels occur in y: pass classes=[...]"

    def _one_hot(self, labels: np.ndarray) -> np.ndarray:
        """Return targets of 0 and 1, of shape (n_samples, n_outputs)."""
        if labels.dtype.kind == "T":  # text that numpy compares with no other text
            labels = labels.astype(object)
        said = (
            "y has labels that are not in classes; list all labels in classes, and "
            "drop rows without a label"
        )
        codes = read_quietly(lambda: np.searchsorted(self.classes_, labels), said)
        codes = np.minimum(codes, len(self.classes_) - 1)
        if not read_quietly(lambda: np.array_equal(self.classes_[codes], labels), said):
            raise ValueError(said)
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
            With two classes, the score of the second class, positive if it is
            predicted. Otherwise, one score per class.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X):
        """Return the class with the highest score for each row.

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
    """Return labels in a type that holds all of them."""
    return labels.tolist() if labels.dtype == object else labels


def _publishable(classes: np.ndarray) -> np.ndarray:
    """Return classes, converting texts to text arrays of fixed width."""
    texts = classes.dtype.kind in "OT" and all(isinstance(c, str) for c in classes)
    return np.array(classes.tolist()) if texts else classes


def n_outputs_of(n_classes: int) -> int:
    """Return the number of outputs for a number of classes."""
    return 1 if n_classes == 2 else n_classes


def has_variances(estimator) -> bool:
    """Return whether variances are those of the data, not of unit rows.

    Fitted estimators are judged by their attributes, not by their parameters.
    """
    reason = estimator._why_no_variances()
    if hasattr(estimator, "components_"):
        old = "the last fit had other parameters and did not; fit again"
        known = vars(estimator).keys() >= _VARIANCES
        reason = None if known else reason or old
    if reason is None:
        return True
    raise AttributeError(
        f"{type(estimator).__name__} releases no variances of the data: {reason}"
    )


@documented
class DensityMixin:
    """Base class of Gaussian models of rows: their methods, where there is a model."""

    _read_rows: Callable  # returns the features of rows after a fit
    _precision: Callable  # returns the inverse of the covariance
    # Returns the map of rows to squared distances, and twice the log-volume.
    _law: Callable

    def _why_no_variances(self) -> str | None:
        """Return why parameters prevent variances of the data, or None."""
        return None

    @available_if(has_variances)
    def get_precision(self):
        """Return the inverse of the covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Symmetric matrix.
        """
        check_is_fitted(self)
        return self._precision()

    @available_if(has_variances)
    def mahalanobis(self, X):
        """Squared Mahalanobis distances of rows to the mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. **The returned distances are as private as the rows**.

        Returns
        -------
        ndarray of shape (n_samples,)
            Squared distances, as in :class:`sklearn.covariance.EmpiricalCovariance`.
        """
        check_is_fitted(self)
        return map_rows(self._law()[0], self._read_rows(X))

    @available_if(has_variances)
    def score_samples(self, X):
        """Log-density of each row under a Gaussian with this mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. **The returned densities are as private as the rows**.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        return -0.5 * (self.mahalanobis(X) + self._law()[1])

    @available_if(has_variances)
    def score(self, X, y=None):
        """Mean log-likelihood of rows under a Gaussian with this mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. A score of private rows is a release that no accountant records.
        {y_ignored}

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        return float(np.mean(self.score_samples(X)))
