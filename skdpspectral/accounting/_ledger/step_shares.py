"""Shares of one budget between private steps, which release what was charged, once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

from ...mechanisms import PrivacyPlan
from .._errors import without_warnings
from .context import process_name

# The beginning of the remark of a pipeline's charge. Statements know it by this.
SHARES_OF_STEPS = "Its steps have these shares of the cost (mu**2): "


# Largest relative excess of a cost over what was charged, by rounding.
_ROUNDING = 2.0**-41


class FormChecked(BaseException):
    """Ends a trial of a fit where it would be charged: its data have a valid form."""


class StepShare:
    """One step's part of the charge of a pipeline, for one fit of the step.

    The step plans with `epsilon`, which is infinite without privacy, and `delta`, or
    with a `noise_multiplier` on Poisson samples. Its part of what was `charged` is a
    plan of its own, for `n_samples` rows where their number is public. Copies and
    clones of a step have the same object, so that only one of them can be fitted.
    """

    def __init__(
        self,
        path: str,
        epsilon: float,
        delta: float,
        noise_multiplier: float | None = None,
        charged: PrivacyPlan | None = None,
        n_samples: int | None = None,
    ) -> None:
        self.path, self.epsilon, self.delta = path, epsilon, delta
        self.noise_multiplier, self.charged = noise_multiplier, charged
        self.plan: PrivacyPlan | None = None  # that of the fit, once it has begun
        self.before: Any = None  # the private step whose output this one is fitted to
        self._n_samples = n_samples
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
        charged = self.charged
        assert charged is not None
        for name in ("unit", "neighbors", "assumption", "seeded", "failure"):
            found, planned = getattr(plan, name), getattr(charged, name)
            if found != planned:
                return f"{name}={found} instead of {planned}"
        known = n_public is not None and self._n_samples is not None
        if known and n_public != self._n_samples:
            return f"it has {n_public} rows, but the pipeline has {self._n_samples}"
        mu, planned = plan.mu_beside_curves, charged.mu_beside_curves
        if not mu <= planned * (1.0 + _ROUNDING):
            return f"mu={mu!r} instead of {planned!r}"
        own: tuple[Any, ...] = plan.curves
        other: tuple[Any, ...] = charged.curves
        kinds = [
            [replace(c, name="", noise_multiplier=1.0) for c in each]
            for each in (own, other)
        ]
        if kinds[0] != kinds[1]:
            return "it has other samples or steps"
        for curve, most in zip(own, other, strict=True):
            # Above what was planned, by the rounding of the stand-in's own noise.
            if curve.noise_multiplier < most.noise_multiplier * (1.0 - _ROUNDING):
                return f"its noise multiplier is {curve.noise_multiplier!r}"
        return ""

    def __copy__(self) -> StepShare:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StepShare:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a share of a pipeline's budget cannot be pickled")
