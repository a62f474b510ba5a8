"""Scores of rows on released components, and the way back."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._tables.rows import check_rows, check_scores, map_rows


@documented
class ProjectionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators with components, a center and units of features."""

    def _score_units(self) -> np.ndarray:
        """What scores are divided by, one for each component."""
        if not getattr(self, "whiten", False):
            return np.ones(self.n_components_)
        variances = self.explained_variance_
        least = np.finfo(float).eps * max(variances.max(), np.finfo(float).tiny)
        return np.sqrt(np.maximum(variances, least))

    def transform(self, X):
        """Project rows on the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; they are neither clipped nor scaled to unit norm. What
            :meth:`fit` reads block by block is read so here too.

        Returns
        -------
        {scores_out}
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=True, in_blocks=True)
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
