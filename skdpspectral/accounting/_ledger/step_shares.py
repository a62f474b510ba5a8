"""Shares of one budget between the private steps of a composition.

A pipeline is charged for all of its steps before it fits them. The share of a step
stands for that charge: the step is charged to no ledger again, and releases only what
was planned, once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any, NoReturn

from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils import get_tags

from ...mechanisms import (
    Assumption,
    Exact,
    Gaussian,
    PrivacyPlan,
    SampledGaussian,
    shown,
)
from .._composition import split_mu
from .._errors import PrivacyBudgetError
from .._gaussian import gaussian_epsilon, gaussian_mu
from .context import process_name
from .planned_fits import Composition, composition_of, parts_of

# Weights of mu**2. A final model learns more numbers from the rows than a scaler does.
_SCALER, _OTHER, _MODEL = 1.0, 2.0, 4.0

# The beginning of the remark of a pipeline's charge. Statements know it by this.
SHARES_OF_STEPS = "Its steps have these shares of the cost (mu**2): "

# Shares that are written as decimals sum to 1 but for rounding.
_CLOSE = 1e-9


def step_weight(estimator: Any) -> float:
    """Return the public weight of a step, by its class or kind."""
    own = getattr(estimator, "_budget_weight", None)
    if own is not None:
        return float(own)
    if get_tags(estimator).estimator_type in ("classifier", "regressor"):
        return _MODEL
    return _SCALER if isinstance(estimator, OneToOneFeatureMixin) else _OTHER


def resolved_shares(shares: Any, steps: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of mu**2 of each step, by its path.

    Parameters
    ----------
    shares : "auto" or mapping of str to float
        Shares that sum to 1, by paths of steps or of what holds several of them, which
        split it by their weights.
    steps : mapping of str to estimator
        Private steps that release something, by their paths.
    """
    if isinstance(shares, str) and shares == "auto":
        return _by_weights(steps, 1.0)
    if not isinstance(shares, Mapping):
        raise ValueError(
            f'shares must be "auto" or a dict of step names to numbers, got '
            f"{shown(shares)}"
        )
    for name, share in shares.items():
        _check_share(name, share, steps)
    total = math.fsum(shares.values())
    if abs(total - 1.0) > _CLOSE:
        raise ValueError(
            f"shares must sum to 1, got {dict(shares)}, which sum to {total:g}: divide "
            "each by that"
        )
    found: dict[str, float] = {}
    for name, share in shares.items():
        # A longer path says more of its steps than a shorter one.
        inside = {p: s for p, s in steps.items() if _owner(p, shares) == name}
        if not inside:
            raise ValueError(
                f"shares has an entry for {name!r} as well as for each step in it: "
                "remove one of these entries"
            )
        found |= _by_weights(inside, share / total)
    missing = [path for path in steps if path not in found]
    if missing:
        raise ValueError(
            f"shares has no entry for step {missing[0]!r}: give each private step "
            f"a share, {', '.join(map(repr, steps))}"
        )
    return {path: found[path] for path in steps}


def _check_share(name: Any, share: Any, steps: Mapping[str, Any]) -> None:
    """Refuse shares of unknown steps, and shares that are not positive."""
    if not any(is_path_within(path, name) for path in steps):
        raise ValueError(
            f"shares has an entry for {name!r}, which is not a private step: the "
            f"steps are {', '.join(map(repr, steps))}"
        )
    number = isinstance(share, Real) and not isinstance(share, bool)
    if not (number and 0.0 < float(share) <= 1.0 + _CLOSE):
        raise ValueError(
            f"shares[{name!r}] must be a number in (0, 1], got {shown(share)}"
        )


def is_path_within(path: str, name: Any) -> bool:
    return isinstance(name, str) and (path == name or path.startswith(f"{name}__"))


def _owner(path: str, shares: Mapping[str, Any]) -> str | None:
    """Return the longest name in `shares` that contains a path."""
    return max((n for n in shares if is_path_within(path, n)), key=len, default=None)


def _by_weights(steps: Mapping[str, Any], share: float) -> dict[str, float]:
    """Split a share by the weights of steps."""
    weights = {path: step_weight(step) for path, step in steps.items()}
    total = math.fsum(weights.values())
    return {path: share * weight / total for path, weight in weights.items()}


# Relative width at which the search for the largest budgets ends, and the least part of
# a budget that is tried.
_NEAR, _LEAST = 2.0**-10, 2.0**-10


def allocated(
    what: Any,
    epsilon: float,
    delta: float,
    shares: Any,
    check: Callable[[Any], object],
) -> Any:
    """Return a clone whose private steps have shares of a budget.

    `check` raises a PrivacyBudgetError for a clone that costs more than is left. A
    search finds the largest budgets that pass, if mechanisms that are not Gaussian
    compose to more than the split assumes.
    """
    steps = dict(_private_leaves("", what))
    if not steps:
        raise ValueError(
            f"no private estimator is fitted in {type(what).__name__}: pass a pipeline "
            "of private steps"
        )
    split, mu = resolved_shares(shares, steps), gaussian_mu(epsilon, delta)

    def given(part: float) -> Any:
        mus = split_mu(part * mu, tuple(split.values()))
        budgets: dict[str, float] = {}
        for path, cost in zip(split, mus, strict=True):
            prefix = f"{path}__" if path else ""
            budgets[f"{prefix}epsilon"] = gaussian_epsilon(cost, delta)
            budgets[f"{prefix}delta"] = delta
        model = clone(what).set_params(**budgets)
        check(model)
        return model

    # Rounding of two inverses.
    high = 1.0 - 2.0**-40
    try:
        return given(high)
    except PrivacyBudgetError as error:
        refused = error
    low, found = 0.5 * high, None
    while found is None and low > _LEAST:
        try:
            found = given(low)
        except PrivacyBudgetError as error:
            refused, high, low = error, low, 0.5 * low
    if found is None:
        raise refused
    while high > low * (1.0 + _NEAR):
        middle = math.sqrt(low * high)
        try:
            found, low = given(middle), middle
        except PrivacyBudgetError:
            high = middle
    return found


def _private_leaves(path: str, estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield private estimators with own budgets, by path."""
    prefix, kind = f"{path}__" if path else "", composition_of(estimator)
    if hasattr(estimator, "plan_for"):
        yield path, estimator
    elif kind in (Composition.PIPELINE, Composition.UNION, Composition.COLUMNS):
        for name, child in parts_of(estimator):
            yield from _private_leaves(prefix + name, child)


# Largest relative excess of a cost over what was charged, by rounding.
_ROUNDING = 2.0**-41

# Largest relative difference of a cost from what was charged.
_SAME = 1e-6


class StepShare:
    """One step's part of the charge of a pipeline, for one fit of the step.

    Copies and clones of a step have the same object, so that only one of them can be
    fitted. It is never pickled: a fit in another process is charged by itself.

    Parameters
    ----------
    path : str
        Name of the step, with double underscores as in ``set_params``.
    epsilon, delta : float
        Budget that the step plans with; `epsilon` is infinite without privacy.
    planned : Gaussian, SampledGaussian, Exact or None
        What was charged; None where the step releases nothing, and for trial plans.
    relation : tuple or None, default=None
        Unit and neighbors of the charge.
    n_samples : int or None, default=None
        Number of rows that the charge is for, where it is public.
    noise_multiplier : float or None, default=None
        Noise of a step on Poisson samples, in place of its budget.
    seeded : bool, default=False
        Whether the noise of the step comes from a seed.
    failure : float, default=0.0
        Probability of failure that was charged, beside `planned`.
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
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether the fit of the pipeline is in progress."""
        return not self._closed

    @property
    def is_private(self) -> bool:
        """Whether the step has noise."""
        return math.isfinite(self.epsilon)

    def close(self) -> None:
        """End the share: from now on the step has its own budget."""
        self._closed = True

    def claim(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Use the share for the releases of a fit; raise if they are others."""
        if self._process != process_name():
            raise RuntimeError(
                f"step {self.path!r} is fitted in a different process from its "
                "pipeline, which would repeat a release that was charged once: fit "
                "the pipeline in one process"
            )
        self.check(plan, n_public)
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
