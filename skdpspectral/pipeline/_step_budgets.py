"""The private steps of a pipeline, and their shares of one budget."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils import get_tags

from .._base.estimator import PrivateEstimator, TableEstimator
from .._base.privacy_report import is_known, passes_rows
from .._base.sklearn_compat import CALLBACK_ATTRIBUTES
from .._tables.columns import refuse_nullable_integers
from .._tables.ids import UserRows
from .._tables.table import deferred_rows, deferred_targets, table_shape
from ..accounting import (
    calibrate_gaussian,
    calibrate_sampled,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._composition import sampled_gaussian
from ..accounting._ledger.planned_fits import (
    SHARES_OF_STEPS,
    Composition,
    Rows,
    Step,
    StepShare,
    branches,
    composition_of,
    has_private,
    is_estimator,
    is_private,
    with_any_width,
    zeros,
)
from ..mechanisms import (
    Alternatives,
    Assumption,
    Concern,
    Exact,
    Mechanism,
    Neighbors,
    PrivacyPlan,
    Remark,
    SampledGaussian,
    Unit,
    check_real,
)

# Steps without noise are tried on so many zeros, in so many columns at most.
_FEW, _MOST_TRIED = 3, 4096

# Rounding of a sum of failures, by far.
_ROUNDING = 2.0**-44

# Any noise will do to learn how often a step draws samples.
_TRIAL_NOISE = 10.0

# Weights of mu**2. A final model learns more numbers from the rows than a scaler does.
_SCALER, _OTHER, _MODEL = 1.0, 2.0, 4.0

# Shares that are written as decimals sum to 1 but for rounding.
_CLOSE = 1e-9


def _step_weight(estimator: Any) -> float:
    """Return the public weight of a step, by its kind."""
    if get_tags(estimator).estimator_type in ("classifier", "regressor"):
        return _MODEL
    return _SCALER if isinstance(estimator, OneToOneFeatureMixin) else _OTHER


def resolved_shares(shares: Any, steps: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of mu**2 of each step that releases something, by its path."""
    if isinstance(shares, str):  # "auto"
        weights = {path: _step_weight(step) for path, step in steps.items()}
        total = math.fsum(weights.values())
        return {path: weight / total for path, weight in weights.items()}
    for path in (*shares, *steps):
        if path not in steps or path not in shares:
            raise ValueError(
                "shares must have one entry per private step, which are "
                f"{', '.join(map(repr, steps))}, got {', '.join(map(repr, shares))}"
            )
        if not 0.0 < check_real(f"shares[{path!r}]", shares[path]) <= 1.0 + _CLOSE:
            raise ValueError(
                f"shares[{path!r}] must be a number in (0, 1], got {shares[path]}"
            )
    total = math.fsum(shares.values())
    if abs(total - 1.0) > _CLOSE:
        raise ValueError(
            f"shares must sum to 1, got {dict(shares)}, which sum to {total:g}: divide "
            "each by that"
        )
    return {path: shares[path] / total for path in steps}


def private_steps(steps: Iterable[Step], by_user: bool) -> list[Step]:
    """Return the private steps of a pipeline, of all of its steps, or refuse them."""
    private = []
    for step in steps:
        one = step.estimator
        if isinstance(one, PrivateEstimator):
            private.append(step)
        elif step.kind in (Composition.SEARCH, Composition.OTHER) and has_private(one):
            raise TypeError(
                f"step {step.path!r}: how often {type(one).__name__} fits the private "
                "estimators in it is not known; make them steps of the pipeline, a "
                "ColumnTransformer or a FeatureUnion"
            )
    if not private:
        raise ValueError(
            "steps must contain a private estimator of this package: without one, use "
            "sklearn.pipeline.Pipeline"
        )
    for step in private:
        _check_step(step.path, step.estimator, by_user)
    _check_users(private)
    return private


def _check_users(private: list[Step]) -> None:
    """Refuse steps that protect users of different columns of the table."""
    columns = {
        step.path: step.estimator.user_feature
        for step in private
        if getattr(step.estimator, "user_feature", None) is not None
        and not isinstance(step.estimator, TableEstimator)  # which protects rows
        and not any(hasattr(e, "_puts_users_first") for _, e in step.behind)
    }
    if len(set(columns.values())) > 1:
        raise ValueError(
            f"user_feature must be one column in all steps, got {columns}: a user of "
            "one column has rows of several users of another"
        )


def planned_within(step: Step, share: StepShare) -> PrivacyPlan:
    """Return the plan of a step within a share; errors name the step."""
    step.estimator._step_share = share
    with naming(step.path):
        return step.plan()


def form_after(path: str, step: Any, X: Any) -> Any:
    """Return zeros of the shape that a step without noise makes; None for others."""
    n_rows, n_columns = table_shape(X)
    whole = is_private(step) or composition_of(step)
    if whole or not is_known(step) or n_columns > _MOST_TRIED:
        return None
    seeds = {"random_state": 0} if hasattr(step, "random_state") else {}
    few = (
        type(X)((_FEW, n_columns))
        if sparse.issparse(X)
        else np.zeros((_FEW, n_columns))
    )
    with naming(path), np.errstate(all="ignore"):
        made = clone(step).set_params(**seeds).fit_transform(few)
    return zeros((n_rows, made.shape[1]), like=made)


def check_rows_of_others(steps: list[Step]) -> None:
    """Refuse rows that steps without noise do not accept, or pass on as text."""
    for path, rows in chain.from_iterable(map(_read_without_noise, steps)):
        if rows is not None and rows.own:
            with naming(path):
                refuse_nullable_integers(rows.X)
                deferred_rows(None, rows.X, accept_sparse=True, in_blocks=True)


def _read_without_noise(step: Step) -> Iterator[tuple[str, Rows | None]]:
    """Yield what a step without noise reads, or passes on beside others."""
    one = step.estimator
    if step.kind in (Composition.UNION, Composition.COLUMNS):
        for name, part, rows in branches(step.path, one, step.rows):
            if passes_rows(part):
                yield f"{step.path}__{name}", rows
    elif is_estimator(one) and not (step.kind or is_private(one) or passes_rows(one)):
        yield step.path, step.rows


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Prefix errors with the step that caused them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"step {path!r}: {error}") from error


def _is_default(value: Any, default: Any) -> bool:
    return value is default or bool(np.ndim(value) == 0 and value == default)


def _check_step(path: str, step: Any, by_user: bool) -> None:
    """Refuse a step with its own budget, ledger or noise."""
    kind, whole = type(step).__name__, composition_of(step)
    parameters = inspect.signature(type(step)).parameters
    changed = [
        f"{name}={getattr(step, name)!r}"
        for name in ("epsilon", "delta")
        if not _is_default(getattr(step, name), parameters[name].default)
    ]
    noise = step._given_noise()
    # Of clients, whose ids would be read, each has a budget.
    why = {
        " is a search with its own budget: search over the parameters of the whole "
        "pipeline with PrivateSearchCV": whole is Composition.SEARCH,
        f" is a {kind} with its own budget: use sklearn.pipeline.make_pipeline inside "
        "a private pipeline": whole is Composition.PIPELINE,
        f": {kind} has a budget for each client; fit it outside of a private "
        "pipeline": hasattr(step, "client_feature"),
        f" has {', '.join(changed)}, but the pipeline has the budget: leave it at its "
        f"default, and pass the pipeline shares={{{path!r}: ...}}": changed,
        f": {kind} {step._why_no_users}": by_user
        and "users" not in inspect.signature(step.fit).parameters,
        " has an accountant: pass it to the pipeline, which is charged once for all "
        "steps": step.accountant is not None,
        f" has {noise}, but the pipeline sets the noise of its steps: set it to "
        "None": noise is not None,
    }
    for said, is_so in why.items():
        if is_so:
            raise ValueError(f"step {path!r}{said}")


def _check_plan(path: str, step: Any, plan: PrivacyPlan) -> None:
    """Refuse a plan whose cost cannot be composed."""
    sampled = [m for m in plan.mechanisms if isinstance(m, SampledGaussian)]
    single = len(plan.mechanisms) == len(sampled) == 1
    if plan.assumption is not Assumption.NONE:
        said = "rests on a model of the data; choose another mechanism, or"
    elif (plan.curves and not single) or (sampled and not step._takes_noise_multiplier):
        said = "has noise that cannot be part of one composition;"
    else:
        return
    raise ValueError(
        f"step {path!r}: the guarantee of {type(step).__name__} {said} fit it outside "
        "of a private pipeline"
    )


def _common_relation(plans: dict[str, PrivacyPlan], by_user: bool) -> tuple[Any, Any]:
    """Return the relation of all plans, or say which differ, also from users."""
    relations = {"user_feature": (Unit.USER, Neighbors.REPLACE_ONE)} if by_user else {}
    for path, plan in plans.items():
        relations[f"step {path!r}"] = plan.unit, plan.neighbors
    (first, one), *others = relations.items()
    for other, two in others:
        if two != one:
            raise ValueError(
                f"{first} protects one {one[0]} under {one[1]}, and "
                f"{other} one {two[0]} under {two[1]}: one guarantee requires the "
                "same unit and relation in all steps; choose such steps, for users "
                'with neighbors="replace-one", or fit them with separate budgets in '
                "sklearn.pipeline.Pipeline"
            )
    return one


class StepBudgets:
    """Shares of a budget for all private steps, and the plan that is charged.

    `epsilon` is infinite without privacy.
    """

    def __init__(
        self,
        steps: list[Step],
        epsilon: float,
        delta: float,
        shares: Any,
        users: UserRows | None = None,
    ) -> None:
        self._epsilon, self._delta, self._users = epsilon, delta, users
        self._steps = {step.path: step for step in steps}
        assert steps[0].rows is not None
        n_rows = steps[0].rows.shape[0]
        self._deltas: dict[str, float] = {}
        self._plans = {step.path: self._trial(step) for step in steps}
        # Failures of all steps together are those that one of them would have.
        fail = [path for path, plan in self._plans.items() if plan.failure]
        if len(fail) > 1:
            each = delta * (1.0 - _ROUNDING) / len(fail)
            self._deltas = dict.fromkeys(fail, each)
            self._plans |= {path: self._trial(self._steps[path]) for path in fail}
        self._failure = math.fsum(plan.failure for plan in self._plans.values())
        self._relation = _common_relation(self._plans, users is not None)
        n_public = n_rows if self._relation[0] is Unit.ROW else None
        self.n_public = n_public if users is None else len(users)  # who are replaced
        costing = {
            path: self._steps[path].estimator
            for path, plan in self._plans.items()
            if plan.mechanisms
        }
        split = resolved_shares(shares, costing) if costing else {}
        self.weights = split
        self.step_shares = dict(self._shares(split))
        charged = [share.charged for share in self.step_shares.values()]
        self.plan = PrivacyPlan(
            epsilon,
            delta,
            tuple(m for plan in charged if plan for m in plan.mechanisms),
            "PrivatePipeline",
            *self._relation,
            seeded=any(plan.seeded for plan in self._plans.values()),
            remarks=tuple(self._remarks()),
            failure=self._failure,
            one_row_each=any(plan.one_row_each for plan in charged if plan),
        )
        doubts = []
        for path, share in self.step_shares.items():
            # What the form of a step's rows does not allow is said before the charge.
            plan = planned_within(self._steps[path], share)
            share.check(plan, None)
            noisy = (said for said in plan.remarks if said.concern is Concern.NOISE)
            doubts += [Remark(f"{path}: {said}", said.concern) for said in noisy]
        self.plan = replace(self.plan, remarks=(*self.plan.remarks, *doubts))

    def check_forms(self, y: Any) -> None:
        """Try the fit of each step until it would be charged."""
        for path, share in self.step_shares.items():
            step = self._steps[path]
            one, rows = step.estimator, step.rows
            assert rows is not None
            with naming(path):
                if not rows.own and _takes_names(one):
                    if get_tags(one).target_tags.required:
                        deferred_targets(one, y, rows.shape[0])
                    continue
                if not rows.own:
                    rows = replace(rows, X=zeros(rows.shape, like=rows.X))
                with_any_width(rows, functools.partial(_try, step, share, y))

    def _trial(self, step: Step) -> PrivacyPlan:
        """Plan a step with arbitrary noise, to determine the kind of its releases."""
        noise = None
        if step.estimator._takes_noise_multiplier and math.isfinite(self._epsilon):
            noise = _TRIAL_NOISE
        delta = self._deltas.get(step.path, self._delta)
        trial = StepShare(step.path, self._epsilon, delta, noise, users=self._users)
        plan = planned_within(step, trial)
        _check_plan(step.path, step.estimator, plan)
        return plan

    def _shares(self, split: dict[str, float]) -> Iterator[tuple[str, StepShare]]:
        """Yield the shares of all steps, by their paths, in order."""
        mechanisms = self._planned(split)
        for path, plan in self._plans.items():
            planned = mechanisms.get(path)
            epsilon, delta = self._epsilon, self._deltas.get(path, self._delta)
            noise = getattr(planned, "noise_multiplier", None)
            if noise is None and planned is not None and math.isfinite(epsilon):
                epsilon = self._epsilon_within(planned.mu, delta - plan.failure)
            charged = replace(plan, mechanisms=(planned,) if planned else ())
            given = path, epsilon, delta, noise, charged, self.n_public, self._users
            yield path, StepShare(*given)

    def _planned(self, split: dict[str, float]) -> dict[str, Any]:
        """Return a mechanism for each step that costs its share."""
        if not (split and math.isfinite(self._epsilon)):
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
        delta, neighbors = self._delta - self._failure, self._relation[1]
        noise = calibrate_sampled(self._epsilon, delta, rate, steps, neighbors, **given)
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

    def _remarks(self) -> Iterator[str]:
        if len(self.weights) > 1:
            said = ", ".join(f"{path} {w:.3g}" for path, w in self.weights.items())
            yield f"{SHARES_OF_STEPS}{said}."

    def close(self) -> None:
        """End all shares: from now on steps have their own budgets."""
        for share in self.step_shares.values():
            share.close()

    def plan_of_fit(self) -> PrivacyPlan:
        """Return the plan with the actual releases of a fit."""
        mechanisms: list[Mechanism] = []
        remarks = list(self._remarks())
        for path, share in self.step_shares.items():
            if share.plan is None:
                if path in self.weights:  # no columns remained
                    remarks.append(f"{path} got no columns, and released nothing.")
                continue
            mechanisms += [_renamed(m, path) for m in share.plan.mechanisms]
            said = share.plan.remarks
            remarks += [Remark(f"{path}: {one}", one.concern) for one in said]
        return replace(self.plan, mechanisms=tuple(mechanisms), remarks=tuple(remarks))


def _takes_names(estimator: Any) -> bool:
    """Return whether an estimator finds columns by names, which zeros do not have."""
    params = estimator.get_params(deep=False)
    named = (v for name, v in params.items() if name.endswith("_feature"))
    return any(isinstance(value, str) for value in named)


def _try(step: Step, share: StepShare, y: Any, X: Any) -> None:
    """Fit a copy of a step, until it would be charged."""
    trial = clone(step.estimator)
    for name in CALLBACK_ATTRIBUTES:
        vars(trial).pop(name, None)
    with share.trial():
        trial.fit(X, y)


def _renamed(mechanism: Any, path: str) -> Any:
    """Return a mechanism under a unique name."""
    name = f"{path}: {mechanism.name}"
    if isinstance(mechanism, Alternatives):
        branches_ = tuple(
            tuple(_renamed(m, path) for m in branch) for branch in mechanism.branches
        )
        return Alternatives(name, branches_)
    return replace(mechanism, name=name)
