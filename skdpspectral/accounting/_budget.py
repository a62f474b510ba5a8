"""A fixed budget, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..mechanisms import PrivacyPlan
from ._composition import Total
from ._errors import LedgerError, PrivacyBudgetError
from ._filters import _ROUNDING, ANY, Filter, GaussianFilter, MixedFilter
from ._gaussian import gaussian_epsilon


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

    def filter(self, mechanisms: str | None) -> Filter:
        """Return what decides on charges, by which mechanisms may be among them."""
        kind = MixedFilter if mechanisms == ANY else GaussianFilter
        return kind(self.epsilon, self.delta)

    def remaining(
        self, spent: Total, mechanisms: str | None = None, n_fits: int = 1
    ) -> float:
        """Return the epsilon that each of so many more releases may ask for."""
        if mechanisms == ANY and spent == Total(0.0) and n_fits == 1:
            return self.epsilon  # the first entry may be all of it
        spare = self.filter(mechanisms).spare_mu(spent)
        return gaussian_epsilon(spare / math.sqrt(n_fits), self.delta)

    def refuse_unlimited(self, plan: PrivacyPlan, allow_seeded: bool) -> None:
        """Raise if a plan has no finite cost, or none that is secret."""
        if not plan.noisy:
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

    def refuse_kinds(self, plans: Sequence[PrivacyPlan], mechanisms: str) -> None:
        """Raise if a budget of Gaussians alone is asked for anything else."""
        other = next((plan for plan in plans if plan.curves), None)
        if other is None or mechanisms == ANY:
            return
        raise LedgerError(
            f"{other.estimator} is no Gaussian mechanism, and this ledger's budget is "
            "kept for these alone, by a limit that is exact: what may be chosen by "
            "earlier results cannot change it any more. Open a ledger by "
            'PrivacyAccountant(..., mechanisms="any") before the first fit, which sets '
            "some of delta aside for others; nothing was charged"
        )

    def refuse_excess(
        self,
        what: str,
        plans: Sequence[PrivacyPlan],
        spent: Total,
        total: Total,
        mechanisms: str | None,
    ) -> None:
        """Raise if a total cost exceeds the limit.

        The first entry is chosen by nothing that was released: its own guarantee
        may be all of the budget.
        """
        if self.filter(mechanisms).admits(total):
            return
        if mechanisms == ANY and spent == Total(0.0) and self._is_whole(plans, total):
            return
        remaining = self.remaining(spent, mechanisms)
        requested = self._requested(plans, spent, total)
        asked = "more than is left"
        if requested is not None:
            asked = f"epsilon={requested:.6g} at delta={self.delta:g}"
        raise PrivacyBudgetError(
            f"{what} asks for {asked}, but only epsilon={remaining:.6g} of the "
            f"accountant's budget epsilon={self.epsilon:g} remains"
            f"{' for a Gaussian fit' * (mechanisms == ANY)}; nothing was charged."
            f"{_held(total)}",
            requested,
            remaining,
        )

    def _is_whole(self, plans: Sequence[PrivacyPlan], total: Total) -> bool:
        """Whether a single plan is within the budget by what it claims itself.

        Its claim is for its own unit and neighbors: a ledger of others that it is
        restated for counts it for more than it costs itself.
        """
        if len(plans) != 1:
            return False
        (plan,) = plans
        as_claimed = total.mu <= plan.mu_beside_curves * (1.0 + _ROUNDING)
        within = plan.epsilon <= self.epsilon and plan.delta <= self.delta
        return as_claimed and within

    def _requested(
        self, plans: Sequence[PrivacyPlan], spent: Total, total: Total
    ) -> float | None:
        """Return the epsilon that is asked for, where it is of one plan or Gaussian."""
        if not any(plan.curves for plan in plans):
            asked = math.sqrt(max(total.mu**2 - spent.mu**2, 0.0))
            return gaussian_epsilon(asked, self.delta)
        return plans[0].epsilon if len(plans) == 1 else None


def _held(total: Total) -> str:
    """Say what else came out of delta."""
    if not total.additive:
        return ""
    return (
        f" Of that delta, {total.additive:g} would be for rows beyond what a model's "
        "sensitivities allow for, or for the delta of other tools: a smaller delta of "
        "such fits takes less."
    )
