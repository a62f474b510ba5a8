"""``skdpspectral-ledger``: show, check, back up and verify ledgers."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence

from ..accounting import PrivacyAccountant
from ..accounting._errors import LedgerError
from ..accounting._ledger import costs, store
from ..accounting._ledger.accountant import place_of
from ._statement import UNCONFIRMED, Facts, Statement, facts_in, ledger_facts, record_in


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 for good, 1 for faults, 2 for errors."""
    parser = argparse.ArgumentParser(
        prog="skdpspectral-ledger",
        description="Read, check and back up ledgers of privacy spending.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    place = "file of the ledger, or postgresql://user@host/database"
    for run, what, before, after in (
        (_show, "Print what was spent, and by which entries.", "", ""),
        (_check, "Exit with 1 unless entries are undamaged and add up.", "", ""),
        (_backup, "Copy a ledger while it is in use.", "", "copy"),
        (_verify, "Exit with 1 if a statement differs from a ledger.", "statement", ""),
    ):
        one = commands.add_parser(run.__name__[1:], help=what, description=what)
        if before:
            one.add_argument(before, help="file to read")
        one.add_argument("ledger", help=place)
        if after:
            one.add_argument(after, help="file to make")
        one.set_defaults(run=run)
    options = parser.parse_args(arguments)
    try:
        with store.transaction(place_of(options.ledger), keep=False, damaged=True):
            pass  # an accountant would make one
        return int(options.run(options))
    except (ImportError, LedgerError, OSError, ValueError) as error:
        print(plain(f"skdpspectral-ledger: {error}"), file=sys.stderr)
        return 2


def plain(text: str) -> str:
    """Return text of others for a terminal: one line, without control characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def faults_of(path: str) -> tuple[list[str], int]:
    """Return the faults of a ledger, a sentence each, and its number of entries."""
    with store.transaction(place_of(path), keep=False, damaged=True) as locked:
        locked.check_pages()
        return list(costs.faults(locked)), locked.sums.number


def _show(options: argparse.Namespace) -> int:
    accountant = PrivacyAccountant(path=options.ledger)
    try:
        total = str(accountant)
    except LedgerError as error:  # of kinds that only another release knows
        total = str(error)
    print(plain(total))
    for entry in accountant.ledger:
        print(plain(costs.sentence(entry)))
    return _check(options, quiet=True)


def _check(options: argparse.Namespace, quiet: bool = False) -> int:
    found, number = faults_of(options.ledger)
    for fault in found:
        print(plain(fault), file=sys.stderr if quiet else sys.stdout)
    if not found and not quiet:
        accountant = PrivacyAccountant(path=options.ledger)
        print(plain(f"{number} entries, no fault found. {accountant}"))
    return int(bool(found))


def _backup(options: argparse.Namespace) -> int:
    PrivacyAccountant(path=options.ledger).backup(options.copy)
    return 0


def _verify(options: argparse.Namespace) -> int:
    with open(options.statement, encoding="utf-8", newline="") as file:
        text = file.read()
    damage, _ = faults_of(options.ledger)
    if damage:
        print(plain(f"the ledger is damaged: {damage[0]}"))
        return 1
    ledger = PrivacyAccountant(path=options.ledger)
    try:
        fault, confirmed = _compared(text, facts_in(record_in(text)), ledger)
    except LedgerError:
        raise
    except Exception:  # damage has errors of every type
        fault = "the statement has no record, or its record is damaged"
    print(plain(fault or confirmed))
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
