"""The fits of private estimators in a call, determined by public shapes.

Nothing is fitted on the user's rows. After a step of a pipeline, zeros of its output's
shape stand for rows, if that shape is public. Compositions of scikit-learn are
recognized here only.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone, is_classifier
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import BaseRandomProjection

from ...mechanisms import PrivacyPlan, shown
from .costs import Refit, check_plans


class Composition(Enum):
    """Kinds of estimators that contain others, by how they pass rows on."""

    PIPELINE = "each gets what the one before makes of the rows"
    UNION = "all get the same rows"
    COLUMNS = "each gets some columns"
    SEARCH = "candidates get the rows of folds"
    FROZEN = "fitted before, they get no rows"
    OTHER = "they may get any rows"


def is_estimator(value: Any) -> bool:
    """Return whether a value is an estimator instance."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def composition_of(estimator: Any) -> Composition | None:
    """Return the kind of a composition; None for other estimators."""
    if isinstance(estimator, Pipeline):
        return Composition.PIPELINE
    if isinstance(estimator, FeatureUnion):
        return Composition.UNION
    if isinstance(estimator, ColumnTransformer):
        return Composition.COLUMNS
    if isinstance(estimator, FrozenEstimator):
        return Composition.FROZEN
    if not is_estimator(estimator):
        return None
    # The method of all searches of scikit-learn, and the mark of those of this package.
    if any(hasattr(estimator, name) for name in ("_run_search", "_selects_privately")):
        return Composition.SEARCH
    return Composition.OTHER if any(True for _ in parts_of(estimator)) else None


def parts_of(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an estimator by name, including strings in place of steps."""
    if isinstance(estimator, Pipeline):
        yield from estimator.steps
    elif isinstance(estimator, FeatureUnion):
        yield from estimator.transformer_list
    elif isinstance(estimator, ColumnTransformer):
        yield from ((name, child) for name, child, _ in estimator.transformers)
        yield "remainder", estimator.remainder
    else:
        for name, value in estimator.get_params(deep=False).items():
            yield from _parts_in(name, value)


def _parts_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the estimators in the value of a parameter."""
    if is_estimator(value):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            pair = isinstance(entry, (list, tuple)) and len(entry) >= 2
            if pair and is_estimator(entry[1]):
                yield str(entry[0]), entry[1]
            elif is_estimator(entry):
                yield f"{name}_{position}", entry


def steps_in_turn(step: Any) -> Iterator[Any]:
    """Yield the steps of nested pipelines, or the estimator itself."""
    if composition_of(step) is Composition.PIPELINE:
        for _, child in parts_of(step):
            yield from steps_in_turn(child)
    else:
        yield step


def fitted_within(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and its inner ones after a fit, including fitted copies."""
    if not is_estimator(estimator):
        return
    yield estimator
    kind = composition_of(estimator)
    children: Iterable[Any] = ()
    if kind is Composition.PIPELINE:
        # A private pipeline has fitted copies of its steps.
        children = parts_of(getattr(estimator, "pipeline_", estimator))
    elif kind is Composition.UNION:
        children = parts_of(estimator)
    elif kind is Composition.COLUMNS:
        children = (fitted[:2] for fitted in getattr(estimator, "transformers_", ()))
    for _, child in children:
        yield from fitted_within(child)


def estimators_within(estimator: Any) -> dict[str, Any]:
    """Return an estimator, as "", and its inner ones by ``set_params`` path."""
    if not is_estimator(estimator):
        return {}
    inside = estimator.get_params(deep=True).items()
    return {"": estimator} | {name: part for name, part in inside if is_estimator(part)}


if TYPE_CHECKING:
    from .accountant import PrivacyAccountant


@dataclass(frozen=True)
class PlannedRows:
    """The input rows of a step, or zeros in their place.

    `changed_by` names the step that changed the user's columns. `train` has the
    positions of training rows; None for all.
    """

    X: Any
    changed_by: str | None = None
    train: np.ndarray | None = None

    def shape(self, name: str) -> tuple[int, int]:
        """Return the shape; errors are about the given rows."""
        shape = getattr(self.X, "shape", None)
        shape = np.shape(self.X) if shape is None else shape
        if len(shape) != 2:
            raise ValueError(f"X must be a table of rows and columns for {name!r}")
        n_rows = shape[0] if self.train is None else len(self.train)
        return int(n_rows), int(shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.train) if self.train is not None else self.shape("X")[0]

    def of(self, name: str, estimator: Any) -> Any:
        """Return the input for the plan of a private estimator."""
        if not reads_clients(estimator):
            named = self.train is None or hasattr(self.X, "columns")
            return self._fitted() if named else _zeros(self.shape(name))
        if self.changed_by is not None:
            raise ValueError(
                f"{name}: the number of rows of each client is not known after "
                f"{self.changed_by!r}; instead, pass check() the plan from "
                "privacy_plan for the numbers of rows of all clients"
            )
        return self._fitted()

    def _fitted(self) -> Any:
        return self.X if self.train is None else _rows_at(self.X, self.train)

    def training_rows(self, train: np.ndarray) -> PlannedRows:
        """Return some of the rows."""
        within = train if self.train is None else self.train[train]
        return replace(self, train=within)


def reads_clients(estimator: Any) -> bool:
    """Return whether an estimator, or an inner one, reads clients from rows."""
    inside = estimators_within(estimator).values()
    return any(getattr(part, "client_feature", None) is not None for part in inside)


def _zeros(shape: tuple[int, int], dtype: Any = float) -> np.ndarray:
    """Return zeros that take no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def _rows_at(X: Any, train: np.ndarray) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[train]
    return X[train] if hasattr(X, "shape") else [X[row] for row in train]


def rows_after(name: str, step: Any, rows: PlannedRows) -> PlannedRows:
    """Return rows after a step: unchanged, or zeros of the output's shape.

    The step is not fitted. Raises a ValueError if the shape is unknown or depends on
    values.
    """
    if step is None or isinstance(step, str) or _keeps_columns(step):
        return rows
    n_rows, n_columns = rows.shape(name)
    width = _width(name, step, rows, n_rows, n_columns)
    if width is None:
        raise ValueError(
            f"{name}: the number of columns that {type(step).__name__} returns is not "
            "known before it is fitted; set an integer number of components, or "
            "pass check() the plan that privacy_plan returns for the shape after it"
        )
    return PlannedRows(_zeros((n_rows, width)), changed_by=name)


def _keeps_columns(step: Any) -> bool:
    """Return whether a step has one output column per input column."""
    if isinstance(step, SimpleImputer):
        return bool(step.keep_empty_features and not step.add_indicator)
    if isinstance(step, FunctionTransformer):
        return step.func is None or step.feature_names_out == "one-to-one"
    return isinstance(step, OneToOneFeatureMixin)


def _width(
    name: str, step: Any, rows: PlannedRows, n_rows: int, n_columns: int
) -> int | None:
    """Return the number of output columns; None if it is not public."""
    if hasattr(step, "_n_columns_out"):
        width: int | None = step._n_columns_out(rows.X)
        return width
    kind = composition_of(step)
    if kind is Composition.PIPELINE:
        for inner, child in parts_of(step):
            rows = rows_after(f"{name}: {inner}", child, rows)
        return rows.shape(name)[1]
    if kind in (Composition.UNION, Composition.COLUMNS):
        behind = [
            rows_after(branch, child, some)
            for branch, child, some in branches(f"{name}: ", step, rows)
        ]
        return sum(branch.shape(name)[1] for branch in behind)
    if isinstance(step, OneHotEncoder):
        return _n_categories(step)
    if isinstance(step, (BaseRandomProjection, PolynomialFeatures)):
        # These take from their rows the shape alone.
        fitted = clone(step).fit(_zeros((n_rows, n_columns)))
        return int(fitted.transform(_zeros((1, n_columns))).shape[1])
    number = getattr(step, "n_components", None)
    if isinstance(number, Integral) and not isinstance(number, bool):
        return int(number)
    return None


def _n_categories(encoder: OneHotEncoder) -> int | None:
    """Return the number of columns of an encoder of public categories."""
    counted = (encoder.min_frequency, encoder.max_categories, encoder.drop)
    if isinstance(encoder.categories, str) or any(c is not None for c in counted):
        return None
    return sum(len(categories) for categories in encoder.categories)


def branches(
    prefix: str, composition: Any, rows: PlannedRows
) -> Iterator[tuple[str, Any, PlannedRows]]:
    """Yield the parts of a union or column transformer, with their rows.

    Names begin with `prefix`. Parts without columns are not fitted, and left out.
    """
    if composition_of(composition) is Composition.UNION:
        for name, child in parts_of(composition):
            if child != "drop":
                yield prefix + name, child, rows
        return
    n_rows, n_columns = rows.shape(prefix)
    names = list(map(str, getattr(rows.X, "columns", ())))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has two columns named {twice!r}; rename one of them")
    taken: set[Any] = set()
    for name, child, columns in composition.transformers:
        if callable(columns):
            columns = _selected(prefix + name, columns, rows)
        positions = _positions(columns, rows.X, n_columns)
        _check_columns(prefix + name, child, columns, positions, rows)
        taken.update(positions)
        if positions and not (isinstance(child, str) and child == "drop"):
            yield prefix + name, child, _some(rows, prefix, n_rows, positions)
    left, rest = [j for j in range(n_columns) if j not in taken], composition.remainder
    if left and not (isinstance(rest, str) and rest == "drop"):
        yield f"{prefix}remainder", rest, _some(rows, prefix, n_rows, left)


def _check_columns(
    name: str, child: Any, columns: Any, positions: list[Any], rows: PlannedRows
) -> None:
    """Refuse missing columns, by names and shape alone."""
    n_columns = rows.shape(name)[1]
    for place in positions:
        if isinstance(place, str):
            # Zeros stand for rows that may have names.
            if hasattr(rows.X, "columns"):
                raise ValueError(f"{name}: X has no column {place!r}")
        elif not 0 <= place < n_columns:
            raise ValueError(
                f"{name}: X has {n_columns} columns, so there is no column {place}"
            )
    single = isinstance(columns, (str, Integral)) and not isinstance(columns, bool)
    if single and hasattr(child, "plan_for"):
        raise ValueError(
            f"{name} requires a table of columns: write [{columns!r}] instead of "
            f"{columns!r}"
        )


def _some(
    rows: PlannedRows, prefix: str, n_rows: int, columns: list[Any]
) -> PlannedRows:
    """Return some of the columns of a frame, or else zeros of their dtype."""
    name = rows.changed_by or prefix.rstrip(":_ ") or "ColumnTransformer"
    X, known = rows.X, all(isinstance(column, int) for column in columns)
    if known and hasattr(X, "iloc"):
        return PlannedRows(X.iloc[:, columns], name, rows.train)
    if known and hasattr(X, "columns") and hasattr(X, "select"):
        return PlannedRows(X[:, columns], name, rows.train)
    dtype = getattr(X, "dtype", None)
    dtype = dtype if isinstance(dtype, np.dtype) else np.dtype(float)
    return PlannedRows(_zeros((n_rows, len(columns)), dtype), name)


def _selected(name: str, selector: Any, rows: PlannedRows) -> Any:
    """Return the columns of a selector, by names and dtypes."""
    if type(selector) is make_column_selector and hasattr(rows.X, "iloc"):
        return selector(rows.X)
    raise ValueError(
        f"{name}: the columns that a function selects are not known in advance; name "
        "them, or use make_column_selector with a dataframe"
    )


def _positions(columns: Any, X: Any, n_columns: int) -> list[Any]:
    """Return positions of selected columns; names where a table has none."""
    names = [str(name) for name in getattr(X, "columns", ())]

    def place(name: Any) -> Any:
        if isinstance(name, str):
            return names.index(name) if name in names else name
        return int(name) + n_columns * (-n_columns <= name < 0)

    if isinstance(columns, slice):
        ends = [columns.start, columns.stop]
        if any(isinstance(end, str) for end in ends):
            start, stop = (None if end is None else place(end) for end in ends)
            # A slice of names has both ends.
            columns = slice(start, None if stop is None else stop + 1, columns.step)
        return list(range(*columns.indices(n_columns)))
    if isinstance(columns, (str, Integral)) and not isinstance(columns, bool):
        return [place(columns)]
    chosen = np.asarray(columns, dtype=None if len(columns) else int)
    if chosen.dtype == bool:
        if len(chosen) != n_columns:
            raise ValueError(
                f"a mask of {len(chosen)} columns does not fit the {n_columns} of X"
            )
        chosen = np.flatnonzero(chosen)
    return list(map(place, chosen.tolist()))


@dataclass(frozen=True)
class PlannedFit:
    """Several fits of one private estimator, and its own accountant."""

    plan: PrivacyPlan
    accountant: PrivacyAccountant | None = None  # the estimator's own
    times: int = 1


def planned_fits(what: Any, X: Any, groups: Any = None) -> list[PlannedFit]:
    """Return the fits, at least one, of plans or of an estimator's fit.

    Raises a ValueError or TypeError if they cannot be known in advance.
    """
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
    fits = list(_walk(type(what).__name__, what, PlannedRows(X), groups))
    if not fits:
        raise ValueError(f"no private estimator is fitted in {type(what).__name__}")
    return fits


def _walk(
    name: str, estimator: Any, rows: PlannedRows, groups: Any
) -> Iterator[PlannedFit]:
    """Yield the fits of private estimators within one fit."""
    kind = composition_of(estimator)
    if kind is Composition.FROZEN or not _has_private(estimator):
        return
    if hasattr(estimator, "plan_for"):
        plan = estimator.plan_for(rows.of(name, estimator))
        yield PlannedFit(plan, estimator.accountant)
    elif kind is Composition.PIPELINE:
        yield from _pipeline_fits(name, estimator, rows, groups)
    elif kind in (Composition.UNION, Composition.COLUMNS):
        for branch, child, some in branches(f"{name}: ", estimator, rows):
            yield from _walk(branch, child, some, groups)
    elif isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        yield from _search_fits(name, estimator, rows, groups)
    else:
        raise TypeError(
            f"{name}: the number of times that {type(estimator).__name__} fits its "
            "estimators is not known here; pass check() the plans of its estimators, "
            "from plan_for, and n_fits"
        )


def _has_private(estimator: Any) -> bool:
    """Return whether an estimator is private, or contains a private one."""
    inside = estimators_within(estimator).values()
    return any(hasattr(part, "plan_for") for part in inside)


def _pipeline_fits(
    name: str, pipeline: Any, rows: PlannedRows, groups: Any
) -> Iterator[PlannedFit]:
    steps = [(f"{name}: {step}", child) for step, child in parts_of(pipeline)]
    private = [number for number, (_, child) in enumerate(steps) if _has_private(child)]
    # What follows the last private step may have any shape.
    for number, (step, child) in enumerate(steps[: private[-1] + 1]):
        yield from _walk(step, child, rows, groups)
        if number < private[-1]:
            rows = rows_after(step, child, rows)


def _search_fits(
    name: str, search: Any, rows: PlannedRows, groups: Any
) -> Iterator[Any]:
    """Yield every candidate's fits, one per fold, and a refit of any of them."""
    folds, inside = _folds(name, search, rows, groups), f"{name}: estimator"
    refits: list[list[Any]] = []
    candidates = _candidates(name, search)
    yield from _score_releases(search, rows.shape(name)[0], folds, len(candidates))
    for candidate in candidates:
        estimator = clone(search.estimator).set_params(**clone(candidate, safe=False))
        for fold, times in folds:
            fits = _walk(inside, estimator, fold, groups)
            yield from (_repeated(fit, times) for fit in fits)
        if search.refit:
            refits.append(list(_walk(inside, estimator, rows, groups)))
    if search.refit:
        yield Refit(refits)


def _repeated(fit: Any, times: int) -> Any:
    """Return a fit that is made so often."""
    if isinstance(fit, Refit):
        return Refit([[_repeated(f, times) for f in own] for own in fit.alternatives])
    return replace(fit, times=fit.times * times)


def _score_releases(
    search: Any, n_rows: int, folds: list[tuple[PlannedRows, int]], n_candidates: int
) -> Iterator[PlannedFit]:
    """Yield the releases of private scores, one per candidate and fold."""
    scoring = search.scoring
    scorers = scoring.values() if isinstance(scoring, Mapping) else [scoring]
    private = [scorer for scorer in scorers if hasattr(scorer, "privacy_plan")]
    for scorer, (fold, times) in product(private, folds):
        n_train = fold.n_rows
        sizes = [n_rows - n_train] + [n_train] * bool(search.return_train_score)
        for size in sizes:
            fit = PlannedFit(scorer.privacy_plan(size), scorer.accountant)
            yield replace(fit, times=times * n_candidates)


def _folds(
    name: str, search: Any, rows: PlannedRows, groups: Any
) -> list[tuple[PlannedRows, int]]:
    """Return the training rows of a search, with counts of equal sizes.

    The cost of a fit may depend on the number of rows.
    """
    if isinstance(search.cv, Iterator):
        raise ValueError(
            f"{name}: cv is an iterator, which can be read only once; make it a list"
        )
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
        return [(rows.training_rows(train), 1) for train in trains]
    sizes = Counter(len(train) for train in trains)
    return [(rows.training_rows(np.arange(size)), n) for size, n in sizes.items()]


def _candidates(name: str, search: Any) -> list[dict[str, Any]]:
    """Return all candidates of a search."""
    if isinstance(search, GridSearchCV):
        return list(ParameterGrid(search.param_grid))
    seed = search.random_state
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise ValueError(
            f"{name}: the candidates that it draws are known in advance only if its "
            "random_state is an integer; set it to an integer"
        )
    drawn = ParameterSampler(
        search.param_distributions, search.n_iter, random_state=int(seed)
    )
    return list(drawn)
