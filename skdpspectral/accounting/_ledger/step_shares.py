"""Shares of one budget between private steps, which release what was charged, once."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

from ...mechanisms import PrivacyPlan
from .._errors import without_warnings

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
    plan of its own, for `n_samples` rows where their number is public, or for those
    of `users`. Copies and clones of a step share it: only one of them can be fitted.
    """

    def __init__(
        self,
        path: str,
        epsilon: float,
        delta: float,
        noise_multiplier: float | None = None,
        charged: PrivacyPlan | None = None,
        n_samples: int | None = None,
        users: Any = None,
    ) -> None:
        self.path, self.epsilon, self.delta = path, epsilon, delta
        self.noise_multiplier, self.charged = noise_multiplier, charged
        self.users = users
        self.plan: PrivacyPlan | None = None  # that of the fit, once it has begun
        self.before: Any = None  # the private step whose output this one is fitted to
        self._n_samples = n_samples
        self._process, self._lock = os.getpid(), threading.Lock()
        self.is_open, self._on_trial = True, False  # while the pipeline is fitted

    def close(self) -> None:
        """End the share: from now on the step has its own budget."""
        self.is_open, self.users = False, None

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
        if self._process != os.getpid():
            raise RuntimeError(
                f"step {self.path!r} is fitted in a different process from its "
                "pipeline, which would repeat a release that was charged once: fit "
                "the pipeline in one process"
            )
        self.check(plan, n_public)
        if self._on_trial:
            raise FormChecked
        with self._lock:
            if self.plan is not None or not self.is_open:
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
        if n_public is not None and self._n_samples not in (None, n_public):
            return f"it has {n_public} rows, but the pipeline has {self._n_samples}"
        mu, planned = plan.mu_beside_curves, charged.mu_beside_curves
        if not mu <= planned * (1.0 + _ROUNDING):
            return f"mu={mu!r} instead of {planned!r}"
        for curve, most in itertools.zip_longest(plan.curves, charged.curves):
            # Of the noise, as much as was planned but for rounding is enough.
            noise = getattr(curve, "noise_multiplier", 0.0)
            planned = getattr(most, "noise_multiplier", math.inf)
            if noise < planned * (1.0 - _ROUNDING):
                return f"its noise multiplier is {noise!r} instead of {planned!r}"
            if replace(curve, name="", noise_multiplier=planned) != replace(
                most, name=""
            ):
                return "it has other samples or steps"
        return ""

    def __copy__(self) -> StepShare:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StepShare:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a share of a pipeline's budget cannot be pickled")
