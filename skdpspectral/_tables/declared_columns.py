"""Columns in an order that several holders of rows have agreed on, by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .ids import column_names, position_of

# Names that an error shows.
_SHOWN = 5


def check_feature_names(names, n_features: int) -> tuple[str, ...] | None:
    """Return declared names of features as strings, or an error about them."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError("feature_names must be a sequence of strings, or None")
    names = list(names)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("feature_names must be strings")
    names = tuple(str(name) for name in names)
    _refuse_twice("feature_names", names)
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must have n_features={n_features} names, got {len(names)}"
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise ValueError("feature_names must be valid Unicode") from None
    return names


def in_declared_order(X, names: Sequence[str] | None, beside=()):
    """Return a table with its features in the declared order; no value is read.

    `names` is None where columns go by their positions alone. `beside` holds parameters
    that give columns of X with no features, and their values: these columns keep their
    places. A dataframe whose labels are 0, 1, ... has no column names. X itself is
    returned if nothing has to move. It is an error if names are declared and X has
    others or none, or the other way round.
    """
    labels = column_names(X)
    if labels == list(range(len(labels or ()))):
        labels = None
    if names is None and labels is None:
        return X
    if names is None:
        raise ValueError(
            "X has column names, but the task has no feature_names. Make the task with "
            "feature_names, or pass an array with its columns in the agreed order."
        )
    if labels is None:
        raise ValueError(
            "the task has feature_names, but X has no column names. Pass a dataframe "
            f"with these columns: {_listed(names)}."
        )
    others = {position_of(feature, labels, name) for name, feature in beside}
    own = {label: j for j, label in enumerate(labels) if j not in others}
    _refuse_twice("columns of X", labels)
    declared = set(names)
    for problem, listed in (
        ("has no columns", [name for name in names if name not in own]),
        ("has unexpected columns", [label for label in own if label not in declared]),
    ):
        if listed:
            raise ValueError(
                f"X {problem} {_listed(listed)}. Its columns must be the feature_names "
                "of the task, in any order."
            )
    order = list(range(len(labels)))
    for place, name in zip(own.values(), names, strict=True):
        order[place] = own[name]
    return X if order == sorted(order) else select_columns(X, labels, order)


def select_columns(X, labels: list, positions: list[int]):
    """Return some columns of a dataframe, in this order."""
    if hasattr(X, "iloc"):
        return X.iloc[:, positions]
    return X.select([labels[j] for j in positions])


def _refuse_twice(name: str, labels: Iterable) -> None:
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"{name} must differ, got {twice[0]!r} twice")


def _listed(names: Sequence) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more
