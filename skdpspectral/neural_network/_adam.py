"""Private Adam: its parameters, plan, releases and steps."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import check_arguments, register, snapshot
from .._release.streams import StreamRelease
from ..accounting import (
    PrivacyAccountant,
    PrivacyLeakWarning,
    calibrate_sampled,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._composition import composed_epsilon
from ..accounting._errors import warn
from ..accounting._gaussian import check_delta
from ..accounting._ledger.context import ambient_accountant
from ..factorizations import Exponential, Factorization, NoiseGain
from ..mechanisms import (
    Assumption,
    Concern,
    Mechanism,
    PrivacyPlan,
    Remark,
    check_count,
    check_real,
)
from ..sensitivity import free_moment_weight
from ._gradient_moments import (
    MOMENTS,
    SAMPLINGS,
    FactorizationPair,
    GradientMoments,
    Schedule,
    decayed_factorization,
)


class RunningMean:
    """An exponentially decayed mean with bias correction.

    `decay` is a factor in [0, 1); `factorization` shapes the noise of the rows.
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
        """Advance by one step without a row."""
        self._total = self._decay * self._total
        self._weight *= self._decay
        if self._gain is None:
            self._variance *= self._decay**2
            return
        before, (core, rows) = self._of_rows, self._gain.push(1)
        self._variance, self._of_rows = float(core[0]), float(rows[0])
        self.row_variance = self._of_rows - self._decay * before

    def push(self, row: np.ndarray) -> np.ndarray:
        """Add the row of a step, and return the mean."""
        if self._gain is None:
            self._variance += 1.0
        self._weight += 1.0
        self._total = self._total + row
        return self._total / self._weight

    @property
    def noise_gain(self) -> float:
        """Noise scale of the mean, for unit noise Z."""
        return math.sqrt(self._variance) / self._weight


class AdamState:
    """Moments of gradients, and the next step.

    `stds` are the public standard deviations of a step's noise in gradients and
    squares, and `factorizations` shape that noise.
    """

    def __init__(
        self,
        adam: Adam,
        stds: tuple[float, float],
        factorizations: tuple[Factorization, Factorization],
    ) -> None:
        self._moments, self._stds = adam.moments, stds
        given = adam.stability
        if not isinstance(given, AdamStability):
            given = AdamStability(given)
        self._stability, self._learning_rate = given, adam.learning_rate
        self._first = RunningMean(adam.beta_1, factorizations[0])
        self._second = RunningMean(adam.beta_2, factorizations[1])

    def advance(self, n_steps: int = 1) -> None:
        """Skip steps whose releases were lost."""
        for _ in range(n_steps):
            self._first.advance()
            self._second.advance()

    def push(self, gradient: np.ndarray, squares: np.ndarray | None) -> np.ndarray:
        """Add the releases of a step, and return the update."""
        self.advance()
        mean = self._first.push(gradient)
        if squares is None:
            squares = np.square(gradient)
            if self._moments == "pp-debiased":
                squares -= self._stds[0] ** 2 * self._first.row_variance
        spread = np.maximum(self._second.push(squares), self.floor)  # in this order
        length = np.sqrt(spread) + self._stability.constant
        step = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0.0)
        step *= -self._learning_rate
        most = self._stability.max_step_norm
        return step if most is None else step * _clipping_factor(step, most)

    @property
    def floor(self) -> float:
        """Public lower bound on the second moment, by default its noise's scale."""
        if self._stability.floor != "noise":
            return float(self._stability.floor)
        if self._moments == "pp":
            return 0.0
        std = self._stds[1]
        if self._moments == "pp-debiased":
            # Of a square of noise, which has two degrees of freedom's worth of it.
            std = math.sqrt(2.0) * self._stds[0] ** 2 * self._first.row_variance
        return std * self._second.noise_gain


def _clipping_factor(step: np.ndarray, largest: float) -> float:
    """Return the factor, at most 1, that clips a step to a norm."""
    scale = float(np.abs(step).max(initial=0.0))  # squares of entries may overflow
    if not scale > 0.0:
        return 1.0
    return min(1.0, largest / scale / float(np.linalg.norm(step / scale)))


_POSITIVE = Interval(Real, 0, 1e60, closed="neither")
_NOT_NEGATIVE = Interval(Real, 0, 1e60, closed="left")
_COUNT = Interval(Integral, 1, None, closed="left")
_DECAY = Interval(Real, 0, 1, closed="left")

# Constructor parameters of all that is trained by Adam, beside those of `Adam`.
BATCH_CONSTRAINTS: dict[str, list] = {
    "batch_size": [_COUNT],
    "n_epochs": [_COUNT],
    "clip_norm": [Interval(Real, 1e-30, 1e60, closed="both")],
}

# Weights of squares where they cost nothing, and where they do.
_FREE_WEIGHT = free_moment_weight(2)
_PAID_WEIGHT = 0.1

_OF_SUMS = Remark(
    "It receives sums over examples, which it cannot clip: the caller must clip each "
    "example's gradient, leave out gradients that are not numbers, and divide by the "
    "expected size of a batch.",
    Concern.MODEL,
)


@register
@dataclass(eq=False, repr=False)
class AdamStability(BaseEstimator):
    """Bounds on the steps of private Adam.

    A `stability` of :class:`~skdpspectral.neural_network.Adam` and
    :class:`~skdpspectral.neural_network.JMEAdam`. Adam divides each step by the square
    root of the second moment, but a released second moment can be negative. All bounds
    are public and applied to released values, so they cost no privacy.

    Parameters
    ----------
    constant : float, default=1e-8
        Non-negative number that is added to the square root of the second moment.
    floor : "noise" or float, default="noise"
        Lower bound on the second moment under the square root. "noise" uses the
        standard deviation of its noise, and 0 with ``moments="pp"``, which cannot be
        negative. With 0.0, a negative second moment counts as zero, so the step is
        divided by `constant` only. A positive value and ``constant=0.0`` give
        DP-AdamBC.
    max_step_norm : float or None, default=None
        Norm at which each increment, including the learning rate, is clipped. None does
        not clip.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Algorithm 2 and Table 3, which clip updates
    but do not specify how to treat a negative second moment.

    Tang, Shpilevskiy and Lecuyer (2024), DP-AdamBC: Your DP-Adam is actually DP-SGD.

    Examples
    --------
    >>> from skdpspectral import DPAdamClassifier
    >>> from skdpspectral.neural_network import Adam, AdamStability
    >>> stability = AdamStability(1e-6, floor=0.0, max_step_norm=1.0)
    >>> model = DPAdamClassifier(optimizer=Adam(stability=stability))
    >>> model.set_params(optimizer__stability__floor="noise").optimizer.stability
    AdamStability(constant=1e-06, max_step_norm=1.0)
    """

    _parameter_constraints: ClassVar[dict] = {
        "constant": [_NOT_NEGATIVE],
        "floor": [StrOptions({"noise"}), _NOT_NEGATIVE],
        "max_step_norm": [_POSITIVE, None],
    }

    constant: float = 1e-8
    _: KW_ONLY
    floor: float | str = "noise"
    max_step_norm: float | None = None


@register
@documented
@dataclass(eq=False, repr=False)
class Adam(BaseEstimator):
    r"""Private Adam: steps, sampling and noise of the optimizer.

    An `optimizer` of :class:`~skdpspectral.DPAdamClassifier` and
    :class:`~skdpspectral.DPAdamRegressor`. All of it is public.

    Parameters
    ----------
    learning_rate : float, default=0.05
        Length of a step, positive.
    {adam_decays}
    init_seed : int, default=0
        Public seed of the initial weights of hidden layers. All other parameters start
        at 0.
    {adam_noise}
    moments : {"jme", "jme-batch", "pp", "pp-debiased", "clip"}, default="pp"
        {adam_second_moment}
    {adam_moment_weight}

    See Also
    --------
    skdpspectral.neural_network.JMEAdam : The same optimizer for models of any
        framework.

    Examples
    --------
    >>> from skdpspectral import DPAdamClassifier
    >>> from skdpspectral.neural_network import Adam
    >>> model = DPAdamClassifier(optimizer=Adam(learning_rate=0.02, moments="jme"))
    >>> model.set_params(optimizer__learning_rate=0.1).optimizer
    Adam(learning_rate=0.1, moments='jme')
    """

    _parameter_constraints: ClassVar[dict] = {
        "learning_rate": [_POSITIVE],
        "beta_1": [_DECAY],
        "beta_2": [_DECAY],
        "stability": [_NOT_NEGATIVE, AdamStability],
        "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
        "sampling": [StrOptions(set(SAMPLINGS))],
        "neighbors": [StrOptions({"replace-one", "zero-out-one"})],
        "noise_multiplier": [_POSITIVE, None],
        "factorization": [StrOptions({"trivial", "sqrt", "blt", "bisr"})],
        "moments": [StrOptions(set(MOMENTS))],
        "moment_weight": [StrOptions({"auto"}), _POSITIVE],
    }

    learning_rate: float = 0.05
    _: KW_ONLY
    beta_1: float = 0.9
    beta_2: float = 0.999
    stability: float | AdamStability = 1e-8
    init_seed: int = 0
    sampling: str = "poisson"
    neighbors: str = "replace-one"
    noise_multiplier: float | None = None
    factorization: str = "trivial"
    moments: str = "pp"
    moment_weight: float | str = "auto"

    def _check(self, n_epochs: int) -> None:
        """Refuse parameters without effect, and invalid combinations."""
        if self.factorization != "trivial":
            if self.sampling != "in-turn":
                raise ValueError(
                    f"factorization={self.factorization!r} requires "
                    'sampling="in-turn": noise of Poisson samples must be independent'
                )
            if n_epochs != 1:
                raise ValueError(
                    f"factorization={self.factorization!r} requires n_epochs=1: each "
                    "example may be in one batch only"
                )
        if self.moments.startswith("pp") and self.moment_weight != "auto":
            raise ValueError(
                f"moment_weight is not used with moments={self.moments!r}, which "
                'releases no squares; leave it at "auto"'
            )

    def _weight(self, sampled: bool) -> float:
        """Weight of the squares, for gradients in the unit ball."""
        if self.moment_weight != "auto":
            return float(self.moment_weight)
        free = not sampled and self.neighbors == "replace-one"
        return _FREE_WEIGHT if free and self.moments == "jme" else _PAID_WEIGHT


class Optimization:
    """All steps of Adam for some parameters and examples, and their releases.

    With `of_sums`, gradients are clipped and summed by the caller.
    """

    def __init__(
        self,
        adam: Adam,
        n_parameters: int,
        n_samples: int,
        *,
        batch_size: int,
        n_epochs: int,
        clip_norm: float,
        of_sums: bool = False,
    ):
        adam._check(n_epochs)
        self.adam, self._of_sums = adam, of_sums
        given = (n_samples, batch_size, n_epochs)
        named: dict[str, Any] = {"sampling": adam.sampling, "neighbors": adam.neighbors}
        self.schedule = Schedule(*given, **named)
        name, steps = adam.factorization, self.schedule.n_steps
        self._parts = (
            decayed_factorization(adam.beta_1, name, steps),
            decayed_factorization(adam.beta_2, name, steps),
        )
        if name != "trivial":
            alone = adam.moments.startswith("pp")
            first, second = self._parts
            shaping: Any = first if alone else FactorizationPair(first, second)
            self.schedule = Schedule(*given, **named, shaping=shaping)
        self.moments = GradientMoments(
            n_parameters,
            self.schedule,
            clip_norm=clip_norm,
            moments=adam.moments,
            moment_weight=adam._weight(self.schedule.sampled),
            of_sums=of_sums,
        )

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all steps within a budget, or at a given noise multiplier.

        Infinite epsilon means no noise. With a noise multiplier, the plan's epsilon is
        its cost at `delta`. `named` has the fields `estimator` and `seeded`.
        """
        mechanisms, epsilon = self._within(epsilon, delta)
        named["neighbors"] = self.schedule.neighbors
        if self._of_sums:
            named["assumption"] = Assumption.CLIPPED_GRADIENTS
            named["remarks"] = (_OF_SUMS,)
        return PrivacyPlan(epsilon, delta, mechanisms, **named)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings about a fit of the plan."""
        return self.moments.caveats(plan)

    def _within(
        self, epsilon: float, delta: float
    ) -> tuple[tuple[Mechanism, ...], float]:
        given, schedule = self.adam.noise_multiplier, self.schedule
        if math.isinf(epsilon):
            if given is not None:
                raise ValueError(
                    "noise_multiplier must be None with epsilon=None, which switches "
                    "noise off"
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
        """Constructor of the release, to be called with plan, accountant and seed."""
        given: dict[str, Any] = {"factorization": self.schedule.shaping}
        if not self.schedule.sampled:
            return functools.partial(StreamRelease, **given)
        return functools.partial(StreamRelease, rate=self.schedule.rate, **given)

    def begin(self, release: Any) -> AdamRun:
        """Return the run of a charged release."""
        (mechanism,) = release.plan.mechanisms
        stds = self.moments.noise_stds(mechanism)
        state = AdamState(self.adam, stds, self._parts)
        return AdamRun(self.schedule, self.moments, release, state)


@dataclass
class AdamRun:
    """One charged optimization, after `position` steps."""

    schedule: Schedule
    moments: GradientMoments
    release: Any
    state: AdamState
    position: int = 0

    def batch(self) -> np.ndarray:
        """Return the examples of the next batch, unchanged until its step."""
        return self.schedule.batch(self.release, self.position)

    def claim(self, position: int, steps: int = 1) -> None:
        """Claim steps after `position`, so that no copy can perform them."""
        self.release.claim(position, steps)

    def step(self, row: Callable[[], np.ndarray]) -> np.ndarray:
        """Release the batch of a claimed step, and return the update.

        `row` returns the exact row of the batch.
        """
        released = self.moments.run(self.release, row)
        self.position += 1
        p = self.moments.n_parameters
        squares = released[p:] if len(released) > p else None
        return self.state.push(released[:p], squares)

    def resume(self) -> None:
        """Skip to the position in the ledger; steps in between are lost."""
        position = self.release.resume()
        self.state.advance(position - self.position)
        self.position = position


# Parameters that JMEAdam and Adam share.
_SHARED = {k: v for k, v in Adam._parameter_constraints.items() if k != "init_seed"}

_CONSTRAINTS: dict[str, list] = {
    **_SHARED,
    **BATCH_CONSTRAINTS,
    **PrivateEstimator._privacy_constraints,
    "clipping": [StrOptions({"optimizer", "caller"})],
}

_WRONG_BATCH = (
    "step requires the batch that batches() returned last in this thread: iterate over "
    "batches(), and call step once for each batch"
)

_OLD_ITERATOR = (
    "batches() was called again: use the batches of the latest call, as each batch has "
    "one step"
)


@documented
class JMEAdam:
    r"""Adam with jointly released first and second moments of the gradients.

    Each step clips the per-example gradients of one batch, and releases their sum and
    the sum of their squares. It returns an increment of the parameters of your model,
    which can use any framework.

    Parameters
    ----------
    n_parameters : int
        Number of entries of a gradient.
    n_samples : int
        Number of examples, public.
    epsilon : float or None, default=1.0
        Privacy budget of all steps together, positive. None switches privacy off.
    {delta}
    {adam_batches}
    {adam_noise}
    moments : {"jme", "jme-batch", "pp", "pp-debiased", "clip"}, default="jme"
        {adam_second_moment}
    {adam_moment_weight}
    clipping : {"optimizer", "caller"}, default="optimizer"
        Where gradients are clipped. "optimizer": :meth:`step` clips the gradient of
        each example. "caller": :meth:`step` receives sums of clipped gradients. The
        guarantee then assumes correct clipping, as `privacy_` and the ledger state.
    learning_rate : float, default=0.001
        Length of a step.
    {adam_decays}
    accountant : PrivacyAccountant or None, default=None
        Ledger that the constructor charges for the whole plan. None uses the accountant
        of the enclosing ``with`` block, if any. The ledger records every step, so that
        a copy or a pickle can continue after the last step: see :meth:`resume`.
    {noise_seed}

    Attributes
    ----------
    privacy_ : PrivacyPlan
        Releases and cost of all steps.
    n_steps : int
        Number of steps.
    position : int
        Number of completed steps.

    Notes
    -----
    **Formal guarantee.** All increments together are (`epsilon`,
    `delta`)-differentially private for one example, under `neighbors`
    (:ref:`lemma-gradient-moments`). Each batch must come from :meth:`batches`, and each
    step must receive the gradients of only these examples at the current parameters. A
    gradient must not depend on other examples of its batch, as it does with batch
    normalization. The guarantee does not cover rounding that depends on the batch
    within a framework. `stability` bounds steps by public numbers. With
    ``clipping="caller"``, the guarantee also requires that sums are formed as
    :meth:`step` describes.

    Pickles and copies contain noise and the key of the samples, and are as secret as
    the data. Without an accountant, they cannot be made before the last step.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Algorithm 2, which squares sums of gradients
    and has no guarantee as printed.

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
        stability: float | AdamStability = 1e-8,
        accountant: PrivacyAccountant | None = None,
        noise_seed=None,
    ) -> None:
        given = dict(locals())
        check_arguments("JMEAdam", _CONSTRAINTS, {k: given[k] for k in _CONSTRAINTS})
        check_delta(delta)
        # A copy, as strategies may be changed while steps are made.
        adam = snapshot(Adam(**{name: given[name] for name in _SHARED}))
        self._n_parameters = check_count("n_parameters", n_parameters)
        n_samples = check_count("n_samples", n_samples)
        self._of_sums = clipping == "caller"
        optimization = Optimization(
            adam,
            self._n_parameters,
            n_samples,
            batch_size=batch_size,
            n_epochs=n_epochs,
            clip_norm=clip_norm,
            of_sums=self._of_sums,
        )
        budget = math.inf if epsilon is None else check_real("epsilon", epsilon)
        self.privacy_: PrivacyPlan = optimization.plan(
            budget,
            float(delta),
            estimator=type(self).__name__,
            seeded=noise_seed is not None,
        )
        self._warn(noise_seed, n_samples, budget)
        if accountant is None:
            accountant = ambient_accountant()
        release = optimization.kind(self.privacy_, accountant, noise_seed)
        self._moments = optimization.moments
        self._run = optimization.begin(release)
        self._drawn: _DrawnBatch | None = None
        self._newest: object = None

    def _warn(self, noise_seed, n_samples: int, budget: float) -> None:
        """Warn, with the user's line, if the steps are not private."""
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
                f"is private with epsilon={epsilon:.4g}, not {budget:g}: this is what "
                "its noise_multiplier costs"
            )
        if why:
            warn(f"JMEAdam {why}", PrivacyLeakWarning)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self._run.schedule.n_steps

    @property
    def position(self) -> int:
        """Number of completed steps."""
        return self._run.position

    def batches(self) -> Iterator[np.ndarray]:
        """Draw the batch of each remaining step.

        Returns
        -------
        iterator of ndarray of int
            Positions of the examples of each batch, in increasing order; a batch may be
            empty. Samples are secret: use a batch only for its own step. A new call
            before :meth:`step` returns the same batch. Use one iterator at a time,
            because :meth:`step` recognizes a batch by its positions. If all batches
            have the same positions, as with ``batch_size=n_samples``, :meth:`step` also
            accepts gradients for a batch of an older iterator, as one step at the same
            cost.

        Raises
        ------
        ValueError
            Raised by the iterator if :meth:`step` was not called for a batch, or if
            there is a newer iterator.
        """
        self._newest = iteration = object()
        return self._batches(iteration)

    def _batches(self, iteration: object) -> Iterator[np.ndarray]:
        while self.position < self.n_steps:
            if self._newest is not iteration:
                raise ValueError(_OLD_ITERATOR)
            position = self.position
            batch = self._run.batch()
            self._drawn = _DrawnBatch(position, batch.copy(), threading.get_ident())
            yield batch
            if self.position == position and self._newest is iteration:
                raise ValueError(
                    "step was not called for the last batch. A batch without examples "
                    "needs its step too, with gradients of shape (0, n_parameters)"
                )

    def step(self, gradients, batch) -> np.ndarray:
        """Release the moments of the gradients of a batch, and compute the next step.

        Parameters
        ----------
        gradients : array-like of shape (n_batch, n_parameters), or sums
            One gradient per example of the batch, in order. A gradient with an entry
            that is NaN or exceeds 2**100 counts as zero.

            With ``clipping="caller"``, pass an array of shape (n_parameters,): the sum
            of the clipped gradients of the batch, divided by `batch_size`, the expected
            number of examples rather than the actual one. With ``moments="jme"`` or
            ``"clip"``, pass a pair of arrays, where the second is the same sum for the
            squares. Multiply each gradient by ``min(1, clip_norm / length)``, where
            `length` is its norm, and its squares by the square of this factor. With
            ``"clip"``, multiply both by the same factor, where `length` is the norm of
            the gradient concatenated with its squares times
            ``sqrt(moment_weight) / clip_norm``. Leave out gradients with NaN: a sum
            with NaN counts as a batch without examples, which would discard all other
            gradients. Compute lengths and sums in float64, in any order.
        batch : ndarray of int
            Batch of the gradients, as last returned by :meth:`batches`.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Increment to add to the parameters.

        Raises
        ------
        ValueError
            If a shape or type is wrong, or if `batch` is not the batch that this thread
            drew for this step. Nothing is released.
        LedgerError
            If a copy of this optimizer has already made further steps.
        RuntimeError
            If another thread made further steps, or a step was interrupted.
        """
        drawn = self._drawn
        if drawn is None or not drawn.is_of(batch):
            raise ValueError(_WRONG_BATCH)
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
        """Delete the noise and the key of the samples; no further step is possible."""
        self._drawn = None
        self._run.release.close()

    def resume(self) -> None:
        """Continue at the position recorded in the ledger; steps in between are lost.

        Raises
        ------
        ValueError
            If there is no accountant.
        LedgerError
            If this copy has made more steps than the ledger records.
        """
        self._drawn = None
        self._run.resume()


class _DrawnBatch(NamedTuple):
    """A batch that is waiting for its gradients."""

    position: int
    batch: np.ndarray
    thread: int

    def is_of(self, batch) -> bool:
        """Return whether this thread drew this batch."""
        mine = self.thread == threading.get_ident()
        return (
            mine and isinstance(batch, np.ndarray) and np.array_equal(batch, self.batch)
        )


def _as_numbers(gradients, wanted: tuple[int, int]) -> np.ndarray:
    """Return gradients as an array of a shape; errors quote no value."""
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
    """Return sums clipped by the caller as an array, one per row."""
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
            'with clipping="caller" gradients must be '
            f"{'' if alone else 'a pair of '}arrays of shape ({wanted[1]},) and type "
            "float64: sums of lower precision have larger rounding errors than the "
            "noise accounts for"
        )
    return np.array(parts)
