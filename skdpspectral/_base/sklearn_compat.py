"""Private and version-dependent names of scikit-learn, and progress of fits."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in as check_input_features

from ..mechanisms._plan import has_budget

_Method = TypeVar("_Method", bound=Callable[..., Any])

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
    from sklearn.callback._callback_support import callback_management_context

except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    def callback_management_context(estimator):
        """Return a context that manages nothing."""
        return contextlib.nullcontext()

    def _with_callbacks(method):
        """Return the method as it is."""
        return method


def with_callbacks(method: _Method) -> _Method:
    """Decorate a fit to set up callbacks, and to clean up after them."""
    return _with_callbacks(method)


# Where scikit-learn keeps callbacks, and what a meta-estimator hands on.
CALLBACK_ATTRIBUTES = ("_skl_callbacks", "_parent_callback_ctx")


@functools.cache
def parameter_names(cls) -> tuple[str, ...]:
    """Return the cached parameter names of an estimator's class.

    scikit-learn inspects the signature on every access, which would dominate the fit of
    a small table.
    """
    return tuple(BaseEstimator._get_param_names.__func__(cls))


def output_container(transformer) -> str:
    """Return what transform makes: "default", "pandas" or "polars"."""
    return _get_output_config("transform", transformer)["dense"]


__all__ = [
    "CallbackSupportMixin",
    "Interval",
    "StrOptions",
    "callback_management_context",
    "check_input_features",
    "output_container",
    "parameter_names",
    "take_rows",
    "validate_parameter_constraints",
    "with_callbacks",
]

_CHANGED = (
    "epsilon was changed while the fit began, by a callback or by another thread: "
    "callbacks of a private fit may not see the estimator; fit again"
)


class _Counted:
    """A release that reports each call as a step of a fit."""

    def __init__(self, release, progress: FitProgress):
        self._release, self._progress, self._number = release, progress, 0

    def __call__(self, *args, **kwargs):
        released = self._release(*args, **kwargs)
        self._number += 1
        self._progress.step(self._number)
        return released

    def __getattr__(self, name: str):
        return getattr(self._release, name)


class FitProgress:
    """Progress of a fit of at most `max_steps` steps.

    Callbacks of a private fit only see that a step was made: they get neither data nor
    a fitted estimator, and cannot stop it.
    """

    def __init__(self, estimator, max_steps: int, *, private: bool, verbose):
        self._private, self._verbose = private, verbose
        self._name, self._max_steps = type(estimator).__name__, max_steps
        self._data: dict[str, object] = {}
        self._cleanup = contextlib.ExitStack()
        self._shown, self._context = estimator, None
        # Where nobody listens there is nothing to be told.
        if not any(hasattr(estimator, name) for name in CALLBACK_ATTRIBUTES):
            return
        if private:
            self._shown = self._stand_in(estimator)
        self._cleanup.enter_context(callback_management_context(self._shown))
        try:
            self._context = self._shown._init_callback_context(max_subtasks=max_steps)
            if estimator._is_private() and not private:  # before anything is charged
                raise ValueError(_CHANGED)
        except BaseException:
            self._cleanup.close()
            raise

    def _stand_in(self, estimator):
        """Return an unfitted estimator without a ledger for callbacks."""
        shown = clone(estimator).set_params(accountant=None)
        for name in CALLBACK_ATTRIBUTES:
            if hasattr(estimator, name):
                setattr(shown, name, getattr(estimator, name))
        self._cleanup.callback(vars(shown).pop, "_parent_callback_ctx", None)
        return shown

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self._cleanup.__exit__(*error)

    def begin(self, X, y, plan) -> None:
        """Notify callbacks of the start, with X and y only if there is no budget.

        Raises if `plan` has a budget that the estimator did not have before.
        """
        if self._context is not None and has_budget(plan) and not self._private:
            raise ValueError(_CHANGED)
        self._data = {} if self._private else {"X": X, "y": y}
        if self._context is not None:
            self._context.call_on_fit_task_begin(estimator=self._shown, **self._data)

    def step(self, number: int, note: str = "") -> bool:
        """Report a step; return whether to stop, which a private fit never does."""
        if self._verbose:
            print(f"[{self._name}] step {number} of {self._max_steps}{note}")
        if self._context is None:
            return False
        task = self._context.subcontext(task_name="step")
        task.call_on_fit_task_begin(estimator=self._shown, **self._data)
        stop = task.call_on_fit_task_end(estimator=self._shown, **self._data)
        return bool(stop) and not self._private

    def counted(self, release):
        """Return a release whose calls count as steps."""
        return release if self._context is None else _Counted(release, self)

    def moved(self, number: int, distance: float) -> bool:
        """Report a step of an exact fit, and how far it moved."""
        return self.step(number, f": moved by {distance:.3g}")

    def end(self) -> None:
        """Notify callbacks of the end of the fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._shown, **self._data)
