"""Densities and distances of rows under a released mean and covariance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._tables.table import map_rows
from .documented import documented

# What a model of components is made of, all of it in squared units of the data.
_VARIANCES = {"explained_variance_", "noise_variance_"}


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

    def _why_no_variances(self) -> str | None:
        """Return why parameters prevent variances of the data, or None."""
        return None

    def _precision(self) -> np.ndarray:
        """Return the inverse of the covariance."""
        raise NotImplementedError

    def _law(self) -> tuple[Callable, float]:
        """Return the map of rows to squared distances, and twice the log-volume."""
        raise NotImplementedError

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
