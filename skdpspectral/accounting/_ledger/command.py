"""``skdpspectral-ledger``: show, check, export and back up a ledger."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from .._errors import LedgerError
from . import report, store
from .accountant import PrivacyAccountant, place_of


def run_command(
    arguments: Sequence[str] | None = None,
    more: Sequence[Callable[[Callable[..., argparse.ArgumentParser]], None]] = (),
) -> int:
    """Run the command; return its exit code: 0 for good, 1 for faults, 2 for errors.

    Each of `more` is given what adds a command, and adds one of another folder.
    """
    parser = argparse.ArgumentParser(
        prog="skdpspectral-ledger",
        description="Read, check, export and back up ledgers of privacy spending.",
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(
        name: str, run: object, what: str, before: str | None = None
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=what, description=what)
        if before is not None:
            added.add_argument(before, help="file to read")
        place = "file of the ledger, or postgresql://user@host/database"
        added.add_argument("ledger", help=place)
        added.set_defaults(run=run)
        return added

    command("show", _show, "Print what was spent, and by which entries.")
    command("check", _check, "Exit with 1 unless entries are undamaged and add up.")
    command("export", _export, "Write all entries as lines of JSON.")
    backup = command("backup", _backup, "Copy a ledger while it is in use.")
    backup.add_argument("copy", help="file to make")
    for add in more:
        add(command)
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


def _show(options: argparse.Namespace) -> int:
    accountant = PrivacyAccountant(path=options.ledger)
    print(plain(str(accountant)))
    for entry in accountant.ledger:
        print(plain(report.sentence(entry)))
    return _check(options, quiet=True)


def _check(options: argparse.Namespace, quiet: bool = False) -> int:
    found, number = faults(options.ledger)
    for fault in found:
        print(plain(fault), file=sys.stderr if quiet else sys.stdout)
    if not found and not quiet:
        accountant = PrivacyAccountant(path=options.ledger)
        print(plain(f"{number} entries, no fault found. {accountant}"))
    return int(bool(found))


def faults(path: str) -> tuple[list[str], int]:
    """Return the faults of a ledger, a sentence each, and its number of entries."""
    with store.transaction(place_of(path), keep=False, damaged=True) as locked:
        locked.check_pages()
        return list(report.faults(locked)), locked.sums.head[0]


def _export(options: argparse.Namespace) -> int:
    print(PrivacyAccountant(path=options.ledger).export(), end="")
    return _check(options, quiet=True)


def _backup(options: argparse.Namespace) -> int:
    PrivacyAccountant(path=options.ledger).backup(options.copy)
    return 0
