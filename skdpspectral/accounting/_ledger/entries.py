"""Entries of a ledger, their chain, and their sums: one fold, with no input or output.

:class:`Sums` adds entries up. Each has a digest of itself and of the entry before, by
which damage and careless edits are found; those who may write can compute them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any, NamedTuple

from ...mechanisms import Assumption, Neighbors, PrivacyPlan, Unit
from .._composition import Total
from .._errors import LedgerError
from .costs import Exact, Share, as_float, curve_of, curve_text, exact


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
    cost: Total,
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


@dataclass
class Sums:
    """What the entries of a ledger add up to, exactly.

    `mu2` and `failure` are of Gaussian mechanisms and models, `box` is the use of the
    budget, `curves` counts other mechanisms by their texts; `digest` is the last one.
    """

    mu2: Exact = Fraction(0)
    failure: Exact = Fraction(0)
    box: Share = field(default_factory=Share)
    curves: Counter[str] = field(default_factory=Counter)
    least_delta: float | None = None
    seeded: bool = False
    number: int = 0
    digest: str = ""

    @classmethod
    def from_json(cls, text: str) -> Sums:
        """Read what :meth:`to_json` wrote."""
        values = json.loads(text)
        mu2, failure, *box = numbers_of(values.pop("costs"))
        curves = Counter(values.pop("curves"))
        return cls(mu2, failure, Share(*box), curves, **values)

    def to_json(self) -> str:
        """Return the sums as text."""
        values = dict(vars(self))
        costs = (values.pop("mu2"), values.pop("failure"), *values.pop("box"))
        return json.dumps({"costs": _text(costs), **values})

    @property
    def empty(self) -> bool:
        """Whether nothing was spent."""
        return not any((self.mu2, self.failure, *self.box))

    def add(self, entry: LedgerEntry) -> None:
        """Add an entry."""
        self.mu2 += exact(entry.ledger_mu) ** 2
        self.failure += exact(entry.failure)
        own = numbers_of(entry.share) or Share()
        self.box = Share(*map(operator.add, self.box, own))
        for text, times in json.loads(entry.curves):
            self.curves[text] += times
        deltas = (self.least_delta, entry.delta)
        self.least_delta = min((d for d in deltas if d), default=None)
        self.seeded |= entry.seeded
        self.number, self.digest = entry.id, entry.digest

    def after(self, entries: Iterable[LedgerEntry]) -> Sums:
        """Return these sums with some entries added."""
        after = replace(self, curves=self.curves.copy())
        for entry in entries:
            after.add(entry)
        return after

    def total(self) -> Total:
        """Return the composed cost of all entries."""
        curves = tuple((curve_of(text), n) for text, n in sorted(self.curves.items()))
        mu, failure = math.sqrt(as_float(self.mu2)), as_float(self.failure)
        return Total(mu, failure, curves, self.box)
