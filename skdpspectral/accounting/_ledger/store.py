"""The ledger's file: one SQLite database, one transaction a spend.

The file survives copies, pickles and processes; what it says was spent was
committed before any data were read.

What is done to a locked ledger, in SQL that SQLite and PostgreSQL both know.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ...mechanisms import Neighbors, PrivacyPlan, Unit
from .._composition import Total, relation_factor
from .._errors import LedgerError
from . import schema
from .arguments import DisjointBlock
from .budget import counted_curves, curve_kinds, curve_text
from .chain import (
    ENTRY_COLUMNS,
    HEAD,
    Chain,
    Link,
    Sums,
    as_float,
    counts_digest,
    head_of,
    read_totals,
)
from .chain import digest as digest_of
from .locks import PATIENCE, Use, lock_file, turn, uninterrupted

_COLUMNS = ", ".join(ENTRY_COLUMNS)


_APPEND = (
    f"INSERT INTO entries (id, {_COLUMNS}, totals, digest) "
    f"VALUES ({', '.join('?' * (len(ENTRY_COLUMNS) + 3))})"
)


_APPEND_CURVE = "INSERT INTO curves (entry, curve, times) VALUES (?, ?, ?)"


_SET_COUNT = (
    "INSERT INTO counts VALUES (?, ?) "
    "ON CONFLICT (curve) DO UPDATE SET times = excluded.times"
)


LINK = f"SELECT id, {_COLUMNS}, totals, digest FROM entries WHERE id = ?"


_DIGEST = "SELECT digest FROM entries WHERE id = ?"


LAST_ID = "SELECT id FROM entries ORDER BY id DESC LIMIT 1"


COUNTS = "SELECT curve, times FROM counts"


_CURVES = "SELECT curve, times FROM curves WHERE entry = ?"


# Partitions of one charge alone are never added to: they have names of their own.
_LAST_OF_PARTITION = "SELECT MAX(id) FROM entries WHERE asserted = 1 AND partition = ?"


_LAST_OF_BLOCK = f"{_LAST_OF_PARTITION} AND block = ?"


class Connection(Protocol):
    """An open ledger, which nobody else may use meanwhile."""

    path: Any

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement; return its cursor."""

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""

    def unexpected(self) -> list[str]:
        """Return tables, views and triggers that no ledger has, and what it lacks."""


class Transaction:
    """What may be done while the ledger is locked.

    Raises
    ------
    LedgerError
        If the end of its chain of entries, its terms or its tables are damaged.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._chain = _checked_chain(connection)

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement in the transaction."""
        return self._connection.execute(statement, values)

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
        cost, failure = map(as_float, self._chain.totals.ledger)
        curves = counted_curves(sorted(self._chain.counts.items()))
        return Total(math.sqrt(cost), failure, curves)

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        return all_entries(self._connection)

    def smallest_delta(self) -> float | None:
        """Return the smallest positive delta of the entries; None if there is none."""
        return self._chain.totals.delta

    def any_seeded(self) -> bool:
        """Return whether any entry's noise came from a seed."""
        return self._chain.totals.seeded

    def append(
        self,
        plan: PrivacyPlan,
        factor: float,
        part: DisjointBlock,
        label: str | None,
        times: int = 1,
    ) -> None:
        """Write an entry, for so many fits; it counts from the commit on."""
        self._know(part)
        values = (
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
        )
        curves = [(curve_text(curve), times) for curve in plan.curves]
        number, totals, digest = self._chain.add(values, curves)
        self.execute(_APPEND, (number, *values, totals, digest))
        for text, _ in curves:
            self.execute(_APPEND_CURVE, (number, text, times))
            self.execute(_SET_COUNT, (text, self._chain.counts[text]))

    def _know(self, part: DisjointBlock) -> None:
        """Read what a block and its partition cost so far, if they are asserted."""
        partition, block = (part.partition,), (part.partition, part.block)
        if not part.asserted:
            return
        if partition not in self._chain.sums:
            self._chain.sums[partition] = self._sums_at(_LAST_OF_PARTITION, partition)[
                0
            ]
        if block not in self._chain.sums:
            self._chain.sums[block] = self._sums_at(_LAST_OF_BLOCK, block)[1]

    def _sums_at(self, query: str, names: tuple[str, ...]) -> tuple[Sums, ...]:
        """Return sums of the partition and the block that a query's entry is in."""
        (number,) = self.execute(query, names).fetchone()
        if number is None:
            return Sums(), Sums()
        return read_totals(_checked_link(self._connection, number).totals).parts


def _checked_chain(connection: Connection) -> Chain:
    """Return the chain of a ledger, whose end is what its terms say it is."""
    unexpected = connection.unexpected()
    if unexpected:
        raise _damaged(connection, unexpected[0])
    meta = connection.meta()
    last = connection.execute(LAST_ID).fetchone()
    link = None if last is None else _checked_link(connection, last[0])
    ends = (0, "") if link is None else (link.id, link.digest)
    if meta.get(HEAD) != head_of(meta, *ends):
        raise _damaged(
            connection, "its entries or terms are not those it was left with"
        )
    chain = Chain(link, dict(connection.execute(COUNTS).fetchall()))
    if counts_digest(chain.counts) != chain.totals.counts:
        raise _damaged(connection, "its counts of mechanisms were changed")
    return chain


def _checked_link(connection: Connection, number: int) -> Link:
    """Return the end of the chain at an entry, which has the digest that it says."""
    *row, digest = connection.execute(LINK, (number,)).fetchone()
    before = connection.execute(_DIGEST, (number - 1,)).fetchone()
    curves = connection.execute(_CURVES, (number,)).fetchall()
    if (before is None) != (number == 1) or digest != digest_of(
        "" if before is None else before[0], row, curves
    ):
        raise _damaged(connection, f"entry {number} is not as it was entered")
    return Link(number, row[-1], digest)


def seal(connection: Connection) -> None:
    """Write down what the ledger's terms and the end of its chain are now."""
    last = connection.execute(LAST_ID).fetchone()
    number = 0 if last is None else last[0]
    digest = connection.execute(_DIGEST, (number,)).fetchone()
    text = head_of(connection.meta(), number, "" if digest is None else digest[0])
    connection.set_meta(HEAD, text)


def _damaged(connection: Connection, fault: str) -> LedgerError:
    return LedgerError(
        f"the ledger {connection.path} is damaged: {fault}. Nothing was charged; put a "
        "backup in its place. `skdpspectral-ledger check` lists what is wrong"
    )


def all_entries(connection: Connection) -> list[dict[str, Any]]:
    """Return all entries of a ledger, oldest first."""
    rows = connection.execute("SELECT * FROM entries ORDER BY id")
    names = [column[0] for column in rows.description]
    # Equal plans are one text in memory.
    texts: dict[Any, Any] = {}
    return [
        {
            name: texts.setdefault(value, value) if name == "plan" else value
            for name, value in zip(names, row, strict=True)
            if name not in ("totals", "digest")
        }
        for row in rows
    ]


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
            schema.check_no_mount(real)
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
            with _readable(real) as (name, options):
                uri = f"{Path(name).as_uri()}?{options}"
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
            connection.check_pages()
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
    def inspected(self) -> Iterator[SqliteConnection]:
        """Yield the ledger for :mod:`_inspection`; an older one as it would migrate."""
        with self._connect() as connection:
            connection.check_pages()
            if connection.version() < schema.SCHEMA_VERSION:
                connection.move_to_memory()
                schema.upgrade(connection)
            # What is no text is shown all the same.
            connection.database.text_factory = _shown
            yield connection

    @contextlib.contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[Transaction]:
        """Hold the write lock: what is read stays true until it is committed.

        Parameters
        ----------
        keep : bool, default=True
            Whether to commit at the end; otherwise everything is rolled back.
        """
        if keep and os.path.exists(self.path) and not may_write(self.path):
            raise LedgerError(
                f"the ledger {self.path} can't be written by this user, who may only "
                "read it; nothing was charged"
            )
        with self._connect() as connection:
            if keep:
                schema.migrate(connection, self.path)
            elif connection.version() < schema.SCHEMA_VERSION:
                connection.move_to_memory()
            begin = "BEGIN IMMEDIATE" if may_write(self.path) else "BEGIN"
            connection.execute(begin)
            try:
                if not keep:
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
        self.database, self._used, self.path = database, used, ledger.path
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
        return schema.read_meta(self.database, self.path)

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def check_pages(self) -> None:
        """Refuse a file whose pages are damaged."""
        verdict = self.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise LedgerError(f"the ledger {self.path} is damaged: {verdict}")

    def version(self) -> int:
        """Return the version of the schema."""
        version = int(self.execute("PRAGMA user_version").fetchone()[0])
        schema.check_version(version, self.path)
        return version

    def unexpected(self) -> list[str]:
        """Return tables, views and triggers that no ledger has, and what it lacks."""
        return schema.unexpected(self.database)

    def move_to_memory(self) -> None:
        """Go on with a copy, of which nothing is written back."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        self.database.backup(copy)
        self.database = copy

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


def _shown(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def may_write(path: str | os.PathLike[str]) -> bool:
    """Whether this user may change a file."""
    return os.access(
        path, os.W_OK, effective_ids=os.access in os.supports_effective_ids
    )


@contextlib.contextmanager
def _readable(real: str) -> Iterator[tuple[str, str]]:
    """Yield the file to open for a locked ledger, and how.

    Who may read alone makes no file beside the ledger: its writers could not use that.
    """
    if may_write(real):
        yield real, "mode=rw"  # which never creates a file
    elif not os.path.exists(f"{real}-wal"):
        yield real, "mode=ro&immutable=1"
    else:
        folder = schema.TemporaryFolder()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{real}{suffix}", f"{folder.name}/ledger{suffix}")
        yield f"{folder.name}/ledger", "mode=rw"


def keep_for_ever(database: Any) -> None:
    """Never close a connection that a fork took over from a thread's own charge.

    Closing it would write an old state of the log over what the parent wrote since.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
