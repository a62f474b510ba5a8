"""Statistics of several releases that cost the same, and how such share a budget."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping

from ..accounting import split_mu
from ..mechanisms import Gaussian
from .combination import Combination, Statistic


class Rounds(Statistic):
    """A statistic that makes releases of one kind, all of the same cost."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the releases, in their order; there may be none."""

    @abc.abstractmethod
    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one release at a cost of mu, which is finite."""

    def each(self, mu: float) -> tuple[Gaussian, ...]:
        """Plan the releases at a cost of mu each: they differ in their names alone."""
        if not self.names:
            return ()
        return self.planned(self.names[0], mu).repeated(self.names)

    def mechanisms(self, mu: float) -> tuple[Gaussian, ...]:
        """Plan the releases at a total cost of mu, which is finite."""
        return self.each(mu / math.sqrt(max(len(self.names), 1)))


class CombinedRounds(Combination):
    """Rounds that share one budget, which is shared out by single releases.

    Releases of different parts that are to cost the same then do so to the last bit.
    """

    @abc.abstractmethod
    def parts(self) -> Mapping[str, Rounds]:
        """Return the statistics, in the order of their releases."""

    @abc.abstractmethod
    def shares_of_releases(self) -> Mapping[str, float]:
        """Return the share of mu**2 of one release of each part, by its name."""

    def shares(self) -> dict[str, float]:
        """Return shares of mu**2 which add up to 1, by the names of parts."""
        single = self.shares_of_releases()
        parts = self.parts().items()
        return {name: len(p.names) * single[name] for name, p in parts if p.names}

    def mechanisms(self, mu: float) -> tuple[Gaussian, ...]:
        """Plan all parts at a total cost of mu, which is finite."""
        parts, single = self.parts(), self.shares_of_releases()
        owners = [name for name, part in parts.items() for _ in part.names]
        if not owners:
            return ()
        split = split_mu(mu, [single[name] for name in owners])
        costs = dict(zip(owners, split, strict=True))
        return tuple(m for name in costs for m in parts[name].each(costs[name]))
