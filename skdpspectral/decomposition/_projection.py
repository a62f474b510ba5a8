"""Scores of rows on released components, and the covariance of rows with them."""

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


def _refuse_to_whiten(reason: str | None) -> None:
    if reason is not None:
        raise ValueError(f"whiten=True needs variances of the data, but {reason}")


@documented
class ProjectionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators with components, a center and scales of features.

    ``_why_no_variances`` returns why parameters prevent variances, or None.
    """

    def _read_rows(self, X, accept_sparse=False):
        """Return the features of rows after a fit."""
        return check_rows(
            self, X, reset=False, accept_sparse=accept_sparse, in_blocks=True
        )

    def _warned_of_noise(self, said: str) -> Remark:
        """Warn that components may be noise; return the remark about it."""
        warn(said, NoisyFitWarning)
        return Remark(f"{said}.", Concern.NOISE)

    def _check_whitening(self) -> None:
        """Refuse to whiten without variances of the data."""
        if self.whiten:
            _refuse_to_whiten(self._why_no_variances())

    def _score_units(self) -> np.ndarray:
        """Return the divisors of the scores."""
        if not self.whiten:
            return np.ones(self.n_components_)
        # The parameter may have been set after the fit.
        _refuse_to_whiten(why_without_variances(self))
        # A variance may be released as zero, but is not below that across in truth.
        variances = self._model_variances()[0]
        # Where all of them are zero, there is nothing to divide by.
        return np.sqrt(np.where(variances > np.finfo(float).tiny, variances, 1.0))

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
        if self.scale_ is not None:
            components = components / self.scale_
        components = components / self._score_units()[:, None]
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
        if self.scale_ is not None:
            components = components * self.scale_
        components = components * self._score_units()[:, None]
        return X @ components.astype(X.dtype) + self.mean_.astype(X.dtype)

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    # -- what needs variances of the data ----------------------------------------------

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
        ones = np.ones(self.components_.shape[1])
        return ones if self.scale_ is None else self.scale_

    def _unseen(self) -> np.ndarray:
        """Features without a known scale, which are ignored."""
        none = np.zeros(self.components_.shape[1], dtype=np.bool_)
        return getattr(self, "unseen_features_", none)

    def _known_components(self) -> np.ndarray:
        """Components with zeros for features without a known scale."""
        return np.where(self._unseen(), 0.0, self.components_)

    def _axes_of_scores(self) -> np.ndarray:
        """Components that rows are projected on.

        If no feature has a known scale, all are kept: scores would be 0.
        """
        unseen = self._unseen().all()
        return self.components_ if unseen else self._known_components()

    def _is_whole(self) -> bool:
        check_is_fitted(self)
        return hasattr(self, "covariance_")

    @available_if(_has_variances)
    def get_covariance(self):
        r"""Covariance of the data.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            `covariance_` if it was released; otherwise
            :math:`U \Lambda U' + \sigma^2 I` with the released variances, in units of
            the data.
        """
        if self._is_whole():
            return self.covariance_.copy()
        values, noise = self._model_variances()
        components = self._known_components() * self._feature_units()
        out = (components.T * (values - noise)) @ components
        across = noise * self._feature_units() ** 2
        out[np.diag_indices_from(out)] += np.where(self._unseen(), 0.0, across)
        return out

    @available_if(_has_variances)
    def get_correlation(self):
        """Correlation of the features.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            :meth:`get_covariance` divided by the standard deviations of both features,
            with 1 on the diagonal.
        """
        covariance = self.get_covariance()
        deviations = np.sqrt(np.diag(covariance))
        deviations[deviations == 0.0] = 1.0  # of features that are not seen
        out = covariance / deviations / deviations[:, None]
        out[np.diag_indices_from(out)] = 1.0
        return np.clip(out, -1.0, 1.0, out=out)

    @available_if(_has_variances)
    def get_precision(self):
        """Inverse of the covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Inverse of :meth:`get_covariance`.
        """
        if self._is_whole():
            root = self._root_of_precision()
            return root @ root.T
        values, noise = self._model_variances()
        components = self._known_components() / self._feature_units()
        out = (components.T * (1.0 / values - 1.0 / noise)) @ components
        across = 1.0 / (noise * self._feature_units() ** 2)
        out[np.diag_indices_from(out)] += np.where(self._unseen(), 0.0, across)
        return out

    def _root_of_precision(self) -> np.ndarray:
        """Return a matrix R with R R' the precision of a full covariance."""
        # Features may have units of very different size.
        units = np.sqrt(np.diag(self.covariance_))
        values, vectors = np.linalg.eigh(self.covariance_ / np.outer(units, units))
        values = np.maximum(values, len(values) * np.finfo(float).eps)
        return vectors / np.sqrt(values) / units[:, None]

    def _log_volume(self) -> float:
        """Logarithm of the determinant of 2 pi times the covariance."""
        seen = ~self._unseen()
        n_features = int(seen.sum())
        if self._is_whole():
            deviations = np.sqrt(np.diag(self.covariance_))
            scaled = self.covariance_ / np.outer(deviations, deviations)
            log_det = float(np.linalg.slogdet(scaled)[1])
            units = float(np.sum(np.log(deviations)))
        else:
            values, noise = self._model_variances()
            values = values[:n_features]
            log_det = float(np.sum(np.log(values)))
            log_det += (n_features - len(values)) * math.log(noise)
            units = float(np.sum(np.log(self._feature_units()[seen])))
        return log_det + 2.0 * units + n_features * math.log(2.0 * math.pi)

    def _squares(self):
        """Return a function: centered rows -> squared Mahalanobis lengths."""
        if self._is_whole():
            root = self._root_of_precision()

            def squares(rows):
                whitened = rows @ root
                return np.vecdot(whitened, whitened)

            return squares
        (values, noise), units = self._model_variances(), self._feature_units()
        unseen = self._unseen()

        def squares_of_model(rows):
            rows = np.where(unseen, 0.0, rows / units)
            scores = rows @ self.components_.T
            return np.vecdot(rows, rows) / noise + scores**2 @ (1 / values - 1 / noise)

        return squares_of_model

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
        squares = self._squares()
        X = self._read_rows(X)
        return map_rows(lambda block: squares(block - self.mean_), X)

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
        return -0.5 * (self.mahalanobis(X) + self._log_volume())

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
