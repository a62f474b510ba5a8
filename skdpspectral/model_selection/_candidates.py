"""Candidates of a private search: their models, their fits, and what is refused."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone

from .._base.estimator import PrivateEstimator, fitted_by
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import CALLBACK_ATTRIBUTES
from ..accounting import (
    PrivacyBudgetError,
    PrivacyLeakWarning,
    gaussian_epsilon,
)
from ..accounting._errors import without_warnings
from ..accounting._ledger.context import FormChecked, block_at_hand, without_accountant
from ..accounting._ledger.planned_fits import (
    Composition,
    composition_of,
    estimators_within,
    fitted_within,
)
from ..mechanisms import Assumption, PrivacyPlan, Unit, shown

# A planned cost may exceed what it was made of by rounding.
ROUNDING = 2.0**-41

# Parameters that steps of a search may not have, and why.
_REFUSED = {
    "verbose": "would print lines in every fit of the search, which are secret. Set it "
    "to 0.",
    "memory": "caches fitted steps, so that fits would share their noise. Set it to "
    "None.",
    "accountant": "is the ledger of one step: pass it to the search instead, which is "
    "charged once for all of its fits",
    "noise_seed": "has no effect in a search: set it to None, and the seed of the "
    "search instead",
}


class CandidateError(ValueError):
    """What a candidate asks for cannot be had under the search's guarantee."""


def check_estimator(estimator: Any) -> None:
    """Refuse what has no single budget, a ledger of its own, or tells of blocks."""
    if not isinstance(estimator, PrivateEstimator):
        raise TypeError(
            "estimator must be a private estimator of this package, or several steps "
            f"in make_private_pipeline, got {shown(estimator)}"
        )
    if hasattr(estimator, "client_feature"):
        raise ValueError(
            f"estimator: {type(estimator).__name__} has a budget for each client, and "
            "a search has one: fit it alone"
        )
    # The whole first: a search has a parameter "estimator" of its own.
    inside = [("estimator", estimator), *estimator.get_params(deep=True).items()]
    for name, part in inside:
        last = name.rpartition("__")[2]
        if composition_of(part) is Composition.SEARCH:
            raise ValueError(
                f"{name} is a search, and searches cannot be nested. Search over all "
                "parameters at once."
            )
        given = bool(part) if last == "verbose" else part is not None
        if last in _REFUSED and given:
            raise ValueError(f"{name}={shown(part)} {_REFUSED[last]}")
        if any(hasattr(part, listener) for listener in CALLBACK_ATTRIBUTES):
            raise ValueError(
                f"{name} has callbacks, which would see every fit of the search. "
                "Remove them."
            )


def users_within(estimator: Any) -> list[Any]:
    """Return the columns of users of the private estimators in one."""
    parts = estimators_within(estimator).values()
    named = (getattr(part, "user_feature", None) for part in parts)
    return [feature for feature in named if feature is not None]


def candidate_model(
    estimator: BaseEstimator, candidate: Mapping[str, Any], mu: float
) -> Any:
    """Return a candidate's unfitted model, whose fit costs `mu`."""
    model = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_estimator(model)
    if "epsilon" in candidate:
        raise CandidateError(
            "epsilon has no effect in this search, because its epsilon replaces that "
            "of the estimator. Remove it from the candidates, or compare budgets with "
            "GridSearchCV."
        )
    real = isinstance(model.epsilon, Real)
    if not real or not 0.0 < float(model.epsilon) < math.inf:
        raise CandidateError(
            f"epsilon={model.epsilon!r} is replaced by that of the search, which is "
            "finite: pass a number"
        )
    epsilon = gaussian_epsilon(mu, float(model.delta))
    if not epsilon > 0.0:
        raise CandidateError(
            "no budget is left for a fit. Raise epsilon of the search."
        )
    return model.set_params(epsilon=epsilon)


class _UntilCharged:
    """In the place of a ledger: ends a fit that would be charged."""

    def charge(self, plan: PrivacyPlan) -> None:
        raise FormChecked


def check_form_of_fit(model: Any, X: Any, y: Any) -> None:
    """Try a fit until it would be charged."""
    model = clone(model)
    model._fit_limit = _UntilCharged()
    with contextlib.suppress(FormChecked), without_warnings(), quiet():
        model.fit(X) if y is None else model.fit(X, y)


class FitLimit:
    """In the place of a ledger: what one fit of a search may cost, charged before."""

    def __init__(self, mu: float, failure: float, relation: tuple) -> None:
        self._most, self._relation = {"mu": mu, "failure": failure}, relation
        self._charged = False

    def __reduce__(self) -> Any:
        raise TypeError("the budget of a fit cannot be copied to another process")

    def charge(self, plan: PrivacyPlan) -> None:
        """Count a fit, or refuse what its search does not protect or allow."""
        if plan.assumption is not Assumption.NONE:
            raise PrivacyBudgetError(
                f"{plan.estimator} is private only {plan.assumption.condition}, which "
                "a search does not support: choose another mechanism"
            )
        if plan.curves:
            raise PrivacyBudgetError(
                f"{plan.estimator} draws Poisson samples, or has noise that is not "
                "Gaussian, which a search does not support: pass "
                'optimizer=Adam(sampling="in-turn"), or another mechanism'
            )
        if (plan.unit, plan.neighbors) != self._relation:
            unit, neighbors = self._relation
            raise PrivacyBudgetError(
                f"{plan.estimator} protects one {plan.unit} under {plan.neighbors}, "
                f"but the given estimator protects one {unit} under {neighbors}: all "
                "candidates must protect the same"
            )
        for name, most in self._most.items():
            cost = getattr(plan, name)
            if self._charged or not cost <= most * (1.0 + ROUNDING):
                raise PrivacyBudgetError(
                    f"a fit would cost more than its search allows: {name}={cost:.6g}, "
                    f"but at most {most:.6g} in a single fit"
                )
        self._charged = True


def check_candidate(
    search: Any,
    candidate: Mapping[str, Any],
    X: Any,
    relation: tuple,
    mu: float,
    users: Any = None,
) -> tuple[Any, PrivacyPlan]:
    """Return a candidate's model and plan, by the form of rows.

    It is refused if it leaks, or if a fit costs more than `mu`.
    """
    with named(candidate):
        model = candidate_model(search.estimator, candidate, mu)
        leaks = report_after_charge(model).leaks
        if leaks:
            raise CandidateError(
                f"{leaks[0].name} ({leaks[0].estimator}) leaks: {leaks[0].reason}; a "
                "search is private only if every step is"
            )
        own = next(iter(users_within(model)), None)
        if relation[0] is Unit.USER and (own is None or own != users):
            raise CandidateError(
                f"user_feature={own!r} must name the column of users, and the same in "
                "all candidates: a search passes no users"
            )
        plan = model.plan_for(X)
        FitLimit(mu, 1.0, relation).charge(plan)
    return model, plan


@contextlib.contextmanager
def named(candidate: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors with the candidate that caused them."""
    try:
        yield
    except (TypeError, ValueError, PrivacyBudgetError) as error:
        said = ", ".join(f"{name}={v!r}" for name, v in candidate.items())
        where = f"param_grid: the candidate ({said}) of " if candidate else ""
        raise CandidateError(f"{where}estimator: {error}") from error


# -- fits --------------------------------------------------------------------------

# Between the seeds of two fits.
_SEEDS_APART = 1009


def set_sources(model: Any, limit: Any, seed: int | None) -> None:
    """Set what a fit of a model may cost, and its seed."""
    model._set_source(limit, None if seed is None else _SEEDS_APART * seed % 2**31)


def fitted_within_budget(
    model: Any, X: Any, y: Any, limit: FitLimit, seed: int | None, search: Any
) -> Any:
    """Fit a model within a limit, one job after another; it keeps the search's ledger.

    Later fits of the model, or of its clones, are charged there by themselves.
    """
    set_sources(model, limit, seed)
    with warnings.catch_warnings(), without_accountant():
        warnings.filterwarnings("ignore", "noise_seed is given", PrivacyLeakWarning)
        given = (X,) if y is None else (X, y)
        fitted_by(functools.partial(model.fit, *given), private=True)
    noted = block_at_hand(getattr(search, "_made_in", None))
    for part in fitted_within(model):  # a pipeline has fitted copies of its steps
        # Of other compositions also what a further fit of them would clone.
        is_private = isinstance(part, PrivateEstimator)
        for own in [part] if is_private else estimators_within(part).values():
            if isinstance(own, PrivateEstimator):
                own._set_source(None, None)
                own.__dict__.pop("_fit_limit", None)
                own.accountant, own._made_in = search.accountant, noted
    return model


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Charge nothing and warn of nothing; jobs of a fit are threads."""
    threads = parallel_config(backend="threading")
    with np.errstate(all="ignore"), without_accountant(), threads:
        yield
