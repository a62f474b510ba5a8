"""Methods of a search that its best model has."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def _has(name: str):
    """Return whether the model of a search has a method."""

    def check(search) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return available_if(check)


class BestModel:
    """Hand methods on to ``best_estimator_``."""

    def _best(self):
        check_is_fitted(self, "best_params_")
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} has refit=False, and no best_estimator_: "
                "fit a model with best_params_, or search with refit='winner' or True"
            )
        return self.best_estimator_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        within = get_tags(self.estimator)
        tags.estimator_type = within.estimator_type
        tags.classifier_tags = within.classifier_tags
        tags.regressor_tags = within.regressor_tags
        tags.transformer_tags = within.transformer_tags
        tags.target_tags = within.target_tags
        tags.input_tags = within.input_tags
        return tags

    @_has("predict")
    def predict(self, X):
        """Predict with the best model.

        Parameters
        ----------
        X : array-like
            Rows.

        Returns
        -------
        ndarray
            What its ``predict`` gives.
        """
        return self._best().predict(X)

    @_has("predict_proba")
    def predict_proba(self, X):
        """Predict probabilities with the best model.

        Parameters
        ----------
        X : array-like
            Rows.

        Returns
        -------
        ndarray
            What its ``predict_proba`` gives.
        """
        return self._best().predict_proba(X)

    @_has("decision_function")
    def decision_function(self, X):
        """Return decision values of the best model.

        Parameters
        ----------
        X : array-like
            Rows.

        Returns
        -------
        ndarray
            What its ``decision_function`` gives.
        """
        return self._best().decision_function(X)

    @_has("score_samples")
    def score_samples(self, X):
        """Return scores of rows by the best model; each is as private as its row.

        Parameters
        ----------
        X : array-like
            Rows.

        Returns
        -------
        ndarray
            What its ``score_samples`` gives.
        """
        return self._best().score_samples(X)

    @_has("transform")
    def transform(self, X):
        """Transform rows by the best model.

        Parameters
        ----------
        X : array-like
            Rows.

        Returns
        -------
        ndarray
            What its ``transform`` gives.
        """
        return self._best().transform(X)

    @_has("transform")
    def fit_transform(self, X, y=None):
        """Search, and transform the same rows by the best model.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        ndarray
            What :meth:`transform` gives: as private as the rows.
        """
        return self.fit(X, y).transform(X)

    @_has("inverse_transform")
    def inverse_transform(self, X):
        """Map transformed rows back by the best model.

        Parameters
        ----------
        X : array-like
            Transformed rows.

        Returns
        -------
        ndarray
            What its ``inverse_transform`` gives.
        """
        return self._best().inverse_transform(X)

    @_has("score")
    def score(self, X, y=None):
        """Return the best model's own score, which is exact, and no release.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        float
            What its ``score`` gives: on private rows it is as private as they are.
        """
        best = self._best()
        return best.score(X) if y is None else best.score(X, y)

    @_has("get_feature_names_out")
    def get_feature_names_out(self, input_features=None):
        """Return names of what the best model's ``transform`` makes.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of columns.

        Returns
        -------
        ndarray of str
            The names.
        """
        return self._best().get_feature_names_out(input_features)

    def save(self, path) -> None:
        """Refuse: what was found is saved by itself.

        Parameters
        ----------
        path : str or path-like
            Of no matter.
        """
        check_is_fitted(self)
        raise TypeError(
            "a search is no file of arrays: save best_estimator_, if it is a private "
            "estimator, and keep privacy_.to_json() beside it"
        )

    @property
    def classes_(self):
        """Classes of the best model."""
        return self._best().classes_

    @property
    def n_features_in_(self):
        """Number of columns seen during fit, by the best model."""
        try:
            best = self._best()
        except NotFittedError as error:
            raise AttributeError(
                f"{type(self).__name__} has no attribute n_features_in_ before it has "
                "a fitted model"
            ) from error
        return best.n_features_in_

    @property
    def feature_names_in_(self):
        """Names of columns seen during fit, by the best model."""
        try:
            best = self._best()
        except NotFittedError as error:
            raise AttributeError("there is no fitted model") from error
        return best.feature_names_in_
