"""A ledger on a PostgreSQL server, for fits on several hosts.

Every use is one transaction, of a connection of its own, under a lock that the server
keeps (an advisory one, which ends with the transaction). What was committed is on the
server's disk: ``synchronous_commit`` is asked for each time, and a server that does not
write to its disk (``fsync = off``) is refused. Turns and uses (`_locks`) are those of a
file: one thread of a process at a time, and no fork meanwhile. Who waits for the lock
asks for it again and again, without a connection between, so that forks never wait for
other processes.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _ledger_schema as _file
from . import _server_schema as _schema
from ._errors import LedgerError
from ._extra import psycopg
from ._ledger import keep_for_ever
from ._locks import PATIENCE, Use, turn, use
from ._transaction import Transaction, all_entries
from ._uninterrupted import check_wanted, uninterrupted

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_WRITES = ("INSERT", "UPDATE", "CREATE")


class ServerLedger:
    """Handle of a ledger on a server; holds no connection between calls.

    Parameters
    ----------
    path : str
        Address, ``postgresql://user@host/database``, without a password.
    ledger_id : str or None
        Identity that the ledger must have; None accepts any.
    """

    def __init__(self, path: str, ledger_id: str | None = None) -> None:
        self.path = path
        self.ledger_id = ledger_id

    @contextlib.contextmanager
    def _connect(self) -> Iterator[ServerConnection]:
        """Lock the ledger, as the only thread of the only process that has it."""
        with turn(self.path), locked(self.path) as connection:
            connection.check(self.ledger_id)
            try:
                yield connection
            except BaseException:
                connection.abort()
                raise
            connection.end()

    @uninterrupted
    def meta(self) -> dict[str, Any]:
        """Return identity, budget, unit and neighbors."""
        with self._connect() as connection:
            return connection.meta()

    @uninterrupted
    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        with self._connect() as connection:
            return all_entries(connection)

    @uninterrupted
    def back_up(self, path: Path) -> None:
        """Copy the ledger, as it stands, to a new file: a ledger of SQLite."""
        with self._connect() as connection:
            connection.streams()
            tables = {
                name: connection.execute(f"SELECT * FROM {name}").fetchall()
                for name in ("entries", "curves", "streams")
            }
            meta = connection.meta()
            connection.keep = False
        del meta["schema_version"]
        _file.write_copy(path, meta, tables)

    @contextlib.contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[Transaction]:
        """Hold the ledger's lock: what is read stays true until it is committed.

        Parameters
        ----------
        keep : bool, default=True
            Whether to commit at the end; otherwise everything is rolled back.
        """
        with self._connect() as connection:
            connection.keep = keep
            yield Transaction(connection)


class ServerConnection:
    """An open transaction on a server that holds the ledger's lock.

    Parameters
    ----------
    path : str
        Address of the ledger.
    database : psycopg.Connection
        The connection.
    used : Use
        The stretch of time in which it may be used.
    """

    def __init__(self, path: str, database: Any, used: Use) -> None:
        self._path, self._database, self._used = path, database, used
        self.keep, self._written = True, False
        self._ledger_id = ""

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement, unless a fork took the connection over."""
        self._used.check()
        cursor = self._database.execute(statement.replace("?", "%s"), values or None)
        self._written |= statement.startswith(_WRITES)
        return cursor

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""
        meta = dict(self.execute("SELECT key, value FROM meta").fetchall())
        return _file.check_terms(meta, self._path)

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""
        self.execute(_schema.SET_META, (key, json.dumps(value)))

    def streams(self) -> None:
        """Do nothing: there is a table of streams from the beginning."""

    def check(self, ledger_id: str | None) -> None:
        """Refuse another ledger than this one, or an older copy of it."""
        if not self.execute(_schema.HAS_LEDGER).fetchone()[0]:
            raise LedgerError(
                f"there is no ledger at {self._path}: a pickled accountant opens the "
                "ledger that it came from and never creates one"
            )
        meta = self.meta()
        version = meta.get("schema_version", 0)
        if version != _file.SCHEMA_VERSION:
            _file.check_version(int(version), self._path)
        self._ledger_id = meta["ledger_id"]
        if ledger_id not in (None, self._ledger_id):
            raise LedgerError(
                f"{self._path} now holds another ledger than the one that this "
                "accountant was made for"
            )
        mark = _file.check_mark(self, self._ledger_id, self._path)
        _file.remember(self._ledger_id, mark)
        self._written = False

    def end(self) -> None:
        """Commit, or roll back."""
        self._used.check()
        mark = None
        if self.keep and self._written:
            _file.count_write(self)
            mark = _file.read_mark(self)
        self._finish("COMMIT" if self.keep else "ROLLBACK")
        if mark is not None:
            _file.remember(self._ledger_id, mark)

    def _finish(self, statement: str) -> None:
        try:
            done = self._database.execute(statement)
        except psycopg().Error as error:
            raise LedgerError(
                f"the ledger {self._path} did not acknowledge a charge "
                f"({_schema.first_line(error)}): it may or may not have been entered, "
                "and nothing was released"
            ) from None
        if self.keep and done.statusmessage != "COMMIT":
            raise LedgerError(f"the ledger {self._path} took a charge back")

    def abort(self) -> None:
        """Roll back what is open, if it is this process's."""
        if not self._used.inherited:
            with contextlib.suppress(psycopg().Error):
                self._database.execute("ROLLBACK")


@contextlib.contextmanager
def locked(path: str) -> Iterator[ServerConnection]:
    """Keep all others away from the ledger of a server, and forks waiting.

    Parameters
    ----------
    path : str
        Its address; the turn must be this thread's.

    Raises
    ------
    LedgerError
        If another process keeps the lock for two minutes, or the server can't be used.
    """
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while True:
        with use() as used:
            check_wanted()
            with _connection(path, used) as database:
                if _schema.begin(database):
                    check_wanted()  # again: connecting takes its time
                    yield ServerConnection(path, database, used)
                    return
        if time.monotonic() > deadline:
            raise LedgerError(
                f"the ledger {path} was in use by another process for {PATIENCE:g} "
                "seconds; nothing was charged. Look for a process that is stopped"
            )
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE)


@contextlib.contextmanager
def _connection(path: str, used: Use) -> Iterator[Any]:
    """Yield a connection of its own, which a forked child neither uses nor closes."""
    error_of_server = psycopg().Error
    try:
        database = _schema.connect(path)
        try:
            yield database
        finally:
            if used.inherited:
                keep_for_ever(database)
            else:
                database.close()
    except error_of_server as error:
        raise LedgerError(
            f"the ledger {path} can't be used ({_schema.first_line(error)}); nothing "
            "was charged. Its server must run, let this user in, and be the one that "
            "writes"
        ) from None


@uninterrupted
def create(path: str, terms: dict[str, Any]) -> None:
    """Make a ledger of these terms on a server, unless there is one."""
    with turn(path), locked(path) as connection:
        if not connection.execute(_schema.HAS_LEDGER).fetchone()[0]:
            for statement in _schema.SCHEMA:
                connection.execute(statement)
            for key, value in _schema.first_terms(terms).items():
                connection.set_meta(key, value)
        connection.execute("COMMIT")
