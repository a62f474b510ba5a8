"""Adam with joint moments, for gradients that any framework hands over.

A private optimization: what it plans, charges, releases and makes of releases.

Running means of released moments, and the steps that Adam makes of them.
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import check_arguments
from .._release.streams import SampledRelease, StreamRelease
from ..accounting import (
    PrivacyAccountant,
    PrivacyLeakWarning,
    calibrate_sampled,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._composition import composed_epsilon
from ..accounting._gaussian import MIN_DELTA
from ..accounting._ledger.context import ambient_accountant
from ..factorizations import Exponential, Factorization, NoiseGain
from ..mechanisms import Assumption, Mechanism, PrivacyPlan
from ..mechanisms._relations import check_count, check_real
from ._gradient_moments import (
    MOMENTS,
    SAMPLINGS,
    GradientMoments,
    Schedule,
    SideBySide,
    decayed_factorization,
)


class RunningMean:
    r"""A mean that forgets by a factor a step, corrected for its beginning.

    Parameters
    ----------
    decay : float
        Factor in [0, 1).
    factorization : Factorization
        What shapes the noise of the rows.
    """

    def __init__(self, decay: float, factorization: Factorization) -> None:
        self._decay = decay
        self._total, self._weight = np.zeros(()), 0.0
        self._gain = None
        if factorization.name != "trivial":
            self._gain = NoiseGain(Exponential(decay), factorization)
        # For unit noise Z: of the sum, of the sum of all rows alone, and of a row.
        self._variance, self._of_rows, self.row_variance = 0.0, 0.0, 1.0

    def advance(self) -> None:
        """Go one step further, without a row."""
        self._total = self._decay * self._total
        self._weight *= self._decay
        if self._gain is None:
            self._variance *= self._decay**2
            return
        before, (core, rows) = self._of_rows, self._gain.push(1)
        self._variance, self._of_rows = float(core[0]), float(rows[0])
        self.row_variance = self._of_rows - self._decay * before

    def push(self, row: np.ndarray) -> np.ndarray:
        """Take the row of the step in, and return the mean."""
        if self._gain is None:
            self._variance += 1.0
        self._weight += 1.0
        self._total = self._total + row
        return self._total / self._weight

    @property
    def noise_gain(self) -> float:
        """Deviation of the mean's noise, for unit noise Z."""
        return math.sqrt(self._variance) / self._weight


class AdamState:
    """Moments of gradients, and the next step.

    Parameters
    ----------
    moments : str
        What is released.
    stds : tuple of float
        Deviations of a step's noise in gradients and in squares, public.
    learning_rate, beta_1, beta_2, adam_stability : float
        As in :class:`~skdpspectral.neural_network.JMEAdam`.
    factorizations : tuple of Factorization
        What shapes the noise of gradients and of squares.
    """

    def __init__(
        self,
        moments: str,
        stds: tuple[float, float],
        *,
        learning_rate: float,
        beta_1: float,
        beta_2: float,
        adam_stability: float,
        factorizations: tuple[Factorization, Factorization],
    ) -> None:
        self._moments, self._stds = moments, stds
        self._learning_rate, self._stability = learning_rate, adam_stability
        self._first = RunningMean(beta_1, factorizations[0])
        self._second = RunningMean(beta_2, factorizations[1])

    def advance(self, n_steps: int = 1) -> None:
        """Go further without releases: those of steps that were lost."""
        for _ in range(n_steps):
            self._first.advance()
            self._second.advance()

    def push(self, gradient: np.ndarray, squares: np.ndarray | None) -> np.ndarray:
        """Take the releases of a step in, and return the increment."""
        self.advance()
        mean = self._first.push(gradient)
        if squares is None:
            squares = np.square(gradient)
            if self._moments == "pp-debiased":
                squares -= self._stds[0] ** 2 * self._first.row_variance
        spread = np.maximum(self._second.push(squares), self.floor)  # in this order
        length = np.sqrt(spread) + self._stability
        step = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0.0)
        return -self._learning_rate * step

    @property
    def floor(self) -> float:
        """Least second moment: the deviation of noise that may take it below 0."""
        if self._moments == "pp":
            return 0.0
        std = self._stds[1]
        if self._moments == "pp-debiased":
            # Of a square of noise, which has two degrees of freedom's worth of it.
            std = math.sqrt(2.0) * self._stds[0] ** 2 * self._first.row_variance
        return std * self._second.noise_gain


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

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return what a fit of the plan cannot be relied on for."""
        return self.moments.caveats(plan)

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


_CONSTRAINTS: dict[str, list] = {
    **CONSTRAINTS,
    **PrivateEstimator._privacy_constraints,
    "clipping": [StrOptions({"optimizer", "caller"})],
}


_UNDRAWN = (
    "step needs the batch that batches() drew last, in this thread, and what was made "
    "of it: iterate over batches(), and call step once for each"
)


_STALE = (
    "batches() was called anew: go on with the batches of the newest call, as each "
    "batch has one step"
)


@documented
class JMEAdam:
    r"""Adam whose two moments of the gradients are released together.

    Each step takes the gradients of one batch, example by example, clips them, and
    releases their sum and the sum of their squares. It returns what is to be added to
    the parameters, which may be those of any model.

    Parameters
    ----------
    n_parameters : int
        Entries of a gradient.
    n_samples : int
        Number of examples, public.
    epsilon : float or None, default=1.0
        Privacy budget of all steps together, positive. None switches privacy off.
    {delta}
    {optimization}
    clipping : {"optimizer", "caller"}, default="optimizer"
        Who clips gradients: :meth:`step` those of single examples that it is handed, or
        whoever calls it, with sums. What one example adds to a sum cannot be seen
        there: the guarantee then has the assumption that the caller clips, in
        `privacy_` and in the ledger.
    learning_rate : float, default=0.001
        Length of a step.
    {adam_decays}
    accountant : PrivacyAccountant or None, default=None
        Ledger that the whole plan is charged to, by the constructor. None takes that of
        the enclosing ``with`` block, if any. It is told of every step, so that a copy
        or a pickle may go on where the last step was: see :meth:`resume`.
    {noise_seed}

    Attributes
    ----------
    privacy_ : PrivacyPlan
        What all steps release and cost.
    n_steps : int
        Number of steps.
    position : int
        Number of steps so far.

    Notes
    -----
    **Formal guarantee.** With batches as :meth:`batches` draws them, each with the
    gradients of its examples alone at the parameters as they are then, all increments
    together are (`epsilon`, `delta`)-differentially private for one example, under
    `neighbors` (:ref:`lemma-gradient-moments`). A gradient must owe nothing to other
    examples of its batch, as by batch normalization; that a framework may round it
    otherwise in other company is outside the guarantee. The second moment is never
    less than the deviation of its noise, which is public. With ``clipping="caller"``
    all of it holds only if sums are as :meth:`step` asks for.

    What is pickled or copied holds noise and the key of the samples: it is as secret as
    the data. Without an accountant it cannot be, before the last step.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Algorithm 2, which squares sums of gradients
    and has no guarantee as it is printed.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.neural_network import JMEAdam
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = X @ [1.0, -1.0, 0.5]
    >>> adam = JMEAdam(3, 4000, batch_size=4000, n_epochs=60, learning_rate=0.1)
    >>> w = np.zeros(3)
    >>> for batch in adam.batches():
    ...     errors = X[batch] @ w - y[batch]
    ...     w += adam.step(errors[:, None] * X[batch], batch)
    >>> bool(np.abs(w - [1.0, -1.0, 0.5]).max() < 0.3)
    True
    """

    def __init__(
        self,
        n_parameters: int,
        n_samples: int,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        noise_multiplier: float | None = None,
        batch_size: int = 256,
        n_epochs: int = 10,
        sampling: str = "poisson",
        clip_norm: float = 1.0,
        moments: str = "jme",
        moment_weight: str | float = "auto",
        factorization: str = "trivial",
        neighbors: str = "replace-one",
        clipping: str = "optimizer",
        learning_rate: float = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        adam_stability: float = 1e-8,
        accountant: PrivacyAccountant | None = None,
        noise_seed=None,
    ) -> None:
        given = dict(locals())
        choices = _checked(given)
        self._n_parameters = check_count("n_parameters", n_parameters)
        n_samples = check_count("n_samples", n_samples)
        self._of_sums = clipping == "caller"
        optimization = Optimization(
            choices, self._n_parameters, n_samples, of_sums=self._of_sums
        )
        budget = math.inf if epsilon is None else check_real("epsilon", epsilon)
        self.privacy_: PrivacyPlan = optimization.plan(
            budget,
            check_real("delta", delta),
            estimator=type(self).__name__,
            seeded=noise_seed is not None,
        )
        self._warn(noise_seed, n_samples, budget)
        if accountant is None:
            ambient = ambient_accountant()
            accountant = None if ambient is None else ambient[0]
        release = optimization.kind(self.privacy_, accountant, noise_seed)
        self._moments = optimization.moments
        self._run = optimization.begin(release)
        self._drawn: _Drawn | None = None
        self._newest: object = None

    def _warn(self, noise_seed, n_samples: int, budget: float) -> None:
        """Say what is not private, in the user's line."""
        epsilon, delta, why = self.privacy_.epsilon, self.privacy_.delta, ""
        if noise_seed is not None:
            why = "has a noise_seed: its steps reveal the data"
        elif math.isinf(budget):
            why = "has no budget: its steps reveal the data"
        elif delta >= 1.0 / n_samples:
            why = (
                f"has delta={delta:g}, at least 1 / n_samples: that would allow "
                "publishing whole rows at random"
            )
        elif epsilon > budget:
            why = (
                f"is private with epsilon={epsilon:.4g}, not {budget:g}: that is what "
                "its noise_multiplier costs"
            )
        if why:
            warnings.warn(f"JMEAdam {why}", PrivacyLeakWarning, stacklevel=3)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self._run.schedule.n_steps

    @property
    def position(self) -> int:
        """Number of steps so far."""
        return self._run.position

    def batches(self) -> Iterator[np.ndarray]:
        """Draw the batch of each step that is left.

        Returns
        -------
        iterator of ndarray of int
            Positions of the batch's examples, in increasing order; there may be none.
            Who is in a sample is secret: use it for its step, and forget it. Whoever
            asks anew before :meth:`step` gets the same batch.

        Raises
        ------
        ValueError
            By the iterator, if no step was made of a batch (one that is empty needs its
            step too), or if there is a newer iterator.
        """
        self._newest = iteration = object()
        return self._batches(iteration)

    def _batches(self, iteration: object) -> Iterator[np.ndarray]:
        while self.position < self.n_steps:
            if self._newest is not iteration:
                raise ValueError(_STALE)
            position = self.position
            batch = self._run.batch()
            self._drawn = _Drawn(position, batch.copy(), threading.get_ident())
            yield batch
            if self.position == position and self._newest is iteration:
                raise ValueError(
                    "step was not called for the last batch: each needs its step, also "
                    "one without examples, whose gradients have shape (0, n_parameters)"
                )

    def step(self, gradients, batch) -> np.ndarray:
        """Release the moments of a batch's gradients, and make the next step.

        Parameters
        ----------
        gradients : array-like of shape (n_batch, n_parameters), or sums
            One gradient for each example of the batch, in order. One with an entry that
            is no number, or beyond 2**100, counts as zero.

            With ``clipping="caller"``: an array of shape (n_parameters,), the sum of
            the batch's clipped gradients over `batch_size`, the expected and not the
            actual number; with ``moments="jme"`` or ``"clip"`` a pair of arrays, that
            one and the same of the squares. Each example's gradient must have been
            multiplied by ``min(1, clip_norm / length)``, where `length` is its norm,
            and its squares by the square of that; with ``"clip"`` both by the same
            factor, where `length` is the norm of the gradient beside the squares times
            ``sqrt(moment_weight) / clip_norm``. A gradient with an entry that is no
            number must be left out: it would take all others with it, as a sum that is
            no number counts as a batch without examples. Lengths and sums are float64,
            and made in it, in any order.
        batch : ndarray of int
            The batch that the gradients are of, as it was drawn: the last one.

        Returns
        -------
        ndarray of shape (n_parameters,)
            What is to be added to the parameters.

        Raises
        ------
        ValueError
            If a shape or type is another one, or this is not the batch that this thread
            drew for this step; nothing was released.
        LedgerError
            If a copy of this optimizer has gone further.
        RuntimeError
            If another thread has, or an earlier step was interrupted.
        """
        drawn = self._drawn
        if drawn is None or not drawn.is_of(batch):
            raise ValueError(_UNDRAWN)
        if self._of_sums:
            sums = _as_sums(gradients, (self._moments.n_sums, self._n_parameters))
            row = functools.partial(self._moments.row_of_sums, sums)
        else:
            gradients = _as_numbers(gradients, (len(drawn.batch), self._n_parameters))
            row = functools.partial(self._moments.row_of_gradients, gradients)
        self._run.claim(drawn.position)
        self._drawn = None
        with np.errstate(all="ignore"):
            return self._run.step(row)

    def close(self) -> None:
        """Forget the noise and the key of the samples: no step is made any more."""
        self._drawn = None
        self._run.release.close()

    def resume(self) -> None:
        """Go to where the ledger has this optimizer; steps between are lost.

        Raises
        ------
        ValueError
            If there is no accountant.
        LedgerError
            If the ledger is behind this copy.
        """
        self._drawn = None
        self._run.resume()


class _Drawn(NamedTuple):
    """A batch that waits for its gradients."""

    position: int
    batch: np.ndarray
    thread: int

    def is_of(self, batch) -> bool:
        """Whether this thread drew it, and this is it."""
        mine = self.thread == threading.get_ident()
        return (
            mine and isinstance(batch, np.ndarray) and np.array_equal(batch, self.batch)
        )


def _checked(given: dict) -> AdamChoices:
    """Return the choices among the arguments of an optimizer, or an error."""
    choices = {name: given[name] for name in AdamChoices.__dataclass_fields__}
    own = ("clipping", *PrivateEstimator._privacy_constraints)
    values = {name: given[name] for name in own}
    check_arguments("JMEAdam", _CONSTRAINTS, choices | values)
    if not given["delta"] >= MIN_DELTA:
        raise ValueError(
            f"delta={given['delta']!r} is below {MIN_DELTA:g}, which float64 noise "
            "cannot honor"
        )
    found = AdamChoices(**choices)
    found.check()
    return found


def _as_numbers(gradients, wanted: tuple[int, int]) -> np.ndarray:
    """Return gradients as an array of a shape, or an error that quotes no value."""
    if np.ma.isMaskedArray(gradients):
        raise ValueError("gradients must not be masked")
    try:
        found = np.asarray(gradients)
    except (TypeError, ValueError):
        found = np.empty(())
    if found.shape != wanted:
        # The size of a sample is secret, as who is in it.
        raise ValueError(
            f"gradients must have shape (n_batch, {wanted[1]}), one row for each "
            "example of the batch that was drawn last"
        )
    if found.dtype.kind not in "fiub":
        raise ValueError(f"gradients must be real numbers, got {found.dtype}")
    return found


def _as_sums(given, wanted: tuple[int, int]) -> np.ndarray:
    """Return sums that a caller has clipped, one a row, or an error."""
    alone = wanted[0] == 1
    parts = (given,) if alone else given
    if not (isinstance(parts, (tuple, list)) and len(parts) == wanted[0]):
        parts = ()
    fitting = [
        isinstance(part, np.ndarray)
        and not np.ma.isMaskedArray(part)
        and (part.shape, part.dtype) == (wanted[1:], np.float64)
        for part in parts
    ]
    if not (fitting and all(fitting)):
        raise ValueError(
            f'with clipping="caller" gradients must be {"" if alone else "a pair of "}'
            f"arrays of shape ({wanted[1]},) and type float64: sums of less precision "
            "have larger errors of rounding than are paid for"
        )
    return np.array(parts)
