"""Private and version-dependent names of scikit-learn, and progress of fits."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing as take_rows  # noqa: F401
from sklearn.utils._param_validation import (  # noqa: F401
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import (  # noqa: F401
    _check_feature_names_in as check_input_features,
)

from ..mechanisms._plan import has_budget

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback._callback_support import callback_management_context
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    callback_management_context = contextlib.nullcontext


# Where scikit-learn keeps callbacks, and what a meta-estimator hands on.
CALLBACK_ATTRIBUTES = ("_skl_callbacks", "_parent_callback_ctx")


@functools.cache
def parameter_names(cls) -> tuple[str, ...]:
    """Return parameter names of a class, which scikit-learn would inspect each time."""
    return tuple(BaseEstimator._get_param_names.__func__(cls))


def output_container(transformer) -> str:
    """Return what transform makes: "default", "pandas" or "polars"."""
    return _get_output_config("transform", transformer)["dense"]


class FitProgress:
    """Progress of a fit of at most `max_steps` steps, in lines and for callbacks."""

    def __init__(self, estimator, max_steps: int, context=None):
        self._estimator, self._context = estimator, context
        self._max_steps, self._exact = max_steps, False
        self.data: dict[str, object] = {}

    def begin(self, X, y, plan) -> None:
        """Notify callbacks of the start, with data only if there is no budget."""
        self._exact = not has_budget(plan)
        if self._context is not None:
            self.data = {"X": X, "y": y} if self._exact else {}
            self._context.call_on_fit_task_begin(estimator=self._estimator, **self.data)

    def step(self, number: int, moved: float | None = None) -> bool:
        """Report a step, and how far an exact fit moved; return whether to stop it."""
        if getattr(self._estimator, "verbose", False):
            note = "" if moved is None else f": moved by {moved:.3g}"
            name = type(self._estimator).__name__
            print(f"[{name}] step {number} of {self._max_steps}{note}")
        if self._context is None:
            return False
        task = self._context.subcontext(task_name="step")
        task.call_on_fit_task_begin(estimator=self._estimator, **self.data)
        stop = task.call_on_fit_task_end(estimator=self._estimator, **self.data)
        return bool(stop) and self._exact


@contextlib.contextmanager
def fit_progress(estimator, max_steps: int) -> Iterator[FitProgress]:
    """Set up the callbacks of a long fit, and notify them of its end.

    Callbacks get an unfitted copy of the estimator, without its ledger. They see the
    data, and can stop the fit, only if the charged plan has no budget.
    """
    if not any(hasattr(estimator, name) for name in CALLBACK_ATTRIBUTES):
        yield FitProgress(estimator, max_steps)
        return
    shown = clone(estimator).set_params(accountant=None)
    for name in CALLBACK_ATTRIBUTES:
        if hasattr(estimator, name):
            setattr(shown, name, getattr(estimator, name))
    with callback_management_context(shown):
        context = shown._init_callback_context(max_subtasks=max_steps)
        progress = FitProgress(shown, max_steps, context)
        yield progress
        context.call_on_fit_task_end(estimator=shown, **progress.data)
