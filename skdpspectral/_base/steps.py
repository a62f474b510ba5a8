"""Effects of a pipeline's step on rows and columns before later steps.

A step must not fit values, raise or warn before the charge, or move a column of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import OneToOneFeatureMixin
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
)
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import BaseRandomProjection

from ..accounting._ledger.planned_fits import (
    Composition,
    composition_of,
    parts_of,
    steps_in_turn,
)
from .estimator import PrivateEstimator, TableEstimator
from .sklearn_compat import output_container

# Fitting these takes nothing from X; they treat each row alone.
_ROW_BY_ROW = (
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    HashingVectorizer,
    Normalizer,
)

_KNOWN = ("sklearn", "skdpspectral")

# Fitting these takes the number of columns of X, and random numbers.
_SHAPE_ALONE = (
    BaseRandomProjection,
    PolynomialCountSketch,
    PolynomialFeatures,
    RBFSampler,
)

# Functions of numpy with arguments, one value at a time, and what these may be.
_ARGUMENTS = {
    np.clip: ({"a_min", "a_max"}, {"min", "max"}),
    np.nan_to_num: ({"nan", "posinf", "neginf"},),
}


def is_known(estimator) -> bool:
    """Return whether an estimator's code is from scikit-learn or this library.

    Derived classes may have any ``fit``, and so may objects with attributes in place of
    methods.
    """
    known = type(estimator).__module__.partition(".")[0] in _KNOWN
    return known and not has_own_methods(estimator)


def has_own_methods(one) -> bool:
    """Return whether an object's attributes replace methods of its class."""
    own = getattr(one, "__dict__", {})
    return any(callable(getattr(type(one), name, None)) for name in own)


def stateless_reason(estimator) -> str | None:
    """Return why fitting uses no values; None if it may."""
    if not is_known(estimator) or reason_of_disclosure(estimator) is not None:
        return None
    if isinstance(estimator, _ROW_BY_ROW):
        return "processes each row independently"
    if isinstance(estimator, FunctionTransformer):
        # Any other function may look at several rows at once.
        return (
            "processes each value independently"
            if treats_values_alone(estimator)
            else None
        )
    if isinstance(estimator, _SHAPE_ALONE):
        return "uses only the number of columns of X"
    if isinstance(estimator, SplineTransformer):
        given = not isinstance(estimator.knots, str)
        return "its knots are given" if given else None
    if isinstance(estimator, SimpleImputer) and estimator.strategy == "constant":
        # Otherwise the columns that come out depend on where values are missing.
        fixed = estimator.keep_empty_features and not estimator.add_indicator
        return "fills in a constant" if fixed else None
    if isinstance(estimator, (OneHotEncoder, OrdinalEncoder)):
        given = given_categories(estimator) is not None
        fixed = given and not _counts_categories(estimator)
        return "its categories are given" if fixed else None
    return None


def reason_of_disclosure(estimator) -> str | None:
    """Return how a step that fits nothing may still reveal values, or None.

    Errors and warnings come before any later step is charged.
    """
    projects = isinstance(estimator, BaseRandomProjection)
    if projects and isinstance(estimator.n_components, str):
        return (
            "computes n_components from the number of rows, which is private if users "
            "join or leave: set n_components to a number"
        )
    if isinstance(estimator, RBFSampler) and isinstance(estimator.gamma, str):
        return "gamma='scale' is the variance of private rows: set gamma to a number"
    if isinstance(estimator, SplineTransformer):
        if isinstance(estimator.knots, str):
            return "its knots come from private rows: pass an array of knots"
        if estimator.extrapolation not in ("constant", "periodic"):
            return (
                "values beyond the knots make errors or large numbers: set "
                "extrapolation='constant'"
            )
    if isinstance(estimator, HashingVectorizer):
        functions = ("preprocessor", "tokenizer", "analyzer")
        if any(callable(getattr(estimator, name)) for name in functions):
            return "a custom function reads its texts and may store them"
    if isinstance(estimator, FunctionTransformer):
        if not treats_values_alone(estimator):
            return (
                "a custom function may look at other rows, and keep or reveal values: "
                "apply it to each row before the pipeline"
            )
        both = estimator.func is not None and estimator.inverse_func is not None
        if both and estimator.check_inverse:
            return (
                "warns about rows that the inverse does not restore: set "
                "check_inverse=False"
            )
    if isinstance(estimator, OneHotEncoder) and not _is_silent(estimator):
        return (
            "an error or a warning reveals categories that were not given: set "
            "handle_unknown='ignore', without drop"
        )
    if isinstance(estimator, OrdinalEncoder) and estimator.handle_unknown == "error":
        return (
            "an error reveals categories that were not given: set "
            "handle_unknown='use_encoded_value'"
        )
    return None


def _is_silent(encoder: OneHotEncoder) -> bool:
    """Return whether unknown categories raise no error and no warning."""
    silent = encoder.handle_unknown in ("ignore", "infrequent_if_exist")
    return silent and encoder.drop is None


def given_categories(estimator) -> Sequence | np.ndarray | None:
    """Return the categories that an encoder was given; None for others."""
    categories = getattr(estimator, "categories", None)
    return categories if isinstance(categories, (list, tuple, np.ndarray)) else None


def makes_sparse(estimator) -> bool:
    """Return whether a stateless step may turn dense rows sparse, by values."""
    if isinstance(estimator, (OneHotEncoder, SplineTransformer)):
        return bool(estimator.sparse_output)
    return isinstance(estimator, (FeatureHasher, HashingVectorizer))


def _counts_categories(estimator) -> bool:
    """Return whether an encoder groups or drops categories by how often they occur."""
    counted = (estimator.min_frequency, estimator.max_categories)
    return any(limit is not None for limit in counted)


def treats_values_alone(transformer: FunctionTransformer) -> bool:
    """Return whether all functions are elementwise ones of numpy or scipy.

    Other ``numpy.ufunc`` instances may be stateful functions (``numpy.frompyfunc``).
    """
    return _is_of_one_value(transformer.func, transformer.kw_args) and _is_of_one_value(
        transformer.inverse_func, transformer.inv_kw_args
    )


def _is_of_one_value(function, arguments) -> bool:
    arguments = arguments or {}
    if any(function is known for known in _ARGUMENTS):
        names = _ARGUMENTS[function]
        plain = all(isinstance(v, Real) and isfinite(v) for v in arguments.values())
        if function is np.clip:
            return plain and set(arguments) in names
        return plain and set(arguments) <= names[0]
    if arguments:
        return False
    return function is None or any(
        getattr(module, getattr(function, "__name__", ""), None) is function
        for module in (np, special)
        if isinstance(function, np.ufunc)
    )


# The largest float16. Of values within it no sum over rows overflows.
_LARGEST = 65504.0

# Beyond it a polynomial sketch of a hundred thousand columns may overflow.
_MOST_DEGREES = 30

# These raise no floating-point error for any value.
_QUIET = {
    np.absolute: lambda low, high: (0.0, max(abs(low), abs(high))),
    np.fabs: lambda low, high: (0.0, max(abs(low), abs(high))),
    np.negative: lambda low, high: (-high, -low),
    np.positive: lambda low, high: (low, high),
    np.sign: lambda low, high: (-1.0, 1.0),
}

# These are increasing: quiet between two finite numbers if they are at both.
_INCREASING = frozenset(
    {
        np.arcsinh,
        np.arctan,
        np.cbrt,
        np.ceil,
        np.exp,
        np.expm1,
        np.floor,
        np.log,
        np.log10,
        np.log1p,
        np.log2,
        np.rint,
        np.sqrt,
        np.tanh,
        np.trunc,
    }
)

_RANGES = {
    Binarizer: (0.0, 1.0),
    Normalizer: (-1.0, 1.0),
    OneHotEncoder: (0.0, 1.0),
    RBFSampler: (-2.0, 2.0),
    SplineTransformer: (0.0, 1.0),
}

_CLEAN = (
    "put FunctionTransformer(np.nan_to_num) and FunctionTransformer(np.clip, "
    'kw_args={"a_min": -100, "a_max": 100}) before it'
)


@dataclass(frozen=True)
class Values:
    """Known range of the numbers in a table, and whether there may be NaN."""

    low: float = -inf
    high: float = inf
    missing: bool = True

    @property
    def bounded(self) -> bool:
        """Whether no sum of them overflows."""
        return max(-self.low, self.high) <= _LARGEST

    @property
    def largest(self) -> float:
        """Return the largest absolute value."""
        return max(abs(self.low), abs(self.high))


def values_after(step, values: Values) -> Values | None:
    """Return the values after a step; None if it may raise or warn.

    Steps of numbers have columns of a numeric dtype; texts are in columns of texts.
    """
    if step is None or isinstance(step, str):
        return values
    if composition_of(step) is Composition.PIPELINE:
        for child in steps_in_turn(step):
            values = values_after(child, values) or Values()
        return values
    if isinstance(step, FunctionTransformer):
        return _after_function(step, values)
    if isinstance(step, SimpleImputer):
        return _after_imputer(step, values)
    if isinstance(step, (FeatureHasher, HashingVectorizer)):
        return None
    categories = given_categories(step)
    if categories is not None and all(map(_is_text, categories)):
        return Values()
    if not values.bounded or values.missing:
        return None
    return _after_known_step(step, values)


def reason_of_early_message(step) -> str:
    """Describe the unpredictable messages of a step before the charge."""
    if isinstance(step, (FeatureHasher, HashingVectorizer)):
        return (
            "raises an error on a missing text before the budget is charged: hash "
            "texts before the pipeline"
        )
    if isinstance(step, FunctionTransformer) and step.func is not None:
        if step.func in _INCREASING:
            return (
                f"np.{step.func.__name__} warns about values before the budget is "
                f"charged: {_CLEAN}, with limits where the function has finite values"
            )
        if not step.validate:
            return (
                f"{step.func.__name__} may warn about values before the budget is "
                "charged: apply it before the pipeline, under "
                "np.errstate(all='ignore')"
            )
    said = "raises an error or warns on NaN, infinity or large values"
    if isinstance(step, AdditiveChi2Sampler):
        said = "raises an error on negative values"
    return f"{said} before the budget is charged: {_CLEAN}{_limits(step)}"


def _limits(step) -> str:
    """Return a hint for steps that need unusual limits."""
    if isinstance(step, AdditiveChi2Sampler):
        return ', with "a_min": 0'
    if isinstance(step, Normalizer) and step.norm == "l1":
        return ", with limits of at most 1"
    if isinstance(step, (PolynomialFeatures, PolynomialCountSketch)):
        return f", with powers of the limits up to {_LARGEST:g}"
    return ""


def _after_known_step(step, values: Values) -> Values | None:
    """Return what is known behind a step of scikit-learn for bounded numbers."""
    if isinstance(step, (PolynomialFeatures, PolynomialCountSketch)):
        return _after_powers(step, values)
    if isinstance(step, AdditiveChi2Sampler) and values.low < 0.0:
        return None
    summed = isinstance(step, Normalizer) and step.norm == "l1"
    if summed and values.largest > 1.0:
        return None  # rows of 65,504 columns have a sum in float16
    if isinstance(step, RBFSampler) and not _is_number(step.gamma):
        return None
    known = _RANGES.get(type(step))
    return Values() if known is None else Values(*known, missing=False)


def _after_powers(step, values: Values) -> Values | None:
    """Return the range of powers of values, unless they may overflow."""
    degree: Any = step.degree if isinstance(step.degree, Real) else max(step.degree)
    sketched = isinstance(step, PolynomialCountSketch)
    if sketched and not (_is_number(step.gamma) and _is_number(step.coef0)):
        return None
    if degree > _MOST_DEGREES or max(values.largest, 1.0) ** degree > _LARGEST:
        return None
    largest = float(max(values.largest, 1.0) ** degree)
    return Values() if sketched else Values(-largest, largest, False)


def _after_function(step: FunctionTransformer, values: Values) -> Values | None:
    refused = step.validate and (values.missing or not values.bounded)
    if refused or not treats_values_alone(step):
        return None
    func, arguments = step.func, step.kw_args or {}
    if func is None:
        return values
    if func is np.nan_to_num:
        fill = float(arguments.get("nan", 0.0))
        return Values(min(values.low, fill), max(values.high, fill), False)
    if func is np.clip:
        limits = [float(limit) for limit in arguments.values()]
        return Values(min(limits), max(limits), values.missing)
    if func in _QUIET:
        return Values(*_QUIET[func](values.low, values.high), values.missing)
    if func in _INCREASING and values.bounded and not values.missing:
        return _after_increasing(func, values)
    return None


def _after_increasing(func, values: Values) -> Values | None:
    """Return the values of a function at both ends, in whatever type they come."""
    at_ends: list[float] = []
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            for dtype in (np.float16, np.float32, np.float64):
                at_ends += func(np.array([values.low, values.high], dtype)).tolist()
    except FloatingPointError:
        return None
    return Values(min(at_ends), max(at_ends), False)


def _after_imputer(step: SimpleImputer, values: Values) -> Values | None:
    fill = step.fill_value
    if isinstance(fill, str):
        return Values()
    if not values.bounded:
        return None
    if fill is None:
        fill = 0.0
    missing = step.missing_values
    is_nan = isinstance(missing, float) and missing != missing
    if not _is_number(fill) or not is_nan:
        return Values()
    fill = float(fill)
    return Values(min(values.low, fill), max(values.high, fill), False)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and isfinite(value) and abs(float(value)) <= _LARGEST


def _is_text(categories) -> bool:
    return all(isinstance(category, str) for category in categories)


# Parameters that name a column of ids, by position or name.
ID_PARAMETERS = ("user_feature", "client_feature", "item_feature")

# Names that stand for a position where a table has no names.
_DEFAULT_NAMES = ("user_id", "item_id")


@dataclass(frozen=True)
class Before:
    """The effects of earlier steps on the rows of a step."""

    tainted: str | None = None  # path of a step that leaks into them
    moved: str | None = None  # path of a step that moves columns
    users_first: bool = False  # ids of users have come to stand in the first column
    named: bool = False  # the columns still have names, where they were moved
    at_end: bool = False  # columns were added at the end alone
    charged: bool = False  # the budget of an earlier step is charged by then
    values: Values = field(default_factory=Values)
    # Columns in which a step may make one id of several, and its path: None for any, a
    # tuple of one for any but that.
    changed: dict[str | tuple | None, str] = field(default_factory=dict)
    users: int | str | None = None  # column that a search scores, if it was not moved
    rows_scored: bool = False  # a search scores rows, and not users

    def after(self, step, path: str, leaks: str | None) -> Before:
        """Return the effects before the next step; `leaks` names a leak of this one."""
        now = replace(
            self,
            tainted=self.tainted or leaks,
            charged=self.charged or _is_charged(step),
            values=values_after(step, self.values) or Values(),
            changed={**dict.fromkeys(_changed_columns(step), path), **self.changed},
        )
        if _moves_columns(step):
            now = now.moved_by(path)
            now = replace(now, named=True)
            now = replace(now, users_first=getattr(step, "_puts_users_first", False))
        return replace(now, named=now.named and _gives_names(step))

    def moved_by(self, path: str, at_end: bool = False) -> Before:
        """Return the same with the columns moved by a step."""
        moved = replace(self, moved=path, users_first=False, named=False, users=None)
        return replace(moved, at_end=at_end)


def reason_of_moved_ids(estimator, before: Before) -> str | None:
    """Return which column of ids may have moved or changed; None if none."""
    reason = _reason_of_position(estimator, before)
    feature = getattr(estimator, "user_feature", None)
    if reason is not None or feature is None:
        return reason
    # As ColumnTransformer and FeatureUnion write names: remainder__user_id.
    last = feature.rpartition("__")[2] if isinstance(feature, str) else feature
    step = next(
        (
            path
            for column, path in before.changed.items()
            if column in (None, last)
            or (isinstance(column, tuple) and last not in column)
        ),
        None,
    )
    return step and (
        f"{step!r} changes values: several users of the column "
        f"user_feature={feature!r} may have one id by then, and share a model; keep "
        "that column as it is, in a ColumnTransformer with 'passthrough'"
    )


def _reason_of_position(estimator, before: Before) -> str | None:
    """Return which column of ids may have moved; None if none."""
    if before.moved is None:
        return None
    for parameter in ID_PARAMETERS:
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
    """Return whether a column's position is unchanged or set by a known step."""
    if isinstance(feature, str):
        feature = _DEFAULT_NAMES.index(feature)
    if before.at_end and feature >= 0:
        return True
    return before.users_first and parameter == "user_feature" and feature == 0


def _is_charged(step) -> bool:
    """Return whether the fit of a step charges a budget, whatever is in the rows."""
    return any(isinstance(child, PrivateEstimator) for child in steps_in_turn(step))


def _moves_columns(step) -> bool:
    """Return whether a step may change positions of columns."""
    if step is None or isinstance(step, str):
        return False
    if composition_of(step) is Composition.PIPELINE:
        return any(map(_moves_columns, steps_in_turn(step)))
    if isinstance(step, FunctionTransformer):
        return not treats_values_alone(step)
    if isinstance(step, SimpleImputer):  # a column without values is dropped
        return stateless_reason(step) is None
    return not isinstance(step, OneToOneFeatureMixin)


def _changed_columns(step) -> set[str | tuple | None]:
    """Return columns in which different ids may become equal, as in `Before`."""
    kind = composition_of(step)
    if kind in (Composition.PIPELINE, Composition.UNION):
        return set().union(*(_changed_columns(child) for _, child in parts_of(step)))
    if kind is Composition.COLUMNS:
        found = _changed_columns(step.remainder)
        for _, child, columns in step.transformers:
            names = {columns} if isinstance(columns, str) else columns
            named = isinstance(names, (set, list, tuple))
            named = named and all(isinstance(name, str) for name in names)
            changed = _changed_columns(child)
            kept = {n for c in changed if isinstance(c, tuple) for n in c}
            if changed:
                ends = {n.rpartition("__")[2] for n in names} if named else {None}
                found |= ends - kept
        return found
    if isinstance(step, FunctionTransformer):
        return set() if step.func is None else {None}
    if isinstance(step, TableEstimator) and hasattr(step, "user_feature"):
        # It passes on one column; what is lost in the noise becomes 0.
        return {(step.user_feature,)}
    # What comes out of a private step is not whole, which is no id.
    keeps = isinstance(step, (OneToOneFeatureMixin, SimpleImputer))
    return {None} if keeps and not isinstance(step, PrivateEstimator) else set()


def _gives_names(step) -> bool:
    """Return whether the output of a step has column names."""
    if step is None or isinstance(step, str):
        return True
    if composition_of(step) is Composition.PIPELINE:
        return all(map(_gives_names, steps_in_turn(step)))
    try:
        return output_container(step) != "default"
    except (AttributeError, ValueError):
        return False
