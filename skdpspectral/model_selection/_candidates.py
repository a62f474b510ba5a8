"""Candidates of a private search: their models, their fits, and what is refused."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import warnings
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from .._base.estimator import PrivateEstimator, fitted_by
from .._base.labels import PrivateClassifier
from .._base.made_up import (
    CLASSES,
    made_up_rows,
    made_up_targets,
    public_values,
    takes_numbers,
)
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import CALLBACK_ATTRIBUTES
from .._tables.clusters import refuse_on_cluster
from .._tables.columns import (
    column_names,
    frame_of_arrow,
    is_arrow,
    read_entries,
)
from .._tables.table import (
    DeferredRead,
    check_kinds_of_targets,
    deferred_rows,
    shape_of,
    table_shape,
)
from ..accounting import (
    PrivacyBudgetError,
    PrivacyLeakWarning,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._errors import without_warnings
from ..accounting._ledger.context import block_at_hand, without_accountant
from ..accounting._ledger.planned_fits import (
    Composition,
    composition_of,
    estimators_within,
    fitted_within,
    is_estimator,
    planned_fits,
    reads_clients,
)
from ..accounting._ledger.step_shares import FormChecked
from ..mechanisms import Assumption, PrivacyPlan, shown

# A planned cost may exceed what it was made of by rounding.
_ROUNDING = 2.0**-41

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
    """Refuse what reveals something of blocks, or has a ledger of its own."""
    if not is_estimator(estimator):
        raise TypeError(
            f"estimator must be an unfitted estimator, got {shown(estimator)}"
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


def private_parts(model: Any) -> dict[str, Any]:
    """Return private estimators with a budget of their own, by parameter prefix."""
    found = {
        f"{name}__" if name else "": part
        for name, part in estimators_within(model).items()
        if isinstance(part, PrivateEstimator)
    }
    owners = [p for p, o in found.items() if composition_of(o) is Composition.PIPELINE]
    return {
        prefix: part
        for prefix, part in found.items()
        if not any(prefix != p and prefix.startswith(p) for p in owners)
    }


def users_of(estimator: Any) -> Any:
    """Return the column of users of the private estimators in one; None for rows."""
    parts = estimators_within(estimator).values()
    named = (getattr(part, "user_feature", None) for part in parts)
    return next((feature for feature in named if feature is not None), None)


def candidate_model(
    estimator: BaseEstimator, candidate: Mapping[str, Any], mu: float
) -> Any:
    """Return a candidate's unfitted model, whose private steps together cost `mu`."""
    model = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_estimator(model)
    parts, mus = private_parts(model), {}
    # Steps that a candidate removes may have the others' epsilons as their measure.
    is_only = len(parts) == 1 == len(private_parts(estimator))
    for prefix, part in parts.items():
        if is_only and f"{prefix}epsilon" in candidate:
            raise CandidateError(
                f"{prefix}epsilon has no effect in this search, because its epsilon "
                "replaces that of the only private step. Remove it from the "
                "candidates, or compare budgets with GridSearchCV."
            )
        real = isinstance(part.epsilon, Real)
        if not real or not 0.0 < float(part.epsilon) < math.inf:
            raise CandidateError(
                f"{prefix}epsilon={part.epsilon!r} is not a share of a budget: pass a "
                "number"
            )
        mus[prefix] = gaussian_mu(float(part.epsilon), float(part.delta))
    total = math.hypot(*mus.values())
    for prefix, part in parts.items():
        epsilon = gaussian_epsilon(mu * mus[prefix] / total, float(part.delta))
        if not epsilon > 0.0:
            raise CandidateError(
                f"no budget is left for {prefix}epsilon. Raise epsilon of the search."
            )
        part.set_params(epsilon=epsilon)
    return model


class _UntilCharged:
    """In the place of a ledger: ends a fit that would be charged."""

    def charge(self, plan: PrivacyPlan) -> None:
        raise FormChecked


def check_form_of_fit(model: Any, X: Any, y: Any) -> None:
    """Try a fit until it would be charged, if its first step is private."""
    first = model
    while type(first) is Pipeline:
        first = first.steps[0][1]
    if not isinstance(first, PrivateEstimator):
        return
    set_sources(model, _UntilCharged(), None)
    with contextlib.suppress(FormChecked), without_warnings(), quiet():
        model.fit(X) if y is None else model.fit(X, y)


class FitLimit:
    """In the place of a ledger: what one fit of a search may cost, charged before."""

    def __init__(self, mu: float, failure: float, relation: tuple) -> None:
        self._most, self._relation = (mu, failure), relation
        self.spent, self._lock = (0.0, 0.0), threading.Lock()

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
        with self._lock:
            mu, failure = self.spent
            self.spent = math.hypot(mu, plan.mu), failure + plan.failure
            limits = zip(("mu", "failure"), self.spent, self._most, strict=True)
        for name, cost, most in limits:
            if not cost <= most * (1.0 + _ROUNDING):
                raise PrivacyBudgetError(
                    f"a fit would cost more than its search allows: {name}={cost:.6g}, "
                    f"but at most {most:.6g} (of epsilon, or delta, of its steps)"
                )


def check_candidate(
    search: Any,
    candidate: Mapping[str, Any],
    X: Any,
    relation: tuple,
    mu: float,
    users: Any = None,
) -> tuple[Any, float]:
    """Return a candidate's model and probability of failure, by the form of rows.

    It is refused if it leaks, or if a fit costs more than `mu`.
    """
    with named(candidate):
        model = candidate_model(search.estimator, candidate, mu)
        if sparse.issparse(X) and not get_tags(model).input_tags.sparse:
            raise TypeError("Sparse data was passed for X, but it requires dense data")
        leaks = report_after_charge(model, users).leaks
        if leaks:
            raise CandidateError(
                f"{leaks[0].name} ({leaks[0].estimator}) leaks: {leaks[0].reason}; a "
                "search is private only if every step is"
            )
        for name, part in private_parts(model).items():
            if isinstance(part, PersonalEstimator) and part.user_feature is None:
                raise CandidateError(
                    f"{name}user_feature=None treats all rows as the rows of one user: "
                    "a search passes no users; name their column with user_feature"
                )
        limit = FitLimit(mu, 1.0, relation)
        for fit in planned_fits(model, stand_in(model, X)):
            limit.charge(fit.plan)
    return model, min(limit.spent[1] * (1.0 + _ROUNDING), 1.0)


@contextlib.contextmanager
def named(candidate: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors with the candidate that caused them."""
    try:
        yield
    except (TypeError, ValueError, PrivacyBudgetError) as error:
        said = ", ".join(f"{name}={v!r}" for name, v in candidate.items())
        where = f"param_grid: the candidate ({said}) of " if candidate else ""
        raise CandidateError(f"{where}estimator: {error}") from error


# -- rows --------------------------------------------------------------------------


def stand_in(model: Any, X: Any) -> Any:
    """Return rows for plans, whose ids alone are read; zeros stand for others."""
    if reads_clients(model):
        return X
    shape = table_shape(X)
    if isinstance(X, (list, tuple)):
        return np.broadcast_to(np.array(None), shape)
    frame = column_names(X) is not None and getattr(X, "shape", None) == shape
    if frame or (isinstance(X, np.ndarray) and X.dtype.kind in "OSTU"):
        return X
    return np.broadcast_to(0.0, shape)


def checked_form(estimator: Any, X: Any, y: Any) -> list[DeferredRead]:
    """Check the form of rows and targets; return what is unread of the rows."""
    for name, given in (("X", X), ("y", y)):
        refuse_on_cluster(given, "PrivateSearchCV", name)
    unread = deferred_numbers(estimator, X)
    n_rows = (unread[0].shape if unread else table_shape(X))[0]
    if y is not None:
        if shape_of(y, "y")[:1] != (n_rows,):
            raise ValueError(f"y must have one entry per row, {n_rows} in total")
        check_kinds_of_targets(y, labels=not is_regressor(estimator))
        for part in estimators_within(estimator).values():
            if isinstance(part, PrivateClassifier):
                part._check_kind(y)
    return unread


def made_up(estimator: Any, X: Any, y: Any, numbers: bool) -> tuple[Any, Any]:
    """Return rows and targets as blocks get them; objects are `numbers` or words."""
    known = public_values(estimator)
    rows = made_up_rows(X, known, numbers)
    read = [unread.read() for unread in deferred_numbers(estimator, rows)]
    targets = None if y is None else made_up_targets(y, known.get(CLASSES))
    return sliceable(rows, *read), sliceable_targets(targets)


def deferred_numbers(estimator: Any, X: Any) -> list[DeferredRead]:
    """Check the form of rows of numbers; none of tables with other values."""
    if not takes_numbers(estimator):
        return []
    tags = get_tags(estimator).input_tags
    return [deferred_rows(None, X, accept_sparse=tags.sparse, in_blocks=True)]


def sliceable(table: Any, read: Any = None) -> Any:
    """Return rows, or what was `read` of them, in a form of which some can be taken."""
    if sparse.issparse(table):
        return table.tocsr()
    if column_names(table) is not None and is_arrow(table):
        return frame_of_arrow(table)
    if hasattr(table, "shape"):
        return table
    return read_entries(table, "X") if read is None else read


def sliceable_targets(y: Any) -> Any:
    """Return targets of which rows can be taken; lists stay lists."""
    if hasattr(y, "to_pylist"):
        return y.to_pylist()
    return list(y) if isinstance(y, tuple) else y


# -- fits --------------------------------------------------------------------------

# Distance between the seeds of the steps of two fits.
_SEEDS_APART = 1009


def set_sources(model: Any, limit: Any, seed: int | None) -> None:
    """Set what the private steps of a model may cost, and seeds of their own."""
    for number, part in enumerate(private_parts(model).values()):
        own = None if seed is None else (_SEEDS_APART * seed + number) % 2**31
        part._set_source(limit, own)


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
    # Column transformers, and pipelines with a memory, have fitted copies of steps.
    fitted = (part for part in fitted_within(model) if hasattr(part, "_set_source"))
    noted = block_at_hand(getattr(search, "_made_in", None))
    for part in (*private_parts(model).values(), *fitted):
        part._set_source(None, None)
        vars(part).pop("_fit_limit", None)
        part.accountant, part._made_in = search.accountant, noted
    return model


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Charge nothing and warn of nothing; jobs of a fit are threads."""
    threads = parallel_config(backend="threading")
    with np.errstate(all="ignore"), without_accountant(), threads:
        yield
