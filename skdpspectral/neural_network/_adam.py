"""Private Adam: its parameters, batches, plan, sums of gradients, and steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .. import sensitivity
from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import check_arguments, register, snapshot
from .._release.noise import StreamRelease, attainable_rate, public_order
from ..accounting import (
    PrivacyAccountant,
    PrivacyLeakWarning,
    calibrate_sampled,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._composition import composed_epsilon, sampled_gaussian
from ..accounting._errors import warn
from ..accounting._gaussian import calibrate_alike, check_delta
from ..accounting._ledger.context import ambient_accountant
from ..factorizations import Factorization
from ..mechanisms import Mechanism, Neighbors, PrivacyPlan, check_count, check_real
from ._kernels import LARGEST, SUMMED, Factors

MOMENTS = ("jme", "pp", "pp-debiased")
# Chances of more steps, each its share of delta, vanish in float64.
_MOST_STEPS = 10**9
# Weights of squares where they cost nothing, and where they do.
_FREE_WEIGHT, _PAID_WEIGHT = sensitivity.free_moment_weight(2), 0.1


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
    """Moments of gradients, whose noise has public deviations, and the next step."""

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
        return step

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
    beta_1 : float, default=0.9
        Decay of the first moment, in [0, 1).
    beta_2 : float, default=0.999
        Decay of the second moment, in [0, 1).
    stability : float, default=1e-8
        Non-negative number that is added to the square root of the second moment. A
        released second moment can be negative; it is raised to at least the
        standard deviation of its noise, which is public.
    sampling : {"poisson", "in-turn"}, default="poisson"
        "poisson": each example joins each batch independently, which lowers the
        privacy cost. "in-turn": each example is in one batch per epoch, in a public
        order.
    neighbors : {"replace-one", "zero-out-one"}, default="replace-one"
        What the guarantee hides: the values of one example ("replace-one"), or
        whether that example contributes at all ("zero-out-one").
    noise_multiplier : float or None, default=None
        Standard deviation of the noise, in units of the largest norm that one
        example can contribute to a step. None uses the smallest value that
        `epsilon` and `delta` allow. Otherwise `epsilon` is ignored, and
        ``privacy_.epsilon`` is the cost at `delta`. A number raises an error with
        ``epsilon=None``, which asks for no noise.
    moments : {"jme", "pp", "pp-debiased"}, default="pp"
        How the second moment is computed. "pp" squares the released mean, as in the
        usual private Adam. "pp-debiased" also subtracts the variance of the noise.
        "jme" releases the squares of the clipped gradients of single examples, with a
        weight of 0.5 relative to the gradients, for gradients in the unit ball, where
        the squares are free (under "replace-one", unless samples are drawn), and of 0.1
        otherwise.

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
        "sampling": [StrOptions({"poisson", "in-turn"})],
        "neighbors": [StrOptions({"replace-one", "zero-out-one"})],
        "noise_multiplier": [_POSITIVE, None],
        "moments": [StrOptions(set(MOMENTS))],
    }

    learning_rate: float = 0.05
    _: KW_ONLY
    beta_1: float = 0.9
    beta_2: float = 0.999
    stability: float = 1e-8
    sampling: str = "poisson"
    neighbors: str = "replace-one"
    noise_multiplier: float | None = None
    moments: str = "pp"


class Optimization:
    """All steps of Adam for some parameters and examples, and their releases."""

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
        self.adam, self.position, self.n_samples = adam, 0, n_samples
        self.neighbors, size = Neighbors(adam.neighbors), min(batch_size, n_samples)
        whole = batch_size >= n_samples
        self.sampled = adam.sampling == "poisson" and not whole
        self.rate = attainable_rate(size / n_samples) if self.sampled else 1.0
        # Sums are divided by the public size, whatever number a batch has.
        self.batch_size, self._n_epochs = float(size), n_epochs
        self.largest_batch = n_samples if self.sampled else size
        self._in_epoch = math.ceil(n_samples / size)
        self.n_steps = n_epochs * self._in_epoch
        if self.n_steps > _MOST_STEPS:
            raise ValueError(
                f"n_epochs={n_epochs} in batches of batch_size={batch_size} are "
                f"{self.n_steps:.0e} steps: at most {_MOST_STEPS:.0e} are supported; "
                "choose fewer epochs or larger batches"
            )
        # The same for any data of that shape: rows may be sorted.
        in_turn = not (self.sampled or whole)
        self._order = public_order(n_samples) if in_turn else None
        self.n_parameters, self.clip_norm = n_parameters, float(clip_norm)
        free = not self.sampled and self.neighbors is Neighbors.REPLACE_ONE
        weight = _FREE_WEIGHT if free else _PAID_WEIGHT
        # The weight of squares in the unit ball at which both sums have the same noise.
        self.nu = weight if adam.moments == "jme" else 0.0
        self.weight = math.sqrt(self.nu) / self.clip_norm
        self.shape = (n_parameters * (2 if self.weight else 1),)
        # Of norms: those that are computed are off by less, in whatever order the
        # squares of entries are summed.
        self._room = (n_parameters + 64) * 2.0**-51

    # -- plan --------------------------------------------------------------------------

    def moved(self, neighbors: Neighbors) -> float:
        """Return how far one example moves the row of one step."""
        size, p = self.batch_size, self.n_parameters
        return sensitivity.gradient_moments_sensitivity(
            self.clip_norm, size, self.nu, p, neighbors
        )

    @property
    def added(self) -> float:
        """Change of a step's row when an example joins it."""
        return self.moved(Neighbors.ZERO_OUT_ONE)

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all steps in a budget, or at a noise multiplier, whose cost it has."""
        given, neighbors = self.adam.noise_multiplier, self.neighbors
        if math.isinf(epsilon):
            if given is not None:
                raise ValueError(
                    "noise_multiplier must be None with epsilon=None, which switches "
                    "noise off"
                )
            mechanisms = self._in_turn(math.inf)
        elif not self.sampled and given is None:
            mechanisms = self._in_turn(gaussian_mu(epsilon, delta))
        elif not self.sampled:
            # Relative to the change of a step when an example joins it.
            moved = self.moved(neighbors) * math.sqrt(self._n_epochs)
            mechanisms = self._in_turn(moved / (self.added * given))
            epsilon = gaussian_epsilon(mechanisms[0].mu, delta)
        elif given is None:
            how = self.rate, self.n_steps, neighbors
            mechanisms = (self.sampled_step(calibrate_sampled(epsilon, delta, *how)),)
        else:
            mechanisms = (self.sampled_step(given),)
            curve = mechanisms[0].curve(neighbors)  # type: ignore[attr-defined]
            epsilon = composed_epsilon(0.0, ((curve, 1),), delta)
        return PrivacyPlan(epsilon, delta, mechanisms, neighbors=neighbors, **named)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return no warnings: those of networks are of their sizes."""
        return ()

    def _fields(self) -> dict[str, Any]:
        """Return the rounding error, and a bound on the norm of a row."""
        n = self.largest_batch
        # Every entry is a sum over the examples of a batch, however many they are.
        bound = sensitivity.gradient_norm(self.clip_norm, self.nu) * n / self.batch_size
        # Lengths may be off by the room that is left for them, and factors with them.
        error = sensitivity.summation_error(bound, n, SUMMED) + bound * self._room
        return {
            "summation_error": error,
            "magnitude": bound,
            "lemma": "gradient-moments",
        }

    def _in_turn(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all steps of batches in turn at a cost of mu; infinite for no noise."""
        # An example affects one row per epoch, whose noise is independent.
        often = math.sqrt(self._n_epochs)
        return calibrate_alike(
            ["gradients"],
            self.moved(self.neighbors),
            mu,
            self.shape,
            correlation={"column_norm": often, "max_steps": self.n_steps},
            **self._fields(),
        )

    def sampled_step(self, noise_multiplier: float) -> Mechanism:
        """Plan all steps on Poisson samples, at a noise multiplier."""
        return sampled_gaussian(
            "gradients",
            self.added,
            noise_multiplier,
            self.shape,
            max_steps=self.n_steps,
            sampling_probability=self.rate,
            **self._fields(),
        )

    # -- steps -------------------------------------------------------------------------

    def kind(self, *given: Any) -> StreamRelease:
        """Return the release of a plan, by an accountant and a seed."""
        rate = self.rate if self.sampled else None
        return StreamRelease(*given, factorization=Factorization(), rate=rate)

    def begin(self, release: Any) -> None:
        """Begin the steps of a charged release."""
        self.release = release
        stds = self.noise_stds(release.plan.mechanisms[0])
        self.state = AdamState(self.adam, stds)

    def noise_stds(self, mechanism: Mechanism) -> tuple[float, float]:
        """Return the noise scales of a step's two moments."""
        std = float(getattr(mechanism, "noise_std", 0.0))
        return std, std / self.weight if self.weight else 0.0

    def batch(self) -> np.ndarray:
        """Return the examples of the next batch in order, unchanged until its step."""
        if self.sampled:
            return np.asarray(self.release.sample(self.position, self.n_samples))
        if self._order is None:
            return np.arange(self.n_samples)
        size = int(self.batch_size)
        start = size * (self.position % self._in_epoch)
        return np.sort(self._order[start : start + size])

    def step(self, row: Callable[[], np.ndarray]) -> np.ndarray:
        """Release the row of the batch of a claimed step, and return the update."""
        released, p = self.release(row())[0].copy(), self.n_parameters
        self.position += 1
        squares = released[p:] / self.weight if self.weight else None
        return self.state.push(released[:p], squares)

    def row(self, blocks: Iterable, add: Callable | None = None) -> np.ndarray:
        """Return the exact row of a batch from the factors of its gradients."""
        sums = np.zeros((2 if self.weight else 1, self.n_parameters))
        for block in blocks:
            (add or self._add)(block, sums)
        sums /= self.batch_size
        if self.weight:
            sums[1] *= self.weight
        return sums.reshape(1, -1)

    def _add(self, factors: Factors, sums: np.ndarray) -> None:
        """Add the clipped gradients of a block, and their squares."""
        # A large factor beside a tiny one does not fit: the square of that may have
        # vanished, and the norm with it, but not the gradient.
        squares, fit = factors.squared_norms()
        good = np.isfinite(squares) & fit
        factors = factors.without(~good)
        factor = self._factors(np.where(good, squares, 0.0))
        factors.weighted_sum(factor, sums[0])
        if self.weight:
            factors.weighted_sum(factor**2, sums[1], 2)

    def row_of_gradients(self, gradients: np.ndarray) -> np.ndarray:
        """Return the exact row of a batch from its full gradients."""
        starts = range(0, len(gradients), SUMMED)
        blocks = (gradients[start : start + SUMMED] for start in starts)
        return self.row(blocks, self._add_gradients)

    def _add_gradients(self, gradients: np.ndarray, sums: np.ndarray) -> None:
        """Add the clipped gradients of a block, and their squares."""
        gradients = np.asarray(gradients, dtype=np.float64)
        # By the largest entry, which is the same in any order; that of a sum of squares
        # may decide whether it overflows.
        good = (gradients.max(axis=1) <= LARGEST) & (gradients.min(axis=1) >= -LARGEST)
        gradients = gradients[good]
        squares = np.vecdot(gradients, gradients)
        clipped = gradients * self._factors(squares)[:, None]
        sums[0] += clipped.sum(axis=0)
        if self.weight:
            sums[1] += np.square(clipped).sum(axis=0)

    def _factors(self, squares: np.ndarray) -> np.ndarray:
        """Return clipping factors, at most 1, for gradients of these squared norms."""
        target = self.clip_norm * (1.0 - self._room)
        return target / np.maximum(np.sqrt(squares), target)


_CONSTRAINTS: dict[str, list] = {
    **BATCH_CONSTRAINTS,
    **PrivateEstimator._privacy_constraints,
    "optimizer": [Adam, None],
}


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
    optimizer : Adam or None, default=None
        Settings of steps, sampling and noise. None is
        :class:`~skdpspectral.neural_network.Adam` with a learning
        rate of 0.001 and ``moments="jme"``.
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
    `delta`)-differentially private for one example, under `neighbors` of `optimizer`
    (:ref:`lemma-gradient-moments`). Each batch must come from :meth:`batches`, and each
    step must receive the gradients of only these examples at the current parameters. A
    gradient must not depend on other examples of its batch, as it does with batch
    normalization. The guarantee does not cover rounding that depends on the batch
    within a framework. `stability` is a public number.

    Pickles and copies contain noise and the key of the samples, and are as secret as
    the data. Without an accountant, they cannot be made before the last step.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Algorithm 2, which squares sums of gradients
    and has no guarantee as printed.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.neural_network import Adam, JMEAdam
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = X @ [1.0, -1.0, 0.5]
    >>> steps = Adam(learning_rate=0.1, moments="jme")
    >>> adam = JMEAdam(3, 4000, batch_size=4000, n_epochs=60, optimizer=steps)
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
        batch_size: int = 256,
        n_epochs: int = 10,
        clip_norm: float = 1.0,
        optimizer: Adam | None = None,
        accountant: PrivacyAccountant | None = None,
        noise_seed=None,
    ) -> None:
        given = dict(locals())
        check_arguments("JMEAdam", _CONSTRAINTS, {k: given[k] for k in _CONSTRAINTS})
        check_delta(delta)
        # A copy, as strategies may be changed while steps are made.
        adam = snapshot(Adam(1e-3, moments="jme") if optimizer is None else optimizer)
        n_parameters = check_count("n_parameters", n_parameters)
        n_samples = check_count("n_samples", n_samples)
        how = {k: given[k] for k in BATCH_CONSTRAINTS}
        optimization = Optimization(adam, n_parameters, n_samples, **how)
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
        self._run, self.n_steps = optimization, optimization.n_steps
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
            raise ValueError(
                "step requires the batch that batches() returned last: iterate over "
                "batches(), and call step once for each batch"
            )
        gradients = _as_numbers(gradients, (len(drawn[1]), self._run.n_parameters))
        self._run.release.claim(drawn[0], 1)
        self._drawn = None
        with np.errstate(all="ignore"):
            return self._run.step(lambda: self._run.row_of_gradients(gradients))


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
