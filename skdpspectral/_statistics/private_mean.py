"""A private mean that rows are measured from, and statistics of rows about it."""

from __future__ import annotations

import math
from typing import Any

from .. import _linalg, sensitivity
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact
from .combination import Combination, Statistic
from .row_bounds import RowBounds
from .terms import pair_order, summation_error

# Shares of mu**2 of a private mean, and of what is made of rows about it.
_SHARES = {"mean": 0.15, "rest": 1.0 - 0.15}


class Mean(Statistic):
    """The private mean of bounded rows.

    Parameters
    ----------
    bounds : RowBounds
        How rows are bounded, with a `mean_radius`.
    n_samples : int
        Public number of rows.
    """

    def __init__(self, bounds: RowBounds, n_samples: int) -> None:
        self.bounds, self.n_samples = bounds, n_samples

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        n, p, radius = self.n_samples, self.bounds.n_features, self.bounds.mean_radius
        if not math.isfinite(mu):
            return (Exact("mean", (p,)),)
        mean = calibrate_gaussian(
            "mean",
            sensitivity.mean_sensitivity(radius, n),
            mu,
            (p,),
            summation_error=summation_error(radius, n, p, False),
            magnitude=2.0 * radius,
        )
        return (mean,)

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the mean of rows, in units of the box, where a mean can be."""
        mean = release("mean", _linalg.blocked_mean(rows, self.bounds.for_mean))
        return self.bounds.project_mean(mean)


class Centered(Combination):
    """A statistic of rows about a private mean, if there is one.

    Parameters
    ----------
    bounds : RowBounds
        How rows are bounded, and whether they are centered.
    n_samples : int
        Public number of rows.
    rest : Statistic
        Its ``run`` is given the mean in units of the box, None without one.
    """

    def __init__(self, bounds: RowBounds, n_samples: int, rest: Statistic) -> None:
        self.bounds, self.rest = bounds, rest
        self.mean = Mean(bounds, n_samples) if bounds.centered else None
        self.paired = None
        if bounds.paired:
            self.paired = pair_order(n_samples, bounds.n_features)
        self._parts, self._shares = {"rest": rest}, {"rest": 1.0}
        if self.mean is not None:
            self._parts, self._shares = {"mean": self.mean, "rest": rest}, _SHARES

    def center(self, release: Any, rows: Any):
        """Release the mean; None without one, the order of the pairs with them."""
        return self.paired if self.mean is None else self.mean.run(release, rows)

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the mean and the rest; return what the rest returns."""
        mean = self.center(release, rows)
        return self.rest.run(release, rows, mean, *given)

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what rows are measured from."""
        return self.bounds.remarks()
