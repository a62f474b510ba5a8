"""Which steps of a pipeline are private, and which leak what they were fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import BaseRandomProjection

from .._base import PrivateEstimator

PRIVATE, STATELESS, LEAKS = "private", "stateless", "LEAKS"

# Fitting these takes nothing from X; they treat each row alone.
_ROW_BY_ROW = (Binarizer, FeatureHasher, HashingVectorizer, Normalizer)
# Fitting these takes the shape of X.
_SHAPE_ALONE = (BaseRandomProjection, PolynomialFeatures)


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
        A pipeline, column transformer, union, search, or a single estimator.

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
    return PrivacyReport(tuple(_walk("", estimator, None)))


def _walk(name: str, estimator, tainted: str | None) -> Iterator[StepReport]:
    """Yield verdicts; `tainted` names an earlier step that leaks into this one."""
    prefix = f"{name}__" if name else ""
    if isinstance(estimator, Pipeline):
        for step, child in estimator.steps:
            for verdict in _walk(prefix + step, child, tainted):
                yield verdict
                if verdict.verdict == LEAKS and tainted is None:
                    tainted = verdict.name
    elif isinstance(estimator, (FeatureUnion, ColumnTransformer)):
        for step, child in _branches(estimator):
            yield from _walk(prefix + step, child, tainted)
        yield from _chosen_columns(name, estimator)
    elif isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        yield from _walk(f"{prefix}estimator", estimator.estimator, tainted)
        reason = (
            "picks parameters by scores on private rows, which nothing accounts for"
        )
        yield StepReport(name or "search", type(estimator).__name__, LEAKS, reason)
    else:
        yield _leaf(name or type(estimator).__name__.lower(), estimator, tainted)


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


def _leaf(name: str, estimator, tainted: str | None) -> StepReport:
    if estimator is None or isinstance(estimator, str):
        return StepReport(name, str(estimator), STATELESS, "does nothing")
    kind = type(estimator).__name__
    if isinstance(estimator, PrivateEstimator):
        return StepReport(name, kind, *_private_verdict(estimator, tainted))
    reason = _stateless_reason(estimator)
    if reason is not None:
        return StepReport(name, kind, STATELESS, reason)
    return StepReport(name, kind, LEAKS, "is fitted on private rows without noise")


def _private_verdict(estimator, tainted: str | None) -> tuple[str, str]:
    if not estimator._is_private():
        return LEAKS, "its noise is switched off: give epsilon a number"
    if estimator.noise_seed is not None:
        return LEAKS, "its noise comes from a seed: leave noise_seed=None"
    if tainted is not None:
        return (
            LEAKS,
            f"its guarantee is void: {tainted!r} before it leaks into its rows",
        )
    reason = f"each fit spends {_budget(estimator)}"
    if getattr(estimator, "mechanism", None) == "spiked":
        reason += "; only for rows of the model that mechanism='spiked' assumes"
        if estimator.calibration == "paper":
            reason += "; that is the papers' claim: the plan says what holds"
    return PRIVATE, reason


def _budget(estimator) -> str:
    """Name the budget of a fit, or say that every client has one."""
    sides = {"epsilon": estimator.epsilon, "delta": estimator.delta}
    return ", ".join(
        f"{name}={'one a client' if isinstance(side, Mapping) else format(side, 'g')}"
        for name, side in sides.items()
    )


def _stateless_reason(estimator) -> str | None:
    """Say why fitting takes nothing from the values; None if it may."""
    if isinstance(estimator, _ROW_BY_ROW):
        return "treats each row alone"
    if isinstance(estimator, FunctionTransformer):
        # Any other function may look at several rows at once.
        ufuncs = all(
            function is None or isinstance(function, np.ufunc)
            for function in (estimator.func, estimator.inverse_func)
        )
        return "treats each value alone" if ufuncs else None
    if isinstance(estimator, _SHAPE_ALONE):
        return "takes from X its shape alone"
    if isinstance(estimator, SimpleImputer) and estimator.strategy == "constant":
        # Otherwise the columns that come out depend on where values are missing.
        fixed = estimator.keep_empty_features and not estimator.add_indicator
        return "fills in a constant" if fixed else None
    if isinstance(estimator, (OneHotEncoder, OrdinalEncoder)):
        fixed = estimator.categories != "auto" and not _counts_categories(estimator)
        return "its categories are given" if fixed else None
    return None


def _counts_categories(estimator) -> bool:
    """Whether an encoder groups or drops categories by how often they occur."""
    counted = (estimator.min_frequency, estimator.max_categories)
    return any(limit is not None for limit in counted)
