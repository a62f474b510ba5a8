"""One of several sets of releases, chosen by what was released before."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ._curves import CURVES
from ._gaussian import Mechanism


@dataclass(frozen=True)
class Alternatives:
    """Sets of releases of which a fit makes one.

    Parameters
    ----------
    name : str
        Name of the choice, unique within a plan.
    branches : tuple of tuple of Mechanism
        What each branch releases. The names of all of them differ.

    Notes
    -----
    **Formal guarantee.** If the branch is chosen by public numbers and earlier
    releases alone, the whole is :attr:`mu`-Gaussian differentially private.
    """

    kind: ClassVar[str] = "alternatives"

    name: str
    branches: tuple[tuple[Mechanism, ...], ...]

    def __post_init__(self) -> None:
        branches = tuple(tuple(branch) for branch in self.branches)
        object.__setattr__(self, "branches", branches)
        if len(branches) < 2 or not all(branches):
            raise ValueError(f"{self.name!r} needs two branches or more, none empty")
        if any(isinstance(m, CURVES) for branch in branches for m in branch):
            raise ValueError(f"branches of {self.name!r} must be Gaussian mechanisms")

    @property
    def shape(self) -> tuple[int, ...]:
        """No array is released under the name of the choice itself."""
        return ()

    @property
    def mu(self) -> float:
        """Cost of the dearest branch."""
        return max(math.hypot(*(m.mu for m in branch)) for branch in self.branches)

    def describe(self) -> str:
        """Phrase for a report."""
        branches = (" and ".join(phrases(branch)) for branch in self.branches)
        return "by earlier releases, either " + ", or ".join(branches)


def phrases(mechanisms: Iterable[Any]) -> Iterator[str]:
    """Describe releases, those together that follow and differ in name alone."""
    nameless = functools.partial(replace, name="")
    for _, group in itertools.groupby(mechanisms, key=nameless):
        first, *others = group
        phrase: str = first.describe()
        if others:
            names = f"{first.name!r} to {others[-1].name!r}"
            each = f"{names} ({len(others) + 1} releases, each of "
            phrase = phrase.replace(f"{first.name!r} (", each, 1)
        yield phrase
