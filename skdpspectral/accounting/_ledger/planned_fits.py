"""One walk over compositions, the private fits in a call, and shares of a budget.

Nothing is fitted on the user's rows. Behind a step, zeros stand for the rows that it
makes. Compositions of scikit-learn are recognized here only.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone, is_classifier
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid, check_cv
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from ...mechanisms import PrivacyPlan, shown
from .._errors import without_warnings
from .costs import check_plans

if TYPE_CHECKING:
    from .accountant import PrivacyAccountant


class Composition(Enum):
    """Kinds of estimators that contain others, by how they pass rows on."""

    PIPELINE = "each gets what the one before makes of the rows"
    UNION = "all get the same rows"
    COLUMNS = "each gets some columns"
    SEARCH = "candidates get the rows of folds"
    FROZEN = "fitted before, they get no rows"
    OTHER = "they may get any rows"


_KINDS = {
    Pipeline: Composition.PIPELINE,
    FeatureUnion: Composition.UNION,
    ColumnTransformer: Composition.COLUMNS,
    FrozenEstimator: Composition.FROZEN,
}

# Of these each part is fitted once, on rows that are known.
WALKED = (Composition.PIPELINE, Composition.UNION, Composition.COLUMNS)


def is_estimator(value: Any) -> bool:
    """Return whether a value is an estimator instance."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def is_private(estimator: Any) -> bool:
    """Return whether an estimator plans its own fits."""
    return hasattr(type(estimator), "plan_for")


def composition_of(estimator: Any) -> Composition | None:
    """Return the kind of a composition; None for other estimators."""
    for cls, kind in _KINDS.items():
        if isinstance(estimator, cls):
            return kind
    if not is_estimator(estimator):
        return None
    # The method of all searches of scikit-learn, and the mark of those of this package.
    if any(hasattr(estimator, name) for name in ("_run_search", "_selects_privately")):
        return Composition.SEARCH
    return Composition.OTHER if any(True for _ in parts_of(estimator)) else None


def parts_of(estimator: Any, fitted: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield parts of an estimator by name, with strings; or those that it fitted."""
    if isinstance(estimator, Pipeline):
        whole = getattr(estimator, "pipeline_", estimator) if fitted else estimator
        yield from whole.steps
    elif isinstance(estimator, FeatureUnion):
        yield from estimator.transformer_list
    elif isinstance(estimator, ColumnTransformer):
        asked = [*estimator.transformers, ("remainder", estimator.remainder)]
        made = getattr(estimator, "transformers_", ()) if fitted else asked
        yield from (part[:2] for part in made)
    else:
        for name, value in estimator.get_params(deep=False).items():
            several = isinstance(value, (list, tuple))
            for position, entry in enumerate(value if several else [value]):
                pair = isinstance(entry, (list, tuple)) and len(entry) >= 2
                if several and pair and is_estimator(entry[1]):
                    yield str(entry[0]), entry[1]
                elif is_estimator(entry):
                    yield f"{name}_{position}" if several else name, entry


def fitted_within(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and its inner ones after a fit, including fitted copies."""
    if is_estimator(estimator):
        yield estimator
        if composition_of(estimator) in WALKED:
            for _, child in parts_of(estimator, fitted=True):
                yield from fitted_within(child)


def estimators_within(estimator: Any) -> dict[str, Any]:
    """Return an estimator, as "", and its inner ones by ``set_params`` path."""
    if not is_estimator(estimator):
        return {}
    inside = estimator.get_params(deep=True).items()
    return {"": estimator} | {name: part for name, part in inside if is_estimator(part)}


def has_private(estimator: Any) -> bool:
    """Return whether an estimator is private, or contains a private one."""
    return any(map(is_private, estimators_within(estimator).values()))


def reads_clients(estimator: Any) -> bool:
    """Return whether the plan of an estimator, or an inner one, has ids of rows."""
    return any(
        getattr(part, name, None) is not None
        for part in estimators_within(estimator).values()
        for name in ("client_feature", "user_feature")
        if name == "client_feature" or isinstance(part, Pipeline)
    )


# -- the walk ----------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The form of the rows that a step is fitted on; what a step makes is zeros."""

    X: Any
    made_by: str = ""
    width_known: bool = True  # otherwise an earlier fit decides on the columns
    own: bool = True  # dtypes are the user's
    form_after: Callable[[str, Any, Any], Any] | None = None  # what a step makes of X

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        X = self.X
        if isinstance(X, (list, tuple)):  # no entry is looked at
            shape = (len(X), *(len(row) for row in X[:1] if hasattr(row, "__len__")))
        else:
            shape = getattr(X, "shape", None) or np.asarray(X).shape
        if len(shape) != 2:
            raise ValueError("X must be a table of rows and columns")
        return int(shape[0]), int(shape[1])


@dataclass(frozen=True)
class Step:
    """An estimator, the steps `behind` it, and the column transformer `within`."""

    path: str
    estimator: Any
    rows: Any = None
    behind: tuple[tuple[str, Any], ...] = ()
    within: str | None = None

    @property
    def kind(self) -> Composition | None:
        """Kind of the composition; None for other estimators."""
        return composition_of(self.estimator)

    def plan(self) -> PrivacyPlan:
        """Return the plan of a private estimator, from the form of its rows."""
        rows = self.rows
        if rows.made_by and reads_clients(self.estimator):
            raise ValueError(
                f"{self.path}: the number of rows of each client is not known after "
                f"{rows.made_by!r}; instead, pass check() the plan from privacy_plan "
                "for the numbers of rows of all clients"
            )
        plan: PrivacyPlan = with_any_width(rows, self.estimator.plan_for)
        return plan


# Columns of a table whose width a release decides. No cost depends on their number;
# some parameters require more than others.
_WIDE = 4096


def with_any_width(rows: Rows, call: Callable[[Any], Any]) -> Any:
    """Return the result for rows, or for wide ones if the width is not known."""
    try:
        return call(rows.X)
    except ValueError:
        if rows.width_known:
            raise
    return call(zeros((rows.shape[0], _WIDE), like=rows.X))


def steps_of(
    path: str,
    estimator: Any,
    rows: Rows | None = None,
    behind: tuple[tuple[str, Any], ...] = (),
    within: str | None = None,
) -> Iterator[Step]:
    """Yield all steps of an estimator in the order of fits, and then itself."""
    kind, prefix = composition_of(estimator), f"{path}__" if path else ""
    own = Step(path, estimator, rows, behind, within)
    if is_private(estimator) or kind not in WALKED:
        pass
    elif kind is Composition.PIPELINE:
        for name, child in parts_of(estimator):
            yield from steps_of(prefix + name, child, rows, behind, within)
            behind = (*behind, (prefix + name, child))
            rows = rows_after(prefix + name, child, rows)
    else:
        inside = path if kind is Composition.COLUMNS else within
        for name, child, some in branches(path, estimator, rows):
            yield from steps_of(prefix + name, child, some, behind, inside)
    yield own


def zeros(shape: tuple[int, int], dtype: Any = float, like: Any = None) -> Any:
    """Return zeros that take no memory, as a matrix if that is what they are `like`."""
    if hasattr(like, "tocsr"):
        return type(like)(shape, dtype=dtype)
    return np.broadcast_to(np.zeros((), dtype), shape)


def rows_after(path: str, step: Any, rows: Rows | None) -> Rows | None:
    """Return rows after a step: unchanged, or zeros of its output's shape."""
    identity = isinstance(step, FunctionTransformer) and step.func is None
    if rows is None or step is None or isinstance(step, str) or identity:
        return rows
    if rows.form_after is not None:
        form = rows.form_after(path, step, rows.X)
        if form is not None:
            return replace(rows, X=form, made_by=path)
    if isinstance(step, OneToOneFeatureMixin):
        return replace(rows, own=False)
    kind, like = composition_of(step), None
    width: Any = getattr(step, "n_components", None)
    if kind is Composition.PIPELINE:
        for _, child in parts_of(step):
            rows = rows_after(path, child, rows)
        return rows
    if hasattr(step, "_n_columns_out"):
        width = step._n_columns_out(rows.X)
    elif kind in WALKED:
        made = [
            rows_after(f"{path}__{name}", child, some)
            for name, child, some in branches(path, step, rows)
            if not (isinstance(child, str) and child == "drop")
        ]
        parts = [each for each in made if each is not None]
        known = rows.width_known and all(each.width_known for each in parts)
        width = sum(each.shape[1] for each in parts) if known else None
        if kind is Composition.UNION:  # of which one part decides
            like = next((e.X for e in parts if hasattr(e.X, "tocsr")), None)
    public = isinstance(width, Integral) and not isinstance(width, bool)
    n_rows, n_columns = rows.shape
    X = zeros((n_rows, int(width) if public else n_columns), like=like)
    known = rows.width_known and public
    return replace(rows, X=X, made_by=path, width_known=known, own=False)


def branches(
    path: str, composition: Any, rows: Rows | None
) -> Iterator[tuple[str, Any, Rows | None]]:
    """Yield named parts of a union or column transformer that are fitted, with rows."""
    columns_known = rows is not None and rows.width_known
    if composition_of(composition) is Composition.UNION or not columns_known:
        yield from ((name, child, rows) for name, child in parts_of(composition))
        return
    assert rows is not None
    chosen, children = _positions(path, composition, rows), dict(parts_of(composition))
    made_by = rows.made_by or path or "ColumnTransformer"
    for name, positions in chosen.items():
        if len(positions):
            X = _columns_at(rows, positions)
            yield name, children[name], replace(rows, X=X, made_by=made_by)


def _positions(path: str, composition: Any, rows: Rows) -> dict[str, np.ndarray]:
    """Return the columns of each part, which scikit-learn picks from numbers."""
    X, row = rows.X, np.arange(rows.shape[1])[None]
    stand_in: Any = row
    names = [str(name) for name in getattr(X, "columns", ())]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has two columns named {twice!r}; rename one of them")
    if names:
        named = {"columns" if hasattr(X, "iloc") else "schema": list(X.columns)}
        stand_in = type(X)(row, **named)
    passed = []
    for name, child, columns in composition.transformers:
        part = f"{path}__{name}" if path else name
        if callable(columns):
            if type(columns) is not make_column_selector or not hasattr(X, "iloc"):
                raise ValueError(
                    f"{part}: the columns that a function selects are not known in "
                    "advance; name them, or use make_column_selector with a dataframe"
                )
            columns = columns(X)
        if is_private(child) and isinstance(columns, (str, Integral)):
            raise ValueError(
                f"{part} requires a table of columns: write [{columns!r}] instead of "
                f"{columns!r}"
            )
        many = [columns] if isinstance(columns, (str, Integral)) else columns
        if not names and rows.made_by and isinstance(many, list):
            # Of names that zeros do not have, the number is all that counts.
            many = [n if isinstance(c, str) else c for n, c in enumerate(many)]
        passed.append((name, "passthrough", many))
    alone = ColumnTransformer(passed, remainder="passthrough")
    try:
        found = np.asarray(alone.fit_transform(stand_in))[0]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        where = path or "ColumnTransformer"
        raise ValueError(
            f"{where} picks columns that X does not have: {error}"
        ) from None
    return {name: found[at] for name, at in alone.output_indices_.items()}


def _columns_at(rows: Rows, positions: np.ndarray) -> Any:
    """Return some of the columns of a frame, or else zeros of their dtype."""
    X = rows.X
    if hasattr(X, "iloc"):
        return X.iloc[:, positions]
    if hasattr(X, "columns") and hasattr(X, "select"):
        return X[:, positions.tolist()]
    if hasattr(X, "tocsr") or isinstance(X, np.matrix):
        return X[:, positions]  # which few steps accept
    dtype = getattr(X, "dtype", None)
    dtype = dtype if isinstance(dtype, np.dtype) else float
    return zeros((rows.shape[0], len(positions)), dtype)


# -- the fits in a call ------------------------------------------------------------


@dataclass(frozen=True)
class PlannedFit:
    """Several fits of one private estimator, and its own accountant."""

    plan: PrivacyPlan
    accountant: PrivacyAccountant | None = None  # the estimator's own
    times: int = 1


class Refit(NamedTuple):
    """The last fit of a search, of one of its candidates: the fits of each."""

    alternatives: tuple[tuple[PlannedFit, ...], ...]


def planned_fits(what: Any, X: Any) -> list[Any]:
    """Return the fits of plans, or of an estimator; raise if they are not known."""
    if not is_estimator(what):
        if X is not None:
            raise ValueError(
                "X must be left out with plans, which include the shape; pass the "
                f"number of fits as n_fits, got X={shown(X)}"
            )
        return [PlannedFit(plan) for plan in check_plans(what)]
    if X is None:
        raise ValueError(
            "X is required with an estimator, for the shape of its fits; without "
            "data, check the plan that privacy_plan returns"
        )
    searched = isinstance(what, GridSearchCV) and has_private(what)
    fits = list(_search_fits(what, X) if searched else _fits(what, Rows(X)))
    if not fits:
        raise ValueError(f"no private estimator is fitted in {type(what).__name__}")
    return fits


def _fits(estimator: Any, rows: Rows) -> Iterator[PlannedFit]:
    """Yield the fits of private estimators within one fit of a composition."""
    for step in steps_of("", estimator, rows):
        one, kind = step.estimator, step.kind
        if is_private(one):
            yield PlannedFit(step.plan(), one.accountant)
        elif kind not in (*WALKED, Composition.FROZEN) and has_private(one):
            name = f"{step.path}: " if step.path else ""
            raise TypeError(
                f"{name}the number of times that {type(one).__name__} fits its "
                "estimators is not known here; pass check() the plans of its "
                "estimators, from plan_for, and n_fits"
            )


def _search_fits(search: Any, X: Any) -> Iterator[PlannedFit | Refit]:
    """Yield every candidate's fits on folds of equal sizes, scores, and a refit."""
    if isinstance(search.cv, Iterator):
        raise ValueError(
            "cv is an iterator, which can be read only once; make it a list"
        )
    rows = Rows(X)
    n_rows, n_columns = rows.shape
    splitter = check_cv(search.cv, classifier=is_classifier(search.estimator))
    n_splits = splitter.get_n_splits(zeros(rows.shape))
    held_out = -(-n_rows // n_splits)
    size = n_rows - held_out
    some = zeros((size, n_columns))
    if hasattr(X, "columns"):
        some = (X.iloc if hasattr(X, "iloc") else X)[:size]
    candidates = list(ParameterGrid(search.param_grid))
    refits: list[tuple[PlannedFit, ...]] = []
    for candidate in candidates:
        estimator = clone(search.estimator).set_params(**clone(candidate, safe=False))
        inside = estimators_within(estimator).values()
        by_rows = any(getattr(one, "calibration", "") == "paper" for one in inside)
        if reads_clients(estimator) or (by_rows and type(splitter) is not KFold):
            raise ValueError(
                "the number of rows of each client in a fold, or of a fold, is not "
                "known here, and decides what a fit costs; pass check() the plans of "
                "the folds, from privacy_plan"
            )
        for fit in _fits(estimator, replace(rows, X=some)):
            yield replace(fit, times=n_splits)
        refits.append(tuple(_fits(estimator, rows)))
    scoring, times = search.scoring, n_splits * len(candidates)
    for scorer in scoring.values() if isinstance(scoring, Mapping) else [scoring]:
        if hasattr(scorer, "privacy_plan"):
            for scored in [held_out] + [size] * bool(search.return_train_score):
                plan = scorer.privacy_plan(scored)
                yield PlannedFit(plan, scorer.accountant, times)
    if search.refit:
        yield Refit(tuple(refits))


# -- shares of a pipeline's charge -----------------------------------------------

# Largest relative excess of a cost over what was charged, by rounding.
_ROUNDING = 2.0**-41


class FormChecked(BaseException):
    """Ends a trial of a fit where it would be charged: its data have a valid form."""


@dataclass(eq=False, repr=False)
class StepShare:
    """One step's part of a pipeline's charge, for one fit of the step or of a copy."""

    path: str
    epsilon: float  # infinite without privacy
    delta: float
    noise_multiplier: float | None = None
    charged: PrivacyPlan | None = None  # the plan of this part
    n_samples: int | None = None  # None where the number of rows is secret
    users: Any = None

    def __post_init__(self) -> None:
        self.plan: PrivacyPlan | None = None  # that of the fit, once it has begun
        self.before: Any = None  # the private step whose output this one is fitted to
        self._process, self._lock = os.getpid(), threading.Lock()
        self.is_open, self._on_trial = True, False  # while the pipeline is fitted

    def close(self) -> None:
        """End the share: from now on the step has its own budget."""
        self.is_open, self.users = False, None

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Let a fit run until it would be charged."""
        self._on_trial = True
        try:
            with contextlib.suppress(FormChecked), without_warnings():
                yield
        finally:
            self._on_trial = False

    def claim(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Use the share for the releases of a fit; raise if they are others."""
        if self._process != os.getpid():
            raise RuntimeError(
                f"step {self.path!r} is fitted in a different process from its "
                "pipeline, which would repeat a release that was charged once: fit "
                "the pipeline in one process"
            )
        self.check(plan, n_public)
        if self._on_trial:
            raise FormChecked
        with self._lock:
            if self.plan is not None or not self.is_open:
                raise RuntimeError(
                    f"step {self.path!r} is fitted a second time in one fit of its "
                    "pipeline, which is charged for one: nothing more was released"
                )
            self.plan = plan

    def check(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Raise if a plan differs from the charge."""
        difference = next(self._differences(plan, n_public), None)
        if difference is not None:
            raise RuntimeError(
                f"step {self.path!r} would release something other than what was "
                f"charged: {difference}. None of it was released; do not change a "
                "step during the fit of its pipeline"
            )

    def _differences(self, plan: PrivacyPlan, n_public: int | None) -> Iterator[str]:
        """Describe how a plan differs from the charge."""
        charged = self.charged
        assert charged is not None
        for name in ("unit", "neighbors", "assumption", "seeded", "failure"):
            found, planned = getattr(plan, name), getattr(charged, name)
            if found != planned:
                yield f"{name}={found} instead of {planned}"
        if n_public is not None and self.n_samples not in (None, n_public):
            yield f"it has {n_public} rows, but the pipeline has {self.n_samples}"
        mu, planned = plan.mu_beside_curves, charged.mu_beside_curves
        if not mu <= planned * (1.0 + _ROUNDING):
            yield f"mu={mu!r} instead of {planned!r}"
        for curve, most in itertools.zip_longest(plan.curves, charged.curves):
            # Of the noise, as much as was planned but for rounding is enough.
            noise = getattr(curve, "noise_multiplier", 0.0)
            planned = getattr(most, "noise_multiplier", math.inf)
            if noise < planned * (1.0 - _ROUNDING):
                yield f"its noise multiplier is {noise!r} instead of {planned!r}"
            of_steps = replace(curve, name="", noise_multiplier=planned)
            if of_steps != replace(most, name=""):
                yield "it has other samples or steps"

    def __copy__(self, memo: Any = None) -> StepShare:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a share of a pipeline's budget cannot be pickled")
