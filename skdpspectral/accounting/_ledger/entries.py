"""Entries of a ledger, their chain, and their sums: one fold, with no input or output.

:class:`Sums` adds entries up. A ledger keeps the sums of all of its entries in a table,
so that a charge reads a few rows; an inspection, a statement on the first n entries and
a plot add the entries up anew. Each entry has a digest of itself and of the entry
before: a row that is changed, moved or deleted breaks the chain. Digests find damage
and careless edits; those who may write to a ledger can compute them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any, NamedTuple

from ...mechanisms import Assumption, Neighbors, PrivacyPlan, Unit
from .._composition import Total
from .._errors import LedgerError
from .costs import Cost, Share, as_float, curve_of, curve_text, exact


class LedgerEntry(NamedTuple):
    """One entry of a ledger; ``pandas.DataFrame(accountant.ledger)`` is a table.

    Parameters
    ----------
    id : int
        Number of the entry.
    time : datetime
        Time of the charge in UTC, by this host's clock.
    estimator : str
        What was fitted.
    label : str or None
        Label of the handle that was charged.
    epsilon, delta, mu : float
        The guarantee of the fit alone.
    ledger_mu, failure : float
        Cost of its Gaussian mechanisms for the ledger's unit and relation, and the
        probability that a model's bounds or a threshold fail.
    unit, neighbors, assumption, seeded
        As in the plan.
    plan : str
        All details, for :meth:`~skdpspectral.mechanisms.PrivacyPlan.from_json`.
    curves : str
        JSON of the mechanisms that are not Gaussian, with counts. `ledger_mu` is the
        cost of all others.
    share : str
        Use of the budget: squared mu, failure and pure epsilon, as fractions; empty
        without a budget.
    digest : str
        Digest of this and all earlier entries.
    """

    id: int
    time: datetime
    estimator: str
    label: str | None
    epsilon: float
    delta: float
    mu: float
    ledger_mu: float
    failure: float
    unit: Unit
    neighbors: Neighbors
    assumption: Assumption
    seeded: bool
    plan: str
    curves: str
    share: str
    digest: str

    @classmethod
    def of(cls, row: Iterable[Any]) -> LedgerEntry:
        """Return an entry from a row of the table."""
        row = list(row)
        try:
            entry = cls(*row)
            return entry._replace(
                time=datetime.fromtimestamp(entry.time, timezone.utc),  # type: ignore
                unit=Unit(entry.unit),
                neighbors=Neighbors(entry.neighbors),
                assumption=Assumption(entry.assumption),
                seeded=bool(entry.seeded),
            )
        except (OSError, OverflowError, TypeError, ValueError) as error:
            said = f"entry {row[0]} is damaged, or its host's clock is wrong: {error}"
            raise LedgerError(said) from None

    @property
    def kinds(self) -> list[str]:
        """Kinds of mechanisms that are not Gaussian."""
        return sorted({json.loads(text)["kind"] for text, _ in json.loads(self.curves)})

    @property
    def charged(self) -> tuple[float, float, float] | None:
        """Mu, failure and pure epsilon that it took of the budget, None without one."""
        if not self.share:
            return None
        squared, failure, pure = map(as_float, numbers_of(self.share))
        return math.sqrt(squared), failure, pure


# Of the table of entries, in the order of LedgerEntry.
_REAL = ("time", "epsilon", "delta", "mu", "ledger_mu", "failure")
_KINDS = {"id": "INTEGER PRIMARY KEY", "seeded": "INTEGER NOT NULL", "label": "TEXT"}
_KINDS |= dict.fromkeys(_REAL, "REAL NOT NULL")
COLUMNS = {name: _KINDS.get(name, "TEXT NOT NULL") for name in LedgerEntry._fields}


def new_row(
    number: int,
    before: str,
    time: float,
    plan: PrivacyPlan,
    cost: Cost,
    share: Share | None,
    label: str | None,
    times: int = 1,
) -> tuple[Any, ...]:
    """Return the row of an entry for `times` fits of a plan."""
    curves = [[curve_text(curve), n * times] for curve, n in cost.curves]
    values: list[Any] = [number, float(time), plan.estimator, label]
    values += [float(plan.epsilon), float(plan.delta), float(plan.mu)]
    values += [math.sqrt(times) * cost.mu, min(times * float(cost.failure), 1.0)]
    values += [str(plan.unit), str(plan.neighbors), str(plan.assumption)]
    values += [int(plan.seeded), plan.to_json(), json.dumps(curves), _text(share or ())]
    # SQLite has no negative zero.
    values = [v + 0.0 if isinstance(v, float) else v for v in values]
    return (*values, digest_of(before, values))


def digest_of(before: str, values: Iterable[Any]) -> str:
    """Return the digest of an entry, and of all before it."""
    text = json.dumps([before, *values], default=repr)  # bytes are damage
    return hashlib.sha256(text.encode()).hexdigest()


def _text(numbers: Iterable[Any]) -> str:
    return " ".join(map(str, numbers))


def numbers_of(text: str) -> list[Any]:
    """Return the exact numbers of a text."""
    return [math.inf if n == "inf" else Fraction(n) for n in text.split()]


class CostSums(NamedTuple):
    """Exact sums: squared mu of Gaussians, failures, and the three of the box."""

    mu2: Any = Fraction(0)
    failure: Any = Fraction(0)
    box_mu2: Any = Fraction(0)
    box_failure: Any = Fraction(0)
    box_pure: Any = Fraction(0)

    @property
    def box(self) -> Share:
        """The use of the box."""
        return Share(*self[2:])


class Sums:
    """Sums over entries, as texts by name; `read` returns one that is not known yet.

    The ledger's are under "ledger", and counts of mechanisms under "curve <text>".
    """

    def __init__(self, read: Callable[[str], str | None] = lambda name: None) -> None:
        self._read = read
        self.known: dict[str, str] = {}

    def copy(self) -> Sums:
        """Return sums that can be added to apart."""
        twin = Sums(self._read)
        twin.known = dict(self.known)
        return twin

    def text(self, name: str) -> str:
        """Return a sum as text; empty if there is none."""
        if name not in self.known:
            self.known[name] = self._read(name) or ""
        return self.known[name]

    def costs(self) -> CostSums:
        """Return the costs of all entries."""
        return CostSums(*numbers_of(self.text("ledger").partition(";")[0]))

    @property
    def empty(self) -> bool:
        """Whether nothing was spent."""
        return self.costs() == CostSums()

    @property
    def head(self) -> tuple[int, str, float | None, bool, int]:
        """Number of entries, last digest, smallest delta, if seeded, number of sums."""
        rest = self.text("ledger").partition(";")[2]
        return tuple(json.loads(rest)) if rest else (0, "", None, False, 0)

    def add(self, entry: LedgerEntry) -> None:
        """Add an entry."""
        own = CostSums(exact(entry.ledger_mu) ** 2, exact(entry.failure))
        own = CostSums(*own[:2], *(numbers_of(entry.share) or Share()))
        _, _, delta, seeded, n_sums = self.head
        changed: dict[str, str] = {}
        for text, times in json.loads(entry.curves):
            name = f"curve {text}"
            changed[name] = str(int(self.text(name) or 0) + times)
        delta = min((d for d in (delta, entry.delta) if d), default=None)
        n_sums += sum(not self.text(name) for name in changed) + (not n_sums)
        head = [entry.id, entry.digest, delta, seeded or entry.seeded, n_sums]
        costs = map(operator.add, self.costs(), own)
        changed["ledger"] = f"{_text(costs)};{json.dumps(head)}"
        self.known |= changed

    def after(self, entries: Iterable[LedgerEntry]) -> Sums:
        """Return these sums with some entries added."""
        for entry in entries:
            self.add(entry)
        return self

    def counts(self) -> tuple[tuple[str, str], ...]:
        """Return the texts of mechanisms that are not Gaussian, with counts."""
        known = sorted(self.known.items())
        return tuple((k[6:], n) for k, n in known if k[:6] == "curve " and n)

    def total(self) -> Total:
        """Return the composed cost of all entries; all counts must be known."""
        sums = self.costs()
        curves = tuple((curve_of(text), int(n)) for text, n in self.counts())
        mu, failure = math.sqrt(as_float(sums.mu2)), as_float(sums.failure)
        return Total(mu, failure, curves, sums.box)
