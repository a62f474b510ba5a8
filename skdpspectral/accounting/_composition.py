"""Composition of what a ledger holds, and conversion between relations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..mechanisms import Neighbors, Unit
from ._coarse import Counted
from ._gaussian import MIN_DELTA, gaussian_delta, gaussian_epsilon, gaussian_mu
from ._losses import certain_failure, composed_delta, composed_epsilon

_ROW, _USER = Unit.ROW, Unit.USER
_REPLACE = Neighbors.REPLACE_ONE
_ADD = Neighbors.ADD_REMOVE_ONE
_ZERO = Neighbors.ZERO_OUT_ONE

# (from) -> (to): a change of the second kind is a chain of so many of the first.
_CHAIN = {
    (_ROW, _ADD, _ROW, _REPLACE): 2.0,
    (_ROW, _ZERO, _ROW, _REPLACE): 2.0,
    (_USER, _ADD, _USER, _REPLACE): 2.0,
    (_USER, _ZERO, _USER, _REPLACE): 2.0,
    (_USER, _REPLACE, _ROW, _REPLACE): 1.0,
    (_USER, _ADD, _ROW, _REPLACE): 2.0,
    (_USER, _ZERO, _ROW, _REPLACE): 2.0,
    (_USER, _ADD, _ROW, _ADD): 2.0,
}


class Total(NamedTuple):
    """A cost, and the probability that data of a model are not covered by it.

    The guarantee is that of the Gaussian mechanism with `mu`, exactly, and of the
    mechanisms in `curves`, each so many times, at what `failure` leaves of delta.
    """

    mu: float
    failure: float = 0.0
    curves: Counted = ()

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at this delta."""
        least = gaussian_epsilon(self.mu, delta)  # refuses a delta out of range
        if not self.failure and not self.curves:
            return least
        left = delta - self.failure
        if left < MIN_DELTA:
            return math.inf
        if self.curves:
            return composed_epsilon(self.mu, self.curves, left)
        return gaussian_epsilon(self.mu, left)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon."""
        least = gaussian_delta(self.mu, epsilon)  # refuses a wrong epsilon
        if self.curves:
            least = composed_delta(self.mu, self.curves, epsilon)
        return min(1.0, least + self.failure)

    @property
    def additive(self) -> float:
        """Everything that comes out of delta by itself, and adds up."""
        return self.failure + certain_failure(self.curves)


def allowed_mu(epsilon: float, delta: float, failure: float = 0.0) -> float:
    """Return the largest cost beside a probability of failure; 0 if there is none."""
    left = delta - failure
    return gaussian_mu(epsilon, left) if left >= MIN_DELTA else 0.0


def compose_mu(mus: Iterable[float]) -> float:
    r"""Cost of adaptively composed Gaussian mechanisms, :math:`\sqrt{\sum \mu_i^2}`.

    Parameters
    ----------
    mus : iterable of float
        Costs, each at least 0.

    Returns
    -------
    float
        The exact total; 0 for none.

    References
    ----------
    Dong, Roth and Su (2022), corollary 3.3.
    """
    return math.hypot(*mus)


def split_mu(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    r"""Split a budget by shares of :math:`\mu^2`: :math:`\mu_i = \mu \sqrt{w_i}`.

    Parameters
    ----------
    mu : float
        Total cost.
    shares : sequence of float
        Positive shares with sum 1.

    Returns
    -------
    tuple of float
        Costs that compose to `mu`.
    """
    if min(shares) <= 0.0 or abs(math.fsum(shares) - 1.0) > 1e-12:
        raise ValueError(f"shares must be positive and sum to 1, got {shares}")
    return tuple(mu * math.sqrt(share) for share in shares)


def parallel_mu(partitions: Mapping[str, Mapping[str, Iterable[float]]]) -> float:
    """Cost of releases on disjoint blocks of rows, over several partitions.

    A row lies in one block of a partition, so that a partition costs what its
    dearest block costs; partitions compose one after another.

    Parameters
    ----------
    partitions : mapping of str to mapping of str to iterable of float
        ``{partition: {block: costs}}``.

    Returns
    -------
    float
        The total cost for any row.
    """
    return compose_mu(
        max((compose_mu(costs) for costs in blocks.values()), default=0.0)
        for blocks in partitions.values()
    )


def relation_factor(
    unit: Unit, neighbors: Neighbors, to_unit: Unit, to_neighbors: Neighbors
) -> float | None:
    """Factor by which mu grows when a guarantee is restated for another relation.

    Parameters
    ----------
    unit, neighbors : Unit, Neighbors
        The relation of the guarantee.
    to_unit, to_neighbors : Unit, Neighbors
        The relation to restate it for.

    Returns
    -------
    float or None
        1 for the same relation, otherwise the length of a chain of neighbors;
        None where the one guarantee does not imply the other.
    """
    if (unit, neighbors) == (to_unit, to_neighbors):
        return 1.0
    key = Unit(unit), Neighbors(neighbors), Unit(to_unit), Neighbors(to_neighbors)
    return _CHAIN.get(key)
