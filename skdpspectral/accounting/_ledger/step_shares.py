"""Shares of one budget between private steps, which release what was charged, once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

from ...mechanisms import Assumption, Exact, Gaussian, PrivacyPlan, SampledGaussian
from .._errors import without_warnings
from .context import process_name

# The beginning of the remark of a pipeline's charge. Statements know it by this.
SHARES_OF_STEPS = "Its steps have these shares of the cost (mu**2): "


def is_path_within(path: str, name: Any) -> bool:
    """Return whether a step is another one, or within it."""
    return isinstance(name, str) and (path == name or path.startswith(f"{name}__"))


# Largest relative excess of a cost over what was charged, by rounding.
_ROUNDING = 2.0**-41

# Largest relative difference of a cost from what was charged.
_SAME = 1e-6


class FormChecked(BaseException):
    """Ends a trial of a fit where it would be charged: its data have a valid form."""


class StepShare:
    """One step's part of the charge of a pipeline, for one fit of the step.

    The step plans with `epsilon`, which is infinite without privacy, and `delta`, or
    with a `noise_multiplier` on Poisson samples. It was charged for `planned`, None
    where it releases nothing, beside a probability of `failure`; that charge is for
    `n_samples` rows, where their number is public. Copies and clones of a step have
    the same object, so that only one of them can be fitted.
    """

    def __init__(
        self,
        path: str,
        epsilon: float,
        delta: float,
        planned: Gaussian | Exact | None = None,
        *,
        relation: tuple[Any, Any] | None = None,
        n_samples: int | None = None,
        noise_multiplier: float | None = None,
        seeded: bool = False,
        failure: float = 0.0,
    ) -> None:
        self.path, self.epsilon, self.delta = path, epsilon, delta
        self.noise_multiplier = noise_multiplier
        self.plan: PrivacyPlan | None = None  # that of the fit, once it has begun
        self.before: Any = None  # the private step whose output this one is fitted to
        self.planned, self._relation = planned, relation
        self._n_samples, self._seeded, self._failure = n_samples, seeded, failure
        self._process, self._lock = process_name(), threading.Lock()
        self._closed = self._on_trial = False

    @property
    def is_open(self) -> bool:
        """Whether the fit of the pipeline is in progress."""
        return not self._closed

    def close(self) -> None:
        """End the share: from now on the step has its own budget."""
        self._closed = True

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Let a fit run until it would be charged."""
        self._on_trial = True
        try:
            with contextlib.suppress(FormChecked), without_warnings():
                yield
        finally:
            self._on_trial = False

    def claim(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Use the share for the releases of a fit; raise if they are others."""
        if self._process != process_name():
            raise RuntimeError(
                f"step {self.path!r} is fitted in a different process from its "
                "pipeline, which would repeat a release that was charged once: fit "
                "the pipeline in one process"
            )
        self.check(plan, n_public)
        if self._on_trial:
            raise FormChecked
        with self._lock:
            if self.plan is not None or self._closed:
                raise RuntimeError(
                    f"step {self.path!r} is fitted a second time in one fit of its "
                    "pipeline, which is charged for one: nothing more was released"
                )
            self.plan = plan

    def check(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Raise if a plan differs from the charge."""
        difference = self._difference(plan, n_public)
        if difference:
            raise RuntimeError(
                f"step {self.path!r} would release something other than what was "
                f"charged: {difference}. None of it was released; do not change a "
                "step during the fit of its pipeline"
            )

    def _difference(self, plan: PrivacyPlan, n_public: int | None) -> str:
        """Describe how a plan differs from the charge; "" if it does not."""
        if (plan.unit, plan.neighbors) != self._relation:
            return f"it protects one {plan.unit} under {plan.neighbors}"
        if plan.seeded != self._seeded:
            return "its noise_seed was changed"
        if plan.assumption is not Assumption.NONE:
            return "its guarantee rests on a model of the data"
        if plan.failure != self._failure:
            return f"it may fail with probability {plan.failure!r}"
        known = n_public is not None and self._n_samples is not None
        if known and n_public != self._n_samples:
            return f"it has {n_public} rows, but the pipeline has {self._n_samples}"
        return self._other_cost(plan)

    def _other_cost(self, plan: PrivacyPlan) -> str:
        planned = self.planned
        if planned is None:
            return "it was planned without releases" if plan.mechanisms else ""
        if isinstance(planned, SampledGaussian):
            return self._other_samples(planned, plan)
        if plan.curves:
            return "it has mechanisms that are not Gaussian"
        same = plan.mu == planned.mu  # both infinite without noise
        within = planned.mu * (1.0 - _SAME) <= plan.mu <= planned.mu * (1.0 + _ROUNDING)
        return "" if same or within else f"mu={plan.mu!r} instead of {planned.mu!r}"

    def _other_samples(self, planned: SampledGaussian, plan: PrivacyPlan) -> str:
        """Compare a fit on Poisson samples."""
        found = plan.mechanisms[0] if len(plan.mechanisms) == 1 else None
        if not isinstance(found, SampledGaussian):
            return "it has other mechanisms"
        rate = found.sampling_probability == planned.sampling_probability
        if not rate or found.max_steps != planned.max_steps:
            return "it has other samples or steps"
        # Above what was planned, by the rounding of the stand-in's own noise.
        ratio = found.noise_multiplier / planned.noise_multiplier
        if not 1.0 - _ROUNDING <= ratio <= 1.0 + _SAME:
            return f"its noise multiplier is {ratio!r} times the planned one"
        return ""

    def __copy__(self) -> StepShare:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StepShare:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a share of a pipeline's budget cannot be pickled")
