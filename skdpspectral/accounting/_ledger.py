"""The ledger's file: one SQLite database, one transaction a spend.

The file survives copies, pickles and processes; what it says was spent was
committed before any data were read.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import struct
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..mechanisms import Neighbours, PrivacyPlan, Unit
from ._composition import relation_factor
from ._errors import LedgerError

APPLICATION_ID = 0x534B4450  # "SKDP"
SCHEMA_VERSION = 1
_BUSY_SECONDS = 120.0
_MAGIC = b"SQLite format 3\x00"

_COLUMNS = {
    "id": "INTEGER PRIMARY KEY",
    "time": "REAL NOT NULL",
    "estimator": "TEXT NOT NULL",
    "label": "TEXT",
    "partition": "TEXT NOT NULL",
    "block": "TEXT NOT NULL",
    "asserted": "INTEGER NOT NULL",
    "epsilon": "REAL NOT NULL",
    "delta": "REAL NOT NULL",
    "mu": "REAL NOT NULL",
    "ledger_mu": "REAL NOT NULL",
    "unit": "TEXT NOT NULL",
    "neighbours": "TEXT NOT NULL",
    "assumption": "TEXT NOT NULL",
    "seeded": "INTEGER NOT NULL",
    "plan": "TEXT NOT NULL",
}
ENTRY_COLUMNS = tuple(_COLUMNS)
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE entries ({", ".join(f"{k} {v}" for k, v in _COLUMNS.items())});
"""

# A partition costs its dearest block; partitions compose.
_TOTAL = """
SELECT SUM(dearest) FROM (
    SELECT MAX(cost) AS dearest FROM (
        SELECT partition, SUM(ledger_mu * ledger_mu) AS cost
        FROM entries GROUP BY partition, block
    ) GROUP BY partition
)
"""


_META_KEYS = frozenset({"ledger_id", "epsilon", "delta", "unit", "neighbours"})
_threads = threading.Lock()


def _renew_lock() -> None:
    """Give a forked child a lock that no thread of its parent holds."""
    global _threads
    _threads = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    with _threads:
        yield


def _new_name() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Part:
    """Where an entry stands among disjoint blocks of rows.

    Parameters
    ----------
    partition : str or None, default=None
        Name of a division of the rows into disjoint blocks; None for a fresh one,
        which nothing else is a part of.
    block : str, default="all rows"
        Name of the block.
    asserted : bool or None, default=None
        Whether disjointness is only somebody's word: so it is of any partition
        that is given by name, unless what checked it says False.
    """

    partition: str | None = None
    block: str = "all rows"
    asserted: bool | None = None

    def __post_init__(self) -> None:
        if self.asserted is None:
            object.__setattr__(self, "asserted", self.partition is not None)
        if self.partition is None:
            object.__setattr__(self, "partition", _new_name())


class Ledger:
    """Handle of a ledger file; holds no connection between calls.

    Parameters
    ----------
    path : str or path-like
        The file.
    ledger_id : str or None
        Identity that the file must have; None accepts any.
    """

    def __init__(self, path, ledger_id: str | None = None):
        self.path = Path(path)
        self.ledger_id = ledger_id

    @classmethod
    def create(cls, path, meta: dict) -> None:
        """Make a new ledger file at `path`, atomically; keep one that is there."""
        path = Path(path)
        if os.path.exists(f"{path}-wal") and not path.exists():
            raise LedgerError(
                f"{path}-wal is what is left of another ledger at {path}: put that "
                "ledger back, or move the rest of it away too"
            )
        try:
            handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
        except OSError as error:
            raise LedgerError(f"no ledger can be made at {path}: {error}") from None
        os.close(handle)
        try:
            with contextlib.closing(sqlite3.connect(draft)) as connection:
                connection.executescript(_SCHEMA)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                rows = {"ledger_id": _new_name(), **meta}.items()
                connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
                connection.commit()
                connection.execute("PRAGMA journal_mode = WAL")
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"no ledger can be made at {path}: {error}; it needs a local disk"
            ) from error
        finally:
            os.unlink(draft)

    def _check_header(self) -> None:
        """Refuse a foreign file before SQLite may touch it."""
        try:
            with open(self.path, "rb") as file:
                header = file.read(100)
        except FileNotFoundError:
            raise LedgerError(
                f"there is no ledger at {self.path}: a pickled accountant opens the "
                "ledger that it came from and never creates one. Give the estimator "
                "another accountant, or put the file back"
            ) from None
        except OSError as error:
            raise LedgerError(
                f"the ledger {self.path} can't be read: {error}"
            ) from None
        if len(header) < 100 or not header.startswith(_MAGIC):
            raise LedgerError(f"{self.path} is not a privacy ledger; it was left as is")
        page, pages = header[16:18], header[28:32]
        version, application = header[60:64], header[68:72]
        if struct.unpack(">I", application)[0] != APPLICATION_ID:
            raise LedgerError(
                f"{self.path} is a database of another program; it was left as is"
            )
        if struct.unpack(">I", version)[0] != SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self.path} has schema version "
                f"{struct.unpack('>I', version)[0]}, this release reads version "
                f"{SCHEMA_VERSION}; it was left as is"
            )
        page = struct.unpack(">H", page)[0]
        page = 65536 if page == 1 else page
        # A write-ahead log may hold pages that the header already counts. The order
        # matters: once the log is gone, the file has what an earlier header counted.
        if os.path.exists(f"{self.path}-wal"):
            return
        if self.path.stat().st_size < page * struct.unpack(">I", pages)[0]:
            raise LedgerError(f"the ledger {self.path} is truncated; it was left as is")

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        # Closing any descriptor of a file drops all of a process's locks on it: one
        # thread at a time may touch a ledger.
        with _one_thread():
            yield from self._connected()

    def _connected(self) -> Iterator[sqlite3.Connection]:
        self._check_header()
        try:
            # mode=rw never creates a file.
            uri = f"{self.path.resolve().as_uri()}?mode=rw"
            connection = sqlite3.connect(
                uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None
            )
            with contextlib.closing(connection):
                connection.execute("PRAGMA synchronous = FULL")
                self._check_identity(connection)
                yield connection
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} can't be used ({error}). It must lie on a "
                "local disk of this host, be writable, and be whole"
            ) from error

    def _check_identity(self, connection: sqlite3.Connection) -> None:
        found = self._read_meta(connection).get("ledger_id")
        if self.ledger_id is not None and found != self.ledger_id:
            raise LedgerError(
                f"{self.path} now holds another ledger than the one that this "
                "accountant was made for"
            )

    def _read_meta(self, connection: sqlite3.Connection) -> dict:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        if not meta.keys() >= _META_KEYS:
            # A lost budget must not pass for no budget.
            missing = sorted(_META_KEYS - meta.keys())
            raise LedgerError(f"the ledger {self.path} is damaged: it lost {missing}")
        return meta

    def meta(self) -> dict:
        """Return identity, budget, unit and neighbours, after a check of the file."""
        with self._connect() as connection:
            verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
            if verdict != "ok":
                raise LedgerError(f"the ledger {self.path} is damaged: {verdict}")
            return self._read_meta(connection)

    def entries(self) -> list[dict]:
        """Return all entries, oldest first."""
        with self._connect() as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute("SELECT * FROM entries ORDER BY id")
            return [dict(row) for row in rows]

    @contextlib.contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[Transaction]:
        """Hold the write lock: what is read stays true until it is committed.

        Parameters
        ----------
        keep : bool, default=True
            Whether to commit at the end; otherwise everything is rolled back.
        """
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(self, connection)
                connection.execute("COMMIT" if keep else "ROLLBACK")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


class Transaction:
    """What may be done while the ledger is locked."""

    def __init__(self, ledger: Ledger, connection: sqlite3.Connection):
        self._ledger = ledger
        self._connection = connection

    def execute(self, statement: str, values: tuple = ()) -> sqlite3.Cursor:
        """Run a statement in the transaction."""
        return self._connection.execute(statement, values)

    def relation(self) -> tuple[Unit, Neighbours] | None:
        """Return the ledger's unit and neighbours, once fixed."""
        meta = self._ledger._read_meta(self._connection)
        if meta.get("unit") is None:
            return None
        return Unit(meta["unit"]), Neighbours(meta["neighbours"])

    def fix_relation(self, unit: Unit, neighbours: Neighbours) -> None:
        """Fix the unit and neighbours that all entries are converted to."""
        rows = [("unit", str(unit)), ("neighbours", str(neighbours))]
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def total_mu(self) -> float:
        """Return the composed cost of all entries, seeded ones at face value."""
        # Summing infinities is left to no version of SQLite.
        query = "SELECT MAX(ledger_mu) FROM entries"
        largest = self._connection.execute(query).fetchone()[0]
        if largest is None:
            return 0.0
        if largest == math.inf:
            return math.inf
        return math.sqrt(self._connection.execute(_TOTAL).fetchone()[0])

    def smallest_delta(self) -> float | None:
        """Return the smallest delta of the entries; None if there is none."""
        query = "SELECT MIN(delta) FROM entries"
        return self._connection.execute(query).fetchone()[0]

    def any_seeded(self) -> bool:
        """Return whether any entry's noise came from a seed."""
        query = "SELECT EXISTS (SELECT 1 FROM entries WHERE seeded)"
        return bool(self._connection.execute(query).fetchone()[0])

    def append(self, plan: PrivacyPlan, factor: float, part: Part, label) -> None:
        """Write an entry; it counts from the commit on."""
        self._connection.execute(
            "INSERT INTO entries VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
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
                factor * plan.mu,
                str(plan.unit),
                str(plan.neighbours),
                str(plan.assumption),
                int(plan.seeded),
                plan.to_json(),
            ),
        )


def conversion_factor(plan: PrivacyPlan, relation: tuple[Unit, Neighbours]) -> float:
    """Factor that restates a plan for a ledger's relation, or an error."""
    factor = relation_factor(plan.unit, plan.neighbours, *relation)
    if factor is None:
        raise LedgerError(
            f"this ledger protects per {relation[0]} under {relation[1]}, which a "
            f"guarantee per {plan.unit} under {plan.neighbours} does not imply; use a "
            "ledger of its own for it"
        )
    return factor
