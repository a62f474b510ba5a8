"""The shape that a step of a pipeline hands on, where it is public before a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.random_projection import BaseRandomProjection


@dataclass(frozen=True)
class Rows:
    """Rows as a step gets them, or zeros that stand for them.

    Parameters
    ----------
    X : array-like
        Of which the shape is used.
    changed_by : str or None, default=None
        Name of the step that made others of the user's columns.
    train : ndarray of int or None, default=None
        Positions of the rows that are fitted on; None for all.
    """

    X: Any
    changed_by: str | None = None
    train: np.ndarray | None = None

    def shape(self, name: str) -> tuple[int, int]:
        """Return the shape, or an error about the rows that were given."""
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
        """Return what a private estimator plans a fit of."""
        if not reads_clients(estimator):
            return self.X if self.train is None else _zeros(self.shape(name))
        if self.changed_by is not None:
            raise ValueError(
                f"{name}: which clients have how many rows is not known behind "
                f"{self.changed_by!r}; give check() the plan that privacy_plan makes "
                "of the number of rows of each client"
            )
        return self.X if self.train is None else _taken(self.X, self.train)

    def of_fold(self, train: np.ndarray) -> Rows:
        """Return some of the rows."""
        within = train if self.train is None else self.train[train]
        return replace(self, train=within)


def reads_clients(estimator: Any) -> bool:
    """Whether it or one within reads from rows which client they belong to."""
    inside = (estimator, *estimator.get_params(deep=True).values())
    return any(getattr(part, "client_feature", None) is not None for part in inside)


def _zeros(shape: tuple[int, int]) -> np.ndarray:
    """Return zeros that take no memory."""
    return np.broadcast_to(np.float64(0.0), shape)


def _taken(X: Any, train: np.ndarray) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[train]
    return X[train] if hasattr(X, "shape") else [X[row] for row in train]


def handed_on(name: str, step: Any, rows: Rows) -> Rows:
    """Return rows behind a step.

    Parameters
    ----------
    name : str
        Of the step, for errors.
    step : transformer, None or "passthrough"
        The step; it is not fitted on the rows.
    rows : Rows
        What it gets.

    Returns
    -------
    Rows
        The same, or zeros of the shape that it hands on.

    Raises
    ------
    ValueError
        If that depends on values, or is not known.
    """
    if step is None or isinstance(step, str) or _keeps_columns(step):
        return rows
    n_rows, n_columns = rows.shape(name)
    width = _width(name, step, rows, n_rows, n_columns)
    if width is None:
        raise ValueError(
            f"{name}: how many columns {type(step).__name__} hands on is not known "
            "before it is fitted; give it a whole number of components, or check() "
            "the plan that privacy_plan makes of the shape behind it"
        )
    return Rows(_zeros((n_rows, width)), changed_by=name)


def _keeps_columns(step: Any) -> bool:
    """Whether a column comes out for each that goes in."""
    if isinstance(step, SimpleImputer):
        return bool(step.keep_empty_features and not step.add_indicator)
    if isinstance(step, FunctionTransformer):
        return step.func is None or step.feature_names_out == "one-to-one"
    return isinstance(step, OneToOneFeatureMixin)


def _width(name: str, step: Any, rows: Rows, n_rows: int, n_columns: int) -> int | None:
    """Return the number of columns that come out; None if it is not public."""
    if hasattr(step, "_n_columns_out"):
        width: int | None = step._n_columns_out(rows.X)
        return width
    if isinstance(step, Pipeline):
        for inner, child in step.steps:
            rows = handed_on(f"{name}: {inner}", child, rows)
        return rows.shape(name)[1]
    if isinstance(step, FeatureUnion):
        branches = [(inner, child) for inner, child in step.transformer_list]
        kept = [(inner, child) for inner, child in branches if child != "drop"]
        behind = [handed_on(f"{name}: {inner}", child, rows) for inner, child in kept]
        return sum(branch.shape(name)[1] for branch in behind)
    if isinstance(step, (BaseRandomProjection, PolynomialFeatures)):
        # These take from their rows the shape alone.
        fitted = clone(step).fit(_zeros((n_rows, n_columns)))
        return len(fitted.get_feature_names_out())
    number = getattr(step, "n_components", None)
    if isinstance(number, Integral) and not isinstance(number, bool):
        return int(number)
    return None
