"""A fixed budget, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..mechanisms import PrivacyPlan
from ._composition import Total, allowed_mu
from ._errors import PrivacyBudgetError
from ._gaussian import gaussian_epsilon

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

    def mu(self, failure: float = 0.0) -> float:
        """Return the limit of costs beside a probability that they do not hold."""
        return allowed_mu(self.epsilon, self.delta, failure)

    def remaining(self, spent: Total, n_fits: int = 1) -> float:
        """Return the epsilon that each of so many more releases may ask for."""
        left = max(self.mu(spent.failure) ** 2 - spent.mu**2, 0.0)
        left = math.sqrt(left / n_fits)
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
                "nothing and counts as an infinite spend; leave noise_seed=None, or, "
                "where the results are never published, open the ledger by "
                "PrivacyAccountant(..., allow_seeded=True)",
                math.inf,
                self.epsilon,
            )

    def refuse_excess(self, what: str, spent: Total, total: Total) -> None:
        """Raise if a total cost exceeds the limit."""
        limit = self.mu(total.failure)
        if limit and total.mu <= limit * (1.0 + _ROUNDING):
            return
        asked = math.sqrt(max(total.mu**2 - spent.mu**2, 0.0))
        requested = gaussian_epsilon(asked, self.delta)
        remaining = self.remaining(spent)
        held = ""
        if total.failure:
            held = (
                f" Of that delta, {total.failure:g} would be for rows beyond what a "
                "model's sensitivities allow for: a smaller delta of such fits takes "
                "less."
            )
        raise PrivacyBudgetError(
            f"{what} asks for epsilon={requested:.6g} at delta={self.delta:g}, but "
            f"only epsilon={remaining:.6g} of the accountant's budget "
            f"epsilon={self.epsilon:g} remains; nothing was charged.{held}",
            requested,
            remaining,
        )
