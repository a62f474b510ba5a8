"""Checks of what an accountant is given.

Where an entry stands among disjoint blocks of a ledger's rows or users.

The terms of a ledger: its budget and relation, fixed when it is made.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...mechanisms import ApproximateDP, Neighbors, PrivacyPlan, Unit
from ...mechanisms._relations import check_real, shown
from .._composition import allowed_mu, at_most
from .._errors import LedgerError
from .._gaussian import gaussian_mu
from .budget import MECHANISMS, Budget

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


# Names of partitions on somebody's word; those that were checked have random names.
_PREFIXES = {Unit.ROW: "asserted: ", Unit.USER: "asserted of users: "}


def new_name() -> str:
    """Return a name that nothing else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class DisjointBlock:
    """A block of a partition; made by the functions of this module alone.

    Parameters
    ----------
    partition : str
        Name of the partition.
    block : str
        Name of the block.
    asserted : bool
        Whether disjointness is only somebody's word.
    unit : Unit or None
        What is in no two blocks of the partition; None for a block without others.
    """

    partition: str
    block: str
    asserted: bool
    unit: Unit | None

    def check_unit(self, protected: Unit) -> None:
        """Refuse blocks that do not divide what the ledger protects.

        Users that lie in one block each divide the rows, too; rows that do leave it
        open in how many blocks a user is.
        """
        if self.unit in (None, Unit.USER, protected):
            return
        remedy = "use a ledger of rows"
        if self.asserted:
            remedy = (
                "if no user has rows in two blocks, say so by "
                'named(..., disjoint_unit="user"); otherwise leave disjoint_within out'
            )
        raise LedgerError(
            f"block {self.block!r}: that no row lies in two blocks says nothing of the "
            f"users that this ledger protects, whose rows may lie in several; {remedy}"
        )


def whole() -> DisjointBlock:
    """Return a part that nothing else is disjoint from."""
    return DisjointBlock(new_name(), "all rows", False, None)


def asserted_block(division: str, block: str, unit: Unit) -> DisjointBlock:
    """Return a block of a division, on the word of whoever names it."""
    return DisjointBlock(_PREFIXES[unit] + division, block, True, unit)


def checked_blocks(names: Iterable[str]) -> dict[str, DisjointBlock]:
    """Return the blocks of a fresh partition whose rows were seen to be disjoint.

    Only what has compared the rows of the blocks itself may call this. Nothing can be
    added to the partition afterwards.
    """
    partition = new_name()
    return {name: DisjointBlock(partition, name, False, Unit.ROW) for name in names}


def division_of(partition: str) -> tuple[Unit, str]:
    """Return what an asserted partition divides, and the name of the division."""
    for unit, prefix in _PREFIXES.items():
        if partition.startswith(prefix):
            return unit, partition.removeprefix(prefix)
    return Unit.ROW, partition


Relation = tuple[Unit, Neighbors]


def terms_of(
    budget: Budget | None, relation: Relation | None, mechanisms: str | None
) -> dict[str, Any]:
    """Return the terms of a ledger as it writes them."""
    unit, neighbors = map(str, relation) if relation else (None, None)
    epsilon, delta = (budget.epsilon, budget.delta) if budget else (None, None)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "unit": unit,
        "neighbors": neighbors,
        "mechanisms": mechanisms,
    }


def agreed_budget(
    path: str,
    meta: dict[str, Any],
    budget: Budget | None,
    relation: Relation | None,
    mechanisms: str | None = None,
) -> Budget | None:
    """Return a ledger's budget; refuse to reopen it under other terms."""
    own = None
    if meta["epsilon"] is not None:
        own = Budget(meta["epsilon"], meta["delta"])
    if budget is not None and budget != own:
        raise LedgerError(
            f"the ledger {path} has the budget {own or 'none'}, not {budget}; open "
            "it without a budget, or start another ledger"
        )
    found = (meta["unit"], meta["neighbors"])
    if relation is not None and tuple(map(str, relation)) != found:
        raise LedgerError(
            f"the ledger {path} is kept per unit={found[0]}, "
            f"neighbors={found[1]}, not per unit={relation[0]}, "
            f"neighbors={relation[1]}; start another ledger for these"
        )
    if mechanisms is not None and meta.get("mechanisms") != mechanisms:
        raise LedgerError(
            f"the budget of the ledger {path} is kept for mechanisms="
            f"{meta.get('mechanisms')!r}, not {mechanisms!r}; start another ledger"
        )
    return own
