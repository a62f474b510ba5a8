"""The covariance model of principal components, and what follows from it."""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._tables.rows import map_rows

# What a model of the rows is made of, all of it in squared units of the data.
_VARIANCES = {"explained_variance_", "noise_variance_"}


def why_without_variances(estimator) -> str | None:
    """Say why variances of the data are not known; None where they are.

    Of a fitted estimator by what it holds, whatever its parameters have become.
    """
    reason = estimator._why_no_variances()
    if not hasattr(estimator, "components_"):
        return reason
    if vars(estimator).keys() >= _VARIANCES:
        return None
    return reason or "the last fit had other parameters and did not; fit again"


def _has_variances(estimator) -> bool:
    """Whether a fit releases variances of the data, and not of unit rows."""
    reason = why_without_variances(estimator)
    if reason is None:
        return True
    raise AttributeError(
        f"{type(estimator).__name__} releases no variances of the data: {reason}"
    )


@documented
class SpikedCovarianceMixin:
    """Methods of estimators with components, their variances and a noise variance.

    An estimator says by ``_why_no_variances`` if its parameters leave them out, and how
    rows are read by ``_read_rows``.
    """

    @property
    def singular_values_(self) -> np.ndarray:
        """Singular values of the rows about their center, of shape (n_components,).

        ``sqrt(n_samples_ * explained_variance_)``, where variances are those of the
        data: these are means over n_samples, and not over n_samples - 1.
        """
        check_is_fitted(self)
        _has_variances(self)
        return np.sqrt(self.n_samples_ * np.maximum(self.explained_variance_, 0.0))

    def _model_variances(self) -> tuple[np.ndarray, float]:
        """Return positive variances along and across components, for densities."""
        check_is_fitted(self)
        noise = self.noise_variance_
        largest = max(noise, float(self.explained_variance_.max()))
        noise = max(noise, np.finfo(float).eps * largest, np.finfo(float).tiny)
        return np.maximum(self.explained_variance_, noise), noise

    def _feature_units(self) -> np.ndarray:
        ones = np.ones(self.components_.shape[1])
        return ones if self.scale_ is None else self.scale_

    @available_if(_has_variances)
    def get_covariance(self):
        r"""Covariance of the data by the released model.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            :math:`U \Lambda U' + \sigma^2 I` with the released variances, in units
            of the data.
        """
        values, noise = self._model_variances()
        components = self.components_ * self._feature_units()
        out = (components.T * (values - noise)) @ components
        out[np.diag_indices_from(out)] += noise * self._feature_units() ** 2
        return out

    @available_if(_has_variances)
    def get_precision(self):
        """Inverse of the covariance, by the model's own inverse.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Inverse of :meth:`get_covariance`.
        """
        values, noise = self._model_variances()
        components = self.components_ / self._feature_units()
        out = (components.T * (1.0 / values - 1.0 / noise)) @ components
        out[np.diag_indices_from(out)] += 1.0 / (noise * self._feature_units() ** 2)
        return out

    @available_if(_has_variances)
    def score_samples(self, X):
        """Log-likelihood of each row under the released Gaussian model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. **What is returned is as private as they are**.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        values, noise = self._model_variances()
        X = self._read_rows(X)
        units = self._feature_units()
        n_features, rank = X.shape[1], len(values)
        log_det = float(np.sum(np.log(values))) + (n_features - rank) * math.log(noise)
        log_det += 2.0 * float(np.sum(np.log(units)))
        log_det += n_features * math.log(2.0 * math.pi)

        def densities(block):
            rows = (block - self.mean_) / units
            scores = rows @ self.components_.T
            squares = np.vecdot(rows, rows) / noise
            squares += scores**2 @ (1.0 / values - 1.0 / noise)
            return -0.5 * (squares + log_det)

        return map_rows(densities, X)

    @available_if(_has_variances)
    def score(self, X, y=None):
        """Mean log-likelihood of rows under the released Gaussian model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; a score of private rows is a release that nothing accounts for.
        {y_ignored}

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        return float(np.mean(self.score_samples(X)))
