"""Private Adam: its parameters, plan, releases and steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

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
from ..factorizations import Factorization
from ..mechanisms import (
    Mechanism,
    PrivacyPlan,
    check_count,
    check_real,
)
from ..sensitivity import free_moment_weight
from ._gradient_moments import (
    MOMENTS,
    SAMPLINGS,
    GradientMoments,
    Schedule,
)


class RunningMean:
    """An exponentially decayed mean with bias correction; `decay` is in [0, 1)."""

    def __init__(self, decay: float) -> None:
        self._decay, self._total = decay, np.zeros(())
        self._weight, self._variance = 0.0, 0.0  # of the total, for unit noise

    def push(self, row: np.ndarray) -> np.ndarray:
        """Add the row of a step, and return the mean."""
        self._total = self._decay * self._total + row
        self._weight = self._decay * self._weight + 1.0
        self._variance = self._decay**2 * self._variance + 1.0
        return self._total / self._weight

    @property
    def noise_gain(self) -> float:
        """Noise scale of the mean, for unit noise of rows."""
        return math.sqrt(self._variance) / self._weight


class AdamState:
    """Moments of gradients, and the next step.

    `stds` are the public standard deviations of a step's noise in gradients and
    squares.
    """

    def __init__(self, adam: Adam, stds: tuple[float, float]) -> None:
        self._adam, self._stds = adam, stds
        self._first, self._second = RunningMean(adam.beta_1), RunningMean(adam.beta_2)

    def push(self, gradient: np.ndarray, squares: np.ndarray | None) -> np.ndarray:
        """Add the releases of a step, and return the update."""
        adam, mean = self._adam, self._first.push(gradient)
        if squares is None:
            squares = np.square(gradient)
            if adam.moments == "pp-debiased":
                squares -= self._stds[0] ** 2
        spread = np.maximum(self._second.push(squares), self.floor)  # in this order
        length = np.sqrt(spread) + adam.stability
        step = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0.0)
        step *= -adam.learning_rate
        most = adam.max_step_norm
        return step if most is None else step * _clipping_factor(step, most)

    @property
    def floor(self) -> float:
        """Public lower bound on the second moment: the scale of its noise."""
        if self._adam.moments == "pp":
            return 0.0
        std = self._stds[1]
        if self._adam.moments == "pp-debiased":
            # Of a square of noise, which has two degrees of freedom's worth of it.
            std = math.sqrt(2.0) * self._stds[0] ** 2
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
    moments : {"jme", "pp", "pp-debiased"}, default="pp"
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
        "stability": [_NOT_NEGATIVE],
        "max_step_norm": [_POSITIVE, None],
        "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
        "sampling": [StrOptions(set(SAMPLINGS))],
        "neighbors": [StrOptions({"replace-one", "zero-out-one"})],
        "noise_multiplier": [_POSITIVE, None],
        "moments": [StrOptions(set(MOMENTS))],
        "moment_weight": [StrOptions({"auto"}), _POSITIVE],
    }

    learning_rate: float = 0.05
    _: KW_ONLY
    beta_1: float = 0.9
    beta_2: float = 0.999
    stability: float = 1e-8
    max_step_norm: float | None = None
    init_seed: int = 0
    sampling: str = "poisson"
    neighbors: str = "replace-one"
    noise_multiplier: float | None = None
    moments: str = "pp"
    moment_weight: float | str = "auto"

    def _check(self) -> None:
        """Refuse parameters without effect."""
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
        return _FREE_WEIGHT if free else _PAID_WEIGHT


class Optimization:
    """All steps of Adam for some parameters and examples, and their releases.

    After :meth:`begin` it is a charged run, after `position` steps.
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
    ):
        adam._check()
        self.adam, self.position = adam, 0
        self.schedule = Schedule(
            n_samples,
            batch_size,
            n_epochs,
            sampling=adam.sampling,
            neighbors=adam.neighbors,
        )
        self.moments = GradientMoments(
            n_parameters,
            self.schedule,
            clip_norm=clip_norm,
            moments=adam.moments,
            moment_weight=adam._weight(self.schedule.sampled),
        )

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all steps within a budget, or at a given noise multiplier.

        Infinite epsilon means no noise. With a noise multiplier, the plan's epsilon is
        its cost at `delta`. `named` has the fields `estimator` and `seeded`.
        """
        mechanisms, epsilon = self._within(epsilon, delta)
        named["neighbors"] = self.schedule.neighbors
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
        rate = self.schedule.rate if self.schedule.sampled else None
        given: dict[str, Any] = {"factorization": Factorization(), "rate": rate}
        return functools.partial(StreamRelease, **given)

    def begin(self, release: Any) -> None:
        """Begin the steps of a charged release."""
        (mechanism,) = release.plan.mechanisms
        self.release = release
        self.state = AdamState(self.adam, self.moments.noise_stds(mechanism))

    def batch(self) -> np.ndarray:
        """Return the examples of the next batch, unchanged until its step."""
        return self.schedule.batch(self.release, self.position)

    def step(self, row: Callable[[], np.ndarray]) -> np.ndarray:
        """Release the batch of a claimed step, and return the update.

        `row` returns the exact row of the batch.
        """
        released = self.moments.run(self.release, row)
        self.position += 1
        p = self.moments.n_parameters
        squares = released[p:] if len(released) > p else None
        return self.state.push(released[:p], squares)


# Parameters that JMEAdam and Adam share.
_SHARED = {k: v for k, v in Adam._parameter_constraints.items() if k != "init_seed"}

_CONSTRAINTS: dict[str, list] = {
    **_SHARED,
    **BATCH_CONSTRAINTS,
    **PrivateEstimator._privacy_constraints,
}

_WRONG_BATCH = (
    "step requires the batch that batches() returned last: iterate over batches(), and "
    "call step once for each batch"
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
    moments : {"jme", "pp", "pp-debiased"}, default="jme"
        {adam_second_moment}
    {adam_moment_weight}
    learning_rate : float, default=0.001
        Length of a step.
    {adam_decays}
    accountant : PrivacyAccountant or None, default=None
        Ledger that the constructor charges for the whole plan. None uses the accountant
        of the enclosing ``with`` block, if any. The ledger records every step, so that
        of all copies and pickles, only the newest continues.
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
    within a framework. `stability` and `max_step_norm` are public numbers.

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
        neighbors: str = "replace-one",
        learning_rate: float = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        stability: float = 1e-8,
        max_step_norm: float | None = None,
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
        optimization = Optimization(
            adam,
            self._n_parameters,
            n_samples,
            batch_size=batch_size,
            n_epochs=n_epochs,
            clip_norm=clip_norm,
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
        optimization.begin(optimization.kind(self.privacy_, accountant, noise_seed))
        self._run = optimization
        # The position of the batch that waits for its gradients, and its examples.
        self._drawn: tuple[int, np.ndarray] | None = None

    def _warn(self, noise_seed, n_samples: int, budget: float) -> None:
        """Warn, with the user's line, if the steps are not private."""
        epsilon, delta = self.privacy_.epsilon, self.privacy_.delta
        reasons = {
            "has a noise_seed: its steps reveal the data": noise_seed is not None,
            "has no budget: its steps reveal the data": math.isinf(budget),
            f"has delta={delta:g}, at least 1 / n_samples: that would allow "
            "publishing whole rows at random": delta >= 1.0 / n_samples,
            f"is private with epsilon={epsilon:.4g}, not {budget:g}: this is what its "
            "noise_multiplier costs": epsilon > budget,
        }
        for why, applies in reasons.items():
            if applies:
                warn(f"JMEAdam {why}", PrivacyLeakWarning)
                return

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
            before :meth:`step` returns the same batch.

        Raises
        ------
        ValueError
            Raised by the iterator if :meth:`step` was not called for a batch.
        """
        while self.position < self.n_steps:
            position, batch = self.position, self._run.batch()
            self._drawn = position, batch.copy()
            yield batch
            if self.position == position:
                raise ValueError(
                    "step was not called for the last batch. A batch without examples "
                    "needs its step too, with gradients of shape (0, n_parameters)"
                )

    def step(self, gradients, batch) -> np.ndarray:
        """Release the moments of the gradients of a batch, and compute the next step.

        Parameters
        ----------
        gradients : array-like of shape (n_batch, n_parameters)
            One gradient per example of the batch, in order. A gradient with an entry
            that is NaN or exceeds 2**100 counts as zero.
        batch : ndarray of int
            Batch of the gradients, as last returned by :meth:`batches`.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Increment to add to the parameters.

        Raises
        ------
        ValueError
            If a shape or type is wrong, or if `batch` is not the batch that was drawn
            last. Nothing is released.
        LedgerError
            If a copy of this optimizer has already made further steps.
        RuntimeError
            If another thread made further steps, or a step was interrupted.
        """
        drawn = self._drawn
        if drawn is None or not np.array_equal(batch, drawn[1]):
            raise ValueError(_WRONG_BATCH)
        gradients = _as_numbers(gradients, (len(drawn[1]), self._n_parameters))
        self._run.release.claim(drawn[0], 1)
        self._drawn = None
        with np.errstate(all="ignore"):
            return self._run.step(
                functools.partial(self._run.moments.row_of_gradients, gradients)
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
