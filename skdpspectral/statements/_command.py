"""``skdpspectral-ledger``, with the checking of statements."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence

from ..accounting import PrivacyAccountant
from ..accounting._errors import LedgerError
from ..accounting._ledger import command
from ._facts import UNCONFIRMED, Facts, facts_in, ledger_facts
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
    if facts.ledger is None:
        return "the statement is of one fit: ask for the statement of its ledger", ""
    n, own = facts.ledger["entries"], len(ledger.ledger)
    if n > own:
        return f"the statement has {n} entries, and the ledger {own}", ""
    more = {name: getattr(facts, name) for name in UNCONFIRMED}
    made = Statement(ledger_facts(ledger, n, **more))
    remade = made.to_json() if text.lstrip().startswith("{") else made.to_html()
    if text != remade:
        pairs = enumerate(itertools.zip_longest(text, remade))
        at = next(place for place, (a, b) in pairs if a != b)
        stated, right = (said[max(at - 30, 0) : at + 30] for said in (text, remade))
        line = text.count("\n", 0, at) + 1
        return f"line {line} says {stated!r} where it must say {right!r}", ""
    said = f"Entries 1 to {n} of the ledger confirm the figures."
    said += f" {own - n} came later." if own > n else ""
    named = f"what the curator states ({', '.join(facts.stated)})"
    beside = [named] * bool(facts.stated) + ["the versions of the software"]
    return "", f"{said} No ledger can confirm: {'; '.join(beside)}."


if __name__ == "__main__":
    sys.exit(main())
