"""The only importer of scikit-learn's private names, and of names that are new."""

import contextlib
import functools

from sklearn.base import BaseEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
    from sklearn.callback._callback_support import callback_management_context

    # Calls between a method that is wrapped by with_callbacks and its caller.
    CALLBACK_LEVELS = 1
except ImportError:
    CALLBACK_LEVELS = 0

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    def callback_management_context(estimator):
        """Return a context that manages nothing."""
        return contextlib.nullcontext()

    def with_callbacks(method):
        """Return the method as it is."""
        return method


@functools.cache
def parameter_names(cls) -> tuple[str, ...]:
    """Return the parameters of an estimator's class.

    scikit-learn inspects the signature whenever a parameter is read, which takes
    longer than anything else in the fit of a small table.
    """
    return tuple(BaseEstimator._get_param_names.__func__(cls))


def output_container(transformer) -> str:
    """Return what transform makes: "default", "pandas" or "polars"."""
    return _get_output_config("transform", transformer)["dense"]


def taken_rows(X, positions):
    """Return some rows of a table of any kind; None of None."""
    return None if X is None else _safe_indexing(X, positions)


def check_input_features(estimator, input_features):
    """Return names of the columns of X, checked against those of fit."""
    return _check_feature_names_in(estimator, input_features)


__all__ = [
    "CALLBACK_LEVELS",
    "BaseSearchCV",
    "CallbackSupportMixin",
    "Interval",
    "StrOptions",
    "callback_management_context",
    "check_input_features",
    "output_container",
    "parameter_names",
    "taken_rows",
    "validate_parameter_constraints",
    "with_callbacks",
]
