"""``skdpspectral-ledger``: what a ledger says, on the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .._errors import LedgerError
from .accountant import PrivacyAccountant
from .entries import sentence
from .inspection import faults
from .server import existing_ledger, is_address, ledger_at

_GOOD, _BAD, _UNUSABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 for good, 1 for faults, 2 for errors."""
    options = _parser().parse_args(arguments)
    try:
        existing_ledger(options.ledger)  # an accountant would make one
        return int(options.run(options))
    except (ImportError, LedgerError, OSError, ValueError) as error:
        print(plain(f"skdpspectral-ledger: {error}"), file=sys.stderr)
        return _UNUSABLE


def plain(text: str) -> str:
    """Return words of others for a terminal, on one line and without control of it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skdpspectral-ledger",
        description="Read, check, export and back up ledgers of privacy spending.",
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: object, what: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=what, description=what)
        added.add_argument(
            "ledger", help="file of the ledger, or postgresql://user@host/database"
        )
        added.set_defaults(run=run)
        return added

    show = command("show", _show, "Say what was spent, and by what.")
    show.add_argument("--delta", type=float, help="state the total at this delta")
    command(
        "check",
        _check,
        "Check that a ledger is whole, that its entries cost what their plans say, and "
        "that it is within its budget; exit with 1 if not.",
    )
    export = command("export", _export, "Write all entries as lines of JSON.")
    export.add_argument("--output", help="file to make; the standard output without")
    backup = command("backup", _backup, "Copy a ledger while it is in use.")
    backup.add_argument("copy", help="file to make")
    return parser


def _show(options: argparse.Namespace) -> int:
    accountant = PrivacyAccountant(path=options.ledger)
    print(plain(str(accountant)))
    if options.delta is not None:
        spent = accountant.spent(options.delta)
        print(f"At delta={spent.delta:g}: epsilon={spent.epsilon:.6g}.")
    for entry in accountant.ledger:
        print(plain(sentence(entry)))
    return _GOOD


def _check(options: argparse.Namespace) -> int:
    found, n_entries = faults(ledger_at(options.ledger))
    for fault in found:
        print(plain(fault))
    if found:
        return _BAD
    accountant = PrivacyAccountant(path=options.ledger)
    print(plain(f"{n_entries} entries, no fault found. {accountant}"))
    return _GOOD


def _export(options: argparse.Namespace) -> int:
    text = PrivacyAccountant(path=options.ledger).export()
    if options.output is None:
        print(text, end="")
        return _GOOD
    mode = 0o600  # of a server's ledger; of a file, whoever may read that
    if not is_address(options.ledger):
        mode = os.stat(options.ledger).st_mode & 0o666
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(options.output, flags, mode), "w", encoding="utf-8") as file:
        file.write(text)
    return _GOOD


def _backup(options: argparse.Namespace) -> int:
    PrivacyAccountant(path=options.ledger).backup(options.copy)
    return _GOOD
