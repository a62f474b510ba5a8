"""A fixed budget, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..mechanisms import PrivacyPlan
from ._errors import PrivacyBudgetError
from ._gaussian import gaussian_epsilon, gaussian_mu

# A budget that was computed from the costs it is meant for must let them in: this
# covers the rounding of the two inverses, and no more than calibration leaves free.
_ROUNDING = 2.0**-41


@dataclass(frozen=True)
class Budget:
    """A limit on the total cost.

    Parameters
    ----------
    epsilon, delta : float
        The limit.
    """

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon}, delta={self.delta}"

    @property
    def mu(self) -> float:
        """The limit in Gaussian differential privacy."""
        return gaussian_mu(self.epsilon, self.delta)

    def remaining(self, spent: float) -> float:
        """Return the epsilon that one more release may ask for."""
        left = math.sqrt(max(self.mu**2 - spent**2, 0.0))
        return gaussian_epsilon(left, self.delta)

    def refuse_unlimited(self, plan: PrivacyPlan, allow_seeded: bool) -> None:
        """Raise if a plan has no finite cost, or none that is secret."""
        if not math.isfinite(plan.mu):
            raise PrivacyBudgetError(
                f"{plan.estimator} with epsilon=None spends without limit, but this "
                "accountant has a budget; give epsilon a number",
                math.inf,
                self.epsilon,
            )
        if plan.seeded and not allow_seeded:
            raise PrivacyBudgetError(
                f"{plan.estimator} draws its noise from noise_seed, which protects "
                "nothing and counts as an infinite spend; leave noise_seed=None, or "
                "set allow_seeded=True where the results are never published",
                math.inf,
                self.epsilon,
            )

    def refuse_excess(self, what: str, spent: float, total: float) -> None:
        """Raise if a total cost exceeds the limit."""
        if total <= self.mu * (1.0 + _ROUNDING):
            return
        asked = math.sqrt(max(total**2 - spent**2, 0.0))
        requested = gaussian_epsilon(asked, self.delta)
        remaining = self.remaining(spent)
        raise PrivacyBudgetError(
            f"{what} asks for epsilon={requested:.6g} at delta={self.delta:g}, but "
            f"only epsilon={remaining:.6g} of the accountant's budget "
            f"epsilon={self.epsilon:g} remains; nothing was charged",
            requested,
            remaining,
        )
