"""A private optimization: what it plans, charges, releases and makes of releases."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._base.sklearn_compat import Interval, StrOptions
from .._release.samples import SampledRelease
from .._release.streams import StreamRelease
from ..accounting import calibrate_sampled, gaussian_epsilon, gaussian_mu
from ..accounting._losses import composed_epsilon
from ..mechanisms import Assumption, Mechanism, PrivacyPlan
from ._adam_state import AdamState
from ._gradient_moments import MOMENTS, GradientMoments
from ._schedule import SAMPLINGS, Schedule, SideBySide, decayed_factorization

_POSITIVE = Interval(Real, 0, 1e60, closed="neither")
_COUNT = Interval(Integral, 1, None, closed="left")
_DECAY = Interval(Real, 0, 1, closed="left")
CONSTRAINTS: dict[str, list] = {
    "moments": [StrOptions(set(MOMENTS))],
    "moment_weight": [StrOptions({"auto"}), _POSITIVE],
    "batch_size": [_COUNT],
    "n_epochs": [_COUNT],
    "sampling": [StrOptions(set(SAMPLINGS))],
    "factorization": [StrOptions({"trivial", "sqrt", "blt", "bisr"})],
    "neighbors": [StrOptions({"replace-one", "zero-out-one"})],
    "noise_multiplier": [_POSITIVE, None],
    "clip_norm": [Interval(Real, 1e-30, 1e60, closed="both")],
    "learning_rate": [_POSITIVE],
    "beta_1": [_DECAY],
    "beta_2": [_DECAY],
    "adam_stability": [Interval(Real, 0, 1e60, closed="left")],
}
# Weights of squares where they cost nothing, and where they do.
_FREE_WEIGHT = 0.5
_PAID_WEIGHT = 0.1

_OF_SUMS = (
    "It is handed sums over examples, which it cannot clip: whoever hands them over "
    "has to clip each example's gradient, to leave out one that is no number, and to "
    "divide by a batch's expected size."
)


@dataclass(frozen=True)
class AdamChoices:
    """Public choices of an optimization by Adam, as its users name them.

    Parameters
    ----------
    batch_size, n_epochs, sampling, neighbors, clip_norm, moments, moment_weight, \
            factorization, noise_multiplier, learning_rate, beta_1, beta_2, \
            adam_stability
        As in :class:`~skdpspectral.neural_network.JMEAdam`.
    """

    batch_size: int
    n_epochs: int
    sampling: str
    neighbors: str
    clip_norm: float
    moments: str
    moment_weight: str | float
    factorization: str
    noise_multiplier: float | None
    learning_rate: float
    beta_1: float
    beta_2: float
    adam_stability: float

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.factorization != "trivial":
            if self.sampling != "in-turn":
                raise ValueError(
                    f"factorization={self.factorization!r} is for batches in turn: "
                    "noise of Poisson samples must be independent; set "
                    'sampling="in-turn"'
                )
            if self.n_epochs != 1:
                raise ValueError(
                    f"factorization={self.factorization!r} needs n_epochs=1: each "
                    "example may be in one batch"
                )
        if self.moments.startswith("pp") and self.moment_weight != "auto":
            raise ValueError(
                f"moment_weight is not used with moments={self.moments!r}, which "
                'releases no squares; leave it at "auto"'
            )

    def weight(self, sampled: bool) -> float:
        """Weight of the squares, for gradients in the unit ball."""
        if self.moment_weight != "auto":
            return float(self.moment_weight)
        free = not sampled and self.neighbors == "replace-one"
        return _FREE_WEIGHT if free and self.moments == "jme" else _PAID_WEIGHT


class Optimization:
    """All that an optimization of some parameters on some examples will do.

    Parameters
    ----------
    choices : AdamChoices
        Public choices.
    n_parameters : int
        Entries of a gradient.
    n_samples : int
        Number of examples, public.
    of_sums : bool, default=False
        Whether gradients are clipped elsewhere, and sums are handed over.
    """

    def __init__(
        self,
        choices: AdamChoices,
        n_parameters: int,
        n_samples: int,
        *,
        of_sums: bool = False,
    ):
        self.choices, self._of_sums = choices, of_sums
        given = (n_samples, choices.batch_size, choices.n_epochs)
        named: dict[str, Any] = {
            "sampling": choices.sampling,
            "neighbors": choices.neighbors,
        }
        self.schedule = Schedule(*given, **named)
        name, steps = choices.factorization, self.schedule.n_steps
        self._parts = (
            decayed_factorization(choices.beta_1, name, steps),
            decayed_factorization(choices.beta_2, name, steps),
        )
        if name != "trivial":
            alone = choices.moments.startswith("pp")
            first, second = self._parts
            shaping: Any = first if alone else SideBySide(first, second)
            self.schedule = Schedule(*given, **named, shaping=shaping)
        self.moments = GradientMoments(
            n_parameters,
            self.schedule,
            clip_norm=choices.clip_norm,
            moments=choices.moments,
            moment_weight=choices.weight(self.schedule.sampled),
            of_sums=of_sums,
        )

    # -- what is planned -------------------------------------------------------------

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all steps within a budget, or with a given noise.

        Parameters
        ----------
        epsilon, delta : float
            The budget; an infinite epsilon for no noise. With a noise multiplier, the
            plan's epsilon is what that costs at `delta`.
        **named : object
            `estimator` and `seeded` of the plan.
        """
        mechanisms, epsilon = self._within(epsilon, delta)
        named["neighbors"] = self.schedule.neighbors
        if self._of_sums:
            named["assumption"] = Assumption.CLIPPED_GRADIENTS
            named["remarks"] = (_OF_SUMS,)
        return PrivacyPlan(epsilon, delta, mechanisms, **named)

    def doubts(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return what a fit of the plan cannot be relied on for."""
        return self.moments.doubts(plan)

    def _within(
        self, epsilon: float, delta: float
    ) -> tuple[tuple[Mechanism, ...], float]:
        given, schedule = self.choices.noise_multiplier, self.schedule
        if math.isinf(epsilon):
            if given is not None:
                raise ValueError(
                    "noise_multiplier asks for noise, and epsilon=None for none: leave "
                    "one of them at its default"
                )
            return self.moments.mechanisms(math.inf), epsilon
        if not schedule.sampled:
            if given is None:
                return self.moments.mechanisms(gaussian_mu(epsilon, delta)), epsilon
            mechanisms = self.moments.mechanisms(self.moments.mu_of(given))
            return mechanisms, gaussian_epsilon(mechanisms[0].mu, delta)
        steps, neighbors = schedule.n_steps, schedule.neighbors
        if given is None:
            sigma = calibrate_sampled(epsilon, delta, schedule.rate, steps, neighbors)
            return self.moments.sampled(sigma), epsilon
        mechanisms = self.moments.sampled(given)
        curve = mechanisms[0].curve(neighbors)  # type: ignore[attr-defined]
        return mechanisms, composed_epsilon(0.0, ((curve, 1),), delta)

    @property
    def kind(self) -> functools.partial:
        """What lets out what is released, to be called with plan and accountant."""
        given: dict[str, Any] = {"factorization": self.schedule.shaping}
        if not self.schedule.sampled:
            return functools.partial(StreamRelease, **given)
        return functools.partial(SampledRelease, rate=self.schedule.rate, **given)

    # -- how it runs -----------------------------------------------------------------

    def begin(self, release: Any) -> AdamRun:
        """Return the run of a release that was charged with the plan."""
        choices = self.choices
        (mechanism,) = release.plan.mechanisms
        state = AdamState(
            choices.moments,
            self.moments.noise_stds(mechanism),
            learning_rate=choices.learning_rate,
            beta_1=choices.beta_1,
            beta_2=choices.beta_2,
            adam_stability=choices.adam_stability,
            factorizations=self._parts,
        )
        return AdamRun(self.schedule, self.moments, release, state)


class AdamRun:
    """One charged optimization, step by step.

    Parameters
    ----------
    schedule : Schedule
        Batches.
    moments : GradientMoments
        What is released of each.
    release : StreamRelease
        What lets it out.
    state : AdamState
        What is made of it.

    Attributes
    ----------
    position : int
        Number of steps so far.
    """

    def __init__(
        self,
        schedule: Schedule,
        moments: GradientMoments,
        release: Any,
        state: AdamState,
    ) -> None:
        self.schedule, self._moments = schedule, moments
        self.release, self._state = release, state
        self.position = 0

    def batch(self) -> np.ndarray:
        """Return who is in the batch of the next step, the same whenever asked."""
        return self.schedule.batch(self.release, self.position)

    def claim(self, position: int, steps: int = 1) -> None:
        """Claim steps after `position`, which nobody else may make."""
        self.release.claim(position, steps)

    def step(self, row: Callable[[], np.ndarray]) -> np.ndarray:
        """Release a batch of a step that was claimed, and return the increment.

        Parameters
        ----------
        row : callable
            Returns the exact row of the batch.

        Returns
        -------
        ndarray of shape (n_parameters,)
            What is to be added to the parameters.
        """
        released = self._moments.run(self.release, row)
        self.position += 1
        p = self._moments.n_parameters
        squares = released[p:] if len(released) > p else None
        return self._state.push(released[:p], squares)

    def resume(self) -> None:
        """Go to where the ledger has this run, without the steps between."""
        position = self.release.resume()
        self._state.advance(position - self.position)
        self.position = position
