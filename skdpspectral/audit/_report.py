"""Which steps of a pipeline are private, and which leak what they were fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from .._base.estimator import PrivateEstimator
from ..mechanisms import Assumption
from ._columns import Before, stale_position
from ._nested import (
    estimators_in,
    has_estimators,
    inside_of,
    is_search,
    reason_of_leak,
    reason_of_search,
)
from ._stateless import is_known, makes_sparse, stateless_reason, telling_reason

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
