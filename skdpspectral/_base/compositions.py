"""Estimators that hold estimators: who is in them, and what they do to rows.

What steps do to the columns of a table, before a later step looks for ids.

Estimators of scikit-learn whose fit takes nothing from the values of rows.

Which splitters choose rows without looking at anything private.

Which steps of a pipeline are private, and which leak what they were fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import OneToOneFeatureMixin, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
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
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import (
    RFE,
    RFECV,
    SelectFromModel,
    SequentialFeatureSelector,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
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
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import BaseRandomProjection

from ..mechanisms import Assumption, Unit
from ..mechanisms._relations import shown
from .estimator import SCORERS, PrivateEstimator
from .sklearn_compat import BaseSearchCV, output_container

# Fitting these takes nothing from X; they treat each row alone.
_ROW_BY_ROW = (Binarizer, FeatureHasher, HashingVectorizer, Normalizer)


_KNOWN = ("sklearn", "skdpspectral")


# Fitting these takes the shape of X.
_SHAPE_ALONE = (BaseRandomProjection, PolynomialFeatures)


def is_known(estimator) -> bool:
    """Whether the code of an estimator is that of scikit-learn or of this library.

    A class derived from theirs may have any other ``fit``.
    """
    return type(estimator).__module__.partition(".")[0] in _KNOWN


def stateless_reason(estimator) -> str | None:
    """Say why fitting takes nothing from the values; None if it may."""
    if not is_known(estimator) or telling_reason(estimator) is not None:
        return None
    if isinstance(estimator, _ROW_BY_ROW):
        return "treats each row alone"
    if isinstance(estimator, FunctionTransformer):
        # Any other function may look at several rows at once.
        return "treats each value alone" if treats_values_alone(estimator) else None
    if isinstance(estimator, _SHAPE_ALONE):
        return "takes from X its shape alone"
    if isinstance(estimator, SimpleImputer) and estimator.strategy == "constant":
        # Otherwise the columns that come out depend on where values are missing.
        fixed = estimator.keep_empty_features and not estimator.add_indicator
        return "fills in a constant" if fixed else None
    if isinstance(estimator, (OneHotEncoder, OrdinalEncoder)):
        given = not isinstance(estimator.categories, str)
        fixed = given and not _counts_categories(estimator)
        return "its categories are given" if fixed else None
    return None


def telling_reason(estimator) -> str | None:
    """Say how a step that fits nothing may still tell of values; None if it may not.

    Errors and warnings come before any later step is charged.
    """
    if isinstance(estimator, HashingVectorizer):
        functions = ("preprocessor", "tokenizer", "analyzer")
        if any(callable(getattr(estimator, name)) for name in functions):
            return "a function reads its texts, and may remember them"
    if isinstance(estimator, FunctionTransformer):
        both = estimator.func is not None and estimator.inverse_func is not None
        if both and estimator.check_inverse:
            return "warns of rows that do not come back: set check_inverse=False"
    if isinstance(estimator, OneHotEncoder) and not _is_silent(estimator):
        return (
            "an error or a warning tells of categories that were not given: set "
            "handle_unknown='ignore', without drop"
        )
    if isinstance(estimator, OrdinalEncoder) and estimator.handle_unknown == "error":
        return (
            "an error tells of categories that were not given: set "
            "handle_unknown='use_encoded_value'"
        )
    return None


def _is_silent(encoder: OneHotEncoder) -> bool:
    """Whether unknown categories make no error and no warning."""
    silent = encoder.handle_unknown in ("ignore", "infrequent_if_exist")
    return silent and encoder.drop is None


def makes_sparse(estimator) -> bool:
    """Whether a stateless step makes sparse rows, by their values, of dense ones."""
    if isinstance(estimator, OneHotEncoder):
        return bool(estimator.sparse_output)
    return isinstance(estimator, (FeatureHasher, HashingVectorizer))


def _counts_categories(estimator) -> bool:
    """Whether an encoder groups or drops categories by how often they occur."""
    counted = (estimator.min_frequency, estimator.max_categories)
    return any(limit is not None for limit in counted)


def treats_values_alone(transformer: FunctionTransformer) -> bool:
    """Whether its functions are numpy's or scipy's own, one value at a time.

    An instance of ``numpy.ufunc`` need not be: ``numpy.frompyfunc`` makes one of any
    function, which may remember what it was given.
    """
    functions = (transformer.func, transformer.inverse_func)
    arguments = (transformer.kw_args, transformer.inv_kw_args)
    return not any(arguments) and all(
        function is None
        or any(
            getattr(module, getattr(function, "__name__", ""), None) is function
            for module in (np, special)
            if isinstance(function, np.ufunc)
        )
        for function in functions
    )


# Parameters that name a column of ids, by position or name.
_PARAMETERS = ("user_feature", "client_feature", "item_feature")


# Names that stand for a position where a table has no names.
_DEFAULT_NAMES = ("user_id", "item_id")


@dataclass(frozen=True)
class Before:
    """What the steps before one have done to its rows.

    Parameters
    ----------
    tainted : str or None
        Path of a step that leaks into them.
    moved : str or None
        Path of a step that moves columns.
    users_first : bool
        Whether the ids of users have come to stand in the first column.
    named : bool
        Whether the columns still have names, where they were moved.
    at_end : bool
        Whether columns were added at the end alone.
    """

    tainted: str | None = None
    moved: str | None = None
    users_first: bool = False
    named: bool = False
    at_end: bool = False

    def after(self, step, path: str, leaks: str | None) -> Before:
        """Return what is before the next step; `leaks` names what leaks in this."""
        now = replace(self, tainted=self.tainted or leaks)
        if _moves_columns(step):
            now = now.moved_by(path)
            now = replace(now, named=True)
            now = replace(now, users_first=getattr(step, "_puts_users_first", False))
        return replace(now, named=now.named and _gives_names(step))

    def moved_by(self, path: str, at_end: bool = False) -> Before:
        """Return the same with the columns moved by a step."""
        return replace(self, moved=path, users_first=False, named=False, at_end=at_end)


def stale_position(estimator, before: Before) -> str | None:
    """Say which column of ids may be another one by now; None if none may."""
    if before.moved is None:
        return None
    for parameter in _PARAMETERS:
        feature = getattr(estimator, parameter, None)
        if hasattr(estimator, "item_feature") and feature in _DEFAULT_NAMES:
            position = not before.named
        else:
            position = isinstance(feature, Integral)
        if not position or _is_known(parameter, feature, before):
            continue
        return (
            f"{parameter}={feature!r} stands for a position, and {before.moved!r} "
            "moves columns: ids may be another column by then; name the column, and "
            'keep names by set_output(transform="pandas")'
        )
    return None


def _is_known(parameter: str, feature, before: Before) -> bool:
    """Whether a position still is what it was, or what a step has put there."""
    if isinstance(feature, str):
        feature = _DEFAULT_NAMES.index(feature)
    if before.at_end and feature >= 0:
        return True
    return before.users_first and parameter == "user_feature" and feature == 0


def _moves_columns(step) -> bool:
    """Whether columns may come out of a step at other positions."""
    if step is None or isinstance(step, str):
        return False
    if isinstance(step, Pipeline):
        return any(_moves_columns(child) for _, child in step.steps)
    if isinstance(step, FunctionTransformer):
        return not treats_values_alone(step)
    if isinstance(step, SimpleImputer):  # a column without values is dropped
        return stateless_reason(step) is None
    return not isinstance(step, OneToOneFeatureMixin)


def _gives_names(step) -> bool:
    """Whether what comes out of a step has names."""
    if step is None or isinstance(step, str):
        return True
    if isinstance(step, Pipeline):
        return all(_gives_names(child) for _, child in step.steps)
    try:
        return output_container(step) != "default"
    except (AttributeError, ValueError):
        return False


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
    Unit.ROW: "take PrivateSplit() or KFold()",
    Unit.USER: "take PrivateSplit(user_feature=...)",
}


def reason_of_splits(cv: Any, unit: Unit, *, classifier: bool) -> str | None:
    """Say why folds void a guarantee; None where they are sound.

    What is counted for one row, or one user, must stay in its fold and move no other.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        As searches and :func:`~sklearn.model_selection.cross_val_score` take it.
    unit : Unit
        What is protected: a row that is replaced, or a user who joins or leaves.
    classifier : bool
        Whether the estimator is one, for which a number of folds means stratified ones.

    Returns
    -------
    str or None
        A reason, with what to take instead.
    """
    instead = _INSTEAD[Unit(unit)]
    own = getattr(cv, "_splits_by", None)
    if own is not None and type(cv).__module__.startswith("skdpspectral."):
        if own is unit:
            return None
        return f"its folds are made for a guarantee of one {own}: {instead}"
    number = cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool))
    if number and classifier:
        return (
            f"cv={cv} means StratifiedKFold for a classifier, by which one label moves "
            f"other rows between folds: {instead}"
        )
    if number or type(cv) in _BY_POSITION:
        if unit is Unit.ROW:
            return None
        return (
            "folds by position: whoever joins or leaves moves the rows of others "
            f"between folds: {instead}"
        )
    kind = type(cv).__name__ if hasattr(cv, "split") else shown(cv)
    return (
        f"{kind} may look at labels, groups or users, by which one row moves others "
        f"between folds: {instead}"
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
    BaseSearchCV,
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


_TARGETS = (
    "what it does to targets may look at several of them, or warn of some before "
    "anything is charged: give functions of numpy, and check_inverse=False"
)


_NOTHING_KNOWN = (
    "holds estimators, and nothing is known of what it takes from private rows beside "
    "them"
)


def _is_estimator(value) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def estimators_in(estimator) -> Iterator[tuple[str, object]]:
    """Yield the estimators among the parameters of one, by name."""
    for name, value in estimator.get_params(deep=False).items():
        if _is_estimator(value):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for position, entry in enumerate(value):
                pair = isinstance(entry, (list, tuple)) and len(entry) >= 2
                if pair and _is_estimator(entry[1]):
                    yield str(entry[0]), entry[1]
                elif _is_estimator(entry):
                    yield f"{name}_{position}", entry


def has_estimators(estimator) -> bool:
    """Whether an estimator holds others."""
    return _is_estimator(estimator) and any(True for _ in estimators_in(estimator))


def is_search(estimator) -> bool:
    """Whether it is a search over parameters."""
    return isinstance(estimator, BaseSearchCV)


def inside_of(estimator, parameter: str, name: str, before: Before) -> Before:
    """What has become of the rows where an estimator within another sees them."""
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


def _treats_targets_alone(estimator: TransformedTargetRegressor) -> bool:
    """Whether the target of a row is made of that row's own, and no value warned of."""
    transformer = estimator.transformer
    if transformer is None:
        transformer = FunctionTransformer(
            estimator.func,
            estimator.inverse_func,
            check_inverse=estimator.check_inverse,
        )
    elif estimator.check_inverse:
        return False
    return stateless_reason(transformer) is not None


def _takes_some(estimator) -> bool:
    """Whether the estimators within see some of the columns."""
    if isinstance(estimator, _BAGGING):
        # One feature is not all of them, as the share 1.0 is.
        every = isinstance(estimator.max_features, float)
        every = every and estimator.max_features == 1.0
        return estimator.bootstrap_features or not every
    return isinstance(estimator, _SELECTING)


def reason_of_search(search) -> str | None:
    """Say what the scores or the folds of a search tell; None if they are released."""
    scorer = search.scoring
    if isinstance(scorer, str) and hasattr(search, "_selects_privately"):
        unit = Unit.ROW
    elif type(scorer) not in SCORERS:
        return (
            "picks parameters by scores on private rows, which nothing accounts for: "
            "take make_private_scorer, or PrivateSearchCV"
        )
    elif scorer.epsilon == math.inf or scorer.seeded:
        return "its scores have no secret noise: give make_private_scorer an epsilon"
    else:
        unit = scorer.relation[0]
    cv = search.cv
    number = cv is None or isinstance(cv, Integral)
    if number and hasattr(search, "_selects_privately"):
        return None
    return reason_of_splits(cv, unit, classifier=is_classifier(search.estimator))


def reason_of_leak(estimator) -> str | None:
    """Say what an estimator takes from rows beside those in it; None for nothing."""
    if not is_known(estimator):
        return _NOTHING_KNOWN
    if is_search(estimator):
        return reason_of_search(estimator)
    if isinstance(estimator, _BAGGING):
        return (
            "resamples rows, so that one may count several times and a user for "
            "others: what that costs is not in the ledger"
        )
    if isinstance(estimator, TransformedTargetRegressor):
        return None if _treats_targets_alone(estimator) else _TARGETS
    if isinstance(estimator, _NOTHING_ELSE):
        return None
    if isinstance(estimator, RegressorChain) and estimator.cv is None:
        return None
    return _NOTHING_KNOWN


PRIVATE, STATELESS, LEAKS = "private", "stateless", "LEAKS"


_SCALERS = (MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler)


_FOREIGN = (
    "its class is derived from one that is known, and what its own code takes from "
    "private rows is not"
)


@dataclass(frozen=True)
class StepReport:
    """Verdict on one step.

    Parameters
    ----------
    name : str
        Path of the step, with double underscores as in ``set_params``.
    estimator : str
        Name of its class.
    verdict : {"private", "stateless", "LEAKS"}
        "private": fitted under a guarantee. "stateless": fitting takes nothing
        from the values. "LEAKS": what was fitted may reveal rows.
    reason : str
        Why, and what to do.
    """

    name: str
    estimator: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class PrivacyReport:
    """Verdicts on all steps, in order; ``str()`` gives a table.

    Parameters
    ----------
    steps : tuple of StepReport
        One entry a step.
    """

    steps: tuple[StepReport, ...]

    @property
    def private(self) -> bool:
        """Whether no step leaks."""
        return all(step.verdict != LEAKS for step in self.steps)

    def __iter__(self) -> Iterator[StepReport]:
        return iter(self.steps)

    def __str__(self) -> str:
        name = max((len(step.name) for step in self.steps), default=0)
        kind = max((len(step.estimator) for step in self.steps), default=0)
        return "\n".join(
            f"{step.name:{name}}  {step.estimator:{kind}}  {step.verdict:9}  "
            f"{step.reason}"
            for step in self.steps
        )


def privacy_report(estimator) -> PrivacyReport:
    """Say of each step of a pipeline whether fitting it is private.

    Nothing is fitted and no data are needed. What is not known to be harmless is
    said to leak.

    Parameters
    ----------
    estimator : estimator
        A pipeline, column transformer, union, search, any other estimator that holds
        estimators, or a single one. What is known of none of the kinds is said to
        leak, and so is an estimator of users or clients whose column is named by its
        position, behind a step that moves columns.

    Returns
    -------
    PrivacyReport
        One verdict a step.

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


def _walk(name: str, estimator, before: Before) -> Iterator[StepReport]:
    """Yield verdicts; `before` says what earlier steps have done to the rows."""
    yield from _verdicts(name, estimator, before)
    composite = isinstance(estimator, (Pipeline, FeatureUnion, ColumnTransformer))
    if composite and not is_known(estimator):
        kind = type(estimator).__name__
        yield StepReport(name or kind.lower(), kind, LEAKS, _FOREIGN)


def _verdicts(name: str, estimator, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on what is in an estimator, or on the estimator itself."""
    prefix = f"{name}__" if name else ""
    if isinstance(estimator, Pipeline):
        for step, child in estimator.steps:
            leaks = None
            for verdict in _walk(prefix + step, child, before):
                yield verdict
                if verdict.verdict == LEAKS and leaks is None:
                    leaks = verdict.name
            before = before.after(child, prefix + step, leaks)
    elif isinstance(estimator, (FeatureUnion, ColumnTransformer)):
        if isinstance(estimator, ColumnTransformer):
            before = before.moved_by(name or "columntransformer")
        for step, child in _branches(estimator):
            yield from _walk(prefix + step, child, before)
        yield from _chosen_columns(name, estimator)
        yield from _by_density(name, estimator)
    elif hasattr(estimator, "_selects_privately") and is_known(estimator):
        yield from _walk_private_search(name, estimator, before)
    elif not isinstance(estimator, PrivateEstimator) and has_estimators(estimator):
        yield from _walk_meta(name, estimator, before)
    else:
        yield _leaf(name or type(estimator).__name__.lower(), estimator, before)


def _walk_meta(name: str, estimator, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on the estimators in an estimator, and then its own."""
    prefix = f"{name}__" if name else ""
    kind = type(estimator).__name__
    # What stands for it where it is the whole, as in a search.
    own = name or ("search" if is_search(estimator) else kind.lower())
    for parameter, child in estimators_in(estimator):
        inside = inside_of(estimator, parameter, own, before)
        yield from _walk(prefix + parameter, child, inside)
    reason = reason_of_leak(estimator)
    if reason is None:
        reason = "fits the estimators in it, and takes nothing else from the rows"
        yield StepReport(own, kind, STATELESS, reason)
    else:
        yield StepReport(own, kind, LEAKS, reason)


def _walk_private_search(name: str, search, before: Before) -> Iterator[StepReport]:
    """Yield verdicts on the estimator that a private search fits, and on its scores."""
    prefix = f"{name}__" if name else ""
    leaks = False
    for step in _walk(f"{prefix}estimator", search.estimator, before):
        leaks = leaks or step.verdict == LEAKS
        yield step
    own, kind = name or "search", type(search).__name__
    reason = reason_of_search(search)
    if reason is None and leaks:
        reason = "what it fits leaks: a search refuses it"
    if reason is not None:
        yield StepReport(own, kind, LEAKS, reason)
    else:
        verdict, said = _private_verdict(search, before)
        if verdict == PRIVATE:
            said += " on all of its runs, of which the best is released"
        yield StepReport(own, kind, verdict, said)


def _branches(estimator) -> list[tuple[str, object]]:
    """Return the named children that see the same rows side by side."""
    if isinstance(estimator, FeatureUnion):
        return list(estimator.transformer_list)
    branches = [(name, child) for name, child, _ in estimator.transformers]
    return [*branches, ("remainder", estimator.remainder)]


def _chosen_columns(name: str, estimator) -> Iterator[StepReport]:
    """Yield a leak for every choice of columns that may look at values."""
    for step, _, columns in getattr(estimator, "transformers", ()):
        if callable(columns) and not isinstance(columns, make_column_selector):
            path = f"{name}__{step}" if name else step
            reason = "a function picks its columns and may look at values: name them"
            yield StepReport(f"{path} (columns)", "ColumnTransformer", LEAKS, reason)


def _by_density(name: str, estimator) -> Iterator[StepReport]:
    """Yield a leak if values decide whether the rows that come out are sparse."""
    threshold = getattr(estimator, "sparse_threshold", 0.0)
    if threshold > 0.0 and any(map(makes_sparse, _within(estimator))):
        own = name or "columntransformer"
        reason = (
            "the share of zeros decides whether its rows are sparse: set "
            "sparse_threshold=0"
        )
        yield StepReport(f"{own} (density)", "ColumnTransformer", LEAKS, reason)


def _within(estimator) -> list:
    """Return all estimators in one, at any depth."""
    parameters = estimator.get_params(deep=True).values()
    return [value for value in parameters if hasattr(value, "get_params")]


def _leaf(name: str, estimator, before: Before) -> StepReport:
    if estimator is None or isinstance(estimator, str):
        return StepReport(name, str(estimator), STATELESS, "does nothing")
    kind = type(estimator).__name__
    if isinstance(estimator, PrivateEstimator):
        return StepReport(name, kind, *_private_verdict(estimator, before))
    reason = stateless_reason(estimator)
    if reason is not None:
        return StepReport(name, kind, STATELESS, reason)
    reason = telling_reason(estimator) if is_known(estimator) else None
    reason = reason or "is fitted on private rows without noise"
    if isinstance(estimator, _SCALERS):
        reason += f": take {_private_scaler(estimator)} instead"
    return StepReport(name, kind, LEAKS, reason)


def _private_scaler(scaler) -> str:
    """Name the private scaler that does what a scaler of scikit-learn does."""
    centered = getattr(scaler, "with_mean", getattr(scaler, "with_centering", True))
    centered = centered and not isinstance(scaler, MaxAbsScaler)
    return f"DPStandardScaler({'' if centered else 'with_mean=False'})"


def _private_verdict(estimator, before: Before) -> tuple[str, str]:
    if not is_known(estimator):
        return LEAKS, _FOREIGN
    if not estimator._is_private():
        return LEAKS, "its noise is switched off: give epsilon a number"
    if estimator.noise_seed is not None:
        return LEAKS, "its noise comes from a seed: leave noise_seed=None"
    # What was fitted may be older than what its parameters say by now.
    fitted = getattr(estimator, "privacy_", None)
    if fitted is not None and not fitted.private:
        how = "with noise from a seed" if fitted.seeded else "without noise"
        return LEAKS, f"what it holds was fitted {how}: fit it again"
    if before.tainted is not None:
        return (
            LEAKS,
            f"its guarantee is void: {before.tainted!r} before it leaks into its rows",
        )
    stale = stale_position(estimator, before)
    if stale is not None:
        return LEAKS, stale
    reason = f"each fit spends {_budget(estimator)}"
    mechanism = getattr(estimator, "mechanism", None)
    if getattr(mechanism, "assumption", Assumption.NONE) is not Assumption.NONE:
        kind = type(mechanism).__name__
        reason += f"; only for rows of the model that mechanism={kind}(...) assumes"
        if mechanism.calibration == "paper":
            reason += "; that is the papers' claim: the plan says what holds"
    if getattr(fitted, "assumption", None) is Assumption.SUMMED_PARTS:
        reason += f"; what it holds is private only {fitted.assumption.condition}"
    return PRIVATE, reason


def _budget(estimator) -> str:
    """Name the budget of a fit, or say that every client has one."""
    sides = {"epsilon": estimator.epsilon, "delta": estimator.delta}
    return ", ".join(
        f"{name}={'one a client' if isinstance(side, Mapping) else format(side, 'g')}"
        for name, side in sides.items()
    )
