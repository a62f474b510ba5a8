"""The ledger's file: one SQLite database, one transaction a spend.

The file survives copies, pickles and processes; what it says was spent was
committed before any data were read.

What is done to a locked ledger, in SQL that SQLite and PostgreSQL both know.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...mechanisms import Neighbors, PrivacyPlan, Unit
from .._composition import Total, relation_factor
from .._errors import LedgerError
from . import schema
from .arguments import DisjointBlock
from .budget import counted_curves, curve_kinds, curve_text
from .locks import PATIENCE, Use, lock_file, turn, uninterrupted
from .schema import Connection

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
        part: DisjointBlock,
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
                curve_kinds(plan),
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


class Ledger:
    """Handle of a ledger file; holds no connection between calls.

    Parameters
    ----------
    path : str or path-like
        The file.
    ledger_id : str or None
        Identity that the file must have; None accepts any.
    """

    def __init__(
        self, path: str | os.PathLike[str], ledger_id: str | None = None
    ) -> None:
        self.path = Path(path)
        self.ledger_id = ledger_id

    @contextlib.contextmanager
    def _connect(self) -> Iterator[SqliteConnection]:
        """Open the file, as the only thread of the only process that does."""
        real = os.path.realpath(self.path)
        with turn(real):
            # Before the lock: beside a foreign file nothing is made.
            schema.check_header(self.path)
            mode = schema.stat_of(self.path).st_mode & 0o666
            with lock_file(real, mode) as used:
                opened = schema.check_only_name(Path(real))
                with self._opened(real, used) as connection:
                    yield connection
                if connection.written is not None:
                    schema.check_in_place(Path(real), opened)
                    schema.remember(connection.ledger_id, connection.written)

    @contextlib.contextmanager
    def _opened(self, real: str, used: Use) -> Iterator[SqliteConnection]:
        try:
            # mode=rw never creates a file.
            uri = f"{Path(real).as_uri()}?mode=rw"
            database = sqlite3.connect(
                uri, uri=True, timeout=PATIENCE, isolation_level=None
            )
            try:
                database.execute("PRAGMA synchronous = FULL")
                yield SqliteConnection(self, database, used)
            finally:
                if used.inherited:
                    keep_for_ever(database)
                else:
                    database.close()
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} can't be used ({error}). It must lie on a "
                "local disk of this host, be writable, and be whole"
            ) from error

    @uninterrupted
    def meta(self) -> dict[str, Any]:
        """Return identity, budget, unit and neighbors, after a check of the file."""
        with self._connect() as connection:
            verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
            if verdict != "ok":
                raise LedgerError(f"the ledger {self.path} is damaged: {verdict}")
            return schema.read_meta(connection.database, self.path)

    @uninterrupted
    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        with self._connect() as connection:
            return all_entries(connection)

    @uninterrupted
    def back_up(self, path: Path) -> None:
        """Copy the ledger to a new file, as it stands."""
        with self._connect() as connection:
            schema.back_up(connection.database, path)

    @contextlib.contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[Transaction]:
        """Hold the write lock: what is read stays true until it is committed.

        Parameters
        ----------
        keep : bool, default=True
            Whether to commit at the end; otherwise everything is rolled back.
        """
        with self._connect() as connection:
            if keep:
                schema.migrate(connection, self.path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not keep:  # what is rolled back needs no copy
                    schema.upgrade(connection)
                yield Transaction(connection)
                connection.end(keep)
            except BaseException:
                connection.abort()
                raise


class SqliteConnection:
    """An open ledger whose identity and history were checked.

    Parameters
    ----------
    ledger : Ledger
        Whose file it is.
    database : sqlite3.Connection
        The open file.
    used : Use
        The stretch of time in which it may be used.
    """

    def __init__(self, ledger: Ledger, database: sqlite3.Connection, used: Use):
        self.database, self._used, self._path = database, used, ledger.path
        self.written: schema.Mark | None = None
        self.ledger_id = schema.read_meta(database, ledger.path)["ledger_id"]
        if ledger.ledger_id not in (None, self.ledger_id):
            raise LedgerError(
                f"{ledger.path} now holds another ledger than the one that this "
                "accountant was made for"
            )
        mark = schema.check_mark(self, self.ledger_id, ledger.path)
        schema.remember(self.ledger_id, mark)
        self._changes = database.total_changes

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run a statement, unless a fork took the connection over."""
        self._used.check()
        return self.database.execute(statement, values)

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""
        return schema.read_meta(self.database, self._path)

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def streams(self) -> None:
        """Make sure that there is a table of streams."""
        self.execute(schema.STREAMS)

    def end(self, keep: bool) -> None:
        """Commit, or roll back."""
        self._used.check()
        mark = None
        if keep and self.database.total_changes > self._changes:
            schema.count_write(self)
            mark = schema.read_mark(self)
        self.execute("COMMIT" if keep else "ROLLBACK")
        self.written = mark

    def abort(self) -> None:
        """Roll back what is open, if it is this process's."""
        if not self._used.inherited and self.database.in_transaction:
            self.database.execute("ROLLBACK")


def keep_for_ever(database: Any) -> None:
    """Never close a connection that a fork took over from a thread's own charge.

    Closing it would write an old state of the log over what the parent wrote since.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
