"""Estimators that hold estimators: who is in them, and what they do to rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral

from sklearn.base import is_classifier
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
    TunedThresholdClassifierCV,
)
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.preprocessing import FunctionTransformer

from .._base.sklearn_compat import BaseSearchCV
from ..mechanisms import Unit
from ..metrics._private_scorer import PrivateScorer
from ._columns import Before
from ._splits import reason_of_splits
from ._stateless import is_known, stateless_reason

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
    elif not isinstance(scorer, PrivateScorer):
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
