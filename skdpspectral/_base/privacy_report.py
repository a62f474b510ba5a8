"""Which steps of a pipeline are private, which leak, and copies to hand on.

Verdicts come first, then what compositions do to rows, then what a search may try.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import Memory
from scipy.stats import randint
from scipy.stats.distributions import rv_frozen
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import (
    RFE,
    RFECV,
    SelectFromModel,
    SequentialFeatureSelector,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
)
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils.validation import check_is_fitted

from ..accounting import PrivacyLeakWarning
from ..accounting._ledger.planned_fits import (
    Composition,
    composition_of,
    estimators_within,
    parts_of,
)
from ..mechanisms import Assumption, Unit, shown
from ..mechanisms._plan import html_table
from .estimator import SCORERS, PrivateEstimator, TableEstimator, published_copy
from .steps import (
    ID_PARAMETERS,
    Before,
    given_categories,
    has_own_methods,
    is_known,
    makes_sparse,
    reason_of_disclosure,
    reason_of_early_message,
    reason_of_moved_ids,
    stateless_reason,
    values_after,
)
from .strategies import is_strategy

PRIVATE, STATELESS, LEAKS = "private", "stateless", "LEAKS"

# Of these a step is fitted alone: each has its verdict.
_WALKED = (Composition.PIPELINE, Composition.UNION, Composition.COLUMNS)

_SCALERS = (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

_FOREIGN = (
    "its class derives from a known class, or it has its own methods: how these "
    "use private rows is not known"
)


@dataclass(frozen=True)
class StepReport:
    """Verdict on one step of a pipeline.

    Parameters
    ----------
    name : str
        Path of the step, with double underscores as in ``set_params``.
    estimator : str
        Name of the estimator's class.
    verdict : {"private", "stateless", "LEAKS"}
        "private": fitted with a guarantee. "stateless": fitting uses no values.
        "LEAKS": the fitted step may reveal rows.
    reason : str
        Reason for the verdict, and a remedy.
    budgets : tuple of tuple (epsilon, delta)
        Budgets that a fit of a private estimator spends. There are several if a search
        tries several. They are strings if each client has its own budget or a
        `noise_multiplier` is given.
    voids : bool
        Whether the leak also voids later guarantees. One by an error or warning does
        not.
    """

    name: str
    estimator: str
    verdict: str
    reason: str
    budgets: tuple[tuple, ...] = field(default=(), repr=False)
    voids: bool = field(default=True, repr=False)


@dataclass(frozen=True)
class PrivacyReport:
    """Verdicts on all steps, in order; ``str()`` gives a table.

    Parameters
    ----------
    steps : tuple of StepReport
        One entry per step.
    """

    steps: tuple[StepReport, ...]

    @property
    def private(self) -> bool:
        """Whether no step leaks."""
        return all(step.verdict != LEAKS for step in self.steps)

    def __iter__(self) -> Iterator[StepReport]:
        return iter(self.steps)

    def _repr_html_(self) -> str:
        head = ("step", "estimator", "verdict", "reason")
        rows = [(s.name, s.estimator, s.verdict, s.reason) for s in self.steps]
        return html_table([head, *rows])

    def __str__(self) -> str:
        name = max((len(step.name) for step in self.steps), default=0)
        kind = max((len(step.estimator) for step in self.steps), default=0)
        return "\n".join(
            f"{step.name:{name}}  {step.estimator:{kind}}  {step.verdict:9}  "
            f"{step.reason}"
            for step in self.steps
        )


def privacy_report(estimator) -> PrivacyReport:
    """Report for each step of a pipeline whether fitting it is private.

    Nothing is fitted and no data are needed. Steps are reported as leaks unless they
    are known to be harmless. This includes steps that may raise an error or warn before
    the charge, depending on values. Numeric columns are assumed to have a numeric
    dtype. In a search, a step leaks if it leaks for any candidate.

    Parameters
    ----------
    estimator : estimator
        A pipeline, column transformer, union, search, any other estimator that contains
        estimators, or a single estimator. Unknown kinds of estimators are reported as
        leaks. So are estimators of users or clients whose column is given by its
        position, if they follow a step that moves columns.

    Returns
    -------
    PrivacyReport
        Has `private`, which is True if no step leaks, and `steps`, each with `name`,
        `estimator`, `verdict`, `reason` and `budgets`. ``str()`` returns a table.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.audit import privacy_report
    >>> report = privacy_report(make_pipeline(StandardScaler(), DPPCA()))
    >>> report.private
    False
    >>> [step.verdict for step in report]
    ['LEAKS', 'LEAKS']
    """
    return PrivacyReport(tuple(_walk("", estimator, Before())))


def report_after_charge(estimator, users=None) -> PrivacyReport:
    """Return the report on an estimator whose fits are charged before they begin.

    `users` is the column of users that its search scores.
    """
    before = Before(charged=True, users=users)
    return PrivacyReport(tuple(_walk("", estimator, before)))


def _walk(name: str, estimator, before: Before) -> Iterator[StepReport]:
    """Yield verdicts; `before` has the effects of earlier steps on the rows."""
    yield from _verdicts(name, estimator, before)
    if composition_of(estimator) in _WALKED and not is_known(estimator):
        kind = type(estimator).__name__
        yield StepReport(name or kind.lower(), kind, LEAKS, _FOREIGN)


def _verdicts(name: str, estimator, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on the parts of an estimator, or on itself."""
    prefix, kind = f"{name}__" if name else "", composition_of(estimator)
    if kind is Composition.PIPELINE and isinstance(estimator, PrivateEstimator):
        yield from _walk_private_pipeline(name, estimator, before)
    elif kind is Composition.PIPELINE:
        for step, child in parts_of(estimator):
            leaks = None
            for verdict in _walk(prefix + step, child, before):
                yield verdict
                if verdict.verdict == LEAKS and verdict.voids and leaks is None:
                    leaks = verdict.name
            before = before.after(child, prefix + step, leaks)
        yield from _remembered(name, estimator)
    elif kind in _WALKED:
        if kind is Composition.COLUMNS:
            before = before.moved_by(name or "columntransformer")
        for step, child in parts_of(estimator):
            yield from _walk(prefix + step, child, before)
        yield from _chosen_columns(name, estimator)
        yield from _by_density(name, estimator)
    elif kind is Composition.SEARCH and is_known(estimator):
        private = isinstance(estimator, PrivateEstimator)
        walk = _walk_private_search if private else _walk_search
        yield from walk(name, estimator, before)
    elif kind is not None and not isinstance(estimator, PrivateEstimator):
        yield from _walk_meta(name, estimator, before)
    else:
        yield _leaf(name or type(estimator).__name__.lower(), estimator, before)


def _walk_private_pipeline(name: str, pipeline, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on the steps that share a budget, and on their pipeline.

    It is charged before its steps are fitted.
    """
    plain, leaks = Pipeline(pipeline.steps, memory=pipeline.memory), False
    for step in _verdicts(name, plain, replace(before, charged=True)):
        if step.budgets:
            share = "each fit spends a share of the pipeline's budget"
            reason = step.reason.replace(_spent(step.budgets), share)
            step = replace(step, reason=reason, budgets=())
        leaks = leaks or step.verdict == LEAKS
        yield step
    own = name or type(pipeline).__name__.lower()
    if leaks and is_known(pipeline):
        reason = "a step leaks: its fit is refused"
        yield StepReport(own, type(pipeline).__name__, LEAKS, reason)
    else:
        step = _private_verdict(own, pipeline, before)
        if step.verdict == PRIVATE:
            step = replace(step, reason=f"{step.reason} on all steps")
        yield step


def _remembered(name: str, pipeline) -> Iterator[StepReport]:
    """Yield a leak if a custom object receives the rows and may keep them."""
    memory = pipeline.memory
    if memory is None or isinstance(memory, str) or type(memory) is Memory:
        return
    reason = "an object that is not a joblib.Memory receives its rows: set memory=None"
    own = name or type(pipeline).__name__.lower()
    yield StepReport(f"{own} (memory)", type(pipeline).__name__, LEAKS, reason)


def _walk_meta(name: str, estimator, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on the estimators in an estimator, and then its own."""
    prefix = f"{name}__" if name else ""
    kind = type(estimator).__name__
    # What stands for it where it is the whole, as in a search.
    search = composition_of(estimator) is Composition.SEARCH
    own = name or ("search" if search else kind.lower())
    for parameter, child in parts_of(estimator):
        inside = inside_of(estimator, parameter, own, before)
        yield from _walk(prefix + parameter, child, inside)
    yield _own_verdict(own, estimator, reason_of_leak(estimator, before))


def _own_verdict(name: str, estimator, reason: str | None) -> StepReport:
    """Return the verdict on an estimator beside those in it."""
    kind = type(estimator).__name__
    if reason is not None:
        return StepReport(name, kind, LEAKS, reason)
    reason = "fits the estimators in it, and uses the rows for nothing else"
    return StepReport(name, kind, STATELESS, reason)


def _walk_search(name: str, search, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on all estimators that a search may fit, and then its own."""
    steps, reasons = _of_candidates(name, search, before)
    yield from steps
    reasons = [reason_of_leak(search, before), *reasons]
    reasons = [reason for reason in reasons if reason is not None]
    yield _own_verdict(name or "search", search, reasons[0] if reasons else None)


def _of_candidates(
    name: str, search, before: Before
) -> tuple[list[StepReport], list[str]]:
    """Return one verdict per step over all candidates, and why there may be others."""
    path = f"{name}__estimator" if name else "estimator"
    models, reasons = candidate_models(search)
    users, by_rows = users_scored(search)
    by_rows = before.rows_scored or by_rows
    before = replace(before, users=users, rows_scored=by_rows)
    found: dict[str, list[tuple[str, StepReport]]] = {}
    for candidate, model in models:
        for step in _walk(path, model, before):
            found.setdefault(step.name, []).append((candidate, step))
    return [_over_candidates(steps, len(models)) for steps in found.values()], reasons


def fits_as_given(search) -> bool:
    """Return whether a search may fit its estimator without candidate values."""
    return hasattr(search, "_selects_privately")


def users_scored(search) -> tuple[Any, bool]:
    """Return the column of users that a search scores, and whether it scores rows."""
    if hasattr(search, "_users_scored"):
        scored: tuple[Any, bool] = search._users_scored()
        return scored
    users = getattr(search.scoring, "user_feature", None)
    return users, users is None


def _over_candidates(steps: list[tuple[str, StepReport]], n_models: int) -> StepReport:
    """Return the worst verdict on a step that differs between candidates."""
    kinds = " or ".join(dict.fromkeys(step.estimator for _, step in steps))
    leaks = [(candidate, step) for candidate, step in steps if step.verdict == LEAKS]
    if leaks:
        candidate, worst = leaks[0]
        if len(leaks) < n_models:
            return replace(
                worst, reason=f"{worst.reason}; the search tries {candidate}"
            )
        return worst
    private = [step for _, step in steps if step.verdict == PRIVATE]
    if not private:
        return replace(steps[0][1], estimator=kinds)
    budgets = tuple(dict.fromkeys(b for step in private for b in step.budgets))
    reason = private[0].reason
    if budgets:  # steps of a private pipeline have none
        reason = reason.replace(_spent(private[0].budgets), _spent(budgets))
    for step in private[1:]:  # a condition of one candidate is one of the search
        for condition in step.reason.split("; ")[1:]:
            if condition not in reason:
                reason += f"; {condition}"
    return replace(private[0], estimator=kinds, reason=reason, budgets=budgets)


def _walk_private_search(name: str, search, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on the estimators of a private search, and on its scores.

    It is charged before all runs, whose errors and warnings stay inside.
    """
    steps, reasons = _of_candidates(name, search, replace(before, charged=True))
    for step in steps:
        if step.budgets and search.step_budgets == "scaled":
            spent = _spent(step.budgets)
            share = "each fit spends a share of the search's budget"
            step = replace(step, reason=step.reason.replace(spent, share))
        yield step
    leaks = any(step.verdict == LEAKS for step in steps)
    own, kind = name or "search", type(search).__name__
    reason = next(iter([reason_of_search(search), *reasons]), None)
    if reason is None and leaks:
        reason = "its estimator leaks: a search does not accept it"
    if reason is not None:
        yield StepReport(own, kind, LEAKS, reason)
    else:
        step = _private_verdict(own, search, before)
        if step.verdict == PRIVATE:
            said = " on all of its runs, and only the best run is released"
            if fits_as_given(search):
                said = " on the votes of its blocks and its last fit"
            step = replace(step, reason=step.reason + said)
        yield step


def _chosen_columns(name: str, estimator) -> Iterator[StepReport]:
    """Yield a leak for each selection of columns that may depend on values."""
    for step, _, columns in getattr(estimator, "transformers", ()):
        if callable(columns) and type(columns) is not make_column_selector:
            path = f"{name}__{step}" if name else step
            reason = "a function picks its columns and may look at values: name them"
            yield StepReport(f"{path} (columns)", "ColumnTransformer", LEAKS, reason)


def _by_density(name: str, estimator) -> Iterator[StepReport]:
    """Yield a leak if values decide whether the output is sparse."""
    threshold = getattr(estimator, "sparse_threshold", 0.0)
    if threshold > 0.0 and any(
        map(makes_sparse, estimators_within(estimator).values())
    ):
        own = name or "columntransformer"
        reason = (
            "the share of zeros decides whether its rows are sparse: set "
            "sparse_threshold=0"
        )
        yield StepReport(f"{own} (density)", "ColumnTransformer", LEAKS, reason)


def _leaf(name: str, estimator, before: Before) -> StepReport:
    if estimator is None or isinstance(estimator, str):
        return StepReport(name, str(estimator), STATELESS, "does nothing")
    kind = type(estimator).__name__
    if isinstance(estimator, PrivateEstimator):
        return _private_verdict(name, estimator, before)
    reason = stateless_reason(estimator)
    if reason is None:
        return StepReport(name, kind, LEAKS, _reason_of_leaf(estimator))
    if not before.charged and values_after(estimator, before.values) is None:
        return StepReport(
            name, kind, LEAKS, reason_of_early_message(estimator), voids=False
        )
    return StepReport(name, kind, STATELESS, reason)


def _reason_of_leaf(estimator) -> str:
    """Return why a step leaks, and an alternative."""
    if not is_known(estimator):
        return "how its own code uses private rows is not known"
    reason = "is fitted on private rows without noise"
    encodes = isinstance(estimator, (OneHotEncoder, OrdinalEncoder))
    if encodes and given_categories(estimator) is None:
        return (
            f"{reason}: use DPTableVectorizer() instead, or pass categories=[...] "
            "that are public"
        )
    if isinstance(estimator, TargetEncoder):
        return f"{reason}: use DPTableVectorizer() instead"
    telling = reason_of_disclosure(estimator)
    if telling is not None:
        return telling
    if isinstance(estimator, _SCALERS):
        return f"{reason}: use {_private_scaler(estimator)} instead"
    if isinstance(estimator, SimpleImputer):
        return (
            f'{reason}: use DPTableVectorizer() or DPStandardScaler(missing="mean") '
            'instead, or set strategy="constant", keep_empty_features=True and '
            "add_indicator=False"
        )
    if isinstance(estimator, (KNNImputer, MissingIndicator)):
        return f"{reason}: use DPTableVectorizer(add_indicator=True) instead"
    if encodes:
        return f"{reason}: set min_frequency=None and max_categories=None"
    return reason


def _private_scaler(scaler) -> str:
    """Return the name of the private counterpart of a scaler."""
    centered = getattr(scaler, "with_mean", getattr(scaler, "with_centering", True))
    centered = centered and not isinstance(scaler, MaxAbsScaler)
    return f"DPStandardScaler({'' if centered else 'with_mean=False'})"


def _private_verdict(name: str, estimator, before: Before) -> StepReport:
    """Return the verdict on a private estimator."""
    kind = type(estimator).__name__
    reason = _reason_of_private(estimator, before)
    if reason is not None:
        return StepReport(name, kind, LEAKS, reason)
    given = estimator._given_noise()
    epsilon = _budget(estimator.epsilon) if given is None else f"that of {given}"
    budgets = ((epsilon, _budget(estimator.delta)),)
    return StepReport(
        name, kind, PRIVATE, _spent(budgets) + _conditions(estimator), budgets
    )


def _reason_of_private(estimator, before: Before) -> str | None:
    """Return why a private estimator is not private; None if it is."""
    if not is_known(estimator):
        return _FOREIGN
    if not estimator._is_private():
        return "its noise is switched off: set epsilon to a number"
    if estimator.noise_seed is not None:
        return "its noise comes from a seed: leave noise_seed=None"
    unprotected = estimator._unprotected()
    if unprotected is not None:
        return unprotected
    # What was fitted may be older than what its parameters say by now.
    fitted = getattr(estimator, "privacy_", None)
    if fitted is not None and not fitted.private:
        how = "with noise from a seed" if fitted.seeded else "without noise"
        return f"it was fitted {how}: fit it again"
    if before.tainted is not None:
        return f"its guarantee is void: {before.tainted!r} before it leaks"
    if isinstance(estimator, TableEstimator):
        return None  # rows are protected, whichever of their columns is passed on
    if before.rows_scored and hasattr(estimator, "user_feature"):
        return (
            "it protects one user, but the scorer protects one row: both must be the "
            "same (a score of users has a user_feature)"
        )
    feature = getattr(estimator, "user_feature", None)
    reason = reason_of_users("it", feature, before.users)
    return reason or reason_of_moved_ids(estimator, before)


def _conditions(estimator) -> str:
    """Return the conditions of a private estimator's guarantee."""
    said = ""
    if estimator._given_noise() is not None:
        said += "; privacy_plan states what that noise costs"
    mechanism = getattr(estimator, "mechanism", None)
    assumption = getattr(type(mechanism), "assumption", Assumption.NONE)
    if assumption is not Assumption.NONE:
        kind = type(mechanism).__name__
        said += f"; only for rows of the model that mechanism={kind}(...) assumes"
        if mechanism.calibration == "paper":
            said += "; this is the papers' claim: the plan states the proven guarantee"
    fitted = getattr(estimator, "privacy_", None)
    if getattr(fitted, "assumption", None) is Assumption.SUMMED_PARTS:
        said += f"; its results are private only {fitted.assumption.condition}"
    return said


def _budget(side) -> float | str:
    """Return one component of a budget, or its range over clients."""
    if not isinstance(side, Mapping):
        return float(side)
    numbers = tuple(value for value in side.values() if isinstance(value, Real))
    return f"{_range(numbers)} (each client its own)"


def _spent(budgets: tuple[tuple, ...]) -> str:
    """Describe the budget of a fit, or its range."""
    epsilons, deltas = zip(*budgets, strict=True)
    return f"each fit spends epsilon={_range(epsilons)}, delta={_range(deltas)}"


def _range(sides: tuple) -> str:
    """Return the smallest and the largest budget."""
    numbers = sorted(side for side in sides if not isinstance(side, str))
    ends = dict.fromkeys(format(number, "g") for number in numbers[:1] + numbers[-1:])
    others = dict.fromkeys(side for side in sides if isinstance(side, str))
    return " or ".join([*([" to ".join(ends)] if ends else []), *others])


def publish(estimator):
    """Return a copy of a fitted composition with only releases and plans.

    Each private estimator in a pipeline, column transformer, union, search, ensemble or
    any other estimator is replaced by its own ``publish()``. User models, ledgers,
    seeds and callbacks are removed. Other attributes are copied.

    Parameters
    ----------
    estimator : estimator
        A fitted private estimator, or a scikit-learn estimator that contains some.

    Returns
    -------
    estimator
        A fitted estimator of the same class.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.

    Warns
    -----
    PrivacyLeakWarning
        If :func:`privacy_report` finds a step that leaks, or if a fit was not private.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPPCA, LRSRegressor
    >>> from skdpspectral.audit import publish
    >>> rng = np.random.default_rng(0)
    >>> users = np.repeat(np.arange(40), 25)
    >>> X = np.column_stack([users, rng.normal(size=(1000, 3))])
    >>> model = make_pipeline(LRSRegressor(user_feature=0)).fit(X, X[:, 1] * users)
    >>> bool(np.array_equal(model.predict(X), publish(model).predict(X)))
    False
    """
    check_is_fitted(estimator)
    if isinstance(estimator, PrivateEstimator):
        return estimator.publish()
    leaks = [step for step in privacy_report(estimator) if step.verdict == LEAKS]
    if leaks:
        warnings.warn(
            f"{leaks[0].name} ({leaks[0].estimator}) leaks, and its copy does too: "
            f"{leaks[0].reason}",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return published_copy(estimator)


# These go by the number of rows alone, which is public where one row is replaced.
_BY_POSITION = (
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

_INSTEAD = {
    Unit.ROW: "use PrivateSplit() or KFold()",
    Unit.USER: "take PrivateSplit(user_feature=...)",
}


def reason_of_splits(
    cv: Any, unit: Unit, *, classifier: bool, users: Any = None
) -> str | None:
    """Return why folds void a guarantee, and an alternative; None if they do not.

    Each row, or user, must be assigned to its fold independently of others. A number as
    `cv` means stratified folds for a classifier. `users` is the column of users that is
    scored, or None.
    """
    instead = _INSTEAD[Unit(unit)]
    own = getattr(cv, "_splits_by", None)
    changed = hasattr(cv, "split") and has_own_methods(cv)
    if (
        own is not None
        and not changed
        and type(cv).__module__.startswith("skdpspectral.")
    ):
        if own is unit:
            return reason_of_users("cv", getattr(cv, "user_feature", None), users)
        return f"its folds are made for a guarantee of one {own}: {instead}"
    number = cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool))
    if number and classifier:
        return (
            f"cv={cv} means StratifiedKFold for a classifier, so that one label moves "
            f"other rows between folds: {instead}"
        )
    if number or (type(cv) in _BY_POSITION and not changed):
        if unit is Unit.ROW:
            return None
        return (
            "its folds depend on positions, so that a user who joins or leaves moves "
            f"rows of other users between folds: {instead}"
        )
    kind = type(cv).__name__ if hasattr(cv, "split") else shown(cv)
    return (
        f"{kind} may look at labels, groups or users, so that one row moves others "
        f"between folds: {instead}"
    )


def reason_of_users(name: str, feature: Any, users: Any) -> str | None:
    """Return why a column of users is not the scored one; None if it is."""
    if users is None or feature is None or feature == users:
        return None
    if isinstance(feature, str) != isinstance(users, str):
        return None  # a name and a position may be of one column
    return (
        f"{name} has user_feature={feature!r}, and the scorer {users!r}: a user of one "
        "column moves rows of others in another; use the same in both"
    )


_BAGGING = (BaggingClassifier, BaggingRegressor)

_BOOSTING = (AdaBoostClassifier, AdaBoostRegressor)

_CHAINS = (ClassifierChain, RegressorChain)

_STACKING = (StackingClassifier, StackingRegressor)

_SELECTING = (RFE, RFECV, SequentialFeatureSelector)

# These hand their rows on as they are, all of them or some.
_ROWS_AS_THEY_ARE = (
    *_BAGGING,
    *_SELECTING,
    CalibratedClassifierCV,
    FixedThresholdClassifier,
    FrozenEstimator,
    MultiOutputClassifier,
    MultiOutputRegressor,
    SelectFromModel,
    TunedThresholdClassifierCV,
    VotingClassifier,
    VotingRegressor,
)

# These hand columns on as they are, whatever they do to rows.
_COLUMNS_AS_THEY_ARE = (*_ROWS_AS_THEY_ARE, *_BOOSTING, TransformedTargetRegressor)

# These take nothing from the rows beside what the estimators in them take.
_NOTHING_ELSE = (FrozenEstimator, MultiOutputRegressor, VotingRegressor)

# These refuse targets that are not finite before they fit.
_READ_TARGETS = (MultiOutputRegressor, RegressorChain, TransformedTargetRegressor)

_TARGETS = (
    "its functions may look at several targets at once, or warn about some before "
    "anything is charged: use functions of numpy, and check_inverse=False"
)

_TARGETS_ARE_READ = (
    "raises an error or warns on targets that are not finite before the budget is "
    "charged: put a private step such as DPStandardScaler before it, charged first"
)

_NOTHING_KNOWN = "contains estimators, and how else it uses private rows is not known"


def inside_of(estimator, parameter: str, name: str, before: Before) -> Before:
    """Return the effects on rows as seen by an estimator inside another one."""
    if not is_known(estimator):
        return replace(before.moved_by(name), tainted=before.tainted or name)
    if isinstance(estimator, _STACKING) and parameter != "final_estimator":
        return before
    if isinstance(estimator, _CHAINS) and estimator.cv is None:
        # Targets of a row follow its features.
        return before if before.moved else before.moved_by(name, at_end=True)
    kept = isinstance(estimator, _ROWS_AS_THEY_ARE)
    if isinstance(estimator, TransformedTargetRegressor):
        kept = _treats_targets_alone(estimator)
    if not kept:
        before = replace(before, tainted=before.tainted or name)
    if not isinstance(estimator, _COLUMNS_AS_THEY_ARE) or _takes_some(estimator):
        before = before.moved_by(name)
    return before


def _of_targets(estimator: TransformedTargetRegressor):
    """Return the transformer of the targets."""
    if estimator.transformer is not None:
        return estimator.transformer
    return FunctionTransformer(
        estimator.func, estimator.inverse_func, check_inverse=estimator.check_inverse
    )


def _treats_targets_alone(estimator: TransformedTargetRegressor) -> bool:
    """Return whether targets are transformed row by row, without a check."""
    if estimator.transformer is not None and estimator.check_inverse:
        return False
    return stateless_reason(_of_targets(estimator)) is not None


def _takes_some(estimator) -> bool:
    """Return whether the inner estimators use a subset of the columns."""
    if isinstance(estimator, _BAGGING):
        # One feature is not all of them, as the share 1.0 is.
        every = isinstance(estimator.max_features, float)
        every = every and estimator.max_features == 1.0
        return estimator.bootstrap_features or not every
    return isinstance(estimator, _SELECTING)


def reason_of_search(search) -> str | None:
    """Return what scores or folds of a search reveal; None if they are released."""
    if hasattr(search, "_selects_privately"):
        return None  # scores stay in blocks
    reason = reason_of_scorer(search.scoring)
    if reason is not None:
        return reason
    unit = search.scoring.relation[0]
    return _reason_of_halving(search, unit) or reason_of_splits(
        search.cv,
        unit,
        classifier=is_classifier(search.estimator),
        users=search.scoring.user_feature,
    )


def reason_of_scorer(scorer) -> str | None:
    """Return what scores on private rows reveal; None if noise is added."""
    if type(scorer) not in SCORERS or has_own_methods(scorer):
        return (
            "chooses parameters by scores on private rows, which no budget accounts "
            "for: use make_private_scorer, or PrivateSearchCV"
        )
    if scorer.epsilon == math.inf or scorer.seeded:
        return "its scores have no secret noise: pass epsilon to make_private_scorer"
    return None


def _reason_of_halving(search, unit: Unit) -> str | None:
    """Return what a halving search reveals by its first subsets of rows."""
    if getattr(search, "resource", None) != "n_samples":
        return None
    if unit is not Unit.ROW:
        return (
            "selects rows by their number, which changes for all rows when a user "
            "joins or leaves: use GridSearchCV, or another resource"
        )
    if is_classifier(search.estimator) and isinstance(search.min_resources, str):
        return (
            f"min_resources={search.min_resources!r} counts the labels that occur: "
            "set it to a number"
        )
    return None


def reason_of_leak(estimator, before: Before) -> str | None:
    """Return what an estimator itself learns from rows; None for nothing."""
    if not is_known(estimator):
        return _NOTHING_KNOWN
    if composition_of(estimator) is Composition.SEARCH:
        return reason_of_search(estimator)
    if isinstance(estimator, _BAGGING):
        return (
            "resamples rows, so that one row may count several times and one user in "
            "place of others: the ledger does not include this cost"
        )
    of_targets = isinstance(estimator, TransformedTargetRegressor)
    if of_targets and not _treats_targets_alone(estimator):
        return _TARGETS
    if isinstance(estimator, _READ_TARGETS) and not before.charged:
        return _TARGETS_ARE_READ
    if of_targets:
        return None
    if isinstance(estimator, _NOTHING_ELSE):
        return None
    if isinstance(estimator, RegressorChain) and estimator.cv is None:
        return None
    return _NOTHING_KNOWN


# Larger grids over steps, seeds and budgets are said to leak.
MAX_CANDIDATES = 512

_LISTS = (list, tuple, range, np.ndarray)

_BUDGETS = ("epsilon", "delta")

# A number for any other parameter of a private estimator changes no verdict.
_DECISIVE = (*ID_PARAMETERS, "accountant", "noise_seed", "noise_multiplier")


def candidate_models(search: Any) -> tuple[list[tuple[str, Any]], list[str]]:
    """Return the models that a search may fit, and why there may be more.

    Each comes with a description of its parameters; there is at least one. Parameters
    that change no verdict are left out.
    """
    scaled = getattr(search, "step_budgets", None) == "scaled"
    models: list[tuple[str, Any]] = []
    reasons: list[str] = []
    if fits_as_given(search):
        models.append(("the estimator as given", clone(search.estimator)))
    for part in _parts(search):
        lists, unlisted = _decisive(search.estimator, part, scaled)
        reasons += unlisted
        if math.prod(map(len, lists.values())) > MAX_CANDIDATES - len(models):
            reasons.append(
                f"tries more than {MAX_CANDIDATES} combinations of {', '.join(lists)}: "
                "list fewer of them"
            )
            # Each value at least once.
            candidates: Iterator[dict] = _one_at_a_time(lists)
        else:
            values = product(*lists.values())
            candidates = (dict(zip(lists, v, strict=True)) for v in values)
        for candidate in candidates:
            said = ", ".join(f"{name}={value!r}" for name, value in candidate.items())
            try:
                # As searches make it.
                own = clone(candidate, safe=False)
                models.append((said, clone(search.estimator).set_params(**own)))
            except Exception as error:
                reasons.append(
                    f"tries {said}, which cannot be set ({type(error).__name__})"
                )
    return models or [("", search.estimator)], reasons


def _parts(search: Any) -> list[dict[str, Any]]:
    """Return the parameter spaces of a search."""
    space = getattr(search, "param_grid", None)
    if space is None:
        space = search.param_distributions
    parts = [space] if isinstance(space, Mapping) else list(space)
    resource = getattr(search, "resource", "n_samples")
    # Any number of them.
    counted = {} if resource == "n_samples" else {resource: randint(1, 2**31)}
    return [{**part, **counted} for part in parts] or [counted]


def _decisive(
    estimator: Any, part: Mapping[str, Any], scaled: bool
) -> tuple[dict[str, list], list[str]]:
    """Return the lists of values that may change a verdict, and what is unlisted."""
    lists: dict[str, list] = {}
    reasons: list[str] = []
    for name, values in part.items():
        listed = type(values) in _LISTS
        if listed:
            numbers = all(isinstance(value, Real) for value in values)
        else:
            numbers = _gives_numbers(values)
        if numbers and _is_neutral(estimator, part, name, scaled):
            continue
        if listed:
            lists[name] = list(values)
        else:
            reasons.append(
                f"{name} may have values that are not listed: pass a list of values"
            )
    return lists, reasons


def _is_neutral(
    estimator: Any, part: Mapping[str, Any], name: str, scaled: bool
) -> bool:
    """Return whether no number for a parameter changes a verdict."""
    prefix, _, last = name.rpartition("__")
    if last in _DECISIVE or (last in _BUDGETS and not scaled):
        return False
    names = prefix.split("__") if prefix else []
    if any("__".join(names[:depth]) in part for depth in range(1, len(names) + 1)):
        return False  # another step may stand there
    owners = {**estimator.get_params(deep=True), "": estimator}
    owner = owners.get(prefix)
    while is_strategy(owner):  # of the estimator that it is given to
        prefix = prefix.rpartition("__")[0]
        owner = owners.get(prefix)
    return isinstance(owner, PrivateEstimator) and is_known(owner)


def _gives_numbers(values: Any) -> bool:
    """Return whether a distribution is scipy's own, which only returns numbers."""
    parts = (values, getattr(values, "dist", None))
    return isinstance(values, rv_frozen) and all(
        type(part).__module__.startswith("scipy.") and not has_own_methods(part)
        for part in parts
    )


def _one_at_a_time(lists: Mapping[str, list]) -> Iterator[dict[str, Any]]:
    """Yield candidates that differ from the estimator in one parameter."""
    for name, values in lists.items():
        yield from ({name: value} for value in values[:MAX_CANDIDATES])
