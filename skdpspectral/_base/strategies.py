"""Strategy objects: public parameters of one choice, and how they are saved.

A strategy is a small :class:`sklearn.base.BaseEstimator` that is given to an estimator
as a parameter, such as ``workload=Window(5)``. It holds public numbers alone, neither
data nor a source of noise, and says in ``_parameter_constraints`` what they may be.
Those that are registered, and no others, are checked, written and read with an
estimator; ``_array_parameters`` names those of its parameters that may be lists. ::

    @register
    @dataclass(eq=False, repr=False)
    class Decay(BaseEstimator):
        _parameter_constraints: ClassVar[dict] = {"rate": [Interval(Real, 0, 1, ...)]}

        rate: float = 0.5
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, clone

from .sklearn_compat import StrOptions, parameter_names, validate_parameter_constraints

_CLASSES: dict[str, type[BaseEstimator]] = {}

_KEYS = {"strategy", "parameters"}

# Types among constraints whose names say little.
_TYPES = {Integral: "integer", Real: "number", np.ndarray: "array", Mapping: "mapping"}


def register(cls: type[BaseEstimator]) -> type[BaseEstimator]:
    """Let objects of a class be written and read by its name; a class decorator.

    The class has ``_parameter_constraints`` for each parameter of its constructor, and
    a name that no other has.
    """
    constraints = getattr(cls, "_parameter_constraints", {})
    if not issubclass(cls, BaseEstimator) or set(cls._get_param_names()) != set(
        constraints
    ):
        raise TypeError(
            f"{cls.__name__} must be a BaseEstimator, with constraints for each of "
            "its parameters"
        )
    known = _CLASSES.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"a strategy named {cls.__name__} already exists")
    cls._get_param_names = classmethod(parameter_names)  # type: ignore[arg-type]
    _CLASSES[cls.__name__] = cls
    return cls


def is_strategy(value) -> bool:
    """Return whether a value is an instance of a registered class itself."""
    return _CLASSES.get(type(value).__name__) is type(value)


def check_values(owner: BaseEstimator, arrays: tuple[str, ...] = ()) -> None:
    """Check the parameters of an estimator or a strategy, each on its own.

    `arrays` names those that may be arrays or lists.
    """
    values = owner.get_params(deep=False)
    check_arguments(type(owner).__name__, owner._parameter_constraints, values, arrays)
    for name, value in values.items():
        if isinstance(value, BaseEstimator) and not is_strategy(value):
            raise ValueError(
                f"{name} must not be a {type(value).__name__}: it is not a strategy "
                "of this package"
            )
        if is_strategy(value):
            check_values(value, getattr(value, "_array_parameters", ()))


def check_arguments(
    caller: str, constraints: dict, values: dict, arrays: tuple[str, ...] = ()
) -> None:
    """Check arguments by name, each on its own, by scikit-learn's constraints.

    `caller` is whose they are, for messages; `arrays` names those that may be arrays.
    """
    for name, value in values.items():
        boolean = "boolean" in constraints.get(name, [])
        if isinstance(value, (bool, np.bool_)) and not boolean:
            raise ValueError(
                f"{name} must be {_choices(constraints.get(name, []))}, got {value!r} "
                f"({caller})"
            )
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ValueError(f"{name} must be in the range of float64 ({caller})")
        listed = isinstance(value, (list, tuple)) or np.ndim(value) > 0
        if name not in arrays and listed:
            raise ValueError(f"{name} must not be an array or a list ({caller})")
    # Ranges end in float64: in fewer digits infinity would lie within them.
    values = {
        k: float(v) if isinstance(v, np.floating) else v for k, v in values.items()
    }
    validate_parameter_constraints(constraints, values, caller_name=caller)


def _choices(constraints: list) -> str:
    """Return the values that constraints of scikit-learn allow, in words."""
    said = []
    for constraint in constraints:
        if isinstance(constraint, StrOptions):
            said += [f'"{option}"' for option in sorted(constraint.options)]
        elif isinstance(constraint, type):
            name = _TYPES.get(constraint, constraint.__name__)
            said.append(f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}")
        else:
            said.append(str(constraint))
    if len(said) < 2:
        return "".join(said) or "no boolean"
    return f"{', '.join(said[:-1])} or {said[-1]}"


def snapshot(value):
    """Return a copy of a strategy or array, checked again in case it has changed."""
    if not is_strategy(value):
        return copy.deepcopy(value)
    taken = clone(value)
    if type(taken) is not type(value):
        raise ValueError(f"a copy of {type(value).__name__} must be one too")
    for name, text in vars(taken).items():
        if isinstance(text, str):
            # Of the built-in type: others may compare as they like.
            setattr(taken, name, str.__str__(text))
    check_values(taken, getattr(taken, "_array_parameters", ()))
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
    """Convert objects for ``json.dumps(default=)``."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if hasattr(value, "__array__"):  # a column of a table, as public bounds
        return np.asarray(value).tolist()
    if isinstance(value, range):
        return list(value)
    if is_strategy(value):
        return to_plain(value)
    raise TypeError(f"{type(value).__name__} cannot be published as JSON")


def to_plain(value) -> dict:
    """Return a strategy of a registered class as a dictionary for JSON."""
    if not is_strategy(value):
        raise TypeError(f"{type(value).__name__} is not a registered strategy")
    parameters = json.dumps(value.get_params(deep=False), default=json_default)
    return {"strategy": type(value).__name__, "parameters": json.loads(parameters)}


def from_plain(written: dict):
    """Make a strategy of what :func:`to_plain` gave; nothing is unpickled."""
    if not isinstance(written, dict) or set(written) != _KEYS:
        raise ValueError("a strategy must have a name and parameters")
    name, parameters = written["strategy"], written["parameters"]
    cls = _CLASSES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"there is no strategy named {name!r}")
    if not isinstance(parameters, dict) or (
        set(parameters) != set(cls._get_param_names())
    ):
        raise ValueError(f"the parameters of {name} do not match its class")
    made = cls(**{key: read_plain(value) for key, value in parameters.items()})
    check_values(made, getattr(made, "_array_parameters", ()))
    return made


def read_plain(value):
    """Return a parameter as JSON gave it, with strategies made of dictionaries."""
    return from_plain(value) if isinstance(value, dict) else value
