"""The ledger's file: one SQLite database, one transaction a spend.

The file survives copies, pickles and processes; what it says was spent was
committed before any data were read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _ledger_schema as _file
from . import _migration
from ._errors import LedgerError
from ._locks import PATIENCE, Use, locked, turn
from ._transaction import Transaction, all_entries
from ._uninterrupted import uninterrupted


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
            _file.check_header(self.path)
            mode = _file.stat_of(self.path).st_mode & 0o666
            with locked(real, mode) as used:
                opened = _file.check_only_name(Path(real))
                with self._opened(real, used) as connection:
                    yield connection
                if connection.written is not None:
                    _file.check_in_place(Path(real), opened)
                    _file.remember(connection.ledger_id, connection.written)

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
            return _file.read_meta(connection.database, self.path)

    @uninterrupted
    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        with self._connect() as connection:
            return all_entries(connection)

    @uninterrupted
    def back_up(self, path: Path) -> None:
        """Copy the ledger to a new file, as it stands."""
        with self._connect() as connection:
            _file.back_up(connection.database, path)

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
                _migration.migrate(connection, self.path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not keep:  # what is rolled back needs no copy
                    _migration.upgrade(connection)
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
        self.written: _file.Mark | None = None
        self.ledger_id = _file.read_meta(database, ledger.path)["ledger_id"]
        if ledger.ledger_id not in (None, self.ledger_id):
            raise LedgerError(
                f"{ledger.path} now holds another ledger than the one that this "
                "accountant was made for"
            )
        mark = _file.check_mark(self, self.ledger_id, ledger.path)
        _file.remember(self.ledger_id, mark)
        self._changes = database.total_changes

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run a statement, unless a fork took the connection over."""
        self._used.check()
        return self.database.execute(statement, values)

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""
        return _file.read_meta(self.database, self._path)

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def streams(self) -> None:
        """Make sure that there is a table of streams."""
        self.execute(_file.STREAMS)

    def end(self, keep: bool) -> None:
        """Commit, or roll back."""
        self._used.check()
        mark = None
        if keep and self.database.total_changes > self._changes:
            _file.count_write(self)
            mark = _file.read_mark(self)
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
