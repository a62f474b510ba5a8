"""A ledger as lines of JSON, for whoever audits it: one an entry, with a sentence."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..mechanisms import read_plan
from ._curve_form import curve_text
from ._entries import LedgerEntry
from ._summary import Spent, Summary


def exported(summary: Summary, ledger_id: str) -> str:
    """Return the lines: the ledger as a whole first, then its entries, oldest first."""
    lines = [_whole(summary, ledger_id), *map(_line, summary.entries)]
    return "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines)


def _whole(summary: Summary, ledger_id: str) -> dict[str, Any]:
    unit, neighbors = map(str, summary.relation) if summary.relation else (None, None)
    budget = summary.budget
    return {
        "ledger": ledger_id,
        "unit": unit,
        "neighbors": neighbors,
        "entries": len(summary.entries),
        "spent": _pair(summary.spent),
        "budget": budget and _pair(Spent(budget.epsilon, budget.delta)),
        "statement": str(summary),
    }


def _pair(cost: Spent) -> dict[str, float | None]:
    return {"epsilon": _finite(cost.epsilon), "delta": cost.delta}


def _finite(number: float) -> float | None:
    """Return a number, None for infinity: JSON has none."""
    return number if math.isfinite(number) else None


def _line(entry: LedgerEntry) -> dict[str, Any]:
    line = entry._asdict()
    plan = line.pop("plan")
    line["time"] = entry.time.isoformat()
    for field in ("unit", "neighbors", "assumption"):
        line[field] = str(line[field])
    for field in ("epsilon", "mu", "ledger_mu"):
        line[field] = _finite(line[field])
    line["mechanisms"] = json.loads(plan)["mechanisms"]
    line["statement"] = sentence(entry)
    return line


def sentence(entry: LedgerEntry) -> str:
    """Return what an entry says, in words."""
    when = format(entry.time, "%Y-%m-%d %H:%M:%S")
    labeled = "" if entry.label is None else f" for {entry.label!r}"
    words = f"Entry {entry.id}, charged {when} UTC{labeled}: {read_plan(entry.plan)}"
    if entry.asserted:
        words += f" Somebody asserted that block {entry.block!r} shares no rows."
    return words


def faults(
    entries: tuple[LedgerEntry, ...], curve_rows: Iterable[tuple[int, str, int]]
) -> Iterator[str]:
    """Yield what is wrong with entries: what they say against what they plan."""
    counted: dict[int, Counter[str]] = {}
    for number, text, times in curve_rows:
        counted.setdefault(number, Counter())[text] += times
    for entry in entries:
        try:
            plan = read_plan(entry.plan)
        except (KeyError, TypeError, ValueError) as error:
            yield f"entry {entry.id}: its plan can't be read ({error})"
            continue
        stated = {
            "estimator": plan.estimator,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "mu": plan.mu,
            "unit": plan.unit,
            "neighbors": plan.neighbors,
            "assumption": plan.assumption,
            "seeded": plan.seeded,
        }
        for field, value in stated.items():
            found = getattr(entry, field)
            if found != value:
                yield f"entry {entry.id}: {field} is {found}, its plan says {value}"
        if entry.ledger_mu < plan.mu_beside_curves * (1.0 - 2.0**-40):
            yield f"entry {entry.id}: it counts for less than its plan costs"
        if counted.pop(entry.id, Counter()) != Counter(map(curve_text, plan.curves)):
            yield f"entry {entry.id}: mechanisms of its plan are not counted as planned"
        if entry.failure < plan.failure:
            yield f"entry {entry.id}: its probability of failure counts for less"
    for number in counted:
        yield f"entry {number} is lost: of it, mechanisms alone are left"
