"""A ledger's totals as a sentence, and as a table for notebooks."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

from ..mechanisms import Assumption, Neighbors, Unit
from ._budget import Budget
from ._entries import LedgerEntry
from ._parts import division_of

_CLAIMS = {
    Unit.ROW: "the user's word that these divisions of the rows are disjoint",
    Unit.USER: "somebody's word that no person is in two blocks of these divisions",
}
# Entries that a notebook shows, newest last.
_SHOWN = 10


class Spent(NamedTuple):
    """A privacy cost: the smallest epsilon at this delta."""

    epsilon: float
    delta: float


class Summary(NamedTuple):
    """What a ledger says at one moment; ``str()`` gives sentences.

    Parameters
    ----------
    relation : tuple (Unit, Neighbors) or None
        What totals are stated for; None before the first entry.
    spent : Spent
        Cost of all entries.
    budget : Budget or None
        The limit.
    remaining : Spent or None
        What one more fit may ask for; None without a budget.
    entries : tuple of LedgerEntry
        Oldest first.
    """

    relation: tuple[Unit, Neighbors] | None
    spent: Spent
    budget: Budget | None
    remaining: Spent | None
    entries: tuple[LedgerEntry, ...]

    def __str__(self) -> str:
        unit = "" if self.relation is None else " per {}, {}".format(*self.relation)
        total = f"{count_of(self.entries)}: {_stated(self.spent)}{unit}."
        sentences = [total]
        if self.budget is not None and self.remaining is not None:
            sentences.append(
                f"Of the budget {_stated(self.budget)}, "
                f"epsilon={self.remaining.epsilon:.6g} remains for one fit."
            )
        return " ".join([*sentences, *conditions(self.entries)])


def _stated(cost: Spent | Budget) -> str:
    return f"epsilon={cost.epsilon:.6g} at delta={cost.delta:g}"


def count_of(entries: tuple[LedgerEntry, ...]) -> str:
    """Say how many entries there are."""
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


def conditions(entries: tuple[LedgerEntry, ...]) -> list[str]:
    """Sentences about what a total rests on."""
    sentences = []
    asserted = {division_of(entry.partition) for entry in entries if entry.asserted}
    for unit, claim in _CLAIMS.items():
        names = sorted(name for divided, name in asserted if divided is unit)
        if names:
            sentences.append(f"This rests on {claim}: {', '.join(names)}.")
    found = {e.assumption for e in entries} - {Assumption.NONE}
    models = sorted(map(str, found - {Assumption.SUMMED_PARTS}))
    if models:
        sentences.append(f"It holds only for data that satisfy: {', '.join(models)}.")
    if Assumption.SUMMED_PARTS in found:
        sentences.append(f"It holds only {Assumption.SUMMED_PARTS.condition}.")
    if any(entry.failure for entry in entries):
        sentences.append("Its delta includes that their bounds fail.")
    return sentences


def as_html(summary: Summary) -> str:
    """Return totals and the newest entries as HTML; every word is escaped."""
    totals = [("Spent", _stated(summary.spent))]
    if summary.budget is not None and summary.remaining is not None:
        totals.insert(0, ("Budget", _stated(summary.budget)))
        totals.append(("Remaining for one fit", _stated(summary.remaining)))
    if summary.relation is not None:
        totals.append(("Protects per", "{}, {}".format(*summary.relation)))
    totals += [("", sentence) for sentence in conditions(summary.entries)]
    newest = summary.entries[-_SHOWN:]
    entries = [("Time (UTC)", "Estimator", "Label", "Block", "epsilon", "delta", "")]
    entries += [
        (
            format(entry.time, "%Y-%m-%d %H:%M:%S"),
            entry.estimator,
            entry.label or "",
            entry.block,
            format(entry.epsilon, ".6g"),
            format(entry.delta, "g"),
            "seeded: not private" if entry.seeded else "",
        )
        for entry in newest
    ]
    more = f", the newest {_SHOWN}" if len(newest) < len(summary.entries) else ""
    return (
        "<div><strong>PrivacyAccountant</strong>"
        f"{_table(totals, heads=0)}<p>{count_of(summary.entries)}{more}</p>"
        f"{_table(entries, heads=1) if newest else ''}</div>"
    )


def _table(rows: list[Any], heads: int) -> str:
    """Return rows as a table whose first ones are heads."""
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if number < heads else "td"
        cells = (f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"
