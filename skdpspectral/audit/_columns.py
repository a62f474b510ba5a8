"""What steps do to the columns of a table, before a later step looks for ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

from sklearn.base import OneToOneFeatureMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from .._base.sklearn_compat import output_container
from ._stateless import stateless_reason, treats_values_alone

# Parameters that name a column of ids, by position or name.
_PARAMETERS = ("user_feature", "client_feature", "item_feature")
# Names that stand for a position where a table has no names.
_DEFAULT_NAMES = ("user_id", "item_id")


@dataclass(frozen=True)
class Before:
    """What the steps before one have done to its rows.

    Parameters
    ----------
    tainted : str or None
        Path of a step that leaks into them.
    moved : str or None
        Path of a step that moves columns.
    users_first : bool
        Whether the ids of users have come to stand in the first column.
    named : bool
        Whether the columns still have names, where they were moved.
    at_end : bool
        Whether columns were added at the end alone.
    """

    tainted: str | None = None
    moved: str | None = None
    users_first: bool = False
    named: bool = False
    at_end: bool = False

    def after(self, step, path: str, leaks: str | None) -> Before:
        """Return what is before the next step; `leaks` names what leaks in this."""
        now = replace(self, tainted=self.tainted or leaks)
        if _moves_columns(step):
            now = now.moved_by(path)
            now = replace(now, named=True)
            now = replace(now, users_first=getattr(step, "_puts_users_first", False))
        return replace(now, named=now.named and _gives_names(step))

    def moved_by(self, path: str, at_end: bool = False) -> Before:
        """Return the same with the columns moved by a step."""
        return replace(self, moved=path, users_first=False, named=False, at_end=at_end)


def stale_position(estimator, before: Before) -> str | None:
    """Say which column of ids may be another one by now; None if none may."""
    if before.moved is None:
        return None
    for parameter in _PARAMETERS:
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
    """Whether a position still is what it was, or what a step has put there."""
    if isinstance(feature, str):
        feature = _DEFAULT_NAMES.index(feature)
    if before.at_end and feature >= 0:
        return True
    return before.users_first and parameter == "user_feature" and feature == 0


def _moves_columns(step) -> bool:
    """Whether columns may come out of a step at other positions."""
    if step is None or isinstance(step, str):
        return False
    if isinstance(step, Pipeline):
        return any(_moves_columns(child) for _, child in step.steps)
    if isinstance(step, FunctionTransformer):
        return not treats_values_alone(step)
    if isinstance(step, SimpleImputer):  # a column without values is dropped
        return stateless_reason(step) is None
    return not isinstance(step, OneToOneFeatureMixin)


def _gives_names(step) -> bool:
    """Whether what comes out of a step has names."""
    if step is None or isinstance(step, str):
        return True
    if isinstance(step, Pipeline):
        return all(_gives_names(child) for _, child in step.steps)
    try:
        return output_container(step) != "default"
    except (AttributeError, ValueError):
        return False
