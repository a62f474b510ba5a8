"""Which splitters choose rows without looking at anything private.

Estimators that hold estimators: who is in them, and what they do to rows.

Estimators that a search tries, told from its parameters alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.stats import randint
from scipy.stats.distributions import rv_frozen
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
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
from sklearn.preprocessing import FunctionTransformer

from ..accounting._ledger.compositions import Composition, composition_of
from ..mechanisms import Unit
from ..mechanisms._relations import shown
from .estimator import SCORERS, PrivateEstimator
from .steps import ID_PARAMETERS, Before, has_own_methods, is_known, stateless_reason

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
    """Say why folds void a guarantee, with what to take instead; None if they do not.

    What is counted for one row, or one user, must stay in its fold and move no other. A
    number as `cv` means stratified folds for a classifier.
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
            return None
        return f"its folds are made for a guarantee of one {own}: {instead}"
    number = cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool))
    if number and classifier:
        return (
            f"cv={cv} means StratifiedKFold for a classifier, by which one label moves "
            f"other rows between folds: {instead}"
        )
    if number or (type(cv) in _BY_POSITION and not changed):
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
    "what it does to targets may look at several of them, or warn of some before "
    "anything is charged: give functions of numpy, and check_inverse=False"
)

_TARGETS_ARE_READ = (
    "raises an error or warns on targets that are not finite before the budget is "
    "charged: put a private step such as DPStandardScaler before it, charged first"
)

_NOTHING_KNOWN = (
    "holds estimators, and nothing is known of what it takes from private rows beside "
    "them"
)


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


def _of_targets(estimator: TransformedTargetRegressor):
    """Return what transforms the targets."""
    if estimator.transformer is not None:
        return estimator.transformer
    return FunctionTransformer(
        estimator.func, estimator.inverse_func, check_inverse=estimator.check_inverse
    )


def _treats_targets_alone(estimator: TransformedTargetRegressor) -> bool:
    """Whether the target of a row is made of that row's own, and no inverse checked."""
    if estimator.transformer is not None and estimator.check_inverse:
        return False
    return stateless_reason(_of_targets(estimator)) is not None


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
    elif type(scorer) not in SCORERS or has_own_methods(scorer):
        return (
            "picks parameters by scores on private rows, which nothing accounts for: "
            "take make_private_scorer, or PrivateSearchCV"
        )
    elif scorer.epsilon == math.inf or scorer.seeded:
        return "its scores have no secret noise: give make_private_scorer an epsilon"
    else:
        unit = scorer.relation[0]
    reason = _reason_of_halving(search, unit)
    if reason is not None:
        return reason
    cv = search.cv
    number = cv is None or isinstance(cv, Integral)
    if number and hasattr(search, "_selects_privately"):
        return None
    return reason_of_splits(cv, unit, classifier=is_classifier(search.estimator))


def _reason_of_halving(search, unit: Unit) -> str | None:
    """Say what a halving search tells by the rows that it takes at first."""
    if getattr(search, "resource", None) != "n_samples":
        return None
    if unit is not Unit.ROW:
        return (
            "takes rows by their number, which changes for all when a user joins or "
            "leaves: take GridSearchCV, or another resource"
        )
    if is_classifier(search.estimator) and isinstance(search.min_resources, str):
        return (
            f"min_resources={search.min_resources!r} counts the labels that occur: "
            "give it a number"
        )
    return None


def reason_of_leak(estimator, before: Before) -> str | None:
    """Say what an estimator takes from rows beside those in it; None for nothing."""
    if not is_known(estimator):
        return _NOTHING_KNOWN
    if composition_of(estimator) is Composition.SEARCH:
        return reason_of_search(estimator)
    if isinstance(estimator, _BAGGING):
        return (
            "resamples rows, so that one may count several times and a user for "
            "others: what that costs is not in the ledger"
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
MOST_TRIED = 512

_LISTS = (list, tuple, range, np.ndarray)

_BUDGETS = ("epsilon", "delta")

# A number for any other parameter of a private estimator changes no verdict.
_DECISIVE = (*ID_PARAMETERS, "accountant", "noise_seed")


def tried(search: Any) -> tuple[list[tuple[str, Any]], list[str]]:
    """Return the models that a search may fit, and reasons why more are not known.

    Each comes with its parameters in words; there is at least one. Parameters of
    private estimators that change no verdict are left as they are.
    """
    scaled = getattr(search, "step_budgets", None) == "scaled"
    models: list[tuple[str, Any]] = []
    reasons: list[str] = []
    for part in _parts(search):
        lists, unlisted = _decisive(search.estimator, part, scaled)
        reasons += unlisted
        if math.prod(map(len, lists.values())) > MOST_TRIED - len(models):
            reasons.append(
                f"tries more than {MOST_TRIED} combinations of {', '.join(lists)}: "
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
    """Return the spaces of parameters of a search."""
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
    """Return the lists of values that may change a verdict, and what is not listed."""
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
                f"{name} may have values that are not listed: give it a list of values"
            )
    return lists, reasons


def _is_neutral(
    estimator: Any, part: Mapping[str, Any], name: str, scaled: bool
) -> bool:
    """Whether any number for a parameter leaves all verdicts as they are."""
    prefix, _, last = name.rpartition("__")
    if last in _DECISIVE or (last in _BUDGETS and not scaled):
        return False
    names = prefix.split("__") if prefix else []
    if any("__".join(names[:depth]) in part for depth in range(1, len(names) + 1)):
        return False  # another step may stand there
    owner = estimator.get_params(deep=True).get(prefix) if prefix else estimator
    return isinstance(owner, PrivateEstimator) and is_known(owner)


def _gives_numbers(values: Any) -> bool:
    """Whether a distribution is scipy's own: another may give anything."""
    parts = (values, getattr(values, "dist", None))
    return isinstance(values, rv_frozen) and all(
        type(part).__module__.startswith("scipy.") and not has_own_methods(part)
        for part in parts
    )


def _one_at_a_time(lists: Mapping[str, list]) -> Iterator[dict[str, Any]]:
    """Yield candidates that differ from the estimator in one parameter."""
    for name, values in lists.items():
        yield from ({name: value} for value in values[:MOST_TRIED])
