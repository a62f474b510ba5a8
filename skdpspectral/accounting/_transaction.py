"""What is done to a locked ledger, in SQL that SQLite and PostgreSQL both know."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

from ..mechanisms import Neighbors, PrivacyPlan, Unit
from ._composition import Total, relation_factor
from ._curve_form import counted_curves, curve_text, kinds_of
from ._errors import LedgerError
from ._parts import Part

# A partition costs its dearest block; partitions compose.
_TOTAL = """
SELECT SUM(dearest) FROM (
    SELECT MAX(cost) AS dearest FROM (
        SELECT partition, SUM(ledger_mu * ledger_mu) AS cost
        FROM entries GROUP BY partition, block
    ) AS blocks GROUP BY partition
) AS partitions
"""

# Probabilities add up, in the worst case, where costs compose.
_FAILURES = """
SELECT COALESCE(SUM(worst), 0.0) FROM (
    SELECT MAX(failures) AS worst FROM (
        SELECT partition, SUM(failure) AS failures
        FROM entries GROUP BY partition, block
    ) AS blocks GROUP BY partition
) AS partitions
"""

# Those of disjoint blocks too: curves have no order, of which one were the dearest.
_CURVES = "SELECT curve, SUM(times) FROM curves GROUP BY curve ORDER BY curve"

ENTRY_COLUMNS = (
    "time",
    "estimator",
    "label",
    "partition",
    "block",
    "asserted",
    "epsilon",
    "delta",
    "mu",
    "ledger_mu",
    "failure",
    "unit",
    "neighbors",
    "assumption",
    "seeded",
    "plan",
    "kind",
)
_APPEND = (
    f"INSERT INTO entries (id, {', '.join(ENTRY_COLUMNS)}) "
    f"SELECT COALESCE(MAX(id), 0) + 1, {', '.join('?' * len(ENTRY_COLUMNS))} "
    "FROM entries"
)
_APPEND_CURVE = (
    "INSERT INTO curves (entry, curve, times) SELECT MAX(id), ?, ? FROM entries"
)


class Connection(Protocol):
    """An open ledger, which nobody else may use meanwhile."""

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement; return its cursor."""

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""

    def streams(self) -> None:
        """Make sure that there is a table of streams."""


class Transaction:
    """What may be done while the ledger is locked."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement in the transaction."""
        return self._connection.execute(statement, values)

    def streams(self) -> None:
        """Make sure that there is a table of streams."""
        self._connection.streams()

    def relation(self) -> tuple[Unit, Neighbors] | None:
        """Return the ledger's unit and neighbors, once fixed."""
        meta = self._connection.meta()
        if meta.get("unit") is None:
            return None
        return Unit(meta["unit"]), Neighbors(meta["neighbors"])

    def fix_relation(self, unit: Unit, neighbors: Neighbors) -> None:
        """Fix the unit and neighbors that all entries are converted to."""
        self._connection.set_meta("unit", str(unit))
        self._connection.set_meta("neighbors", str(neighbors))

    def mechanisms(self) -> str | None:
        """Return which mechanisms a budget lets in, once fixed."""
        found: str | None = self._connection.meta().get("mechanisms")
        return found

    def fix_mechanisms(self, mechanisms: str) -> None:
        """Fix which mechanisms a budget lets in."""
        self._connection.set_meta("mechanisms", mechanisms)

    def total(self) -> Total:
        """Return the composed cost of all entries, seeded ones at face value."""
        failure = self.execute(_FAILURES).fetchone()[0]
        curves = counted_curves(self.execute(_CURVES).fetchall())
        return Total(self._total_mu(), float(failure), curves)

    def _total_mu(self) -> float:
        # Summing infinities is left to no version of SQLite.
        largest = self.execute("SELECT MAX(ledger_mu) FROM entries").fetchone()[0]
        if largest is None:
            return 0.0
        if largest == math.inf:
            return math.inf
        return math.sqrt(self.execute(_TOTAL).fetchone()[0])

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        return all_entries(self._connection)

    def curve_rows(self) -> list[tuple[int, str, int]]:
        """Return what counts of entries that are no Gaussians: id, text and times."""
        rows = self.execute("SELECT entry, curve, times FROM curves").fetchall()
        return [(int(entry), str(text), int(times)) for entry, text, times in rows]

    def smallest_delta(self) -> float | None:
        """Return the smallest positive delta of the entries; None if there is none."""
        query = "SELECT MIN(delta) FROM entries WHERE delta > 0.0"
        smallest: float | None = self.execute(query).fetchone()[0]
        return smallest

    def any_seeded(self) -> bool:
        """Return whether any entry's noise came from a seed."""
        query = "SELECT EXISTS (SELECT 1 FROM entries WHERE seeded <> 0)"
        return bool(self.execute(query).fetchone()[0])

    def append(
        self,
        plan: PrivacyPlan,
        factor: float,
        part: Part,
        label: str | None,
        times: int = 1,
    ) -> None:
        """Write an entry, for so many fits; it counts from the commit on."""
        self.execute(
            _APPEND,
            (
                time.time(),
                plan.estimator,
                label,
                part.partition,
                part.block,
                int(part.asserted),
                plan.epsilon,
                plan.delta,
                plan.mu,
                factor * math.sqrt(times) * plan.mu_beside_curves,
                min(times * plan.failure, 1.0),
                str(plan.unit),
                str(plan.neighbors),
                str(plan.assumption),
                int(plan.seeded),
                plan.to_json(),
                kinds_of(plan),
            ),
        )
        for curve in plan.curves:
            self.execute(_APPEND_CURVE, (curve_text(curve), times))


def all_entries(connection: Connection) -> list[dict[str, Any]]:
    """Return all entries of a ledger, oldest first."""
    rows = connection.execute("SELECT * FROM entries ORDER BY id")
    names = [column[0] for column in rows.description]
    return [dict(zip(names, row, strict=True)) for row in rows]


def conversion_factor(plan: PrivacyPlan, relation: tuple[Unit, Neighbors]) -> float:
    """Factor that restates a plan for a ledger's relation, or an error."""
    factor = relation_factor(plan.unit, plan.neighbors, *relation)
    if factor is None:
        raise LedgerError(
            f"this ledger protects per {relation[0]} under {relation[1]}, which a "
            f"guarantee per {plan.unit} under {plan.neighbors} does not imply; use a "
            "ledger of its own for it"
        )
    if factor != 1.0 and plan.failure:
        raise LedgerError(
            f"what {plan.estimator} guarantees under its model cannot be restated per "
            f"{relation[0]} under {relation[1]}; use a ledger of its own for it"
        )
    if plan.curves and (plan.unit, plan.neighbors) != relation:
        raise LedgerError(
            f"{plan.estimator} is no Gaussian mechanism: what it guarantees per "
            f"{plan.unit} under {plan.neighbors} cannot be restated per {relation[0]} "
            f"under {relation[1]}, as this ledger would have it; use a ledger of its "
            "own for it"
        )
    return factor
