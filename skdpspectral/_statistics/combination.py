"""What every private statistic offers, and how several share one budget."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any

from ..accounting import split_mu
from ..mechanisms import Alternatives, Mechanism


class Statistic(abc.ABC):
    """One private statistic: what it releases, how it is made, what it leaves.

    It holds public numbers alone, so that it can be described, planned and priced
    before there are data.
    """

    @abc.abstractmethod
    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan what is released at a total cost of mu; infinite for no noise."""

    @abc.abstractmethod
    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Bound the rows, apply a kernel, and release what was planned.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : object
            The private rows: the only place where they are touched.
        *given : object
            What was released before, or is public.

        Returns
        -------
        object
            Public values, made of releases and public numbers alone.
        """

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return ()


class Combination(Statistic):
    """Statistics that share one budget, and run in the order of their names.

    A subclass says in :meth:`parts` which they are, in :meth:`shares` what each of
    them gets, and in ``run`` what each is given of the earlier ones.
    """

    @abc.abstractmethod
    def parts(self) -> Mapping[str, Statistic]:
        """Return the statistics, in the order of their releases."""

    @abc.abstractmethod
    def shares(self) -> Mapping[str, float]:
        """Return positive shares of mu**2 which add up to 1, by the names of parts."""

    def costs(self, mu: float) -> dict[str, float]:
        """Return what each part costs at a total of mu."""
        shares = self.shares()
        if not math.isfinite(mu):
            return dict.fromkeys(shares, mu)
        return dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all parts at a total cost of mu; infinite for no noise."""
        costs, planned = self.costs(mu), self.parts()
        return tuple(
            m for name, part in planned.items() for m in part.mechanisms(costs[name])
        )

    def remarks(self) -> tuple[str, ...]:
        """Sentences of all parts."""
        return tuple(said for part in self.parts().values() for said in part.remarks())


class Choice(Statistic):
    """One of several statistics of the same cost, to be chosen by what is released.

    Parameters
    ----------
    name : str
        Name of the choice in the plan.
    *branches : Statistic
        What may be chosen.
    """

    def __init__(self, name: str, *branches: Statistic) -> None:
        self.name, self.branches = name, branches

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan every branch at the whole cost: one of them is released."""
        planned = tuple(branch.mechanisms(mu) for branch in self.branches)
        return (Alternatives(self.name, planned),)

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Run the branch of a given number, with what else is given."""
        chosen, *rest = given
        return self.branches[chosen].run(release, rows, *rest)
