"""A pipeline that is one private estimator, with one budget."""

from __future__ import annotations

import inspect
import math
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metadata_routing import process_routing

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Self, fitted_by, published_copy
from .._base.made_up import check_form_of_others
from .._base.model_inside import ModelInside, has_method
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import (
    Interval,
    StrOptions,
    fit_progress,
)
from .._tables.clusters import is_on_cluster
from .._tables.columns import column_apart, column_names, refuse_same_names
from .._tables.ids import UserRows
from .._tables.table import compare_features, table_shape, users_of_rows
from ..accounting import PrivacyAccountant, PrivacyLeakWarning
from ..accounting._errors import warn
from ..accounting._ledger.planned_fits import (
    Composition,
    Rows,
    Step,
    composition_of,
    estimators_within,
    steps_of,
)
from ..mechanisms import PrivacyPlan, check_count
from ._step_budgets import (
    StepBudgets,
    form_after,
    private_steps,
)

# Seeds of the steps of one run.
_SEEDS_APART = 1013


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
        Shares of :math:`\mu^2` of all private steps by name, which sum to 1. Nested
        steps are named by paths, such as ``"columns__num"``. With "auto", scalers have
        weight 1, other transformers 2, and classifiers and regressors 4.
    on_leak : {"raise", "warn"}, default="raise"
        What happens if :func:`~skdpspectral.audit.privacy_report` finds a step that
        leaks. "raise" raises an error before the charge. "warn" warns that there is no
        guarantee.
    {accountant}
    user_feature : int, str or None, default=None
        Position or name of the column of X with user ids, which no step gets. A user
        with all rows is then protected, under replacement by another user
        (:ref:`rows_per_person`). Each step counts each user as one row, drawn at
        random; estimators with models of users use all rows. None leaves users to the
        steps.
    memory : None
        Must be None, because a cached step would be reused with the noise and cost of
        another budget.
    verbose : bool, default=False
        Whether to print the elapsed time of each step.

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
    **Formal guarantee.** With ``on_leak="raise"`` a fit is (`epsilon`,
    `delta`)-differentially private for the privacy unit of its steps: one row that is
    replaced, or one user who joins or leaves. Gaussian steps get
    :math:`\mu_i = \mu \sqrt{w_i}`, where :math:`w_i` is the share of the step and
    :math:`\mu` is the value of one Gaussian mechanism with the whole budget. Their
    composition is exact (:ref:`composition`). A step with Poisson sampling, such as
    :class:`~skdpspectral.DPAdamClassifier`, uses the smallest noise with which its
    composition with all other steps stays within the budget. A step whose release would
    differ from its charged plan raises an error before the release.

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
    # Steps have seeds, for tests; those of a run of a search are set by the search.
    noise_seed: ClassVar[None] = None
    transform_input: ClassVar[None] = None  # which Pipeline asks for
    _run_seed: int | None = None

    _array_parameters: ClassVar[tuple[str, ...]] = ("steps",)

    _parameter_constraints: ClassVar[dict] = {
        "steps": "no_validation",
        "epsilon": [Interval(Real, 0, None, closed="right"), None],
        "delta": [Real],
        "shares": [StrOptions({"auto"}), dict],
        "on_leak": [StrOptions({"raise", "warn"})],
        "accountant": [PrivacyAccountant, None],
        "user_feature": [Integral, str, None],
        "memory": "no_validation",
        "verbose": ["boolean"],
    }

    def __init__(
        self,
        steps,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        shares="auto",
        on_leak: str = "raise",
        accountant: PrivacyAccountant | None = None,
        user_feature: int | str | None = None,
        memory=None,
        verbose: bool = False,
    ) -> None:
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.shares = shares
        self.on_leak = on_leak
        self.accountant = accountant
        self.user_feature = user_feature
        self.memory = memory
        self.verbose = verbose

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
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        users = UserRows(lambda: [np.arange(n_samples)], "users")
        by_user = self.user_feature is not None
        rows = np.broadcast_to(0.0, (n_samples, n_features))
        return self._plan_of(rows, users if by_user else None)

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        {plan_of_rows}
        """
        self._check_parameters()
        return self._plan_of(*self._apart(X))

    def _plan_of(self, X: Any, users: UserRows | None) -> PrivacyPlan:
        """Return the plan of the rows of users, without the column of ids."""
        self._check_parameters()
        steps = list(steps_of("", self._unfitted(), _rows_of(X, self.steps)))
        return self._budgets(private_steps(steps, users is not None), users=users).plan

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_steps(self.steps)
        # Before a step is tried: it might be cached, or refused for another reason.
        for path, part in estimators_within(self).items():
            if getattr(part, "memory", None) is not None:
                raise ValueError(
                    f"{path}{'__' if path else ''}memory must be None: a cached step "
                    "would be used again with the noise of another budget"
                )

    def _unfitted(self) -> Pipeline:
        """Return a pipeline of clones of the steps, private to this fit."""
        pipeline = Pipeline(
            [(name, clone(step, safe=False)) for name, step in self.steps],
            verbose=self.verbose,
        )
        # Branches would continue beside one that fails, without numpy's error state.
        for part in estimators_within(pipeline).values():
            if composition_of(part) in (Composition.UNION, Composition.COLUMNS):
                part.n_jobs = 1
        return pipeline

    def _budgets(self, steps: list[Step], leak="", users=None) -> StepBudgets:
        """Give steps their shares, and plan all of them; a leak is said in the plan."""
        budget, name = self._budget_of_fit(), type(self).__name__
        more = {"estimator": name, "leak": leak, "users": users}
        return StepBudgets(steps, *budget, self.shares, **more)

    def _apart(self, X: Any) -> tuple[Any, UserRows | None]:
        """Return the columns of the steps, and the users of the rows, if any."""
        if self.user_feature is None:
            return X, None
        X, ids = column_apart(X, self.user_feature, "user_feature")
        return X, users_of_rows(ids, table_shape(X)[0])

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

    def fit(self, X, y=None, **params) -> Self:
        """Fit all steps, each with its share of the budget.

        Parameters
        ----------
        {rows_of_steps}

        {outcome_of_fit}
        """
        self._fit_steps("fit", X, y, params)
        return self

    @has_method("fit_transform")
    def fit_transform(self, X, y=None, **params):
        """Fit all steps and transform the same rows.

        Parameters
        ----------
        {rows_of_steps}

        Returns
        -------
        ndarray
            Transformed rows. Each is as private as its original row.
        """
        return self._fit_steps("fit_transform", X, y, params)

    @has_method("fit_predict")
    def fit_predict(self, X, y=None, **params):
        """Fit all steps and predict for the same rows.

        Parameters
        ----------
        {rows_of_steps}

        Returns
        -------
        ndarray
            Predictions. Each is as private as its row.
        """
        return self._fit_steps("fit_predict", X, y, params)

    def _fit_steps(self, method: str, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Charge the plan of all steps, and fit them by a method of Pipeline."""
        with self._unchanged_on_error(own_arithmetic=False):
            self._check_parameters()
            # Parameters may change from here on: what is fitted does not.
            pipeline, own = self._unfitted(), self.accountant
            accountant = self._governing_accountant() if own is None else own
            _check_metadata(pipeline, method, params)
            X, users = self._apart(X)
            table = _rows_of(X, self.steps)
            all_steps = list(steps_of("", pipeline, table))
            steps = private_steps(all_steps, users is not None)
            leak = self._refused_leak(pipeline)
            if self._run_seed is not None:  # that of a run of a seeded search
                for number, step in enumerate(steps, start=1):
                    seed = (_SEEDS_APART * self._run_seed + number) % 2**31
                    step.estimator.set_params(noise_seed=seed)
            budgets = self._budgets(steps, leak, users)
            fitted = [s for _, s in pipeline.steps if s not in (None, "passthrough")]
            for before, step in pairwise(fitted):  # which may ask it for its units
                if all(isinstance(part, PrivateEstimator) for part in (before, step)):
                    step._step_share.before = before
            if self._run_seed is None:  # a search has tried its form
                check_form_of_others(all_steps)
                own_params = {} if _routes_metadata() else params
                budgets.check_forms(X, y, own_params, table)
            self._warn_beforehand(budgets.n_public, float(self.delta))
            # A fitted step that is fitted again is charged to the same ledger.
            for step in steps:
                step.estimator.set_params(accountant=own)
            private = math.isfinite(budgets.plan.epsilon)
            with fit_progress(self, len(pipeline.steps)) as progress:
                if accountant is not None:
                    accountant.charge(budgets.plan)
                try:
                    progress.begin(X, y, budgets.plan)
                    fit = partial(getattr(pipeline, method), X, y, **params)
                    result = fitted_by(fit, private and not leak)
                    plan = budgets.plan_of_fit(pipeline)
                finally:
                    budgets.close()
            # At once: another thread may fit the same object.
            self.__dict__.update(pipeline_=pipeline, privacy_=plan)
        return result

    def _set_source(self, limit: Any, seed: Any) -> None:
        self._fit_limit, self._run_seed = limit, seed

    def _refused_leak(self, pipeline: Pipeline) -> str:
        """Refuse a step that leaks, or warn of it and return the reason."""
        leaks = report_after_charge(pipeline).leaks
        if not leaks:
            return ""
        step = leaks[0]
        said = f"step {step.name!r} ({step.estimator}) leaks: {step.reason}"
        if self.on_leak == "raise":
            raise ValueError(
                f'{said}. Nothing was charged; with on_leak="warn" it is fitted '
                "anyway, but the pipeline then has no guarantee"
            )
        warn(
            f"{said}: what this pipeline publishes is not private",
            PrivacyLeakWarning,
        )
        return said

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

    # -- what is handed on -----------------------------------------------------------

    def publish(self):
        """Return a copy whose steps hold only releases and plans, safe to share.

        The copy transforms and predicts like the original, except for user models.

        Returns
        -------
        PrivatePipeline
            A fitted pipeline, without accountant, seeds and callbacks.

        Raises
        ------
        NotFittedError
            If the pipeline is not fitted.

        Warns
        -----
        PrivacyLeakWarning
            If the fit was not private, or a step leaks.
        """
        fitted = self._fitted()
        self._warn_unless_private()
        leaks = report_after_charge(fitted).leaks
        if leaks and self.privacy_.private:
            warn(
                f"step {leaks[0].name!r} leaks, and its copy does too: "
                f"{leaks[0].reason}",
                PrivacyLeakWarning,
            )
        parameters = self.get_params(deep=False)
        parameters.update(accountant=None)
        published = type(self)(**published_copy(parameters))
        published.__dict__.pop("_made_in", None)
        published.pipeline_ = published_copy(fitted)
        published.privacy_ = self.privacy_
        return published


def _rows_of(X: Any, steps: Any) -> Rows:
    """Return the form of a table; of one on a cluster, the shape alone is known."""
    if is_on_cluster(X):
        name, first = steps[0]
        if hasattr(first, "steps") or not isinstance(first, PrivateEstimator):
            raise TypeError(
                f"X is a dask collection, which step {name!r} does not read: begin "
                "with a private estimator that reads it, or pass X.compute()"
            )
        return Rows(np.broadcast_to(0.0, table_shape(X)), own=False)
    if (names := column_names(X)) is not None:  # which all of scikit-learn compares
        refuse_same_names(names, "X")
        compare_features(BaseEstimator(), X, reset=True)
    return Rows(X, form_after=form_after)


def _routes_metadata() -> bool:
    return bool(get_config()["enable_metadata_routing"])


def _check_steps(steps: Any) -> None:
    """Refuse anything but lists of names and steps, before the charge."""
    pairs = isinstance(steps, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in steps
    )
    if not (pairs and steps):
        raise ValueError("steps must be a list of pairs (name, estimator), not empty")
    names = [name for name, _ in steps]
    for name in names:
        if not isinstance(name, str) or "__" in name or names.count(name) > 1:
            raise ValueError(
                f"steps must have names that are all different, without '__', got "
                f"{name!r}"
            )
    if set(names) & set(PrivatePipeline._parameter_constraints):
        raise ValueError(
            f"steps must not have names of parameters of the pipeline, got {names}"
        )
    for number, (name, step) in enumerate(steps, start=1):
        if step is None or (isinstance(step, str) and step == "passthrough"):
            continue
        if isinstance(step, type):
            raise TypeError(
                f"step {name!r} is a class: pass an instance, {step.__name__}(...)"
            )
        transforms = hasattr(step, "transform") or number == len(steps)
        if not (hasattr(step, "fit") and hasattr(step, "get_params") and transforms):
            raise TypeError(
                f"step {name!r} must have fit{' and transform' * (number < len(steps))}"
                f", got {type(step).__name__}"
            )


def _check_metadata(pipeline: Pipeline, method: str, params: dict[str, Any]) -> None:
    """Refuse metadata that no step accepts, before the charge."""
    if _routes_metadata():
        process_routing(pipeline, method, **params)
        return
    names = [name for name, _ in pipeline.steps]
    for name in params:
        step, found, _ = name.partition("__")
        if not found or step not in names:
            raise ValueError(
                f"{method} got {name!r}: without metadata routing the names of "
                "parameters must begin with the name of a step, such as "
                f"{names[-1]}__{name}"
            )
        _, parameter = name.split("__", 1)
        taken = inspect.signature(dict(pipeline.steps)[step].fit).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD or p.name == parameter for p in taken):
            raise TypeError(
                f"step {step!r} does not accept {parameter!r}: remove {name}"
            )


def make_private_pipeline(
    *steps,
    epsilon=1.0,
    delta=1e-6,
    shares="auto",
    on_leak="raise",
    accountant=None,
    user_feature=None,
    memory=None,
    verbose=False,
):
    """Build a :class:`PrivatePipeline` with automatically named steps.

    Parameters
    ----------
    *steps : estimators
        Steps, named after their lowercased classes as in
        :func:`~sklearn.pipeline.make_pipeline`.
    epsilon, delta, shares, on_leak, accountant, user_feature, memory, verbose
        As in :class:`PrivatePipeline`.

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
    given = {name: value for name, value in locals().items() if name != "steps"}
    return PrivatePipeline(make_pipeline(*steps).steps, **given)
