"""What a mean and a covariance are good for: post-processing of released values."""

from __future__ import annotations

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.covariance import log_likelihood
from sklearn.utils.validation import check_is_fitted

from .._tables.rows import check_rows


class CovarianceModel(OneToOneFeatureMixin, TransformerMixin):
    """The interface of :class:`sklearn.covariance.EmpiricalCovariance`, and whitening.

    The estimator sets `location_` and `covariance_`, which is positive definite, and
    has a parameter `whiten`.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def get_precision(self):
        """Return the inverse of the covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Symmetric.
        """
        check_is_fitted(self)
        values, vectors = np.linalg.eigh(self.covariance_)
        return (vectors / values) @ vectors.T

    @property
    def precision_(self):
        """Inverse of the covariance, of shape (n_features, n_features)."""
        return self.get_precision()

    def _centered(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return np.asarray(X, dtype=np.float64) - self.location_

    def score(self, X, y=None):
        """Mean log-likelihood of rows under the Gaussian of mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; a score on private rows is a release of its own.
        y : None
            Ignored.

        Returns
        -------
        float
            The mean of :meth:`score_samples`.
        """
        X = self._centered(X)
        return float(log_likelihood(X.T @ X / len(X), self.get_precision()))

    def score_samples(self, X):
        """Log-density of each row under the Gaussian of mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            As private as the row.
        """
        distances = self.mahalanobis(X)
        log_volume = np.linalg.slogdet(2.0 * np.pi * self.covariance_)[1]
        return -0.5 * (distances + log_volume)

    def mahalanobis(self, X):
        """Squared Mahalanobis distances of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            At least 0; as private as the row.
        """
        X = self._centered(X)
        return np.einsum("ij,jk,ik->i", X, self.get_precision(), X, optimize=True)

    def error_norm(self, comp_cov, norm="frobenius", scaling=True, squared=True):
        """Distance of the covariance to another one.

        Parameters
        ----------
        comp_cov : array-like of shape (n_features, n_features)
            The other covariance.
        norm : {"frobenius", "spectral"}, default="frobenius"
            Which norm of the difference.
        scaling : bool, default=True
            Whether to divide the squared norm by n_features.
        squared : bool, default=True
            Whether to return the squared norm.

        Returns
        -------
        float
            The distance.
        """
        check_is_fitted(self)
        comp_cov = np.asarray(comp_cov, dtype=np.float64)
        if comp_cov.shape != self.covariance_.shape:
            raise ValueError(
                f"comp_cov must have shape {self.covariance_.shape}, got "
                f"{comp_cov.shape}"
            )
        error = comp_cov - self.covariance_
        if norm not in ("frobenius", "spectral"):
            raise ValueError(f"norm must be 'frobenius' or 'spectral', got {norm!r}")
        length = np.linalg.norm(error, 2 if norm == "spectral" else "fro")
        value = float(length) ** 2 / (len(error) if scaling else 1)
        return value if squared else float(np.sqrt(value))

    def transform(self, X):
        """Center rows, and whiten them with ``whiten=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows of the precision of X, each as private as the row. Whitened by the
            symmetric root (ZCA), so that features keep their meaning.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False)
        if not self.whiten:
            return X - self.location_.astype(X.dtype)
        values, vectors = np.linalg.eigh(self.covariance_)
        root = (vectors / np.sqrt(values)) @ vectors.T
        return X @ root.astype(X.dtype) - (self.location_ @ root).astype(X.dtype)
