"""The private steps of a pipeline, and their shares of one budget."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._base.estimator import PrivateEstimator
from ..accounting import (
    calibrate_gaussian,
    calibrate_sampled,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._composition import sampled_gaussian
from ..accounting._ledger.planned_fits import (
    Composition,
    PlannedRows,
    branches,
    composition_of,
    estimators_within,
    fitted_within,
    parts_of,
    rows_after,
)
from ..accounting._ledger.step_shares import (
    SHARES_OF_STEPS,
    StepShare,
    resolved_shares,
)
from ..mechanisms import (
    Alternatives,
    Assumption,
    Concern,
    Exact,
    Mechanism,
    PrivacyPlan,
    Remark,
    SampledGaussian,
    Unit,
)

# Columns that stand for those of a table whose width an earlier release decides. No
# cost depends on their number; some parameters ask for more columns than others.
_STAND_IN_WIDTHS = (None, 4096)

# Rounding of a sum of failures, by far.
_ROUNDING = 2.0**-44

# Any noise will do to learn how often a step draws samples.
_TRIAL_NOISE = 10.0


@dataclass(frozen=True)
class PrivateStep:
    """A private estimator in a pipeline, with the shape of its input rows.

    `width_known` is whether the number of columns is public before the fit.
    """

    path: str
    estimator: PrivateEstimator
    rows: PlannedRows
    width_known: bool

    def plan(self, share: StepShare) -> PrivacyPlan:
        """Return the plan of a fit within a share; errors name the step."""
        self.estimator._step_share = share
        try:
            return self._plan()
        except (TypeError, ValueError) as error:
            said = f"step {self.path!r}: {error}"
            raise (TypeError if isinstance(error, TypeError) else ValueError)(
                said
            ) from error

    def _plan(self) -> PrivacyPlan:
        X = self.rows.X
        if self.width_known:
            return self.estimator.plan_for(X)
        for width in _STAND_IN_WIDTHS:
            shape = (self.rows.n_rows, width or self.rows.shape(self.path)[1])
            try:
                return self.estimator.plan_for(np.broadcast_to(0.0, shape))
            except ValueError:
                if width is not None:
                    raise
        raise AssertionError


def private_steps(pipeline: Any, rows: PlannedRows) -> list[PrivateStep]:
    """Return the private steps of a pipeline, including nested ones, in order."""
    steps = list(_walk("", pipeline, rows, True))
    if not steps:
        raise ValueError(
            "steps must contain a private estimator of this package: without one, use "
            "sklearn.pipeline.Pipeline"
        )
    for step in steps:
        _check_step(step.path, step.estimator)
    return steps


def _walk(
    path: str, estimator: Any, rows: PlannedRows, known: bool
) -> Iterator[PrivateStep]:
    kind, prefix = composition_of(estimator), f"{path}__" if path else ""
    if estimator is None or isinstance(estimator, str) or kind is Composition.FROZEN:
        return
    if getattr(estimator, "memory", None) is not None:
        raise ValueError(
            f"memory of {path or 'the pipeline'!r} must be None: a cached step would "
            "be used again with the noise of another budget"
        )
    if isinstance(estimator, PrivateEstimator):
        yield PrivateStep(path, estimator, rows, known)
    elif kind is Composition.PIPELINE:
        for name, child in parts_of(estimator):
            yield from _walk(prefix + name, child, rows, known)
            rows, known = _behind(prefix + name, child, rows, known)
    elif kind in (Composition.UNION, Composition.COLUMNS):
        for name, child, some in _branches(prefix, estimator, rows, known):
            yield from _walk(name, child, some, known)
    elif any(
        isinstance(part, PrivateEstimator)
        for part in estimators_within(estimator).values()
    ):
        raise TypeError(
            f"step {path!r}: how often {type(estimator).__name__} fits the private "
            "estimators in it is not known; make them steps of the pipeline, a "
            "ColumnTransformer or a FeatureUnion"
        )


def _branches(
    prefix: str, composition: Any, rows: PlannedRows, known: bool
) -> Iterator[tuple[str, Any, PlannedRows]]:
    if known:
        try:
            yield from branches(prefix, composition, rows)
            return
        except (TypeError, ValueError) as error:
            raise ValueError(f"step {prefix.rstrip('_')!r}: {error}") from error
    for name, child in parts_of(composition):
        yield prefix + name, child, rows


def _behind(
    path: str, step: Any, rows: PlannedRows, known: bool
) -> tuple[PlannedRows, bool]:
    """Return rows after a step, and whether their number of columns is known."""
    try:
        return rows_after(path, step, rows), known
    except ValueError:
        width = rows.shape(path)[1]
        stand_in = np.broadcast_to(0.0, (rows.n_rows, width))
        return PlannedRows(stand_in, changed_by=path), False


def _defaults(cls: Any) -> dict[str, Any]:
    """Return the defaults of a constructor."""
    parameters = inspect.signature(cls).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def _check_step(path: str, step: Any) -> None:
    """Refuse a step with its own budget, ledger or noise."""
    kind, whole = type(step).__name__, composition_of(step)
    if whole is Composition.SEARCH:
        raise ValueError(
            f"step {path!r} is a search with its own budget: search over the "
            "parameters of the whole pipeline with PrivateSearchCV"
        )
    if whole is Composition.PIPELINE:
        raise ValueError(
            f"step {path!r} is a {kind} with its own budget: use "
            "sklearn.pipeline.make_pipeline inside a private pipeline"
        )
    if hasattr(step, "client_feature"):  # of whose rows the ids would be read
        raise ValueError(
            f"step {path!r}: {kind} has a budget for each client; fit it outside of a "
            "private pipeline"
        )
    for name in ("epsilon", "delta"):
        default = _defaults(type(step))[name]
        value = getattr(step, name)
        if not (value is default or (np.ndim(value) == 0 and value == default)):
            raise ValueError(
                f"step {path!r} has {name}={value!r}, but the pipeline has the budget: "
                f"leave {name} of the step at its default, and pass the pipeline "
                f"shares={{{path!r}: ...}}"
            )
    if step.accountant is not None:
        raise ValueError(
            f"step {path!r} has an accountant: pass it to the pipeline, which is "
            "charged once for all steps"
        )
    given = step._given_noise()
    if given is not None:
        raise ValueError(
            f"step {path!r} has {given}, but the pipeline sets the noise of its "
            "steps: set it to None"
        )


def _check_plan(path: str, step: Any, plan: PrivacyPlan) -> None:
    """Refuse a plan whose cost cannot be composed."""
    kind = type(step).__name__
    if plan.assumption is not Assumption.NONE:
        raise ValueError(
            f"step {path!r}: the guarantee of {kind} rests on a model of the data; "
            "choose another mechanism, or fit it outside of a private pipeline"
        )
    sampled = [m for m in plan.mechanisms if isinstance(m, SampledGaussian)]
    if plan.curves and not (len(plan.mechanisms) == len(sampled) == 1):
        raise ValueError(
            f"step {path!r}: the noise of {kind} cannot be part of one composition; "
            "fit it outside of a private pipeline"
        )
    if sampled and not step._takes_noise_multiplier:
        raise ValueError(
            f"step {path!r}: {kind} draws samples and cannot take its noise from a "
            "pipeline; fit it outside of a private pipeline"
        )


def _common_relation(plans: dict[str, PrivacyPlan]) -> tuple[Any, Any]:
    """Return the relation of all plans, or say which steps differ."""
    relations = {path: (plan.unit, plan.neighbors) for path, plan in plans.items()}
    (first, one), *others = relations.items()
    for other, two in others:
        if two != one:
            raise ValueError(
                f"step {first!r} protects one {one[0]} under {one[1]}, and step "
                f"{other!r} one {two[0]} under {two[1]}: one guarantee requires the "
                "same unit and relation in all steps; choose such steps, or fit them "
                "with separate budgets in sklearn.pipeline.Pipeline"
            )
    return one


class StepBudgets:
    """Shares of a budget for all private steps, and the plan that is charged.

    Parameters
    ----------
    steps : list of PrivateStep
        The steps, of which the estimators are given their shares.
    epsilon : float
        Of all steps; infinite without privacy.
    delta : float
        Of all steps.
    shares : "auto" or mapping
        As in :class:`~skdpspectral.pipeline.PrivatePipeline`.
    estimator : str
        Name of the pipeline's class.
    leak : str, default=""
        What voids the guarantee, if anything does.
    """

    def __init__(
        self,
        steps: list[PrivateStep],
        epsilon: float,
        delta: float,
        shares: Any,
        *,
        estimator: str,
        leak: str = "",
    ) -> None:
        self._epsilon, self._delta = epsilon, delta
        self._steps = {step.path: step for step in steps}
        self._deltas: dict[str, float] = {}
        self._plans = {step.path: self._trial(step) for step in steps}
        # Failures of all steps together are those that one of them would have.
        fail = [path for path, plan in self._plans.items() if plan.failure]
        if len(fail) > 1:
            each = delta * (1.0 - _ROUNDING) / len(fail)
            self._deltas = dict.fromkeys(fail, each)
            self._plans |= {path: self._trial(self._steps[path]) for path in fail}
        self._failure = math.fsum(plan.failure for plan in self._plans.values())
        self._relation = _common_relation(self._plans)
        costing = {
            path: self._steps[path].estimator
            for path, plan in self._plans.items()
            if plan.mechanisms
        }
        split = resolved_shares(shares, costing) if costing else {}
        self.weights = split
        self.step_shares = dict(self._shares(split))
        planned = [s.planned for s in self.step_shares.values() if s.planned]
        unit, neighbors = self._relation
        self.plan = PrivacyPlan(
            epsilon,
            delta,
            tuple(planned),
            estimator=estimator,
            unit=unit,
            neighbors=neighbors,
            seeded=any(plan.seeded for plan in self._plans.values()),
            assumption=Assumption.NO_LEAKS if leak else Assumption.NONE,
            remarks=tuple(self._remarks(leak)),
            failure=self._failure,
        )
        for path, share in self.step_shares.items():
            # What the shape of a step's rows does not allow is said before the charge.
            share.check(self._steps[path].plan(share), None)

    def _trial(self, step: PrivateStep) -> PrivacyPlan:
        """Plan a step with arbitrary noise, to determine the kind of its releases."""
        noise = None
        if step.estimator._takes_noise_multiplier and math.isfinite(self._epsilon):
            noise = _TRIAL_NOISE
        delta = self._deltas.get(step.path, self._delta)
        trial = StepShare(step.path, self._epsilon, delta, noise_multiplier=noise)
        plan = step.plan(trial)
        _check_plan(step.path, step.estimator, plan)
        return plan

    def _shares(self, split: dict[str, float]) -> Iterator[tuple[str, StepShare]]:
        """Yield the shares of all steps, by their paths, in order."""
        planned = self._planned(split)
        n_public = None
        if self._relation[0] is Unit.ROW:
            n_public = next(iter(self._steps.values())).rows.n_rows
        for path, plan in self._plans.items():
            mechanism = planned.get(path)
            epsilon, noise = self._epsilon, None
            delta = self._deltas.get(path, self._delta)
            if isinstance(mechanism, SampledGaussian):
                noise = mechanism.noise_multiplier
            elif mechanism is not None and math.isfinite(epsilon):
                epsilon = self._epsilon_within(mechanism.mu, delta - plan.failure)
            yield (
                path,
                StepShare(
                    path,
                    epsilon,
                    delta,
                    mechanism,
                    relation=self._relation,
                    n_samples=n_public,
                    noise_multiplier=noise,
                    seeded=plan.seeded,
                    failure=plan.failure,
                ),
            )

    def _planned(self, split: dict[str, float]) -> dict[str, Any]:
        """Return a mechanism for each step that costs its share."""
        if not math.isfinite(self._epsilon):
            return {path: Exact(path, (1,)) for path in split}
        mu = gaussian_mu(self._epsilon, self._delta - self._failure)
        mus = dict(zip(split, split_mu(mu, tuple(split.values())), strict=True))
        planned: dict[str, Any] = {
            path: calibrate_gaussian(path, 1.0, cost, (1,), lemma="composition")
            for path, cost in mus.items()
            if not isinstance(self._plans[path].mechanisms[0], SampledGaussian)
        }
        sampled = [path for path in split if path not in planned]
        if len(sampled) > 1:
            raise ValueError(
                f"steps {sampled[0]!r} and {sampled[1]!r} both draw Poisson samples: "
                'set optimizer=Adam(sampling="in-turn") in one of them'
            )
        beside = math.hypot(*(mechanism.mu for mechanism in planned.values()))
        for path in sampled:
            planned[path] = self._sampled(path, beside)
        return {path: planned[path] for path in split}

    def _sampled(self, path: str, beside: float) -> SampledGaussian:
        """Return samples with the least noise that the other steps allow."""
        (drawn,) = self._plans[path].mechanisms
        assert isinstance(drawn, SampledGaussian)
        assert drawn.max_steps is not None
        rate, steps = drawn.sampling_probability, drawn.max_steps
        given = {"mu": beside} if beside else {}
        noise = calibrate_sampled(
            self._epsilon,
            self._delta - self._failure,
            rate,
            steps,
            self._relation[1],
            **given,
        )
        return sampled_gaussian(
            path,
            1.0,
            noise,
            (1,),
            max_steps=steps,
            sampling_probability=rate,
            lemma="composition",
        )

    def _epsilon_within(self, mu: float, delta: float) -> float:
        """Return an epsilon whose calibration costs at most `mu`."""
        epsilon, lower = gaussian_epsilon(mu, delta), 2.0**-50
        while epsilon > 0.0 and gaussian_mu(epsilon, delta) > mu:
            epsilon, lower = epsilon * (1.0 - lower), 2.0 * lower
        if not epsilon > 0.0:
            raise ValueError(
                f"epsilon={self._epsilon:g} is too small for {len(self._plans)} "
                f"private steps at delta={self._delta:g}; increase it"
            )
        return epsilon

    def _remarks(self, leak: str) -> Iterator[str]:
        if leak:
            yield Remark(f"Its guarantee is void: {leak}.", Concern.LEAK)
        if len(self.weights) > 1:
            said = ", ".join(f"{path} {w:.3g}" for path, w in self.weights.items())
            yield f"{SHARES_OF_STEPS}{said}."

    def close(self) -> None:
        """End all shares: from now on steps have their own budgets."""
        for share in self.step_shares.values():
            share.close()

    def plan_of_fit(self, fitted: Any) -> PrivacyPlan:
        """Return the plan with the actual releases of a fit.

        A step without remaining columns has released nothing.
        """
        for step in fitted_within(fitted):
            share = getattr(step, "_step_share", None)
            own = isinstance(step, PrivateEstimator) and hasattr(step, "privacy_")
            if own and (share is None or share.plan is None):
                raise RuntimeError(
                    f"{type(step).__name__} was charged, but was not fitted by its "
                    "pipeline or was fitted in another process: nothing is known "
                    "about its noise"
                )
        mechanisms: list[Mechanism] = []
        remarks = list(self.plan.remarks)
        for path, share in self.step_shares.items():
            if share.plan is None:
                if share.planned is not None:
                    remarks.append(f"{path} got no columns, and released nothing.")
                continue
            mechanisms += [_renamed(m, path) for m in share.plan.mechanisms]
            remarks += [Remark.of(said).under(path) for said in share.plan.remarks]
        return replace(self.plan, mechanisms=tuple(mechanisms), remarks=tuple(remarks))


def _renamed(mechanism: Any, path: str) -> Any:
    """Return a mechanism under a unique name."""
    name = f"{path}: {mechanism.name}"
    if isinstance(mechanism, Alternatives):
        branches_ = tuple(
            tuple(_renamed(m, path) for m in branch) for branch in mechanism.branches
        )
        return Alternatives(name, branches_)
    return replace(mechanism, name=name)
