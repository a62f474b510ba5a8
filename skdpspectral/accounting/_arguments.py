"""Checks of what an accountant is given."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..mechanisms import ApproximateDP, Neighbors, PrivacyPlan, Unit
from ..mechanisms._numbers import check_real, shown
from ._budget import Budget
from ._composition import allowed_mu
from ._filters import MECHANISMS
from ._gaussian import gaussian_mu
from ._losses import at_most

DEFAULT_DELTA = 1e-6


def check_budget(epsilon: object, delta: object) -> Budget | None:
    """Return a valid budget, or None for none."""
    if epsilon is None:
        if delta is not None:
            raise ValueError("delta needs epsilon: a budget is given by both")
        return None
    delta = DEFAULT_DELTA if delta is None else delta
    if isinstance(epsilon, str):
        raise ValueError(
            f"epsilon of a budget must be a number, got {epsilon!r}; the file of a "
            "ledger is given as path="
        )
    budget = Budget(
        check_real("epsilon of a budget", epsilon),
        check_real("delta of a budget", delta),
    )
    if not 0.0 < budget.epsilon < math.inf:
        raise ValueError(
            "epsilon of a budget must be positive and finite, got "
            f"{budget.epsilon}; leave it None to record without a limit"
        )
    gaussian_mu(budget.epsilon, budget.delta)  # refuses a delta out of range
    return budget


def check_flag(name: str, value: object) -> bool:
    """Return a flag; nothing that merely counts as true may open a budget."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def check_mechanisms(value: object) -> str | None:
    """Return which mechanisms a budget lets in; None where the first entry says it."""
    if value is None or (isinstance(value, str) and value in MECHANISMS):
        return value
    raise ValueError(
        f"mechanisms must be one of {MECHANISMS}, or None for what the first entry is "
        f"of, got {shown(value)}"
    )


def check_relation(
    unit: str | None, neighbors: str | None
) -> tuple[Unit, Neighbors] | None:
    """Return a relation, or None where the first entry fixes it."""
    if (unit is None) != (neighbors is None):
        raise ValueError("unit and neighbors fix a ledger's relation together")
    if unit is None:
        return None
    try:
        return Unit(unit), Neighbors(neighbors)
    except ValueError as error:
        choices = [str(word) for word in (*Unit, *Neighbors)]
        raise ValueError(f"unit or neighbors: {error}; known: {choices}") from None


def check_division(division: str | None, unit: object) -> tuple[str, Unit] | None:
    """Return a division and what it divides; None for none."""
    if division is None:
        if unit is not None:
            raise ValueError("disjoint_unit needs disjoint_within: the division's name")
        return None
    if unit is None:
        return division, Unit.ROW
    if not (isinstance(unit, str) and unit in list(Unit)):
        raise ValueError(f"disjoint_unit must be 'row' or 'user', got {shown(unit)}")
    return division, Unit(unit)


def external_plan(
    epsilon: object, delta: object, what: object, unit: object, neighbors: object
) -> PrivacyPlan:
    """Return the plan of what another tool releases, or an error."""
    if not (isinstance(what, str) and what.strip()):
        raise ValueError(f"what must say what is released, got {shown(what)}")
    for name, word, kind in (("unit", unit, Unit), ("neighbors", neighbors, Neighbors)):
        known = [str(choice) for choice in kind]
        if not (isinstance(word, str) and str(word) in known):
            raise ValueError(f"{name} must be one of {known}, got {shown(word)}")
    pair = ApproximateDP(
        what, check_real("epsilon", epsilon), check_real("delta", delta)
    )
    return PrivacyPlan(
        pair.epsilon,
        pair.delta,
        (pair,),
        what,
        unit=Unit(unit),
        neighbors=Neighbors(neighbors),
    )


def check_plans(plan: object) -> list[PrivacyPlan]:
    """Return one or several plans as a list."""
    plans: list[Any] = [plan]
    if not isinstance(plan, PrivacyPlan) and isinstance(plan, Iterable):
        plans = list(plan)
    if not plans:
        raise ValueError("plan must be one PrivacyPlan or several, got none")
    for entry in plans:
        if not isinstance(entry, PrivacyPlan):
            raise TypeError(
                "plan must be a PrivacyPlan, as privacy_plan(n_samples, n_features) "
                f"gives it, or several; got {shown(entry)}"
            )
        _check_claim(entry)
    return plans


def _check_claim(plan: PrivacyPlan) -> None:
    """Refuse a plan whose mechanisms cost more than its epsilon and delta say."""
    if plan.curves:
        return _check_curves(plan)
    gaussian_mu(plan.epsilon, plan.delta)  # refuses what is out of range
    if plan.mu > allowed_mu(plan.epsilon, plan.delta, plan.failure):
        raise ValueError(
            f"plan claims epsilon={plan.epsilon:g}, delta={plan.delta:g}, but its "
            f"mechanisms cost mu={plan.mu:.6g}; calibrate them to less"
        )


def _check_curves(plan: PrivacyPlan) -> None:
    """Refuse a plan with mechanisms that are no Gaussians, if it claims too little."""
    claim = check_real("epsilon", plan.epsilon)
    if len(plan.mechanisms) == 1 and isinstance(plan.curves[0], ApproximateDP):
        pair = plan.curves[0]
        fits = pair.epsilon <= claim and pair.delta + plan.failure <= plan.delta
    else:
        gaussian_mu(claim, plan.delta)  # refuses what is out of range
        counted = tuple((replace(curve, name=""), 1) for curve in plan.curves)
        left = plan.delta - plan.failure
        fits = at_most(plan.mu_beside_curves, counted, claim, left)
    if not fits:
        raise ValueError(
            f"plan claims epsilon={plan.epsilon:g}, delta={plan.delta:g}, but its "
            "mechanisms cost more; calibrate them to less"
        )
