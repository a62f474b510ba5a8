"""Scores of rows on released components, and the way back."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._tables.rows import check_rows, check_scores, map_rows
from ._spiked_covariance import why_without_variances


def _refuse_to_whiten(reason: str | None) -> None:
    if reason is not None:
        raise ValueError(f"whiten=True needs variances of the data, but {reason}")


@documented
class ProjectionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators with components, a center and units of features."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _read_rows(self, X, accept_sparse=False):
        """Return the features of rows that are no fit's."""
        return check_rows(
            self, X, reset=False, accept_sparse=accept_sparse, in_blocks=True
        )

    def _check_whitening(self) -> None:
        """Refuse to whiten by variances that a fit with these parameters lacks."""
        if self.whiten:
            _refuse_to_whiten(self._why_no_variances())

    def _score_units(self) -> np.ndarray:
        """What scores are divided by, one for each component."""
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
            Rows, with the column of ids that a fit by `client_feature` had; they are
            neither clipped nor scaled to unit norm. What :meth:`fit` reads block by
            block is read so here too.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Scores, of the precision of X.
        """
        check_is_fitted(self)
        X = self._read_rows(X, accept_sparse=True)
        precision = np.float32 if X.dtype == np.float32 else np.float64
        components = self.components_
        if self.scale_ is not None:
            components = components / self.scale_
        components = components / self._score_units()[:, None]
        offset = (components @ self.mean_).astype(precision)
        axes = components.T.astype(precision)

        def scores(block):
            return np.asarray(block.astype(precision, copy=False) @ axes) - offset

        return map_rows(scores, X)

    def inverse_transform(self, X):
        """Map scores back to the space of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as :meth:`transform` gives them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The nearest points on the affine space of the components.
        """
        check_is_fitted(self)
        X = check_scores(X, self.n_components_)
        components = self.components_
        if self.scale_ is not None:
            components = components * self.scale_
        components = components * self._score_units()[:, None]
        return X @ components.astype(X.dtype) + self.mean_.astype(X.dtype)

    @property
    def _n_features_out(self):
        return self.components_.shape[0]
