"""``skdpspectral-ledger``: what a ledger says, and whether it is whole.

An inspection goes over all of a ledger: its tables, terms, chain, entries and budget.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...mechanisms import Neighbors, PrivacyPlan, Unit
from .._composition import least_mu
from .._errors import LedgerError
from .accountant import PrivacyAccountant
from .budget import BoxFilter, Budget, Cost, Share, as_float, cost_of, curve_text
from .entry_chain import (
    COUNTS,
    ENTRY_COLUMNS,
    HEAD,
    STREAMS_SEAL,
    Chain,
    Connection,
    digest_of,
    head_of,
    read_totals,
    streams_seal,
)
from .entry_reports import read_entry, sentence
from .locks import uninterrupted
from .server import AnyLedger, existing_ledger, is_address, ledger_at

_GOOD, _BAD, _UNUSABLE = 0, 1, 2


def run_command(
    arguments: Sequence[str] | None = None,
    more: Sequence[Callable[[Callable[..., argparse.ArgumentParser]], None]] = (),
) -> int:
    """Run the command; return its exit code: 0 for good, 1 for faults, 2 for errors.

    Each of `more` is given what adds a command, and adds one of another folder.
    """
    options = _parser(more).parse_args(arguments)
    try:
        existing_ledger(options.ledger)  # an accountant would make one
        return int(options.run(options))
    except (ImportError, LedgerError, OSError, ValueError) as error:
        print(plain(f"skdpspectral-ledger: {error}"), file=sys.stderr)
        return _UNUSABLE


def plain(text: str) -> str:
    """Return text of others for a terminal: one line, without control characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _parser(more: Sequence[Callable[..., None]]) -> argparse.ArgumentParser:
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
        added.add_argument(
            "ledger", help="file of the ledger, or postgresql://user@host/database"
        )
        added.set_defaults(run=run)
        return added

    show = command("show", _show, "Print what was spent, and by which entries.")
    show.add_argument("--delta", type=float, help="state the total at this delta")
    command(
        "check",
        _check,
        "Check that a ledger is undamaged, that its entries cost what their plans "
        "say, and that it is within its budget; exit with 1 if not.",
    )
    export = command("export", _export, "Write all entries as lines of JSON.")
    export.add_argument("--output", help="file to create (default: standard output)")
    backup = command("backup", _backup, "Copy a ledger while it is in use.")
    backup.add_argument("copy", help="file to make")
    for add in more:
        add(command)
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


# -- inspection ------------------------------------------------------------------------


_ENTRIES = f"SELECT id, {', '.join(ENTRY_COLUMNS)}, totals, digest FROM entries"
_read_plan = functools.lru_cache(maxsize=64)(PrivacyPlan.from_json)


@uninterrupted
def faults(ledger: AnyLedger) -> tuple[list[str], int]:
    """Return the faults of a ledger, a sentence each, and its number of entries.

    The ledger is not changed; raises a LedgerError if it is unreadable.
    """
    with ledger.inspected() as connection:
        found = connection.unexpected()
        if found:  # nothing that is read could be relied on
            return found, 0
        inspection = _Inspection(connection)
        found = list(inspection.faults())
        return found, inspection.chain.last.id


class _Inspection:
    """One pass over the entries of a locked ledger."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._meta = connection.meta()
        self.chain, self._partitions = Chain(), set[str]()
        self._differs = False

    def faults(self) -> Iterator[str]:
        """Yield the faults of terms and entries, then of their total."""
        curves: dict[int, list[tuple[str, int]]] = {}
        rows = self._connection.execute("SELECT entry, curve, times FROM curves")
        for entry, text, times in rows.fetchall():
            curves.setdefault(entry, []).append((text, times))
        previous, expected = "", 1
        for row in self._connection.execute(f"{_ENTRIES} ORDER BY id"):
            number, digest = row[0], row[-1]
            if number != expected:
                yield f"entries {expected} to {number - 1} are missing"
            own = curves.pop(number, [])
            if digest != digest_of(previous, row[:-1], own):
                yield f"entry {number} is not as it was entered: its digest differs"
            try:
                yield from self._faults_of_entry(row, own)
            except Exception as error:  # damage has errors of every type
                yield f"entry {number} can't be read ({type(error).__name__}: {error})"
            previous, expected = digest, number + 1
        for number in curves:
            yield f"entry {number} is lost: only its mechanisms are left"
        yield from self._faults_of_whole(previous, expected - 1)

    def _faults_of_entry(
        self, row: Sequence[Any], curves: list[tuple[str, int]]
    ) -> Iterator[str]:
        number, *values, totals, _ = row
        entry = read_entry(dict(zip(("id", *ENTRY_COLUMNS), row, strict=False)))
        share = read_totals(totals).share
        link = self.chain.add(values, curves, share)
        if link.totals != totals and not self._differs:
            self._differs = True  # and so do those of all later entries
            yield f"entry {number}: its totals do not match the entries so far"
        plan = _read_plan(entry.plan)
        self._partitions.add(entry.partition)
        relation = Unit(self._meta["unit"]), Neighbors(self._meta["neighbors"])
        cost = cost_of(plan, relation)
        for field in _STATED:
            found, value = getattr(entry, field), getattr(plan, field)
            if found != value:
                yield f"entry {number}: {field} is {found}, but its plan states {value}"
        short = entry.ledger_mu < cost.mu * (1.0 - 2.0**-40)
        if self._meta["epsilon"] is not None:
            share = share or Share()
        if short or (share is not None and not _is_enough(share, cost)):
            yield f"entry {number}: it counts for less than its plan costs"
        planned = [(curve_text(curve), n) for curve, n in cost.curves]
        if sorted(curves) != sorted(planned):
            yield f"entry {number}: mechanisms of its plan are not counted as planned"
        if entry.failure < plan.failure:
            yield f"entry {number}: its probability of failure counts for less"

    def _faults_of_whole(self, digest: str, entries: int) -> Iterator[str]:
        head = self._meta.get(HEAD)
        if head != head_of(self._meta, entries, digest):
            yield (
                f"{_sealed_entries(head)} entries and terms were sealed; the "
                f"{entries} entries and terms that are there do not match them"
            )
        if dict(self._connection.execute(COUNTS).fetchall()) != self.chain.counts:
            yield "counts of mechanisms do not match the entries"
        if self._meta[STREAMS_SEAL] != streams_seal(self._connection):
            yield "positions of streams do not match those that were sealed"
        try:
            yield from self._faults_of_budget()
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            yield f"its terms or costs can't be read ({type(error).__name__}: {error})"

    def _faults_of_budget(self) -> Iterator[str]:
        limits = (self._meta["epsilon"], self._meta["delta"])
        if limits == (None, None):
            return
        budget, total = Budget(*limits), self.chain.total()
        if self.chain.totals.seeded:
            total = total._replace(mu=math.inf, box=(math.inf, *total.box[1:]))
        # The first charge of each block may have been all of the budget, and blocks
        # that were charged at once have a partition of their own.
        if not budget.admits(total, self._meta, first=len(self._partitions) == 1):
            spent = total.epsilon(budget.delta)
            yield f"epsilon={spent:.6g} was spent with a budget of {budget.epsilon}"


def _is_enough(share: Share, cost: Cost) -> bool:
    """Return whether an entry's share of the box covers the cost of its plan."""
    box = BoxFilter(1.0, 0.0)
    pairs = cost.pairs and box.share_of(cost, Share(pure=share.pure))
    if pairs:
        return pairs.within(share)
    d = as_float(share.failure) - cost.failure
    least = least_mu(cost.mu, cost.curves, min(max(d, 0.0), 1.0 - 2.0**-53))
    return d >= -(2.0**-60) and least <= math.sqrt(share.cost) * (1.0 + 1e-9)


_STATED = (
    "estimator",
    "epsilon",
    "delta",
    "mu",
    "unit",
    "neighbors",
    "assumption",
    "seeded",
)


def _sealed_entries(head: Any) -> Any:
    """Return the number of entries according to a ledger's seal."""
    try:
        return json.loads(head)[0]
    except (TypeError, ValueError, LookupError, RecursionError):
        return "an unknown number of"
