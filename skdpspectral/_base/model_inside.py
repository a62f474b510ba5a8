"""Methods of estimators that a fitted model inside answers."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def has_method(name: str):
    """Return a decorator of methods that are there if what is fitted has them."""

    def check(estimator) -> bool:
        estimator._method(name)
        return True

    return available_if(check)


def _answered(name: str, summary: str, result: str, of_outputs: bool = False):
    """Return a method of rows, or `of_outputs`, that the model answers, if it does."""

    def method(self, X, **params):
        asked = ModelInside if of_outputs else type(self)
        model, X, params = asked._asked(self, X, params)
        return getattr(model, name)(X, **params)

    method.__name__ = name
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        X : array-like
            Rows in a form that the fit accepts.
        **params : dict
            Metadata for the steps, if metadata routing is enabled.

        Returns
        -------
        ndarray
            {result}.
        """
    return has_method(name)(method)


def _forwarded(name: str, summary: str) -> property:
    def found(self):
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{name} is there after a fit")
        return getattr(self._fitted(), name)

    return property(found, doc=summary)


class ModelInside:
    """Base class of estimators that keep what they have fitted in `_inside`.

    A subclass has ``_method(name)``, which returns a method of what would be fitted.
    """

    _inside: ClassVar[str]

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return getattr(self, self._inside)

    def _asked(self, X: Any, params: dict) -> tuple[Any, Any, dict]:
        """Return the model, and rows and parameters as its methods take them."""
        return self._fitted(), X, params

    def __sklearn_is_fitted__(self):
        return hasattr(self, self._inside)

    classes_ = _forwarded("classes_", "Classes of the fitted model.")
    n_features_in_ = _forwarded("n_features_in_", "Number of columns seen during fit.")
    feature_names_in_ = _forwarded("feature_names_in_", "Names of columns in fit.")

    predict = _answered("predict", "Predict for rows.", "Predictions")
    predict_proba = _answered(
        "predict_proba", "Return class probabilities.", "Columns as in `classes_`"
    )
    predict_log_proba = _answered(
        "predict_log_proba", "Return log-probabilities.", "Columns as in `classes_`"
    )
    decision_function = _answered(
        "decision_function", "Return decision values.", "Decision values"
    )
    score_samples = _answered(
        "score_samples", "Return scores of rows.", "Scores, each as private as its row"
    )
    transform = _answered(
        "transform", "Transform rows.", "Rows, as private as they were"
    )
    inverse_transform = _answered(
        "inverse_transform", "Map transformed rows back.", "Rows", of_outputs=True
    )

    @has_method("transform")
    def fit_transform(self, X, y=None):
        """Fit, and transform the same rows.

        Parameters
        ----------
        X : array-like
            Rows in a form that the fit accepts.
        y : array-like or None, default=None
            Targets.

        Returns
        -------
        ndarray
            Transformed rows. Each is as private as its original row.
        """
        return self.fit(X, y).transform(X)

    @has_method("score")
    def score(self, X, y=None, **params):
        """Return the exact score of the fitted model, which is not a private release.

        Parameters
        ----------
        X : array-like
            Rows in a form that the fit accepts.
        y : array-like or None, default=None
            Targets.
        **params : dict
            Weights of rows, if the model supports them, and metadata for the steps.

        Returns
        -------
        float
            Score. A score of private rows is as private as these rows.
        """
        model, X, params = self._asked(X, params)
        return model.score(X, *([] if y is None else [y]), **params)

    @has_method("get_feature_names_out")
    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of ``transform``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of columns.

        Returns
        -------
        ndarray of str
            Names of the transformed columns.
        """
        return self._fitted().get_feature_names_out(input_features)
