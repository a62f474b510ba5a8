"""Which steps of a pipeline are private, which leak, and copies to hand on.

A step without noise is stateless only if its exact type is listed, with parameters
under which its fit takes nothing from values. Whatever is unknown counts as a leak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import NamedTuple

import numpy as np
from joblib import Memory
from sklearn.compose import make_column_selector
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    PolynomialFeatures,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils.validation import check_is_fitted

from ..accounting import PrivacyLeakWarning
from ..accounting._errors import warn
from ..accounting._ledger.planned_fits import (
    WALKED,
    Composition,
    Step,
    composition_of,
    parts_of,
    steps_of,
)
from ..mechanisms import Assumption
from ..mechanisms._plan import html_table
from .estimator import PrivateEstimator, TableEstimator, published_copy
from .sklearn_compat import output_container

PRIVATE, STATELESS, LEAKS = "private", "stateless", "LEAKS"

# Columns of ratings; where they are only numbered, users are first, items second.
DEFAULT_NAMES = ("user_id", "item_id")

_UNKNOWN = "unknown: treat as a leak"


class StepReport(NamedTuple):
    """Verdict on one step of a pipeline.

    Parameters
    ----------
    name : str
        Path of the step, with double underscores as in ``set_params``.
    estimator : str
        Name of the estimator's class.
    verdict : {"private", "stateless", "LEAKS"}
        "private": fitted with a guarantee. "stateless": fitting uses no values.
        "LEAKS": the fitted step may reveal rows, or is not known.
    reason : str
        Reason for the verdict, and a remedy.
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
        One entry per step.
    """

    steps: tuple[StepReport, ...]

    @property
    def private(self) -> bool:
        """Whether no step leaks."""
        return not self.leaks

    @property
    def leaks(self) -> list[StepReport]:
        """The steps that leak."""
        return [step for step in self.steps if step.verdict == LEAKS]

    def __iter__(self) -> Iterator[StepReport]:
        return iter(self.steps)

    def _repr_html_(self) -> str:
        return html_table([StepReport._fields, *self.steps])

    def __str__(self) -> str:
        name, kind, *_ = (max(map(len, each)) for each in zip(*self.steps, strict=True))
        return "\n".join(
            f"{s.name:{name}}  {s.estimator:{kind}}  {s.verdict:9}  {s.reason}"
            for s in self.steps
        )


def privacy_report(estimator) -> PrivacyReport:
    """Report for each step of a pipeline whether fitting it is private.

    Nothing is fitted and no data are needed. Pipelines, column transformers, unions,
    :class:`~skdpspectral.pipeline.PrivatePipeline` and
    :class:`~skdpspectral.model_selection.PrivateSearchCV` are entered. Steps are
    reported as leaks unless they are known to be harmless. This includes steps that may
    raise an error or warn before the charge, depending on values.

    Parameters
    ----------
    estimator : estimator
        A pipeline, column transformer, union, private search, or a single estimator.
        Unknown kinds of estimators are reported as leaks. So are estimators of users or
        clients behind a step that may move or change their column.

    Returns
    -------
    PrivacyReport
        Has `private`, which is True if no step leaks, and `steps`, each with `name`,
        `estimator`, `verdict` and `reason`. ``str()`` returns a table.

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
    return report_after_charge(estimator, charged=False)


def report_after_charge(estimator, charged=True) -> PrivacyReport:
    """Return the report on what is charged before its fits."""
    return PrivacyReport(tuple(_Walk(charged).verdicts(Step("", estimator))))


# -- steps without noise -----------------------------------------------------------

# Fits of these take nothing from values, if a number sets their width. Encoders and
# imputers keep the dtype of a column, which may show whether a value is missing.
_PROJECTIONS = (GaussianRandomProjection, SparseRandomProjection)
_ALLOWED = (Binarizer, Normalizer, PolynomialFeatures, *_PROJECTIONS)

# What to use in the place of estimators of scikit-learn.
_INSTEAD = {
    "DPStandardScaler()": "MinMaxScaler PowerTransformer QuantileTransformer "
    "RobustScaler StandardScaler",
    "DPStandardScaler(with_mean=False)": "MaxAbsScaler",
    "DPTableVectorizer(categories=...)": "OneHotEncoder OrdinalEncoder",
    "DPTableVectorizer()": "KNNImputer TargetEncoder",
    'DPTableVectorizer() or DPStandardScaler(missing="mean")': "SimpleImputer",
    "DPPCA()": "IncrementalPCA PCA TruncatedSVD",
    "DPRidge()": "LinearRegression Ridge RidgeCV",
    "DPRidgeClassifier()": "LogisticRegression RidgeClassifier",
    "DPAdamClassifier()": "MLPClassifier",
    "DPAdamRegressor()": "MLPRegressor",
    "PrivateSearchCV()": "GridSearchCV RandomizedSearchCV",
}


def is_known(estimator) -> bool:
    """Whether code and methods are of scikit-learn or this library."""
    known = type(estimator).__module__.partition(".")[0] in ("sklearn", "skdpspectral")
    own = getattr(estimator, "__dict__", {})
    return known and not any(callable(getattr(type(estimator), n, 0)) for n in own)


def passes_rows(step) -> bool:
    """Return whether a step passes on its rows as they are."""
    identity = type(step) is FunctionTransformer and step.func is None
    return identity or step is None or step == "passthrough"


def _reason_of_leak(estimator) -> str | None:
    """Return why a step without noise may leak; None for one that is stateless."""
    kind = type(estimator)
    if not is_known(estimator):
        return f"{_UNKNOWN}; it has code of its own"
    if kind is FunctionTransformer:
        # The results of others may depend on the dtype of a column, and that of
        # integers on whether a value of any row is missing.
        function = estimator.func
        known = function is None or function is np.nan_to_num
        known = known and not estimator.kw_args
        own = estimator.inverse_func, estimator.feature_names_out
        if known and own[0] is None and not callable(own[1]):
            return None
        return (
            f"{_UNKNOWN}; its function may look at other rows, keep values, or depend "
            "on the dtype that they have together: apply it to columns of floats "
            "before the pipeline"
        )
    if kind not in _ALLOWED:
        for instead, classes in _INSTEAD.items():
            if kind.__name__ in classes.split():
                said = "its fit depends on private rows without noise"
                return f"{said}: use {instead} instead"
        return _UNKNOWN
    if kind in _PROJECTIONS and not isinstance(estimator.n_components, Integral):
        return "the number of rows sets its width: set n_components to a number"
    return None


# -- ids of users and clients ------------------------------------------------------


def _reason_of_ids(step: Step) -> str | None:
    """Return why a column of ids may be another one, or changed; None if it is not."""
    one = step.estimator
    for parameter in ("user_feature", "client_feature", "item_feature"):
        feature = getattr(one, parameter, None)
        default = feature in DEFAULT_NAMES and hasattr(one, "item_feature")
        named = isinstance(feature, str) and not default
        changed = [] if named or step.within is None else [step.within]
        asked = feature, named, parameter == "user_feature"
        changed += [path for path, e in step.behind if not _keeps(e, *asked)]
        if feature is not None and changed:
            return (
                f"{_UNKNOWN}; {parameter}={feature!r} may be another column behind "
                f"{changed[-1]!r}, or have other ids: put the estimator first, or "
                "behind DPTableVectorizer(user_feature=...) with the same name"
            )
    return None


def _keeps(element, feature, named: bool, of_users: bool) -> bool:
    """Return whether ids of a column are the same behind an estimator."""
    if passes_rows(element):
        return True
    own = getattr(element, "user_feature", None)
    if not of_users or own is None or not is_known(element):
        return False
    if not getattr(element, "_puts_users_first", False):
        return False
    frames = output_container(element) != "default"
    return feature == (own if named and frames else 0)


# -- the verdicts ------------------------------------------------------------------

_FOREIGN = f"{_UNKNOWN}; its class derives from a known one, or has its own methods"

_EARLY = (
    "may raise an error or warn about values: use make_private_pipeline, which is "
    "charged first and silences warnings of numpy"
)


@dataclass(frozen=True)
class _Walk:
    """Verdicts on the steps of an estimator, and what is known before it is fitted."""

    charged: bool = False  # errors of its steps come after the charge, and are hidden
    share: str = ""  # what a fit spends, where it has no budget of its own
    void: list[str] = field(default_factory=list)  # leaks into later steps

    def verdicts(self, whole: Step) -> Iterator[StepReport]:
        """Yield verdicts on all steps of an estimator."""
        one = whole.estimator
        for step in steps_of(whole.path, one, None, whole.behind, whole.within):
            for found in self._verdict(step):
                yield found
                if found.verdict == LEAKS and found.reason != _EARLY:
                    self.void.append(found.name)

    def _verdict(self, step: Step) -> Iterator[StepReport]:
        one, kind = step.estimator, type(step.estimator).__name__
        path = step.path or kind.lower()
        if isinstance(one, PrivateEstimator):
            yield from self._private(step, path)
        elif step.kind is Composition.FROZEN and is_known(one):
            inside = f"{step.path}__estimator" if step.path else "estimator"
            yield from self.verdicts(
                replace(step, path=inside, estimator=one.estimator)
            )
        elif step.kind in WALKED:
            if (reason := _reason_of_composition(one)) is not None:
                yield StepReport(path, kind, LEAKS, reason)
        elif one is None or isinstance(one, str):
            yield StepReport(path, str(one), STATELESS, "does nothing")
        else:
            reason = _reason_of_leak(one)
            silent = isinstance(one, FunctionTransformer) and not one.validate
            if reason is None and not self.charged and not silent:
                reason = _EARLY
            verdict = STATELESS if reason is None else LEAKS
            yield StepReport(path, kind, verdict, reason or "its fit uses no values")

    def _private(self, step: Step, path: str) -> Iterator[StepReport]:
        """Yield verdicts on a private estimator, and on what it contains."""
        one, share, leaks = step.estimator, self.share or _spent(step.estimator), False
        if step.kind in (Composition.PIPELINE, Composition.SEARCH) and is_known(one):
            whole, said, name = "search", " on all fits", f"{path}__estimator"
            if step.kind is Composition.PIPELINE:
                whole, said, name = "pipeline", " on all steps", step.path
            share += said
            inner = Pipeline(one.steps) if whole == "pipeline" else one.estimator
            own = f"each fit spends a share of the {whole}'s budget"
            walk = replace(self, charged=True, share=own)
            for found in walk.verdicts(replace(step, path=name, estimator=inner)):
                leaks = leaks or found.verdict == LEAKS
                yield found
        reason = self._reason_of_private(step)
        if reason is None and leaks:
            reason = "a step leaks: its fit is refused"
        verdict = PRIVATE if reason is None else LEAKS
        reason = reason or f"{share}{_conditions(one)}"
        yield StepReport(path, type(one).__name__, verdict, reason)

    def _reason_of_private(self, step: Step) -> str | None:
        """Return why a private estimator is not private; None if it is."""
        one = step.estimator
        if not is_known(one):
            return _FOREIGN
        if not one._is_private():
            return "its noise is switched off: set epsilon to a number"
        if one.noise_seed is not None:
            return "its noise comes from a seed: leave noise_seed=None"
        unprotected = one._unprotected()
        if unprotected is not None:
            return str(unprotected)
        # What was fitted may be older than what its parameters say by now.
        fitted = getattr(one, "privacy_", None)
        if fitted is not None and not fitted.private:
            how = "with noise from a seed" if fitted.seeded else "without noise"
            return f"it was fitted {how}: fit it again"
        for leak in self.void:
            if any(f"{leak}__".startswith(f"{path}__") for path, _ in step.behind):
                return f"its guarantee is void: {leak!r} before it leaks"
        if isinstance(one, TableEstimator):
            return None  # rows are protected, whichever of their columns is passed on
        return _reason_of_ids(step)


def _reason_of_composition(one) -> str | None:
    """Return what a composition itself may reveal; None for nothing."""
    if not is_known(one):
        return _FOREIGN
    memory = getattr(one, "memory", None)
    if not (memory is None or isinstance(memory, str) or type(memory) is Memory):
        return "an object that is not a joblib.Memory receives rows: set memory=None"
    for name, _, columns in getattr(one, "transformers", ()):
        if callable(columns) and type(columns) is not make_column_selector:
            picked = f"a function picks the columns of {name!r}"
            return f"{picked} and may look at values: name them"
    if getattr(one, "sparse_threshold", 0) == 0 or _is_dense(one):
        return None
    return "the share of zeros decides whether rows are sparse: set sparse_threshold=0"


def _is_dense(part) -> bool:
    """Return whether what a step puts out is surely dense."""
    kind = composition_of(part)
    if kind in (Composition.COLUMNS, Composition.UNION):
        dense = getattr(part, "sparse_threshold", 1) == 0
        return dense or all(_is_dense(p) for _, p in parts_of(part) if p != "drop")
    if kind is Composition.PIPELINE:
        return _is_dense(part.steps[-1][1])
    sparse = not getattr(part, "with_mean", 1)
    return kind is None and isinstance(part, PrivateEstimator) and not sparse


def _conditions(one) -> str:
    """Return the conditions of a private estimator's guarantee."""
    said = ""
    if one._given_noise() is not None:
        said += "; privacy_plan states what that noise costs"
    fitted = getattr(one, "privacy_", None)
    own = getattr(one, "assumption", getattr(fitted, "assumption", Assumption.NONE))
    if own is not Assumption.NONE:
        said += f"; its results are private only {own.condition}"
    if getattr(one, "calibration", "") == "paper":
        said += "; this is the papers' claim: the plan states the proven guarantee"
    return said


def _spent(one) -> str:
    """Describe the budget of a fit, or of each client."""
    said, given = [], one._given_noise()
    for name in ("epsilon", "delta"):
        side = getattr(one, name)
        if name == "epsilon" and given is not None:
            said.append(f"epsilon=that of {given}")
        elif isinstance(side, Mapping):
            said.append(f"{name}=its own for each client")
        elif side is not None:
            said.append(f"{name}={side:g}")
    return f"each fit spends {', '.join(said)}"


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
    leaks = privacy_report(estimator).leaks
    if leaks:
        warn(
            f"{leaks[0].name} ({leaks[0].estimator}) leaks, and its copy does too: "
            f"{leaks[0].reason}",
            PrivacyLeakWarning,
        )
    return published_copy(estimator)
