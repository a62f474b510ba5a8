"""Base classes of private statistics, and the division of a budget among them.

A mean is over rows about a point, or over pairs of rows. A row's share of the pairs is
twice its share of the rows. Therefore *half* of a mean over pairs is released, with the
sensitivity of a mean over rows: one plan serves both, and earlier releases may choose
between them.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import walks
from .._linalg.walks import PairOrder
from ..accounting import gaussian_mu, split_mu
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Alternatives, Mechanism, PrivacyPlan


class Statistic(abc.ABC):
    """A private statistic: its plan, its computation and its result.

    It is planned from public numbers before data are read.
    """

    @abc.abstractmethod
    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all releases at a total cost of mu; infinite mu means no noise."""

    def remarks(self) -> tuple[str, ...]:
        """Return sentences about the guarantee for the plan."""
        return ()

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings about the results of a plan, from public numbers."""
        return ()

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all releases within a budget; infinite epsilon means no noise."""
        mechanisms = self.mechanisms(gaussian_mu(epsilon, delta))
        return PrivacyPlan(epsilon, delta, mechanisms, remarks=self.remarks(), **named)

    @abc.abstractmethod
    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Bound the rows, apply a kernel, and release the planned values.

        `release` is charged with the plan. `rows` are the private rows, or blocks of
        them, which are used only here. `given` is released or public. Returns public
        values, computed from releases and public numbers alone.
        """


class Combination(Statistic):
    """Statistics that share one budget, planned in the order of their names.

    `shares` of mu**2 are positive and add up to 1. Subclasses may override `parts`,
    `shares` and `run`.
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
        """Return the cost of each part."""
        shares, names = self.shares(), [*self.parts()]
        if len(names) < 2 or not math.isfinite(mu):
            return dict.fromkeys(names, mu)
        split = split_mu(mu, [shares[name] for name in names])
        return dict(zip(names, split, strict=True))

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all parts at a total cost of mu; infinite mu means no noise."""
        costs, planned = self.costs(mu), list[Mechanism]()
        for name, part in self.parts().items():
            planned.extend(part.mechanisms(costs[name]))
        return tuple(planned)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences of all parts."""
        return tuple(each for part in self.parts().values() for each in part.remarks())

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings of all parts."""
        parts = self.parts().values()
        return tuple(each for part in parts for each in part.caveats(plan))

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Run the part named by the first given argument, with the other ones."""
        name, *rest = given
        return self.parts()[name].run(release, rows, *rest)


class Choice(Statistic):
    """One of several statistics of equal cost, chosen by earlier releases."""

    def __init__(self, name: str, *branches: Statistic) -> None:
        self.name, self.branches = name, branches

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan every branch at the full cost, as only one is released."""
        planned = tuple(branch.mechanisms(mu) for branch in self.branches)
        return (Alternatives(self.name, planned),)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences of all branches."""
        return tuple(each for branch in self.branches for each in branch.remarks())

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Run the branch whose index is given first, with the other arguments."""
        index, *rest = given
        return self.branches[index].run(release, rows, *rest)


@dataclass(frozen=True)
class Votes:
    """Bisections of places from 0 to ``2**n_steps``, by signs of noisy votes."""

    name: str
    n_steps: int

    @property
    def names(self) -> list[str]:
        """Names of the releases."""
        return [f"{self.name}_{step}" for step in range(1, self.n_steps + 1)]

    def planned(
        self, mu: float, moved: float, n_votes: int = 1, **more: Any
    ) -> tuple[Mechanism, ...]:
        """Plan all steps at a total cost of mu; one row moves margins by `moved`."""
        return calibrate_alike(self.names, moved, mu, (n_votes,), **more)

    def run(
        self,
        release: Any,
        margins: Callable[[np.ndarray], np.ndarray],
        n_votes: int = 1,
        rising: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Release the votes; return the last interval of each bisection.

        `margins` maps places to exact margins. Positive ones are beyond the place that
        is sought, or before it if margins are not `rising`.
        """
        first = np.zeros(n_votes, dtype=int)
        last = np.full(n_votes, 2**self.n_steps)
        for name in self.names:
            middle = (first + last) // 2
            beyond = (release(name, margins(middle)) > 0.0) == rising
            first = np.where(beyond, first, middle)
            last = np.where(beyond, middle, last)
        return first, last


# Pairs that a row is the first of, at least and at most, and numbers in all pairs: more
# of them lower the sampling error, and cost time (doc/tables/pca_centers.rst).
_SHIFTS, _NUMBERS = (2, 8), 1 << 23
# Weight of what is released of a mean over pairs; of one over rows it is 1.
HALF = 0.5


@functools.lru_cache(maxsize=64)
def pair_order(n_samples: int, n_features: int) -> PairOrder:
    """Return the pairs of rows of a table of that shape."""
    wanted = max(_NUMBERS // (n_samples * n_features), _SHIFTS[0])
    shifts = min(wanted, _SHIFTS[1], max(1, (n_samples - 1) // 2))
    return PairOrder(n_samples, n_features, shifts)


@functools.lru_cache(maxsize=64)
def mean_summation_error(
    bound: float, n_samples: int, n_features: int, weights: tuple[float, ...] = (1.0,)
) -> float:
    """Return a bound on the rounding error of a released mean of terms.

    `bound` is on the norm of the mean of absolute terms; `weights` are the possible
    factors of the release: 1 over rows, `HALF` over pairs.
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
