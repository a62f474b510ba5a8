"""Scores of rows on released components, and densities of rows with them."""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._tables.table import check_rows, check_scores, map_rows, saturated
from ..accounting import NoisyFitWarning
from ..accounting._errors import warn
from ..mechanisms import Concern, Remark

# What a model of the rows is made of, all of it in squared units of the data.
_VARIANCES = {"explained_variance_", "noise_variance_"}


def why_without_variances(estimator) -> str | None:
    """Return why an estimator has no variances of the data; None if it has them.

    Fitted estimators are judged by their attributes, not by their parameters.
    """
    reason = estimator._why_no_variances()
    if not hasattr(estimator, "components_"):
        return reason
    if vars(estimator).keys() >= _VARIANCES:
        return None
    return reason or "the last fit had other parameters and did not; fit again"


def _has_variances(estimator) -> bool:
    """Return whether a fit releases variances of the data, not of unit rows."""
    reason = why_without_variances(estimator)
    if reason is None:
        return True
    raise AttributeError(
        f"{type(estimator).__name__} releases no variances of the data: {reason}"
    )


@documented
class ProjectionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators with components, a center and scales of features."""

    def _read_rows(self, X, accept_sparse=False):
        """Return the features of rows after a fit."""
        return check_rows(
            self, X, reset=False, accept_sparse=accept_sparse, in_blocks=True
        )

    def _axes_of_scores(self) -> np.ndarray:
        """Components that rows are projected on."""
        return self.components_

    def _warned_of_noise(self, said: str) -> Remark:
        """Warn that components may be noise; return the remark about it."""
        warn(said, NoisyFitWarning)
        return Remark(f"{said}.", Concern.NOISE)

    def transform(self, X):
        """Project rows on the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows with the same columns as in :meth:`fit`. They are neither clipped nor
            scaled to unit norm. Arrays that :meth:`fit` reads block by block are also
            read block by block here.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Scores in the precision of X. They stay finite even on overflow.
        """
        check_is_fitted(self)
        X = self._read_rows(X, accept_sparse=True)
        precision = np.float32 if X.dtype == np.float32 else np.float64
        components = self._axes_of_scores()
        if getattr(self, "scale_", None) is not None:
            components = components / self.scale_
        offset = (components @ self.mean_).astype(precision)
        axes = components.T.astype(precision)

        def scores(block):
            block = block.astype(precision, copy=False)
            return saturated(np.asarray(block @ axes) - offset)

        with np.errstate(all="ignore"):
            return map_rows(scores, X)

    def inverse_transform(self, X):
        """Map scores back to the space of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores as returned by :meth:`transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The nearest points in the affine space spanned by the components.
        """
        check_is_fitted(self)
        X = check_scores(X, self.n_components_)
        components = self._axes_of_scores()
        if getattr(self, "scale_", None) is not None:
            components = components * self.scale_
        return X @ components.astype(X.dtype) + self.mean_.astype(X.dtype)

    @property
    def _n_features_out(self):
        return self.components_.shape[0]


@documented
class VariancesMixin:
    """Densities of rows, where variances of the data are released.

    ``_why_no_variances`` returns why parameters prevent variances, or None.
    """

    @property
    def singular_values_(self) -> np.ndarray:
        """Singular values of the centered rows, of shape (n_components,).

        ``sqrt(n_samples_ * explained_variance_)``, available if the variances describe
        the data. Variances are divided by n_samples, not by ``n_samples - 1``.
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
        scale = getattr(self, "scale_", None)
        return np.ones(self.components_.shape[1]) if scale is None else scale

    @available_if(_has_variances)
    def get_covariance(self):
        r"""Covariance of the data.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            :math:`U \Lambda U' + \sigma^2 I` with the released variances, in units of
            the data.
        """
        values, noise = self._model_variances()
        components = self.components_ * self._feature_units()
        out = (components.T * (values - noise)) @ components
        out[np.diag_indices_from(out)] += noise * self._feature_units() ** 2
        return out

    @available_if(_has_variances)
    def get_precision(self):
        """Inverse of the covariance.

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
        (values, noise), units = self._model_variances(), self._feature_units()
        X = self._read_rows(X)

        def squares(block):
            rows = (block - self.mean_) / units
            scores = rows @ self.components_.T
            return np.vecdot(rows, rows) / noise + scores**2 @ (1 / values - 1 / noise)

        return map_rows(squares, X)

    @available_if(_has_variances)
    def score_samples(self, X):
        """Log-likelihood of each row under the released Gaussian model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. **The returned densities are as private as the rows**.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        values, noise = self._model_variances()
        n_features = self.components_.shape[1]
        log_det = float(np.sum(np.log(values)))
        log_det += (n_features - len(values)) * math.log(noise)
        log_det += 2.0 * float(np.sum(np.log(self._feature_units())))
        log_volume = log_det + n_features * math.log(2.0 * math.pi)
        return -0.5 * (self.mahalanobis(X) + log_volume)

    @available_if(_has_variances)
    def score(self, X, y=None):
        """Mean log-likelihood of rows under the released Gaussian model.

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
