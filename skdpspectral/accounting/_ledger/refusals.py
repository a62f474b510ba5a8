"""Refusals of charges: what was asked for, and the largest epsilon that would pass."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from ...mechanisms import ApproximateDP, PrivacyPlan, PrivateSelection
from ...mechanisms._planned_releases import Curve
from .._composition import Total
from .._errors import PrivacyBudgetError
from .._gaussian import MIN_DELTA
from .budget import Budget, LedgerTerms, box_of, floored, with_pure
from .filters import Cost, Share, as_float, cost_of

# How close a search for the largest epsilon ends: of Gaussians, and of others, whose
# noise is calibrated as closely.
_CLOSE, _CLOSE_OF_CURVES = 2.0**-40, 2.0**-10
_LEAST_SCALE, _MOST_TRIES = 2.0**-30, 20

_NOTHING, _NO_SLACK = Cost(0.0), Share()


@dataclass(eq=False)
class Excess(Exception):
    """A charge that exceeds the budget, and is rolled back.

    `terms` and `spent` are those before it. Fits of one `plan` cost `cost` each, of
    which there are `n`; no plan if several differ. `slack` is what their block may take
    without any rise of the total, `first` whether they are one charge, and the first.
    """

    what: str
    terms: LedgerTerms
    spent: Total
    total: Total
    plan: PrivacyPlan | None = None
    cost: Cost = _NOTHING
    slack: Share = _NO_SLACK
    n: int = 1
    first: bool = False

    def error(self, budget: Budget) -> PrivacyBudgetError:
        """Return the error that says what was asked for, and what would be let in."""
        if self.plan is None:
            requested, delta = self._rise().epsilon(budget.delta), budget.delta
            remaining = budget.remaining(self.spent, self.terms, 1, self.first)
        else:
            requested, delta = self.plan.epsilon, self.plan.delta
            remaining = self._largest_epsilon(budget, self.plan)
        each = " each" * (self.n > 1)
        message = (
            f"{self.what} would cost epsilon={requested:.6g}{each} at "
            f"delta={delta:g}, but only epsilon={floored(remaining):.6g}{each} at "
            f"that delta remains of the accountant's budget "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g}; nothing was charged."
            f"{self._spent_note(budget)}{self._failures_note(budget, remaining)}"
        )
        return PrivacyBudgetError(message, requested, remaining)

    def _rise(self) -> Total:
        """Return by how much several fits would raise the total."""
        mu = math.sqrt(max(self.total.mu**2 - self.spent.mu**2, 0.0))
        counts = Counter[Curve]()
        for sign, total in ((1, self.total), (-1, self.spent)):
            for curve, n in total.curves:
                counts[curve] += sign * n
        failure = max(self.total.failure - self.spent.failure, 0.0)
        return Total(mu, failure, tuple((+counts).items()))

    def _largest_epsilon(self, budget: Budget, plan: PrivacyPlan) -> float:
        """Return the largest epsilon, at the plan's delta, that would be let in."""
        scale, close = 0.5, _CLOSE_OF_CURVES if plan.curves else _CLOSE
        while not self._lets_in(budget, scaled(self.cost, scale)):
            scale *= 0.5
            if scale < _LEAST_SCALE:
                return 0.0
        high = 2.0 * scale
        while high > scale * (1.0 + close):
            middle = math.sqrt(scale * high)
            if self._lets_in(budget, scaled(self.cost, middle)):
                scale = middle
            else:
                high = middle
        own = cost_of(plan)
        for _ in range(_MOST_TRIES):
            found = _epsilon_of(scaled(own, scale), plan.delta)
            # Six digits of it are named. Bounds by losses are not quite monotone.
            named = scale * floored(found) / found if found else scale
            if self._lets_in(budget, scaled(self.cost, named)):
                return found
            scale *= 1.0 - _CLOSE_OF_CURVES
        return 0.0

    def _lets_in(self, budget: Budget, cost: Cost) -> bool:
        """Whether so many fits of this cost would pass."""
        more = cost.total(self.n)
        total = Total(
            math.hypot(self.spent.mu, more.mu),
            self.spent.failure + more.failure,
            (*self.spent.curves, *more.curves),
        )
        box = box_of(with_pure(self.terms, cost))
        left = zip(box.room(self.spent), self.slack, strict=True)
        taken = box.share_of(cost, Share(*(x + y for x, y in left)), self.n)
        sums = zip(self.spent.box, taken, self.slack, strict=True)
        total = total._replace(box=tuple(x + max(y - z, 0) for x, y, z in sums))
        return box.admits(total) or (self.first and budget.covers(total))

    def _spent_note(self, budget: Budget) -> str:
        """Say what is spent, as what remains is more than the difference."""
        spent = self.spent.epsilon(budget.delta)
        if not 0.0 < spent < math.inf:
            return ""
        return (
            f" At delta={budget.delta:g}, epsilon={spent:.6g} is spent; costs do not "
            "add up linearly."
        )

    def _failures_note(self, budget: Budget, remaining: float) -> str:
        """Say it where failures are over their limit, and no epsilon would pass."""
        box = box_of(with_pure(self.terms, self.cost))
        most, taken = box.failures, as_float(self.total.box[1])
        lower = self.plan is not None and remaining > 0.0
        if taken <= most or lower or not self.total.additive:
            return ""
        used = as_float(self.spent.box[1])
        own, left = taken - used, max(most - used, 0.0)
        beside = Share(*self.total.box)._replace(failure=_NO_SLACK.failure)
        alone = "" if beside.within(box.corner) else " alone"
        message = (
            f" The cause is not epsilon{alone}: failures (a category that one row "
            "alone has, bounds of a model, deltas of other tools) may take "
            f"{most:.3g} of the ledger's delta, {used:.3g} is taken, and this would "
            f"take {own:.3g}."
        )
        smaller = self._smaller_delta(budget, left / own if own else 0.0)
        if smaller:
            message += f" With delta={smaller:.6g} or less it would pass."
        elif budget.remaining(self.spent, self.terms, 1, self.first):
            message += " Fits without failures still pass (public categories=, say)."
        return f"{message} A new ledger's part is PrivacyAccountant(failures=...)."

    def _smaller_delta(self, budget: Budget, share: float) -> float:
        """Return a smaller delta of the plan that would be let in; 0 for none.

        Failures are in proportion to it, and the same epsilon does not cost more.
        """
        if self.plan is None or not self.plan.failure:
            return 0.0
        smaller = floored(self.plan.delta * share * (1.0 - 2.0**-20))
        less = self.cost.failure * smaller / self.plan.delta
        passes = less >= MIN_DELTA and self._lets_in(
            budget, replace(self.cost, failure=less)
        )
        return smaller if passes else 0.0


def _epsilon_of(cost: Cost, delta: float) -> float:
    """Return the epsilon of a fit by itself."""
    if cost.pairs and not cost.mu:
        return math.fsum(n * pair.epsilon for pair, n in cost.pairs)
    return cost.total().epsilon(delta)


def scaled(cost: Cost, scale: float) -> Cost:
    """Return the cost of the same releases with more noise, or less epsilon."""
    curves = tuple((_scaled(curve, scale), n) for curve, n in cost.curves)
    return replace(cost, mu=scale * cost.mu, curves=curves)


def _scaled(curve: Curve, scale: float) -> Curve:
    if isinstance(curve, ApproximateDP):
        return replace(curve, epsilon=scale * curve.epsilon)
    if isinstance(curve, PrivateSelection):
        return replace(curve, run_mu=scale * curve.run_mu)
    return replace(curve, noise_multiplier=curve.noise_multiplier / scale)
