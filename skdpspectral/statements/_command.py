"""``skdpspectral-ledger``, with the checking of statements."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..accounting import PrivacyAccountant
from ..accounting._errors import LedgerError
from ..accounting._ledger import command
from ..mechanisms import PrivacyPlan
from ._facts import UNCONFIRMED, Facts, facts_in, fit_facts, ledger_facts
from ._page import record_in
from ._statement import Statement


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 for good, 1 for faults, 2 for errors."""

    def add_verify(add: Callable[..., argparse.ArgumentParser]) -> None:
        what = "Check a statement against a ledger; exit with 1 if they differ."
        parser = add("verify", _verify, what, before="statement")
        parser.description = f"{what} What no ledger can confirm is named."

    return command.run_command(arguments, (add_verify,))


def _verify(options: argparse.Namespace) -> int:
    with open(options.statement, encoding="utf-8", newline="") as file:
        text = file.read()
    damage = command.faults(options.ledger)[0]
    if damage:
        print(command.plain(f"the ledger is damaged: {damage[0]}"))
        return 1
    ledger = PrivacyAccountant(path=options.ledger)
    try:
        fault, confirmed = _compared(text, facts_in(record_in(text)), ledger)
    except LedgerError:
        raise
    except Exception:  # damage has errors of every type
        fault = (
            "the statement has no record (a registry entry has none), or its record "
            "is damaged"
        )
    print(command.plain(fault or confirmed))
    return 1 if fault else 0


def _compared(text: str, facts: Facts, ledger: PrivacyAccountant) -> tuple[str, str]:
    """Return the first fault, or else what the ledger confirms and what it cannot."""
    more = {name: getattr(facts, name) for name in UNCONFIRMED}
    named = f"what the curator states ({', '.join(facts.stated)})"
    beside = [named] * bool(facts.stated) + ["the versions of the software"]
    if facts.ledger is None:
        (plan,) = facts.read_plans()
        charged = ((e.id, PrivacyPlan.from_json(e.plan)) for e in ledger.ledger)
        found = next((of for of in charged if _is_charged(plan, of[1])), None)
        if found is None:
            return (
                f"the ledger has no entry of {plan.estimator} with epsilon="
                f"{plan.epsilon:g}, delta={plan.delta:g}, these releases and remarks"
            ), ""
        again = fit_facts(plan, facts.n_units, **more)
        said = f"Entry {found[0]} of the ledger confirms the figures."
        beside += ["the number of rows"] * bool(again.n_units)
        if _of_steps(found[1]):
            beside.append("the releases within steps (but epsilon and delta of all)")
        added = [text for text in plan.remarks if text not in found[1].remarks]
        beside += [f"the remark {str(text)!r}" for text in added]
    else:
        n, own = facts.ledger["entries"], len(ledger.ledger)
        if n > own:
            return f"the statement has {n} entries, and the ledger {own}", ""
        again = ledger_facts(ledger, n, **more)
        said = f"Entries 1 to {n} of the ledger confirm the figures."
        said += f" {own - n} came later." if own > n else ""
    made = Statement(again)
    remade = made.to_json() if text.lstrip().startswith("{") else made.to_html()
    if text != remade:
        pairs = enumerate(itertools.zip_longest(text, remade))
        at = next(place for place, (a, b) in pairs if a != b)
        stated, right = (said[max(at - 30, 0) : at + 30] for said in (text, remade))
        line = text.count("\n", 0, at) + 1
        return f"line {line} says {stated!r} where it must say {right!r}", ""
    return "", f"{said} No ledger can confirm: {'; '.join(beside)}."


def _of_steps(charged: PrivacyPlan) -> bool:
    """Return whether a plan has the costs of a pipeline's steps."""
    return any(getattr(m, "lemma", "") == "composition" for m in charged.mechanisms)


def _is_charged(fitted: PrivacyPlan, charged: PrivacyPlan) -> bool:
    """Return whether a plan is the charged one, with further remarks of the fit."""
    blocks, of_charged = (dict(getattr(p, "blocks", ())) for p in (fitted, charged))
    if blocks or of_charged:
        return list(blocks) == list(of_charged) and all(
            map(_is_charged, blocks.values(), of_charged.values())
        )
    if _of_steps(charged) and len(fitted.curves) == len(charged.curves):
        costs = fitted.mu_beside_curves, charged.mu_beside_curves
        if math.isclose(*costs, rel_tol=1e-9):  # shapes of steps came in the fit
            fitted = replace(fitted, mechanisms=charged.mechanisms)
    of_fit, needed = (
        {(str(r), r.concern) for r in p.remarks} for p in (fitted, charged)
    )
    fitted, charged = (replace(p, remarks=()) for p in (fitted, charged))
    return fitted.to_dict() == charged.to_dict() and needed <= of_fit


if __name__ == "__main__":
    sys.exit(main())
