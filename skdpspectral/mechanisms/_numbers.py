"""Checks of public numbers, by name."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Number, Real


def shown(value: object) -> str:
    """Return a value as an error may quote it: of anything but a scalar, its type."""
    if value is None or isinstance(value, (str, Number)):
        return repr(value)
    return f"an object of type {type(value).__name__}"


def check_real(name: str, value: object) -> float:
    """Return a number as a Python float, or an error that names it.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        Any real number that is no boolean; of any precision.

    Returns
    -------
    float
        The number, so that no narrower type rounds what is computed from it.

    Raises
    ------
    ValueError
        If it is no real number.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a real number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:  # of an integer
        raise ValueError(f"{name} must be within float64") from None


def check_reals(name: str, values: Iterable[object]) -> tuple[float, ...]:
    """Return several numbers as :func:`check_real` does each."""
    return tuple([check_real(name, value) for value in values])


def check_count(name: str, value: object) -> int:
    """Return a positive whole number as an int, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {shown(value)}")
    return int(value)
