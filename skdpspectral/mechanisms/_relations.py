"""The vocabulary of a guarantee: what is protected, and against what change."""

from __future__ import annotations

from enum import Enum


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
