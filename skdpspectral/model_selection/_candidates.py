"""Candidates of a private search: their models, their fits, and what is refused."""

from __future__ import annotations

import contextlib
import math
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from .._base.estimator import PrivateEstimator
from .._base.labels import PrivateClassifier
from .._base.made_up import made_up_rows, made_up_targets, public_values
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import CALLBACK_ATTRIBUTES
from .._tables.clusters import is_on_cluster
from .._tables.readers import (
    column_names,
    frame_of_arrow,
    is_arrow,
    read_entries,
)
from .._tables.rows import DeferredRead, deferred_rows, shape_of, table_shape
from .._tables.users import check_kinds_of_targets
from ..accounting import (
    NoisyFitWarning,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._errors import warn, without_warnings
from ..accounting._gaussian import MIN_DELTA
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import (
    Composition,
    PlannedFit,
    composition_of,
    estimators_within,
    fitted_within,
    is_estimator,
    parts_of,
    planned_fits,
    reads_clients,
)
from ..accounting._ledger.step_shares import FormChecked
from ..mechanisms import Assumption, PrivacyPlan, shown

# A planned cost may exceed what it was made of by rounding.
_ROUNDING = 2.0**-41


class CandidateError(ValueError):
    """What a candidate asks for is not to be had under the search's guarantee."""


def check_estimator(estimator: Any) -> None:
    """Refuse what reveals something of blocks, or has a ledger of its own."""
    if not is_estimator(estimator):
        raise TypeError(
            f"estimator must be an unfitted estimator, got {shown(estimator)}"
        )
    # The whole first: a search has a parameter "estimator" of its own.
    inside = [("estimator", estimator), *estimator.get_params(deep=True).items()]
    for name, part in inside:
        if composition_of(part) is Composition.SEARCH:
            raise ValueError(
                f"{name} is a search, and searches cannot be nested. Search over all "
                "parameters at once."
            )
        if name.rpartition("__")[2] == "verbose" and part:
            raise ValueError(
                f"{name}={part!r} would print lines in every fit of the search, which "
                "are secret. Set it to 0."
            )
        if name.rpartition("__")[2] == "memory" and part is not None:
            raise ValueError(
                f"{name} caches fitted steps, so that fits would share their noise. "
                "Set it to None."
            )
        if any(hasattr(part, listener) for listener in CALLBACK_ATTRIBUTES):
            raise ValueError(
                f"{name} has callbacks, which would see every fit of the search. "
                "Remove them."
            )
        if isinstance(part, PrivateEstimator):
            _check_private(name, part)


def _check_private(name: str, part: PrivateEstimator) -> None:
    if part.accountant is not None:
        raise ValueError(
            f"{name} has its own accountant: pass it to the search instead, which is "
            "charged once for all of its fits"
        )
    if part.noise_seed is not None:
        raise ValueError(f"{name} has a noise_seed: set it to None")


def candidate_model(
    estimator: BaseEstimator,
    candidate: Mapping[str, Any],
    mu_fit: float,
    scaled: bool,
) -> Any:
    """Return the unfitted model of a candidate, with its budgets."""
    model = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_estimator(model)
    if not scaled:
        return model
    parts = list(private_parts(model))
    # Steps that a candidate removes may have the others' epsilons as their measure.
    is_only = len(parts) == 1 == len(private_parts(estimator))
    if is_only and f"{parts[0]}epsilon" in candidate:
        raise CandidateError(
            f"{parts[0]}epsilon has no effect in this search, because its epsilon "
            "replaces that of the only private step. Remove it from the candidates, or "
            "compare budgets with GridSearchCV."
        )
    return with_budgets(model, mu_fit)


def private_parts(model: Any) -> dict[str, Any]:
    """Return the private estimators in a model, by the prefix of their parameters.

    Steps of a private pipeline have a share of its budget, and none of their own.
    """
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
    named = (
        getattr(part, "user_feature", None)
        for part in private_parts(estimator).values()
    )
    return next((feature for feature in named if feature is not None), None)


def with_budgets(model: Any, mu_fit: float) -> Any:
    """Scale the budgets of private steps, so that together they cost what a fit may."""
    parts = private_parts(model)
    mus = {}
    for prefix, part in parts.items():
        real = isinstance(part.epsilon, Real)
        if not real or not 0.0 < float(part.epsilon) < math.inf:
            raise CandidateError(
                f"{prefix}epsilon={part.epsilon!r} is not a share of a budget. Pass a "
                "number, or set step_budgets='given' in the search."
            )
        mus[prefix] = gaussian_mu(float(part.epsilon), float(part.delta))
    total = math.hypot(*mus.values())
    for prefix, mu in mus.items():
        epsilon = gaussian_epsilon(mu_fit * mu / total, float(parts[prefix].delta))
        if not epsilon > 0.0:
            raise CandidateError(
                f"no budget is left for {prefix}epsilon. Raise epsilon of the search."
            )
        parts[prefix].set_params(epsilon=epsilon)
    return model


def check_candidate(
    model: Any,
    X: Any,
    relation: tuple,
    mu_fit: float,
    hint: str,
    users: Any = None,
    failure: float = 0.0,
) -> None:
    """Refuse a model that leaks, or whose fit costs more than `mu_fit` and `failure`.

    Of training rows X the form is used, and who the clients are. `relation` is what
    the search's guarantee is about; `hint` says what may be asked for, and `users` is
    the column of users that are scored.
    """
    leaks = report_after_charge(model, users).leaks
    if leaks:
        raise CandidateError(
            f"{leaks[0].name} ({leaks[0].estimator}) leaks: {leaks[0].reason}; a "
            "search is private only if every step is"
        )
    for name, part in private_parts(model).items():
        if isinstance(part, PersonalEstimator) and part.user_feature is None:
            raise CandidateError(
                f"{name}user_feature=None treats all rows as the rows of one user: a "
                "search passes no users; name their column with user_feature"
            )
    fits = planned_fits(model, X)
    for fit in fits:
        plan = fit.plan
        if plan.assumption is not Assumption.NONE:
            raise CandidateError(
                f"{plan.estimator} is private only {plan.assumption.condition}, which "
                "a search does not support: choose another mechanism"
            )
        if plan.curves:
            raise CandidateError(
                f"{plan.estimator} draws Poisson samples, or has noise that is not "
                "Gaussian, which a search does not support: pass "
                'optimizer=Adam(sampling="in-turn"), or another mechanism'
            )
        if (plan.unit, plan.neighbors) != relation:
            unit, neighbors = relation
            raise CandidateError(
                f"{plan.estimator} protects one {plan.unit} under {plan.neighbors}, "
                f"but the given estimator protects one {unit} under {neighbors}: all "
                "candidates must protect the same"
            )
        if plan.seeded:
            raise CandidateError(f"{plan.estimator} has a noise_seed: set it to None")
    mu = math.sqrt(sum(fit.times * fit.plan.mu**2 for fit in fits))
    if not mu <= mu_fit * (1.0 + _ROUNDING):
        raise CandidateError(
            f"a fit of {type(model).__name__} costs mu={mu:.6g}, but the last fit "
            f"may cost mu={mu_fit:.6g}: {hint}"
        )
    if _failure_of(fits) > failure:
        raise CandidateError(
            f"a fit of {type(model).__name__} fails with probability "
            f"{_failure_of(fits):.3g}, but the search allows for {failure:.3g}: "
            "lower delta of its steps"
        )


def _failure_of(fits: Iterable[PlannedFit]) -> float:
    """Return the probability that the guarantee of one of several fits fails."""
    exactly = math.fsum(fit.times * fit.plan.failure for fit in fits)
    return min(exactly * (1.0 + _ROUNDING), 1.0)


def failure_of_fits(
    search: Any, candidates: Iterable[Mapping[str, Any]], X: Any
) -> float:
    """Return the largest probability of failure of a fit, by the form of rows."""
    if takes_numbers(search.estimator):
        return 0.0
    mu = gaussian_mu(float(search.epsilon), float(search.delta))
    scaled, rows, most = search.step_budgets == "scaled", stand_in(X), 0.0
    for candidate in candidates:
        with named(candidate):
            model = candidate_model(search.estimator, candidate, mu, scaled)
            most = max(most, _failure_of(planned_fits(model, rows)))
    return most


def delta_beside(delta: float, failure: float) -> float:
    """Return the delta of a search minus the failures of fits."""
    if delta - failure < max(MIN_DELTA, 0.5 * delta):
        raise ValueError(
            f"delta={delta:g} is too small: it must cover the probability "
            f"{failure:.3g} that values of single rows are found as categories. Lower "
            "delta of the steps that find categories, or pass public categories"
        )
    return delta - failure


def stand_in(X: Any) -> Any:
    """Return rows with the names and dtypes of a table, for plans.

    Zeros replace numeric arrays, and tables that are not frames in memory.
    """
    shape = table_shape(X)
    if isinstance(X, (list, tuple)):
        return np.broadcast_to(np.array(None), shape)
    frame = column_names(X) is not None and getattr(X, "shape", None) == shape
    if frame or (isinstance(X, np.ndarray) and X.dtype.kind in "OSTU"):
        return X
    return np.broadcast_to(0.0, shape)


def checked_form(estimator: Any, X: Any, y: Any) -> tuple[list[DeferredRead], int]:
    """Check the form of rows and targets; return what is unread, and the row count."""
    for name, given in (("X", X), ("y", y)):
        if is_on_cluster(given):
            raise TypeError(
                f"PrivateSearchCV does not take dask collections as {name}: pass "
                f"{name}.compute()"
            )
    unread = deferred_numbers(estimator, X)
    n_rows = unread.shape[0] if unread is not None else table_shape(X)[0]
    if y is not None and shape_of(y, "y")[:1] != (n_rows,):
        raise ValueError(f"y must have one entry per row, {n_rows} in total")
    if y is not None:
        check_kinds_of_targets(y, labels=not is_regressor(estimator))
    for part in estimators_within(estimator).values() if y is not None else ():
        if isinstance(part, PrivateClassifier):
            part._check_kind(y)
    return [] if unread is None else [unread], n_rows


def check_candidates(
    search: Any,
    candidates: Iterable[Mapping[str, Any]],
    X: Any,
    relation: tuple,
    mu_fit: float,
    users: Any,
    failure: float,
) -> None:
    """Refuse candidates before anything runs, by the form of rows alone."""
    most = gaussian_epsilon(mu_fit, float(search.delta))
    for candidate in candidates:
        with named(candidate):
            scaled = search.step_budgets == "scaled"
            model = candidate_model(search.estimator, candidate, mu_fit, scaled)
            if sparse.issparse(X) and not get_tags(model).input_tags.sparse:
                raise TypeError(
                    "Sparse data was passed for X, but it requires dense data"
                )
            rows = X if reads_clients(model) else stand_in(X)
            hint = f"at most epsilon={most:.6g} at this delta"
            check_candidate(model, rows, relation, mu_fit, hint, users, failure)


@contextlib.contextmanager
def named(candidate: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors with the candidate that caused them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not candidate:
            raise CandidateError(f"estimator: {error}") from error
        said = ", ".join(f"{name}={v!r}" for name, v in candidate.items())
        raise CandidateError(
            f"param_grid: the candidate ({said}) of estimator: {error}"
        ) from error


def warn_beforehand(caveats: Iterable[str]) -> None:
    """Warn of caveats about candidates, from public numbers."""
    for caveat in dict.fromkeys(caveats):
        warn(f"of a candidate in param_grid: {caveat}", NoisyFitWarning)


# Distance between the seeds of the steps of two fits.
_SEEDS_APART = 1009


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
        self._mu, self._failure, self._lock = 0.0, 0.0, threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("the budget of a fit cannot be copied to another process")

    def charge(self, plan: PrivacyPlan) -> None:
        """Count a fit, or refuse what the search was not charged for."""
        self.check(plan)
        with self._lock:
            self._mu = math.hypot(self._mu, plan.mu)
            self._failure += plan.failure
            spent = (self._mu, self._failure)
        if any(
            x > y * (1.0 + _ROUNDING) for x, y in zip(spent, self._most, strict=True)
        ):
            raise PrivacyBudgetError("a fit would cost more than its search allows")

    def check(self, plan: PrivacyPlan) -> None:
        """Refuse a plan of another kind."""
        exact = not plan.curves and plan.assumption is Assumption.NONE
        if not exact or (plan.unit, plan.neighbors) != self._relation:
            raise PrivacyBudgetError("a fit has another guarantee than its search")


def fitted_within_budget(
    model: Any, X: Any, y: Any, limit: FitLimit, seed: int | None
) -> Any:
    """Fit a model whose private steps together cost at most a limit.

    Jobs of the fit are threads, which share the limit.
    """
    set_sources(model, limit, seed)
    with without_seed_warning(), parallel_config(backend="threading"):
        model.fit(X) if y is None else model.fit(X, y)
    # Column transformers, and pipelines with a memory, have fitted copies of steps.
    fitted = (part for part in fitted_within(model) if hasattr(part, "_set_source"))
    for part in (*private_parts(model).values(), *fitted):
        part._set_source(None, None)
        for name in ("_made_in", "_fit_limit"):
            vars(part).pop(name, None)
    return model


def set_sources(model: Any, limit: Any, seed: int | None) -> None:
    """Set what the private steps of a model may cost, and seeds of their own."""
    for number, part in enumerate(private_parts(model).values()):
        own = None if seed is None else (_SEEDS_APART * seed + number) % 2**31
        part._set_source(limit, own)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Charge nothing and warn of nothing; jobs of a fit are threads."""
    with (
        np.errstate(all="ignore"),
        without_accountant(),
        parallel_config(backend="threading"),
    ):
        yield


@contextlib.contextmanager
def without_seed_warning() -> Iterator[None]:
    """Leave warnings of the last fit as they are, but what its search has said."""
    with warnings.catch_warnings(), without_accountant():
        warnings.filterwarnings("ignore", "noise_seed is given", PrivacyLeakWarning)
        yield


def sliceable(table: Any, name: str, read: Any = None) -> Any:
    """Return a table whose rows can be taken, with its names if it has any."""
    if sparse.issparse(table):
        return table.tocsr()
    if column_names(table) is not None and is_arrow(table):
        return frame_of_arrow(table)
    if table is None or hasattr(table, "shape"):
        return table
    return read_entries(table, name) if read is None else read


def sliceable_targets(y: Any) -> Any:
    """Return targets of which rows can be taken; lists stay lists."""
    if isinstance(y, tuple) or hasattr(y, "to_pylist"):
        return list(y) if isinstance(y, tuple) else y.to_pylist()
    return y


def made_up(
    estimator: Any, X: Any, y: Any, declared: frozenset[str]
) -> tuple[Any, Any] | None:
    """Return rows and targets as blocks get them; None where there is no such table."""
    known = public_values(estimator)
    try:
        rows = made_up_rows(X, known, declared, takes_numbers(estimator))
        unread = deferred_numbers(estimator, rows)
        read = [] if unread is None else [unread.read()]
        targets = None if y is None else made_up_targets(y, known.get("classes"))
        return sliceable(rows, "X", *read), sliceable_targets(targets)
    except Exception:  # of libraries that own containers too
        return None  # of dtypes that nothing can be made of: intervals, structs


def deferred_numbers(estimator: Any, X: Any) -> DeferredRead | None:
    """Check the form of rows of numbers; None of tables with other values."""
    if not takes_numbers(estimator):
        return None
    tags = get_tags(estimator).input_tags
    return deferred_rows(None, X, accept_sparse=tags.sparse, in_blocks=True)


def takes_numbers(estimator: Any) -> bool:
    """Return whether rows must be finite numbers for whatever reads them first."""
    kind = composition_of(estimator)
    parts = [part for _, part in parts_of(estimator) if is_estimator(part)]
    if kind is Composition.PIPELINE:
        return not parts or takes_numbers(parts[0])
    if kind in (Composition.UNION, Composition.COLUMNS):
        return all(map(takes_numbers, parts))
    tags = get_tags(estimator).input_tags
    other = tags.allow_nan or tags.categorical or tags.string
    return tags.two_d_array and not other
