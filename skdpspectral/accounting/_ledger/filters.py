r"""Filters: which charges a budget lets in, whatever earlier releases they go by.

A ledger fixes a *box* before anything is released: D for probabilities of failure, E
for epsilons of pure differential privacy, and the largest M with

.. math:: D + (1 - D)\, \delta_M(\epsilon - E) \le \delta.

Each entry takes a squared mu, a failure and an epsilon, and is let in while each of the
three sums stays within the box (:ref:`lemma-box-filter`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ...mechanisms import (
    ApproximateDP,
    Neighbors,
    PrivacyPlan,
    PrivateSelection,
    Unit,
)
from ...mechanisms._planned_releases import Curve
from .._composition import Total, relation_factor
from .._curves import Counted
from .._errors import LedgerError
from .._gaussian import MIN_DELTA, gaussian_mu
from .._least_mu import least_mu, pure_mu

# Sums have no rounding errors, and no order. A float is infinity.
Exact: TypeAlias = Fraction | float

# A budget that was computed from the costs it is meant for must let them in: this
# covers the rounding of the two inverses, and no more than calibration leaves free.
BUDGET_ROUNDING = 2.0**-41

# Of delta, for failures, where nothing else is asked for. It costs Gaussian mechanisms
# .4 to .5 % of mu.
FAILURES_SHARE = 0.1

# Of the search for d: how close it ends, and how long it may take.
_CLOSE, _MOST_STEPS = 1.0 + 2.0**-24, 40
_FALL = 2.0**-8


def exact(number: float) -> Exact:
    """Return a float as a fraction; infinity as it is."""
    return number if number == math.inf else Fraction(number)


def as_float(number: Exact) -> float:
    """Return the nearest number; infinity beyond the largest one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


class Share(NamedTuple):
    """What entries take of a box: squared mu, probability of failure, pure epsilon."""

    cost: Exact = Fraction(0)
    failure: Exact = Fraction(0)
    pure: Exact = Fraction(0)

    def within(self, box: Share) -> bool:
        """Whether none is larger than that of a box."""
        return all(own <= most for own, most in zip(self, box, strict=True))


@dataclass(frozen=True)
class Cost:
    """What one fit costs in the terms of a ledger's unit and relation.

    `mu` is that of all Gaussian mechanisms, `curves` are all others.
    """

    mu: float
    curves: Counted = ()
    failure: float = 0.0

    @property
    def pairs(self) -> tuple[tuple[ApproximateDP, int], ...] | None:
        """What is no Gaussian, if that is (epsilon, delta) pairs alone."""
        found = [(c, n) for c, n in self.curves if isinstance(c, ApproximateDP)]
        return tuple(found) if len(found) == len(self.curves) else None

    def pure_epsilon(self, most: float) -> float:
        """Return the sum of the epsilons of pairs, if it is at most so large; else 0.

        Rounded up.
        """
        sum_of = math.fsum(n * pair.epsilon for pair, n in self.pairs or ())
        epsilon = math.nextafter(sum_of, math.inf) if len(self.curves) > 1 else sum_of
        return epsilon if epsilon <= most else 0.0

    def total(self, n: int = 1) -> Total:
        """Return what so many fits come to."""
        curves = tuple((curve, n * times) for curve, times in self.curves)
        failure = min(n * self.failure, 1.0)
        return Total(math.sqrt(n) * self.mu, failure, curves)


# -- costs for the unit and relation of a ledger ---------------------------------------

# A change of the ledger's kind may be a chain of two of the plan's. Then mu doubles, an
# (epsilon, delta) pair becomes one of twice the epsilon, each run of a selection costs
# twice its mu, and steps on samples have a curve of their own for a replaced unit.


def cost_of(plan: PrivacyPlan, relation: tuple[Unit, Neighbors] | None = None) -> Cost:
    """Return what a plan costs for a ledger's relation, or an error; None: its own."""
    factor = 1.0 if relation is None else conversion_factor(plan, relation)
    curves = Counter(replace(restated(c, factor), name="") for c in plan.curves)
    return Cost(factor * plan.mu_beside_curves, tuple(curves.items()), plan.failure)


def conversion_factor(plan: PrivacyPlan, relation: tuple[Unit, Neighbors]) -> float:
    """Factor by which the mu of a plan grows for a ledger's relation, or an error."""
    factor = relation_factor(plan.unit, plan.neighbors, *relation)
    if factor is None:
        raise LedgerError(
            f"this ledger protects per {relation[0]} under {relation[1]}, which a "
            f"guarantee per {plan.unit} under {plan.neighbors} does not imply; use a "
            "separate ledger"
        )
    if factor != 1.0 and plan.failure:
        raise LedgerError(
            f"the guarantee of {plan.estimator} under its model cannot be converted "
            f"to one per {relation[0]} under {relation[1]}; use a separate ledger"
        )
    return factor


def restated(curve: Curve, factor: float) -> Curve:
    r"""Return a mechanism's guarantee for a chain of so many of its changes, 1 or 2.

    :math:`(2 \epsilon, (1 + e^\epsilon) \delta)` for a pair.
    """
    if factor == 1.0:
        return curve
    if isinstance(curve, ApproximateDP):
        grown = math.exp(min(curve.epsilon, 700.0))
        delta = min((1.0 + grown) * curve.delta * (1.0 + 2.0**-40), _MOST_DELTA)
        return replace(curve, epsilon=factor * curve.epsilon, delta=delta)
    if isinstance(curve, PrivateSelection):
        return replace(curve, run_mu=factor * curve.run_mu)
    return replace(curve, replaced=True)


_MOST_DELTA = math.nextafter(1.0, 0.0)


def with_restatement(
    plan: PrivacyPlan, relation: tuple[Unit, Neighbors]
) -> PrivacyPlan:
    """Return a plan that says as what a ledger counts its pairs and curves."""
    factor = conversion_factor(plan, relation)
    if factor == 1.0 or not plan.curves:
        return plan
    curves = (restated(curve, factor) for curve in plan.curves)
    counted = " and ".join(f"{curve.name!r}: {curve.notes()}" for curve in curves)
    remark = f"For this ledger, per {relation[0]} under {relation[1]}, it is {counted}."
    return replace(plan, remarks=(*plan.remarks, remark))


# -- filters ---------------------------------------------------------------------------


@dataclass(frozen=True)
class BoxFilter:
    """Limits of three sums, for mechanisms of any kind, adaptively chosen ones too.

    `failures` is D, `pure` is E.
    """

    epsilon: float
    delta: float
    failures: float = 0.0
    pure: float = 0.0

    @property
    def limit(self) -> float:
        """The largest mu, M; 0 if there is none."""
        left = (self.delta - self.failures) / (1.0 - self.failures)
        if self.failures > self.delta or self.pure > self.epsilon or left < MIN_DELTA:
            return 0.0
        return gaussian_mu(self.epsilon - self.pure, left)

    @property
    def corner(self) -> Share:
        """The largest sums."""
        most = Fraction(self.limit * (1.0 + BUDGET_ROUNDING))
        return Share(most**2, Fraction(self.failures), Fraction(self.pure))

    def admits(self, total: Total) -> bool:
        """Whether a ledger that holds this is within the budget."""
        return bool(self.limit) and Share(*total.box).within(self.corner)

    def room(self, total: Total) -> Share:
        """Return what entries may take yet; nothing where one sum is over its limit."""
        left = [most - x for most, x in zip(self.corner, total.box, strict=True)]
        return Share(*left) if min(left) >= 0 else Share()

    def spare_mu(self, total: Total) -> float:
        """Return the cost of the Gaussian mechanisms that would still be let in."""
        return math.sqrt(as_float(self.room(total).cost))

    def share_of(self, cost: Cost, room: Share, n: int = 1) -> Share:
        """Return what fits take of which `room` is left, one after another.

        Their d, where that may be chosen, is the part of the failures left that m**2
        is of the cost left: so k equal fits that take all take D / k each, and what
        is cheap takes little of either.
        """
        own = Fraction(cost.failure)
        if cost.pairs is None:
            left = as_float(room.cost), as_float(room.failure - own)
            m, d = _balanced(cost, *left)
            return Share(n * exact(m) ** 2, n * (own + Fraction(d)))
        deltas = sum((k * Fraction(p.delta) for p, k in cost.pairs), Fraction(0))
        pure = sum((k * Fraction(p.epsilon) for p, k in cost.pairs), Fraction(0))
        within = min(n, room.pure // pure) if pure else 0
        m = math.hypot(
            cost.mu, *(math.sqrt(k) * pure_mu(p.epsilon) for p, k in cost.pairs)
        )
        squares = within * exact(cost.mu) ** 2 + (n - within) * exact(m) ** 2
        return Share(squares, n * (own + deltas), within * pure)


def _balanced(cost: Cost, left: float, failures: float) -> tuple[float, float]:
    """Return (m, d) with m**2 / left at most, and close to, d / failures.

    All of the failures, where even these are not enough; none, where they are no help.
    """

    def found(d: float) -> tuple[float, float]:
        """Return m at d, and the d that its m would be right for, which falls in d."""
        m = least_mu(cost.mu, cost.curves, d)
        return m, failures * (m * m / left)

    without = least_mu(cost.mu, cost.curves, 0.0)
    if not (left > 0.0 and failures > 0.0):
        return without, 0.0
    high = math.nextafter(failures, 0.0)  # its conversion to a float may have gone up
    m, low = found(high)
    for _ in range(_MOST_STEPS if low <= high else 0):
        if high <= low * _CLOSE:
            break
        # A fit that is below all of d costs nothing at it: there may be a lot too much.
        middle = min(found(low)[1], math.sqrt(low * high)) if low else high * _FALL
        m_middle, right = found(middle)
        if right <= middle:
            m, high, low = m_middle, middle, max(low, right)
        else:
            low = middle
    return (without, 0.0) if without <= m else (m, high)
