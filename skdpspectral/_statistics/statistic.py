"""What every private statistic offers, and how several share one budget.

Statistics of several releases that cost the same, and how such share a budget.

What a mean is over: rows about a point, or pairs of rows.

One row is in twice as large a share of the pairs as it is of the rows. Of a mean over
pairs *half* is therefore released, which has the sensitivity of a mean over rows: one
plan serves for both, and which of the two it is may be chosen by earlier releases.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import walks
from .._tables.pairs import PairOrder
from ..accounting import gaussian_mu, split_mu
from ..mechanisms import Alternatives, Gaussian, Mechanism, PrivacyPlan


class Planned(abc.ABC):
    """What will be released: described, planned and priced before there are data.

    It holds public numbers alone.
    """

    @abc.abstractmethod
    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan what is released at a total cost of mu; infinite for no noise."""

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return ()

    def doubts(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Say what a fit by that plan cannot be relied on for: from public numbers."""
        return ()

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all that is released within a budget.

        Statistics whose guarantee rests on a model of the rows make a plan of their
        own, which says so.

        Parameters
        ----------
        epsilon, delta : float
            The budget; an infinite epsilon for no noise.
        **named : object
            `estimator` and `seeded` of the plan; `unit` and `neighbors` if need be.

        Raises
        ------
        ValueError
            If there is no noise for such a budget.
        """
        mechanisms = self.mechanisms(gaussian_mu(epsilon, delta))
        return PrivacyPlan(epsilon, delta, mechanisms, remarks=self.remarks(), **named)


class Statistic(Planned):
    """One private statistic: what it releases, how it is made, what it leaves."""

    @abc.abstractmethod
    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Bound the rows, apply a kernel, and release what was planned.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : object
            The private rows, or a function that yields blocks of them: the only place
            where they are touched.
        *given : object
            What was released before, or is public.

        Returns
        -------
        object
            Public values, made of releases and public numbers alone.
        """


class Combination(Statistic):
    """Statistics that share one budget, and run in the order of their names.

    A subclass says which they are and what each of them gets: when it is made, by
    `_parts` and `_shares`, or in :meth:`parts` and :meth:`shares`. In ``run`` it says
    what each is given of the earlier ones.
    """

    _parts: Mapping[str, Any]
    _shares: Mapping[str, float]

    def parts(self) -> Mapping[str, Any]:
        """Return the statistics, in the order of their releases."""
        return self._parts

    def shares(self) -> Mapping[str, float]:
        """Return positive shares of mu**2 which add up to 1, by the names of parts."""
        return self._shares

    def costs(self, mu: float) -> dict[str, float]:
        """Return what each part costs at a total of mu."""
        shares = self.shares()
        if len(shares) == 1 or not math.isfinite(mu):
            return dict.fromkeys(shares, mu)
        return dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all parts at a total cost of mu; infinite for no noise."""
        costs = self.costs(mu)
        planned: list[Mechanism] = []
        for name, part in self.parts().items():
            planned.extend(part.mechanisms(costs[name]))
        return tuple(planned)

    def remarks(self) -> tuple[str, ...]:
        """Sentences of all parts."""
        said: list[str] = []
        for part in self.parts().values():
            said.extend(part.remarks())
        return tuple(said)

    def doubts(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Doubts of all parts."""
        return tuple(
            said for part in self.parts().values() for said in part.doubts(plan)
        )


class AsAsked(Combination):
    """Statistics with given shares of one budget, each of which is run by its name.

    Parameters
    ----------
    parts : mapping of str to Statistic
        The statistics, in the order of their releases.
    shares : mapping of str to float
        Positive shares of mu**2 which add up to 1.
    """

    def __init__(
        self, parts: Mapping[str, Statistic], shares: Mapping[str, float]
    ) -> None:
        self._parts, self._shares = dict(parts), dict(shares)

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Run the part of a given name, with what else is given."""
        name, *rest = given
        return self._parts[name].run(release, rows, *rest)


class Choice(Planned):
    """One of several statistics of the same cost, to be chosen by what is released.

    Who chooses runs the branch: what each of them is given differs.

    Parameters
    ----------
    name : str
        Name of the choice in the plan.
    *branches : Planned
        What may be chosen.
    """

    def __init__(self, name: str, *branches: Planned) -> None:
        self.name, self.branches = name, branches

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan every branch at the whole cost: one of them is released."""
        planned = tuple(branch.mechanisms(mu) for branch in self.branches)
        return (Alternatives(self.name, planned),)

    def remarks(self) -> tuple[str, ...]:
        """Sentences of all branches."""
        return tuple(said for branch in self.branches for said in branch.remarks())


class RepeatedStatistic(Statistic):
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


# Pairs that a row is the first of, where a table has up to so many numbers, and where
# it has more: they lower the sampling error, and cost time.
_SHIFTS, _FEWEST_SHIFTS = ((1 << 20, 8), (1 << 22, 4)), 2


# What is released of a mean over pairs.
HALF = 0.5


def pair_order(n_samples: int, n_features: int) -> PairOrder:
    """Return which rows of a table of that shape are paired."""
    numbers = n_samples * n_features
    wanted = (shifts for most, shifts in _SHIFTS if numbers <= most)
    shifts = min(next(wanted, _FEWEST_SHIFTS), max(1, (n_samples - 1) // 2))
    return PairOrder(n_samples, n_features, shifts)


def weight_of(origin: Any) -> float:
    """Share of a mean that is released: all of it, or half of one over pairs."""
    return HALF if isinstance(origin, PairOrder) else 1.0


def mean_summation_error(
    bound: float, n_samples: int, n_features: int, paired: bool | None
) -> float:
    """Largest error of what is released of a mean of terms, from rounding.

    Parameters
    ----------
    bound : float
        Bound on the norm of the mean of the moduli of the terms.
    n_samples, n_features : int
        Public shape of the rows.
    paired : bool or None
        Whether terms are pairs; None where releases tell.
    """
    block, together = walks.rows_per_block(n_features), walks.BLOCKS_TOGETHER
    rows = sensitivity.summation_error(bound, n_samples, block, together)
    if paired is False:
        return rows
    order = pair_order(n_samples, n_features)
    terms = order.n_blocks * order.block_rows
    size = order.block_rows
    pairs = HALF * sensitivity.summation_error(bound, terms, size, together)
    return pairs if paired else max(rows, pairs)


@dataclass(frozen=True)
class Terms:
    """Blocks of rows about a point, or of differences over the root of two.

    Parameters
    ----------
    walked : Walked
        The rows, and the walk that yields the blocks.
    n_terms : int
        Their number.
    weight : float, default=1.0
        What is released of their mean.
    """

    walked: walks.Walked
    n_terms: int
    weight: float = 1.0

    def reduce(self, kernel: walks.Kernel) -> Any:
        """Return the sums that a kernel makes of the blocks."""
        return self.walked.reduce(kernel)

    @property
    def divisor(self) -> float:
        """What a sum of the terms is divided by to be released."""
        return self.n_terms / self.weight

    def undo(self, released: np.ndarray) -> np.ndarray:
        """Return the released mean of the terms from what was released of it."""
        return released if self.weight == 1.0 else released / self.weight
