"""What an estimator of scikit-learn holds: known here alone.

Prices of fits, verdicts of reports and refusals of searches walk through compositions
by these functions, and judge what they find by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline


class Composition(Enum):
    """Estimators that hold others, by how these get the rows."""

    PIPELINE = "each gets what the one before makes of the rows"
    UNION = "all get the same rows"
    COLUMNS = "each gets some columns"
    SEARCH = "candidates get the rows of folds"
    FROZEN = "fitted before, they get no rows"
    OTHER = "they may get any rows"


def is_estimator(value: Any) -> bool:
    """Whether it is an estimator, and no class."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def composition_of(estimator: Any) -> Composition | None:
    """Return the kind of what holds estimators; None for what holds none."""
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
    """Yield what an estimator holds, by name: also strings in the place of a step."""
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
    """Yield the steps of a pipeline, and of pipelines in it; else the step itself."""
    if composition_of(step) is Composition.PIPELINE:
        for _, child in parts_of(step):
            yield from steps_in_turn(child)
    else:
        yield step


def fitted_within(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and those in it as a fit leaves them: also fitted copies."""
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
    """Return an estimator, as "", and those in it by the path of ``set_params``."""
    if not is_estimator(estimator):
        return {}
    inside = estimator.get_params(deep=True).items()
    return {"": estimator} | {name: part for name, part in inside if is_estimator(part)}
