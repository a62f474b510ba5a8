"""Private statistics: what each releases, and how several share one budget.

A mean is over rows about a point, or over pairs of rows. One row is in twice as large a
share of the pairs as it is of the rows. Of a mean over pairs *half* is therefore
released, which has the sensitivity of a mean over rows: one plan serves for both, and
which of the two it is may be chosen by earlier releases.
"""

from __future__ import annotations

import abc
import functools
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


class Statistic(abc.ABC):
    """A private statistic: what it releases, how it is computed, and what it returns.

    It is planned before there are data and holds public numbers alone. A statistic
    whose releases are alike defines `names` and `planned`; any other defines
    `mechanisms`.
    """

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of releases of one kind and cost, maybe none; None for others."""
        return None

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one of the releases in `names` at a finite cost of mu."""
        raise NotImplementedError

    def each(self, mu: float) -> tuple[Gaussian, ...]:
        """Plan the releases in `names` at a cost of mu each; only the names differ."""
        if not self.names:
            return ()
        return self.planned(self.names[0], mu).repeated(self.names)

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan what is released at a total cost of mu; infinite for no noise."""
        return self.each(mu / math.sqrt(max(len(self.names or ()), 1)))

    def remarks(self) -> tuple[str, ...]:
        """Return sentences of the plan about its guarantee."""
        return ()

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings about results of a fit by that plan, from public numbers."""
        return ()

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all that is released within a budget; infinite epsilon for no noise.

        `named` are further fields of the plan.
        """
        mechanisms = self.mechanisms(gaussian_mu(epsilon, delta))
        return PrivacyPlan(epsilon, delta, mechanisms, remarks=self.remarks(), **named)

    @abc.abstractmethod
    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Bound the rows, apply a kernel, and release what was planned.

        `release` is charged with the plan. `rows` are the private rows, or blocks of
        them, which are used only here. `given` was released before, or is public.
        Returns public values, made of releases and public numbers alone.
        """


class Combination(Statistic):
    """Statistics that share one budget, planned in the order of their names.

    `shares` of mu**2 are positive and add up to 1: of a part, or of each release of a
    part that has `names`. Releases with equal shares cost the same, to the last bit.
    Subclasses that know their parts late override `parts` and `shares`, and those that
    run several parts at once override `run`.
    """

    def __init__(
        self, parts: Mapping[str, Statistic], shares: Mapping[str, float]
    ) -> None:
        self._parts, self._shares = parts, shares

    def parts(self) -> Mapping[str, Any]:
        """Return the statistics, in the order of their releases."""
        return self._parts

    def shares(self) -> Mapping[str, float]:
        """Return the shares, by the names of parts."""
        return self._shares

    def costs(self, mu: float) -> dict[str, float]:
        """Return what each part, or each release in its `names`, costs of mu."""
        shares, owners = self.shares(), list[str]()
        for name, part in self.parts().items():
            owners += [name] * (1 if part.names is None else len(part.names))
        if len(owners) < 2 or not math.isfinite(mu):
            return dict.fromkeys(owners, mu)
        split = split_mu(mu, [shares[name] for name in owners])
        return dict(zip(owners, split, strict=True))

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all parts at a total cost of mu; infinite for no noise."""
        costs, parts = self.costs(mu), self.parts()
        planned: list[Mechanism] = []
        for name, part in parts.items():
            if part.names is None:
                planned.extend(part.mechanisms(costs[name]))
            elif part.names:
                planned.extend(part.each(costs[name]))
        return tuple(planned)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences of all parts."""
        return tuple(each for part in self.parts().values() for each in part.remarks())

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings of all parts."""
        parts = self.parts().values()
        return tuple(each for part in parts for each in part.caveats(plan))

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Run the part whose name is given first, with what else is given."""
        name, *rest = given
        return self.parts()[name].run(release, rows, *rest)


class Choice(Statistic):
    """One of several statistics of the same cost; releases choose which one is run."""

    def __init__(self, name: str, *branches: Statistic) -> None:
        self.name, self.branches = name, branches

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan every branch at the whole cost: one of them is released."""
        planned = tuple(branch.mechanisms(mu) for branch in self.branches)
        return (Alternatives(self.name, planned),)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences of all branches."""
        return tuple(each for branch in self.branches for each in branch.remarks())

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Run the branch whose index is given first, with what else is given."""
        index, *rest = given
        return self.branches[index].run(release, rows, *rest)


# Pairs that a row is the first of, where a table has up to so many numbers, and where
# it has more: they lower the sampling error, and cost time.
_SHIFTS, _FEWEST_SHIFTS = ((1 << 20, 8), (1 << 22, 4)), 2

# Weight of what is released of a mean over pairs; of one over rows it is 1.
HALF = 0.5


@functools.lru_cache(maxsize=64)
def pair_order(n_samples: int, n_features: int) -> PairOrder:
    """Return which rows of a table of that shape are paired."""
    numbers = n_samples * n_features
    wanted = (shifts for most, shifts in _SHIFTS if numbers <= most)
    shifts = min(next(wanted, _FEWEST_SHIFTS), max(1, (n_samples - 1) // 2))
    return PairOrder(n_samples, n_features, shifts)


@functools.lru_cache(maxsize=64)
def mean_summation_error(
    bound: float, n_samples: int, n_features: int, weights: tuple[float, ...] = (1.0,)
) -> float:
    """Largest rounding error of what is released of a mean of terms.

    `bound` is on the norm of the mean of the moduli of the terms; `weights` are those
    that the release may have: 1 over rows, `HALF` over pairs.
    """
    terms, size = n_samples, walks.rows_per_block(n_features)
    errors = []
    for weight in weights:
        if weight == HALF:
            order = pair_order(n_samples, n_features)
            terms, size = order.n_blocks * order.block_rows, order.block_rows
        error = sensitivity.summation_error(bound, terms, size, walks.BLOCKS_TOGETHER)
        errors.append(weight * error)
    return max(errors)


@dataclass(frozen=True)
class Terms:
    """Blocks of `n_terms` rows about a point, or of differences over the root of two.

    What is released of their mean has `weight`.
    """

    walked: walks.Walked
    n_terms: int
    weight: float = 1.0

    def reduce(self, kernel: walks.Kernel) -> Any:
        """Return the sums that a kernel makes of the blocks."""
        return self.walked.reduce(kernel)

    @property
    def divisor(self) -> float:
        """Number that a sum of the terms is divided by to be released."""
        return self.n_terms / self.weight

    def undo(self, released: np.ndarray) -> np.ndarray:
        """Return the released mean of the terms from what was released of it."""
        return released if self.weight == 1.0 else released / self.weight
