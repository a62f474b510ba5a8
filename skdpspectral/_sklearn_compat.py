"""The only importer of scikit-learn's private names, and of names that are new."""

import contextlib

from sklearn.utils._param_validation import Interval, StrOptions

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
    from sklearn.callback._callback_support import callback_management_context

    # Calls between a method that is wrapped by with_callbacks and its caller.
    CALLBACK_LEVELS = 1
except ImportError:
    CALLBACK_LEVELS = 0

    class CallbackSupportMixin:
        """Stand-in for versions of scikit-learn without callbacks."""

    def callback_management_context(estimator):
        """Return a context that manages nothing."""
        return contextlib.nullcontext()

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = [
    "CALLBACK_LEVELS",
    "CallbackSupportMixin",
    "Interval",
    "StrOptions",
    "callback_management_context",
    "with_callbacks",
]
