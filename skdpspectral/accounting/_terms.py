"""The terms of a ledger: its budget and relation, fixed when it is made."""

from __future__ import annotations

from typing import Any

from ..mechanisms import Neighbors, Unit
from ._budget import Budget
from ._errors import LedgerError

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
