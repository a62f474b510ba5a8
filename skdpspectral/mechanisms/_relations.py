"""The vocabulary of a guarantee, and checks of public numbers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from numbers import Integral, Number, Real


class _Word(str, Enum):
    """A closed vocabulary whose members compare, print and pickle as strings."""

    def __str__(self) -> str:
        return str(self.value)


class Unit(_Word):
    """Whose contribution is protected."""

    ROW = "row"
    USER = "user"


class Neighbors(_Word):
    """The change of the data that a guarantee hides.

    ``replace-one``
        One unit is exchanged for another; the number of units is public.
    ``add-remove-one``
        One unit joins or leaves; the number of units is private.
    ``zero-out-one``
        One unit's contribution becomes zero; the number of units is public.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE_ONE = "add-remove-one"
    ZERO_OUT_ONE = "zero-out-one"


class Assumption(_Word):
    """What a guarantee rests on beyond its noise; ``none`` means the worst case.

    ``spiked-gaussian``, ``clipped-gradients``
        It holds for data that satisfy it alone.
    ``summed-parts``
        Several parties add a share of the noise each: it holds against those who see
        sums over all of them, and no part, which nothing but trust ensures.
    """

    NONE = "none"
    SPIKED_GAUSSIAN = "spiked-gaussian"
    CLIPPED_GRADIENTS = "clipped-gradients"
    SUMMED_PARTS = "summed-parts"

    @property
    def condition(self) -> str:
        """When a guarantee holds, to follow on "only"."""
        if self is Assumption.SUMMED_PARTS:
            return f"against those who see sums and none of their parts ({self})"
        return f"for data that satisfy the {self} assumption"


def shown(value: object) -> str:
    """Return a value as an error may quote it: of anything but a scalar, its type."""
    if value is None or isinstance(value, (str, Number)):
        return repr(value)
    return f"an object of type {type(value).__name__}"


def check_real(name: str, value: object) -> float:
    """Return a real number that is no boolean as a Python float, or an error.

    No narrower type rounds what is computed from it.
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
