"""The terms of a ledger: its budget and relation, fixed when it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..mechanisms import Neighbors, Unit
from ._budget import Budget
from ._errors import LedgerError
from ._ledger_schema import create

Relation = tuple[Unit, Neighbors]


def create_ledger(file: Path, budget: Budget | None, relation: Relation | None) -> None:
    """Make a ledger of these terms, unless there is one."""
    if not file.parent.is_dir():
        raise LedgerError(f"path: the folder {file.parent} does not exist; make it")
    unit, neighbors = map(str, relation) if relation else (None, None)
    epsilon, delta = (budget.epsilon, budget.delta) if budget else (None, None)
    meta = {"epsilon": epsilon, "delta": delta, "unit": unit, "neighbors": neighbors}
    create(file, meta)


def agreed_budget(
    path: str, meta: dict[str, Any], budget: Budget | None, relation: Relation | None
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
    return own
