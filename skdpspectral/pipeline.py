"""A pipeline that is one private estimator: its steps share one budget."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, pairwise, repeat
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_random_state, get_tags

from . import accounting
from ._base.documented import documented
from ._base.estimator import (
    ModelInside,
    PrivateEstimator,
    Seed,
    Self,
    TableEstimator,
    fitted_by,
)
from ._base.personal import PersonalEstimator
from ._base.privacy_report import is_known, passes_rows, report_after_charge
from ._base.sklearn_compat import CALLBACK_ATTRIBUTES, StrOptions, fit_progress
from ._tables import table
from ._tables.columns import (
    UserRows,
    column_apart,
    column_names,
    refuse_nullable_integers,
    refuse_on_cluster,
    refuse_same_names,
)
from .accounting import split_mu
from .accounting._composition import sampled_gaussian
from .accounting._ledger.planned_fits import (
    Composition,
    Rows,
    Step,
    StepShare,
    branches,
    composition_of,
    estimators_within,
    has_private,
    is_private,
    steps_of,
    with_any_width,
    zeros,
)
from .mechanisms import (
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
    check_count,
    check_real,
)

__all__ = ["PrivatePipeline", "make_private_pipeline"]

# Between the seeds of the steps of two fits.
_SEEDS_APART = 1013

# Steps without noise are tried on so many zeros, in so many columns at most.
_FEW, _MOST_TRIED = 3, 4096

# Rounding of a sum of failures, by far.
_ROUNDING = 2.0**-44

# Any noise will do to learn how often a step draws samples.
_TRIAL_NOISE = 10.0

# Weights of mu**2. A final model learns more numbers from the rows than a scaler does.
_SCALER, _OTHER, _MODEL = 1.0, 2.0, 4.0


@documented
class PrivatePipeline(ModelInside, Pipeline, PrivateEstimator):
    r"""Pipeline of private steps with a single budget and a single guarantee.

    All releases of a fit together are within `epsilon` and `delta`. The steps share
    this budget, and the ledger is charged once, before any value is read. Read more in
    the :ref:`user guide <private_pipelines>`.

    Parameters
    ----------
    steps : list of tuples (name, estimator)
        As in :class:`~sklearn.pipeline.Pipeline`. Private steps must keep the default
        values of `epsilon`, `delta` and `accountant`, including steps within
        ``ColumnTransformer``, ``FeatureUnion`` and nested pipelines. All steps must
        have the same privacy unit: one row or one user.
    epsilon : float or None, default=1.0
        Privacy budget of all steps together, positive. None switches privacy off.
    {delta}
    shares : "auto" or dict of str to float, default="auto"
        Positive shares of :math:`\mu^2` of all private steps by name, which are
        divided by their sum. Nested steps are named by paths, such as
        ``"columns__num"``. With "auto", scalers have weight 1, other transformers 2,
        and classifiers and regressors 4.
    {accountant}
    {noise_seed}
    user_feature : int, str or None, default=None
        Position or name of the column of X with user ids, which no step gets. A user
        with all rows is then protected, under replacement by another user
        (:ref:`rows_per_person`). Each step counts each user as one row, drawn at
        random; estimators with models of users use all rows. None leaves users to the
        steps.

    Attributes
    ----------
    pipeline_ : Pipeline
        The fitted steps, which are also accessible as ``model["name"]``, ``model[:-1]``
        and ``model.named_steps``. The estimators in `steps` are not modified.
    {privacy_}

    See Also
    --------
    sklearn.pipeline.Pipeline : Each step has its own budget and ledger entry.

    Notes
    -----
    **Formal guarantee.** A fit is (`epsilon`, `delta`)-differentially private for the
    privacy unit of its steps: one row that is replaced, or one user who joins or
    leaves. Gaussian steps get :math:`\mu_i = \mu \sqrt{w_i}`, where :math:`\mu` is the
    value of one Gaussian mechanism with the whole budget and :math:`w_i` is the share
    of the step. Their composition is exact (:ref:`composition`). A step with Poisson
    sampling, such as :class:`~skdpspectral.DPAdamClassifier`, uses the smallest
    noise with which its composition with all other steps stays within the budget. A
    step whose release would differ from its charged plan raises an error before the
    release. A step that leaks according to :func:`~skdpspectral.audit.privacy_report`
    raises an error before the charge.

    After the fit, `privacy_` lists the releases of the steps. Each step is fitted once.
    Column transformers and unions fit their parts sequentially. Callbacks are notified
    of the start and end of a fit, but receive no rows. If you refit a fitted step, such
    as one of ``model[:-1]``, it is charged separately, with its own budget.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPAdamClassifier, DPStandardScaler
    >>> from skdpspectral.pipeline import make_private_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(50.0, 10.0, size=(5000, 3))
    >>> y = X[:, 0] > 50.0
    >>> model = make_private_pipeline(
    ...     DPStandardScaler(),
    ...     DPAdamClassifier(classes=[False, True], batch_size=5000),
    ...     epsilon=2.0,
    ... ).fit(X, y)
    >>> model.privacy_.epsilon
    2.0
    >>> model.score(X, y) > 0.9
    True
    """

    _saved_instead: ClassVar[str] = (
        "its steps, if they are private estimators, or write publish() with joblib.dump"
    )
    transform_input: ClassVar[None] = None  # which Pipeline asks for
    _is_tried = False  # by the search that fits it, on rows of the same form

    # Of Pipeline: a cached step would be used again with the noise of another budget.
    memory: ClassVar[None] = None
    verbose: ClassVar[bool] = False

    _array_parameters: ClassVar[tuple[str, ...]] = ("steps",)

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "steps": "no_validation",
        "shares": [StrOptions({"auto"}), dict],
        "user_feature": [Integral, str, None],
    }

    def __init__(
        self,
        steps,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        shares: str | dict[str, float] = "auto",
        accountant: accounting.PrivacyAccountant | None = None,
        noise_seed: Seed = None,
        user_feature: int | str | None = None,
    ) -> None:
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.shares = shares
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.user_feature = user_feature

    # -- what a fit will release -----------------------------------------------------

    def privacy_plan(self, n_samples, n_features) -> PrivacyPlan:
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows, public if rows are protected, or of users of `user_feature`.
        n_features : int
            Number of columns, without that of `user_feature`.

        Returns
        -------
        {plan_of_shape}
            The plan contains the maximum cost of each step.

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        rows = np.broadcast_to(0.0, (n_samples, check_count("n_features", n_features)))
        by_user = self.user_feature is not None
        users = UserRows(np.arange(n_samples)) if by_user else None
        return self._prepared(rows, users)[-1].plan

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        {plan_of_rows}
        """
        self._check_parameters()
        return self._prepared(*self._apart(X))[-1].plan

    def _prepared(
        self, X: Any, users: UserRows | None, seeds: Iterable[int | None] = ()
    ) -> tuple[Pipeline, list[Step], _StepBudgets]:
        """Return clones of the steps, what they will fit, and budgets; or refuse some.

        X is without the column of ids. Only its form is used.
        """
        pipeline = self._unfitted()
        if (names := column_names(X)) is not None:  # which all of scikit-learn compares
            refuse_same_names(names, "X")
            table.compare_features(BaseEstimator(), X, reset=True)
        _private_steps(steps_of("", pipeline), users is not None)
        for leak in report_after_charge(pipeline).leaks:
            raise ValueError(
                f"step {leak.name!r} ({leak.estimator}) leaks: {leak.reason}. Nothing "
                "was charged"
            )
        steps = list(steps_of("", pipeline, Rows(X, form_after=_form_after)))
        private = _private_steps(steps, users is not None)
        # A fitted step that is fitted again is charged to the same ledger.
        for step, seed in zip(private, seeds, strict=False):
            step.estimator.set_params(accountant=self.accountant, noise_seed=seed)
        budgets = _StepBudgets(private, *self._budget_of_fit(), self.shares, users)
        return pipeline, steps, budgets

    def _check_parameters(self) -> None:
        super()._check_parameters()
        pairs = isinstance(self.steps, (list, tuple)) and all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in self.steps
        )
        if not (pairs and self.steps):
            raise ValueError("steps must be a list of pairs (name, estimator)")
        for name, step in self.steps:
            if isinstance(step, type):
                raise TypeError(f"step {name!r} is a class: pass {step.__name__}(...)")
        self._validate_steps()  # of Pipeline: names, and what steps can do
        # Before a step is tried: it might be cached, or refused for another reason.
        for path, part in estimators_within(self).items():
            if getattr(part, "memory", None) is not None:
                raise ValueError(
                    f"{path}__memory must be None: a cached step would be used again "
                    "with the noise of another budget"
                )

    def _unfitted(self) -> Pipeline:
        """Return a pipeline of clones of the steps, private to this fit."""
        steps = [(name, clone(step, safe=False)) for name, step in self.steps]
        pipeline = Pipeline(steps)
        # Branches would continue beside one that fails, without numpy's error state.
        for part in estimators_within(pipeline).values():
            if composition_of(part) in (Composition.UNION, Composition.COLUMNS):
                part.n_jobs = 1
        return pipeline

    def _apart(self, X: Any) -> tuple[Any, UserRows | None]:
        """Return the columns of the steps, and the users of the rows, if any."""
        refuse_on_cluster(X, type(self).__name__)
        if self.user_feature is None:
            return X, None
        X, ids = column_apart(X, self.user_feature, "user_feature")
        return X, table.users_of_rows(ids, table.table_shape(X)[0])

    def _asked(self, X: Any, params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Return a fitted model, and rows and parameters as its methods take them."""
        model = self._fitted()
        if self.user_feature is None:
            return model, X, params
        X, ids = column_apart(X, self.user_feature, "user_feature")
        if isinstance(model[-1], PersonalEstimator):
            rows = model[:-1].transform(X) if len(model) > 1 else X
            return model[-1], rows, {"users": ids, **params}
        return model, X, params

    # -- the way of a fit ------------------------------------------------------------

    def fit(self, X, y=None) -> Self:
        """Fit all steps, each with its share of the budget.

        Parameters
        ----------
        X : array-like or dataframe
            Rows in a form that the first step accepts.
        y : array-like or None, default=None
            Targets.

        {outcome_of_fit}
        """
        with self._unchanged_on_error(own_arithmetic=False):
            self._check_parameters()
            X, users = self._apart(X)
            refuse_on_cluster(y, type(self).__name__, "y")
            # Parameters may change from here on: what is fitted does not.
            accountant = self._governing_accountant()
            pipeline, steps, budgets = self._prepared(X, users, self._seeds())
            fitted = [s for _, s in pipeline.steps if s not in (None, "passthrough")]
            for before, step in pairwise(fitted):  # which may ask it for its units
                if all(isinstance(part, PrivateEstimator) for part in (before, step)):
                    step._step_share.before = before
            if not self._is_tried:
                _check_rows_of_others(steps)
                budgets.check_forms(y)
            self._warn_beforehand(budgets.n_public, float(self.delta))
            with fit_progress(self, len(pipeline.steps)) as progress:
                if accountant is not None:
                    accountant.charge(budgets.plan)
                try:
                    progress.begin(X, y, budgets.plan)
                    private = math.isfinite(budgets.plan.epsilon)
                    fitted_by(functools.partial(pipeline.fit, X, y), private)
                    plan = budgets.plan_of_fit()
                finally:
                    budgets.close()
            # At once: another thread may fit the same object.
            self.__dict__.update(pipeline_=pipeline, privacy_=plan)
        return self

    @property
    def fit_predict(self):
        """Not available: rows are predicted after a fit, with ``predict``."""
        raise AttributeError("a private pipeline has no fit_predict: call fit first")

    def _seeds(self) -> Iterator[int | None]:
        """Yield a seed for each private step; None without one of the pipeline."""
        if self.noise_seed is None:
            yield from repeat(None)
        own = self.noise_seed
        if not isinstance(own, Integral):
            own = int(check_random_state(own).randint(2**31))
        yield from ((_SEEDS_APART * own + number) % 2**31 for number in count(1))

    def _set_source(self, limit: Any, seed: Any) -> None:
        super()._set_source(limit, seed)
        self._is_tried = not (limit is None and seed is None)

    # -- what was fitted -------------------------------------------------------------

    _inside: ClassVar[str] = "pipeline_"

    def _method(self, name: str) -> Any:
        return getattr(super(ModelInside, self), name)

    def __getitem__(self, ind):
        """Return a step, or a slice of the fitted steps."""
        if hasattr(self, "pipeline_"):
            return self.pipeline_[ind]
        if isinstance(ind, slice):
            raise ValueError("a private pipeline has slices after its fit only")
        return super().__getitem__(ind)

    @property
    def named_steps(self):
        """Steps by name, fitted ones after a fit."""
        if hasattr(self, "pipeline_"):
            return self.pipeline_.named_steps
        return super().named_steps

    def set_output(self, *, transform=None):
        """Set the output format of ``transform`` in all steps.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            Kind of output. None keeps the current setting.

        Returns
        -------
        self : object
            The estimator.
        """
        super().set_output(transform=transform)
        if hasattr(self, "pipeline_"):
            self.pipeline_.set_output(transform=transform)
        return self


def make_private_pipeline(*steps, **parameters):
    """Build a :class:`PrivatePipeline` with automatically named steps.

    Parameters
    ----------
    *steps : estimators
        Steps, named after their lowercased classes as in
        :func:`~sklearn.pipeline.make_pipeline`.
    **parameters : object
        `epsilon`, `delta`, `shares`, `accountant`, `noise_seed` and `user_feature`, as
        in :class:`PrivatePipeline`.

    Returns
    -------
    PrivatePipeline
        The unfitted pipeline.

    Examples
    --------
    >>> from skdpspectral import DPPCA, DPStandardScaler
    >>> from skdpspectral.pipeline import make_private_pipeline
    >>> model = make_private_pipeline(DPStandardScaler(), DPPCA(2), epsilon=2.0)
    >>> list(model.named_steps)
    ['dpstandardscaler', 'dppca']
    >>> len(model.privacy_plan(n_samples=1000, n_features=5).mechanisms)
    2
    """
    return PrivatePipeline(make_pipeline(*steps).steps, **parameters)


# -- steps and their shares ------------------------------------------------------


def _weight(estimator: Any) -> float:
    """Return the public weight of a step, by its kind."""
    if get_tags(estimator).estimator_type in ("classifier", "regressor"):
        return _MODEL
    return _SCALER if isinstance(estimator, OneToOneFeatureMixin) else _OTHER


def _shares(given: Any, steps: dict[str, Any]) -> dict[str, float]:
    """Return the public shares of mu**2 of steps that release something."""
    weights = {path: _weight(step) for path, step in steps.items()}
    if isinstance(given, dict):
        if set(given) != set(steps):
            raise ValueError(
                "shares must have one entry per private step, which are "
                f"{', '.join(map(repr, steps))}, got {', '.join(map(repr, given))}"
            )
        weights = {path: check_real(f"shares[{path!r}]", given[path]) for path in steps}
        if not all(1e-9 <= weight <= 1e9 for weight in weights.values()):
            raise ValueError(f"shares must be within 1e-9 and 1e9, got {given}")
    total = math.fsum(weights.values())
    return {path: weight / total for path, weight in weights.items()}


def _private_steps(steps: Iterable[Step], by_user: bool) -> list[Step]:
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
    features = {  # of users who are protected
        step.path: step.estimator.user_feature
        for step in private
        if getattr(step.estimator, "user_feature", None) is not None
        and not isinstance(step.estimator, TableEstimator)  # which protects rows
        and not any(hasattr(e, "_puts_users_first") for _, e in step.behind)
    }
    if len(set(features.values())) > 1:
        raise ValueError(
            f"user_feature must be one column in all steps, got {features}: a user of "
            "one column has rows of several users of another"
        )
    return private


def _planned_within(step: Step, share: StepShare) -> PrivacyPlan:
    """Return the plan of a step within a share; errors name the step."""
    step.estimator._step_share = share
    with _naming(step.path):
        return step.plan()


def _form_after(path: str, step: Any, X: Any) -> Any:
    """Return zeros of the shape that a step without noise makes; None for others."""
    n_rows, n_columns = table.table_shape(X)
    whole = is_private(step) or composition_of(step)
    if whole or not is_known(step) or n_columns > _MOST_TRIED:
        return None
    seeds = {"random_state": 0} if hasattr(step, "random_state") else {}
    few = (type(X) if sparse.issparse(X) else np.zeros)((_FEW, n_columns))
    with _naming(path), np.errstate(all="ignore"):
        made = clone(step).set_params(**seeds).fit_transform(few)
    return zeros((n_rows, made.shape[1]), like=made)


def _check_rows_of_others(steps: list[Step]) -> None:
    """Refuse rows that steps without noise do not accept, or pass on as text."""
    for step in steps:
        one, read = step.estimator, [(step.path, step.rows)]
        if step.kind in (Composition.UNION, Composition.COLUMNS):
            inside = branches(step.path, one, step.rows)
            read = [
                (f"{step.path}__{n}", rows) for n, p, rows in inside if passes_rows(p)
            ]
        elif step.kind or is_private(one) or passes_rows(one) or isinstance(one, str):
            continue
        for path, rows in read:
            if rows.own:
                with _naming(path):
                    refuse_nullable_integers(rows.X)
                    table.deferred_rows(
                        None, rows.X, accept_sparse=True, in_blocks=True
                    )


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Prefix errors with the step that caused them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"step {path!r}: {error}") from error


def _check_step(path: str, step: Any, by_user: bool) -> None:
    """Refuse a step with its own budget, ledger or noise."""
    kind, whole = type(step).__name__, composition_of(step)
    parameters, changed = inspect.signature(type(step)).parameters, []
    for name in ("epsilon", "delta"):
        value, default = getattr(step, name), parameters[name].default
        if value is not default and (np.ndim(value) or value != default):
            changed.append(f"{name}={value!r}")
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
                f"{first} protects one {one[0]} under {one[1]}, and {other} one "
                f"{two[0]} under {two[1]}: one guarantee requires the same unit and "
                "relation in all steps; choose such steps, for users with "
                'neighbors="replace-one", or fit them with separate budgets in '
                "sklearn.pipeline.Pipeline"
            )
    return one


class _StepBudgets:
    """Shares of a budget for all private steps, and the plan that is charged.

    `epsilon` is infinite without privacy.
    """

    def __init__(
        self,
        steps: list[Step],
        epsilon: float,
        delta: float,
        shares: Any,
        users: UserRows | None,
    ) -> None:
        self._epsilon, self._delta, self._users = epsilon, delta, users
        self._steps = {step.path: step for step in steps}
        deltas = dict.fromkeys(self._steps, delta)
        plans = {path: self._trial(path, delta) for path in deltas}
        # Failures of all steps together are those that one of them would have.
        fail = [path for path, plan in plans.items() if plan.failure]
        if len(fail) > 1:
            deltas |= dict.fromkeys(fail, delta * (1.0 - _ROUNDING) / len(fail))
            plans |= {path: self._trial(path, deltas[path]) for path in fail}
        self._failure = math.fsum(plan.failure for plan in plans.values())
        self._relation = _common_relation(plans, users is not None)
        n_rows = steps[0].rows.shape[0] if self._relation[0] is Unit.ROW else None
        self.n_public = n_rows if users is None else len(users)  # who are replaced
        releases = {path: plan for path, plan in plans.items() if plan.mechanisms}
        costing = {path: self._steps[path].estimator for path in releases}
        self.weights = _shares(shares, costing) if costing else {}
        said = ", ".join(f"{path} {share:.3g}" for path, share in self.weights.items())
        said = f"Its steps have these shares of the cost (mu**2): {said}."
        self._remarks = [said] if len(self.weights) > 1 else list[Any]()
        mechanisms = self._planned(releases)
        self.step_shares: dict[str, StepShare] = {}
        doubts = []
        for path, plan in plans.items():
            planned, own = mechanisms.get(path), epsilon
            noise = getattr(planned, "noise_multiplier", None)
            if noise is None and planned is not None and math.isfinite(epsilon):
                own = self._epsilon_within(planned.mu, deltas[path] - plan.failure)
            charged = replace(plan, mechanisms=(planned,) if planned else ())
            given = deltas[path], noise, charged, self.n_public, users
            share = self.step_shares[path] = StepShare(path, own, *given)
            # What the form of a step's rows does not allow is said before the charge.
            found = _planned_within(self._steps[path], share)
            share.check(found, None)
            noisy = (one for one in found.remarks if one.concern is Concern.NOISE)
            doubts += [Remark(f"{path}: {one}", one.concern) for one in noisy]
        self.plan = PrivacyPlan(
            epsilon,
            delta,
            tuple(mechanisms.values()),
            "PrivatePipeline",
            *self._relation,
            seeded=any(plan.seeded for plan in plans.values()),
            remarks=(*self._remarks, *doubts),
            failure=self._failure,
            one_row_each=any(plan.one_row_each for plan in plans.values()),
        )

    def check_forms(self, y: Any) -> None:
        """Try the fit of each step until it would be charged."""
        for path, share in self.step_shares.items():
            one, rows = self._steps[path].estimator, self._steps[path].rows
            with _naming(path):
                # Names of columns, which zeros do not have.
                params = one.get_params(deep=False).items()
                named = [v for name, v in params if name.endswith("_feature")]
                if not rows.own and any(isinstance(value, str) for value in named):
                    if get_tags(one).target_tags.required:
                        table.deferred_targets(one, y, rows.shape[0])
                    continue
                if not rows.own:
                    rows = replace(rows, X=zeros(rows.shape, like=rows.X))
                with_any_width(rows, functools.partial(_try, one, share, y))

    def _trial(self, path: str, delta: float) -> PrivacyPlan:
        """Plan a step with arbitrary noise, to determine the kind of its releases."""
        step, noise = self._steps[path], None
        if step.estimator._takes_noise_multiplier and math.isfinite(self._epsilon):
            noise = _TRIAL_NOISE
        trial = StepShare(path, self._epsilon, delta, noise, users=self._users)
        plan = _planned_within(step, trial)
        _check_plan(path, step.estimator, plan)
        return plan

    def _planned(self, plans: dict[str, PrivacyPlan]) -> dict[str, Any]:
        """Return a mechanism for each step that costs its share."""
        if not (plans and math.isfinite(self._epsilon)):
            return {path: Exact(path, (1,)) for path in plans}
        delta, neighbors = self._delta - self._failure, self._relation[1]
        mu = accounting.gaussian_mu(self._epsilon, delta)
        mus, planned = split_mu(mu, tuple(self.weights.values())), dict[str, Any]()
        lemma: dict[str, Any] = {"lemma": "composition"}
        for path, cost in zip(plans, mus, strict=True):
            given = path, 1.0, cost, (1,)
            planned[path] = accounting.calibrate_gaussian(*given, **lemma)
        firsts = {path: plan.mechanisms[0] for path, plan in plans.items()}
        sampled = {p: m for p, m in firsts.items() if isinstance(m, SampledGaussian)}
        beside = math.hypot(*(planned[p].mu for p in plans if p not in sampled))
        others = {"mu": beside} if beside else {}
        if sampled:  # the last step alone: the least noise that the others allow
            ((path, drawn),) = sampled.items()
            rate, steps = drawn.sampling_probability, drawn.max_steps
            least = accounting.calibrate_sampled(
                self._epsilon, delta, rate, steps, neighbors, **others
            )
            more = {"max_steps": steps, "sampling_probability": rate, **lemma}
            planned[path] = sampled_gaussian(path, 1.0, least, (1,), **more)
        return planned

    def _epsilon_within(self, mu: float, delta: float) -> float:
        """Return an epsilon whose calibration costs at most `mu`."""
        epsilon, lower = accounting.gaussian_epsilon(mu, delta), 2.0**-50
        while epsilon > 0.0 and accounting.gaussian_mu(epsilon, delta) > mu:
            epsilon, lower = epsilon * (1.0 - lower), 2.0 * lower
        if not epsilon > 0.0:
            raise ValueError(
                f"epsilon={self._epsilon:g} is too small for {len(self._steps)} "
                f"private steps at delta={self._delta:g}; increase it"
            )
        return epsilon

    def close(self) -> None:
        """End all shares: from now on steps have their own budgets."""
        for share in self.step_shares.values():
            share.close()

    def plan_of_fit(self) -> PrivacyPlan:
        """Return the plan with the actual releases of a fit."""
        mechanisms: list[Mechanism] = []
        remarks = list(self._remarks)
        for path, share in self.step_shares.items():
            if share.plan is None:
                if path in self.weights:  # no columns remained
                    remarks.append(f"{path} got no columns, and released nothing.")
                continue
            mechanisms += [_renamed(m, path) for m in share.plan.mechanisms]
            said = share.plan.remarks
            remarks += [Remark(f"{path}: {one}", one.concern) for one in said]
        return replace(self.plan, mechanisms=tuple(mechanisms), remarks=tuple(remarks))


def _try(step: Any, share: StepShare, y: Any, X: Any) -> None:
    """Fit a copy of a step, until it would be charged."""
    trial = clone(step)
    for name in CALLBACK_ATTRIBUTES:
        vars(trial).pop(name, None)
    with share.trial():
        trial.fit(X, y)


def _renamed(mechanism: Any, path: str) -> Any:
    """Return a mechanism under a unique name."""
    name = f"{path}: {mechanism.name}"
    if isinstance(mechanism, Alternatives):
        inside = (tuple(_renamed(m, path) for m in b) for b in mechanism.branches)
        return Alternatives(name, tuple(inside))
    return replace(mechanism, name=name)
