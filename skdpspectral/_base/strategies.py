"""Strategy objects: public parameters of one choice, and how they are saved.

A strategy is a small :class:`sklearn.base.BaseEstimator`, such as ``Window(5)``, that
is a parameter of an estimator. It holds public numbers alone, and says what they may
be in ``_parameter_constraints``; ``_array_parameters`` names those that may be lists.
Only those that are registered are checked, written and read with an estimator.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from .sklearn_compat import parameter_names, validate_parameter_constraints

_CLASSES: dict[str, type[BaseEstimator]] = {}

_KEYS = {"strategy", "parameters"}


def register(cls: type[BaseEstimator]) -> type[BaseEstimator]:
    """Let objects of a class be written and read by its name; a class decorator."""
    cls._get_param_names = classmethod(parameter_names)  # type: ignore[arg-type]
    cls._array_parameters = getattr(cls, "_array_parameters", ())
    _CLASSES[cls.__name__] = cls
    return cls


def is_strategy(value) -> bool:
    """Return whether a value is an instance of a registered class itself."""
    return _CLASSES.get(type(value).__name__) is type(value)


def check_values(owner: BaseEstimator) -> None:
    """Check the parameters of an estimator or a strategy, each on its own."""
    values, arrays = owner.get_params(deep=False), owner._array_parameters
    check_arguments(type(owner).__name__, owner._parameter_constraints, values, arrays)
    for name, value in values.items():
        if is_strategy(value):
            check_values(value)
        elif isinstance(value, BaseEstimator):
            raise ValueError(
                f"{name} must not be a {type(value).__name__}: it is not a strategy "
                "of this package"
            )


def check_arguments(
    caller: str, constraints: dict, values: dict, arrays: tuple[str, ...] = ()
) -> None:
    """Check arguments of `caller` on their own, by scikit-learn's constraints."""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        # scikit-learn takes booleans for numbers.
        if isinstance(value, (bool, np.bool_)) and "boolean" not in constraints.get(
            name, ["boolean"]
        ):
            raise ValueError(f"{name} must not be a boolean, got {value} ({caller})")
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ValueError(f"{name} must be in the range of float64 ({caller})")
        listed = isinstance(value, (list, tuple)) or np.ndim(value) > 0
        if name not in arrays and listed:
            raise ValueError(f"{name} must not be an array or a list ({caller})")
        # Ranges end in float64: in fewer digits infinity would lie within them.
        checked[name] = float(value) if isinstance(value, np.floating) else value
    validate_parameter_constraints(constraints, checked, caller_name=caller)


def snapshot(value):
    """Return a copy of a strategy or array, checked again in case it has changed."""
    taken = clone(value, safe=False)
    if is_strategy(taken):
        check_values(taken)
    return taken


def same_value(first, second) -> bool:
    """Return whether parameters are equal; estimators by class and values."""
    if not any(isinstance(value, BaseEstimator) for value in (first, second)):
        return bool(np.array_equal(first, second))
    if type(first) is not type(second):
        return False
    others = second.get_params(deep=False)
    return all(
        same_value(value, others[name])
        for name, value in first.get_params(deep=False).items()
    )


def json_default(value):
    """Convert objects for ``json.dumps(default=)``, with strategies as dictionaries."""
    if hasattr(value, "__array__"):  # also a column of a table, as public bounds
        return np.asarray(value).tolist()
    if isinstance(value, range):
        return list(value)
    if is_strategy(value):
        parameters = value.get_params(deep=False)
        return {"strategy": type(value).__name__, "parameters": parameters}
    raise TypeError(
        f"{type(value).__name__} is not a registered strategy, and cannot be published "
        "as JSON"
    )


def read_plain(value):
    """Return a parameter from JSON, with strategies made of dictionaries."""
    if not isinstance(value, dict):
        return value
    if set(value) != _KEYS:
        raise ValueError("a strategy must have a name and parameters")
    name, parameters = value["strategy"], value["parameters"]
    cls = _CLASSES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"there is no strategy named {name!r}")
    if not isinstance(parameters, dict) or (
        set(parameters) != set(cls._get_param_names())
    ):
        raise ValueError(f"the parameters of {name} do not match its class")
    made = cls(**{key: read_plain(part) for key, part in parameters.items()})
    check_values(made)
    return made
