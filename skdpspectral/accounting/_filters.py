r"""Which charges a budget lets in, so that it holds whatever they are chosen by.

Of Gaussian mechanisms the limit is exact: a largest ``mu``. Other mechanisms have no
common number to add up, and no filter that lets in all that would be affordable. What
takes them sets delta aside beforehand, in fixed shares: one for probabilities that add
up, one for ledgers that are still Gaussian, and one for each of a few orders of Renyi
divergences, within which the divergences of all entries must stay at one order at least
(:ref:`lemma-filter`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ._coarse import few_kinds
from ._composition import Total, allowed_mu
from ._gaussian import MIN_DELTA, gaussian_mu
from ._renyi import composed_divergences, log_peaks

# What a budget may let in, as a ledger's terms say it.
GAUSSIAN, ANY = "gaussian", "any"
MECHANISMS = (GAUSSIAN, ANY)

# A budget that was computed from the costs it is meant for must let them in: this
# covers the rounding of the two inverses, and no more than calibration leaves free.
_ROUNDING = 2.0**-41
# Shares of delta. They are fixed: a share that went by what was entered so far would
# go by what was released.
_ADDITIVE_SHARE = 0.5
_GAUSSIAN_SHARE = 0.25
_ORDERS_SHARE = 0.25
# Orders, in multiples of the one that is best for a single Gaussian mechanism: those of
# selections and of what is subsampled are further up.
_MULTIPLES = tuple(2.0 ** (k / 2.0) for k in range(-2, 6))
_LARGEST_ORDER = 4096.0


class Filter(Protocol):
    """What a budget lets in."""

    def admits(self, total: Total) -> bool:
        """Whether a ledger that holds this is within the budget."""

    def spare_mu(self, total: Total) -> float:
        """Return the cost of the Gaussian mechanisms that would still be let in."""


@dataclass(frozen=True)
class GaussianFilter:
    """The exact limit of Gaussian mechanisms, adaptively chosen ones too.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    """

    epsilon: float
    delta: float

    def limit(self, total: Total) -> float:
        """Return the largest cost beside a probability of failure; 0 for none."""
        return allowed_mu(self.epsilon, self.delta, total.failure)

    def admits(self, total: Total) -> bool:
        """Whether a ledger that holds this is within the budget."""
        limit = self.limit(total)
        within = total.mu <= limit * (1.0 + _ROUNDING)
        return bool(limit) and within and not total.curves

    def spare_mu(self, total: Total) -> float:
        """Return the cost of the Gaussian mechanisms that would still be let in."""
        if total.curves:
            return 0.0
        return math.sqrt(max(self.limit(total) ** 2 - total.mu**2, 0.0))


@dataclass(frozen=True)
class MixedFilter:
    """Limits of mechanisms of any kind, adaptively chosen ones too.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    """

    epsilon: float
    delta: float

    def admits(self, total: Total) -> bool:
        """Whether a ledger that holds this is within the budget."""
        return self._failures_fit(total) and any(
            total.mu <= limit * (1.0 + _ROUNDING) for limit in self._limits(total)
        )

    def spare_mu(self, total: Total) -> float:
        """Return the cost of the Gaussian mechanisms that would still be let in."""
        if not self._failures_fit(total):
            return 0.0
        squares = (limit**2 - total.mu**2 for limit in self._limits(total))
        return math.sqrt(max([0.0, *squares]))

    def _failures_fit(self, total: Total) -> bool:
        return total.additive <= _ADDITIVE_SHARE * self.delta * (1.0 + _ROUNDING)

    def _limits(self, total: Total) -> Iterator[float]:
        """Yield what all Gaussians may cost beside the others, by each way to stay."""
        share = _GAUSSIAN_SHARE * self.delta
        if not total.curves and share >= MIN_DELTA:
            yield gaussian_mu(self.epsilon, share)
        orders = self.orders()
        spent = composed_divergences(0.0, few_kinds(total.curves), orders)
        squares = 2.0 * (self.limits() - spent) / orders
        yield from np.sqrt(squares[squares >= 0.0]).tolist()

    def orders(self) -> npt.NDArray[np.float64]:
        """Return the orders that are watched, which the budget fixes."""
        nats = math.log(len(_MULTIPLES) / (_ORDERS_SHARE * self.delta))
        root = math.sqrt(nats)
        best = root / (math.sqrt(nats + self.epsilon) - root)
        excess = np.minimum(np.multiply(_MULTIPLES, best), _LARGEST_ORDER)
        # Whole orders are finite sums for what is subsampled.
        return 1.0 + np.where(excess >= 4.0, np.rint(excess), excess)

    def limits(self) -> npt.NDArray[np.float64]:
        """Return the divergence of each order that its share of delta allows for."""
        orders = self.orders()
        share = math.log(_ORDERS_SHARE * self.delta / len(orders))
        return self.epsilon + (share - log_peaks(orders)) / (orders - 1.0)
