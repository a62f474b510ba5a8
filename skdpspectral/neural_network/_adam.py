"""Adam with joint moments, for gradients that any framework hands over."""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import StrOptions
from .._base.strategies import check_arguments
from ..accounting import PrivacyAccountant, PrivacyLeakWarning
from ..accounting._ambient import ambient_accountant
from ..accounting._gaussian import MIN_DELTA
from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import check_count, check_real
from ._optimization import CONSTRAINTS, AdamChoices, Optimization

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
