"""A pipeline that is one private estimator, with one budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import count, pairwise, repeat
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_random_state

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, fitted_by
from .._base.model_inside import ModelInside, has_method
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import StrOptions, fit_progress
from .._tables.columns import (
    UserRows,
    column_apart,
    column_names,
    refuse_on_cluster,
    refuse_same_names,
)
from .._tables.table import compare_features, table_shape, users_of_rows
from ..accounting import PrivacyAccountant
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
    check_rows_of_others,
    form_after,
    private_steps,
)

# Between the seeds of the steps of two fits.
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
    {accountant}
    {noise_seed}
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
    **Formal guarantee.** A fit is (`epsilon`, `delta`)-differentially private for the
    privacy unit of its steps: one row that is replaced, or one user who joins or
    leaves. Gaussian steps get :math:`\mu_i = \mu \sqrt{w_i}`, where :math:`w_i` is
    the share of the step and :math:`\mu` is the value of one Gaussian mechanism with
    the whole budget. Their composition is exact (:ref:`composition`). A step with
    Poisson sampling, such as :class:`~skdpspectral.DPAdamClassifier`, uses the smallest
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

    _array_parameters: ClassVar[tuple[str, ...]] = ("steps",)

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "steps": "no_validation",
        "shares": [StrOptions({"auto"}), dict],
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
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
        user_feature: int | str | None = None,
        memory=None,
        verbose: bool = False,
    ) -> None:
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.shares = shares
        self.accountant = accountant
        self.noise_seed = noise_seed
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
        users = UserRows(np.arange(n_samples))
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
        _, steps = self._steps_of(self._unfitted(), _rows_of(X), users)
        return self._budgets(steps, users).plan

    def _steps_of(
        self, pipeline: Pipeline, table: Rows, users: UserRows | None
    ) -> tuple[list[Step], list[Step]]:
        """Return all steps and the private ones, with their rows, or refuse some."""
        private_steps(steps_of("", pipeline), users is not None)
        for step in report_after_charge(pipeline).leaks:
            raise ValueError(
                f"step {step.name!r} ({step.estimator}) leaks: {step.reason}. Nothing "
                "was charged"
            )
        steps = list(steps_of("", pipeline, table))
        return steps, private_steps(steps, users is not None)

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

    def _budgets(self, steps: list[Step], users: UserRows | None) -> StepBudgets:
        """Give steps their shares, and plan all of them."""
        return StepBudgets(steps, *self._budget_of_fit(), self.shares, users)

    def _apart(self, X: Any) -> tuple[Any, UserRows | None]:
        """Return the columns of the steps, and the users of the rows, if any."""
        refuse_on_cluster(X, type(self).__name__)
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

    def fit(self, X, y=None) -> Self:
        """Fit all steps, each with its share of the budget.

        Parameters
        ----------
        {rows_of_steps}

        {outcome_of_fit}
        """
        with self._unchanged_on_error(own_arithmetic=False):
            self._check_parameters()
            # Parameters may change from here on: what is fitted does not.
            pipeline, accountant = self._unfitted(), self._governing_accountant()
            X, users = self._apart(X)
            refuse_on_cluster(y, type(self).__name__, "y")
            all_steps, steps = self._steps_of(pipeline, _rows_of(X), users)
            # A fitted step that is fitted again is charged to the same ledger.
            for step, seed in zip(steps, self._seeds(), strict=False):
                step.estimator.set_params(accountant=self.accountant, noise_seed=seed)
            budgets = self._budgets(steps, users)
            fitted = [s for _, s in pipeline.steps if s not in (None, "passthrough")]
            for before, step in pairwise(fitted):  # which may ask it for its units
                if all(isinstance(part, PrivateEstimator) for part in (before, step)):
                    step._step_share.before = before
            if not self._is_tried:
                check_rows_of_others(all_steps)
                budgets.check_forms(y)
            self._warn_beforehand(budgets.n_public, float(self.delta))
            with fit_progress(self, len(pipeline.steps)) as progress:
                if accountant is not None:
                    accountant.charge(budgets.plan)
                try:
                    progress.begin(X, y, budgets.plan)
                    private = math.isfinite(budgets.plan.epsilon)
                    fitted_by(partial(pipeline.fit, X, y), private)
                    plan = budgets.plan_of_fit()
                finally:
                    budgets.close()
            # At once: another thread may fit the same object.
            self.__dict__.update(pipeline_=pipeline, privacy_=plan)
        return self

    @has_method("transform")
    def fit_transform(self, X, y=None):
        """Fit all steps and transform the same rows.

        Parameters
        ----------
        {rows_of_steps}

        Returns
        -------
        ndarray
            Transformed rows. Each is as private as its original row.
        """
        return self.fit(X, y).transform(X)

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


def _rows_of(X: Any) -> Rows:
    """Return the form of a table."""
    if (names := column_names(X)) is not None:  # which all of scikit-learn compares
        refuse_same_names(names, "X")
        compare_features(BaseEstimator(), X, reset=True)
    return Rows(X, form_after=form_after)


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


def make_private_pipeline(
    *steps,
    epsilon=1.0,
    delta=1e-6,
    shares="auto",
    accountant=None,
    noise_seed=None,
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
    epsilon, delta, shares, accountant, noise_seed, user_feature, memory, verbose
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
