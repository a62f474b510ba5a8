"""Which fits of private estimators a call asks for, told from public shapes alone.

Nothing is fitted on anybody's rows. What an earlier step of a pipeline makes of them is
stood for by zeros of the shape that it hands on, where that is known beforehand.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, Pipeline

from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import shown
from ._arguments import check_plans
from ._composition import Total
from ._planned_shapes import Rows, handed_on, reads_clients

if TYPE_CHECKING:
    from ._accountant import PrivacyAccountant


@dataclass(frozen=True)
class PlannedFit:
    """Fits of one private estimator.

    Parameters
    ----------
    plan : PrivacyPlan
        What each of them releases.
    accountant : PrivacyAccountant or None, default=None
        The estimator's own.
    times : int, default=1
        Number of fits.
    """

    plan: PrivacyPlan
    accountant: PrivacyAccountant | None = None
    times: int = 1


def planned_fits(what: Any, X: Any, groups: Any = None) -> list[PlannedFit]:
    """Return the fits that a plan, several, or a fit of an estimator ask for.

    Parameters
    ----------
    what : estimator, PrivacyPlan or iterable of PrivacyPlan
        What is asked for.
    X : array-like or None
        Rows of the fits; None with plans.
    groups : array-like or None, default=None
        Groups for the splitter of a search.

    Returns
    -------
    list of PlannedFit
        At least one.

    Raises
    ------
    ValueError, TypeError
        If it is not known beforehand what is fitted.
    """
    if isinstance(what, type) or not hasattr(what, "get_params"):
        if X is not None:
            raise ValueError(
                "X must be left out with plans, which know their shape; a number of "
                f"fits is given as n_fits=, got X={shown(X)}"
            )
        return [PlannedFit(plan) for plan in check_plans(what)]
    if X is None:
        raise ValueError(
            "X is needed beside an estimator: the shape of its fits; without data, "
            "check the plan that privacy_plan gives"
        )
    fits = list(_walk(type(what).__name__, what, Rows(X), groups))
    if not fits:
        raise ValueError(f"no private estimator is fitted in {type(what).__name__}")
    return fits


def _walk(name: str, estimator: Any, rows: Rows, groups: Any) -> Iterator[PlannedFit]:
    """Yield the fits of private estimators that one fit asks for."""
    if not _has_private(estimator) or isinstance(estimator, FrozenEstimator):
        return
    if hasattr(estimator, "plan_for"):
        plan = estimator.plan_for(rows.of(name, estimator))
        yield PlannedFit(plan, estimator.accountant)
    elif isinstance(estimator, Pipeline):
        yield from _of_pipeline(name, estimator, rows, groups)
    elif isinstance(estimator, FeatureUnion):
        for step, child in estimator.transformer_list:
            yield from _walk(f"{name}: {step}", child, rows, groups)
    elif isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        yield from _of_search(name, estimator, rows, groups)
    else:
        raise TypeError(
            f"{name}: how often {type(estimator).__name__} fits what it holds is not "
            "known here; give check() the plans of its estimators, by plan_for, and "
            "n_fits"
        )


def _has_private(estimator: Any) -> bool:
    """Whether an estimator is private, or holds one that is."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return False
    inside = (estimator, *estimator.get_params(deep=True).values())
    return any(
        hasattr(part, "plan_for") for part in inside if not isinstance(part, type)
    )


def _of_pipeline(
    name: str, pipeline: Pipeline, rows: Rows, groups: Any
) -> Iterator[PlannedFit]:
    steps = [(f"{name}: {step}", child) for step, child in pipeline.steps]
    private = [number for number, (_, child) in enumerate(steps) if _has_private(child)]
    # What follows the last private step may have any shape.
    for number, (step, child) in enumerate(steps[: private[-1] + 1]):
        yield from _walk(step, child, rows, groups)
        if number < private[-1]:
            rows = handed_on(step, child, rows)


def _of_search(name: str, search: Any, rows: Rows, groups: Any) -> Iterator[PlannedFit]:
    """Yield every candidate's fits, once a fold, and the dearest once more."""
    folds, inside = _folds(name, search, rows, groups), f"{name}: estimator"
    dearest: list[PlannedFit] = []
    candidates = _candidates(name, search)
    yield from _scores(search, rows.shape(name)[0], folds, len(candidates))
    for candidate in candidates:
        estimator = clone(search.estimator).set_params(**clone(candidate, safe=False))
        for fold, times in folds:
            fits = _walk(inside, estimator, fold, groups)
            yield from (replace(fit, times=fit.times * times) for fit in fits)
        if search.refit:
            again = list(_walk(inside, estimator, rows, groups))
            dearest = max(dearest, again, key=_cost)
    yield from dearest


def _scores(
    search: Any, n_rows: int, folds: list[tuple[Rows, int]], n_candidates: int
) -> Iterator[PlannedFit]:
    """Yield the releases of private scores, of every candidate, once a fold."""
    plan_of = getattr(search.scoring, "privacy_plan", None)
    if plan_of is None:
        return
    for fold, times in folds:
        n_train = fold.n_rows
        sizes = [n_rows - n_train] + [n_train] * bool(search.return_train_score)
        for size in sizes:
            fit = PlannedFit(plan_of(size), search.scoring.accountant)
            yield replace(fit, times=times * n_candidates)


def _folds(name: str, search: Any, rows: Rows, groups: Any) -> list[tuple[Rows, int]]:
    """Return the training rows of a search, and how often there are so many.

    What a fit costs may depend on how many there are, as by the papers' calibration.
    """
    if isinstance(search.cv, Iterator):
        raise ValueError(f"{name}: cv is an iterator, which ends; make it a list")
    splitter = check_cv(search.cv, classifier=is_classifier(search.estimator))
    zeros = np.broadcast_to(np.float64(0.0), rows.shape(name))
    try:
        # A copy: a splitter may hold a generator.
        splits = copy.deepcopy(splitter).split(zeros, None, groups)
        trains = [np.asarray(train) for train, _ in splits]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        # It goes by targets or columns: folds of equal sizes stand for its own.
        n_splits = splitter.get_n_splits(zeros, None, groups)
        trains = [train for train, _ in KFold(n_splits).split(zeros)]
    if reads_clients(search.estimator):
        return [(rows.of_fold(train), 1) for train in trains]
    sizes = Counter(len(train) for train in trains)
    return [(rows.of_fold(np.arange(size)), n) for size, n in sizes.items()]


def _cost(fits: list[PlannedFit]) -> float:
    """Return what fits cost together, for a comparison of candidates."""
    if not fits:
        return -1.0
    if any(fit.plan.curves for fit in fits):
        return sum(fit.times * fit.plan.epsilon for fit in fits)
    mu = math.sqrt(sum(fit.times * fit.plan.mu**2 for fit in fits))
    failure = min(1.0, sum(fit.times * fit.plan.failure for fit in fits))
    return Total(mu, failure).epsilon(min(fit.plan.delta for fit in fits))


def _candidates(name: str, search: Any) -> list[dict[str, Any]]:
    """Return what a search will try, in full."""
    if isinstance(search, GridSearchCV):
        return list(ParameterGrid(search.param_grid))
    seed = search.random_state
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise ValueError(
            f"{name}: which candidates it draws is known beforehand where its "
            "random_state is an integer alone; give it one"
        )
    drawn = ParameterSampler(
        search.param_distributions, search.n_iter, random_state=int(seed)
    )
    return list(drawn)
