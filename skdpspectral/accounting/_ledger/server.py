"""A ledger on a PostgreSQL server for fits on several hosts, and how paths are opened.

Every use is one transaction, of a connection of its own, under a lock of a table, which
ends with the transaction. Users who may only read the tables read them without it, as
they are at one moment. What was committed is on the
server's disk: ``synchronous_commit`` is asked for each time, and a server that does not
write to its disk (``fsync = off``) is refused. Turns and uses (`locks`) are those of a
file: one thread of a process at a time, and no fork meanwhile. Who waits for the lock
asks for it again and again, without a connection between, so that forks never wait for
other processes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from .._errors import LedgerError
from .entry_chain import (
    COLUMNS,
    HEAD,
    INDICES,
    SCHEMA_VERSION,
    TABLES,
    Transaction,
    all_entries,
    check_identity,
    check_terms,
    check_version,
    count_write,
    differences,
    first_terms,
    head_of,
    not_writable,
    remember,
)
from .locks import Use, attempts, check_wanted, turn, uninterrupted, use
from .sqlite_file import Ledger, create_file, never_close, write_copy

PREFIXES = ("postgresql://", "postgres://")

# Among those who charge. It needs the right to change the table, unlike an advisory
# lock, which anybody in the database can hold; and leaves the table readable.
_LOCK = "LOCK TABLE skdpspectral.meta IN EXCLUSIVE MODE NOWAIT"
_CREATION_PATIENCE = "SET LOCAL lock_timeout = '2s'"
_CONNECT_SECONDS = 10

# Nothing else in the search path: no other schema's table can be meant. Temporary ones
# come first, unless they are named.
_PATH = "SET LOCAL search_path = skdpspectral, pg_temp"

# Numbers come back as they were written, whatever the server rounds others to.
_DIGITS = "SET LOCAL extra_float_digits = 3"
HAS_LEDGER = "SELECT to_regclass('skdpspectral.meta') IS NOT NULL"

SET_META = (
    "INSERT INTO meta VALUES (?, ?::jsonb) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)

# Of SQLite's names of types.
_TYPES = {"INTEGER PRIMARY": "BIGINT PRIMARY", "REAL": "DOUBLE PRECISION"}


def _server_type(column: str) -> str:
    """Return the server's type of a column."""
    for name, other in _TYPES.items():
        column = column.replace(name, other)
    return column


_ENTRIES = ", ".join(f"{name} {_server_type(of)}" for name, of in COLUMNS.items())

SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS skdpspectral",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value JSONB)",
    f"CREATE TABLE entries ({_ENTRIES})",
    "CREATE TABLE curves "
    "(entry BIGINT NOT NULL, curve TEXT NOT NULL, times BIGINT NOT NULL)",
    "CREATE TABLE streams (id TEXT PRIMARY KEY, position BIGINT)",
    "CREATE TABLE counts (curve TEXT PRIMARY KEY, times BIGINT NOT NULL)",
    *(f"CREATE INDEX {name} ON {on}" for name, on in INDICES.items()),
)

# One pass over one catalog: every charge asks for it.
OBJECTS = """
SELECT CASE WHEN relkind = 'i' THEN 'index' WHEN relkind = 'v' THEN 'view'
    WHEN relkind <> 'r' THEN 'relation of kind ' || relkind::text
    WHEN relhastriggers THEN 'table with triggers'
    WHEN relhasrules THEN 'table with rules'
    WHEN relrowsecurity THEN 'table with row security' ELSE 'table' END,
    relname::text, relname::text
FROM pg_class WHERE relnamespace = 'skdpspectral'::regnamespace
AND (relkind <> 'i' OR relname NOT LIKE '%\\_pkey')
"""

WANTED = {("table", name, name) for name in TABLES} | {
    ("index", name, name) for name in INDICES
}


def psycopg() -> Any:
    """Return the module psycopg; errors say how to install it."""
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise ImportError(
            "a ledger at postgresql://... needs psycopg 3: "
            "pip install '.[postgres]' in a checkout"
        ) from error


def is_address(path: object) -> bool:
    """Return whether a path is the address of a server."""
    return isinstance(path, str) and path.startswith(PREFIXES)


def check_address(path: str) -> str:
    """Return a valid address; raise otherwise."""
    lib = psycopg()
    try:
        parts = lib.conninfo.conninfo_to_dict(path)
    except lib.Error:
        raise ValueError(
            "path must be the address postgresql://user@host:port/database of a "
            "server; the given path can't be read as one"
        ) from None
    if {"password", "sslpassword"} & parts.keys():
        raise ValueError(
            "path must not contain a password: it is written into every pickle of the "
            "accountant. Store it in a password file (~/.pgpass), in PGPASSWORD, or in "
            "a service file"
        )
    for name in ("host", "hostaddr", "port"):
        if "," in str(parts.get(name, "")):
            raise ValueError(
                f"path must name one server, got several in {name}: charges to one "
                "would be unknown to the others"
            )
    if not parts.get("dbname"):
        raise ValueError("path must name a database: postgresql://user@host/database")
    return path


def connect(path: str) -> Any:
    """Return a new connection without a transaction."""
    lib = psycopg()
    parts = lib.conninfo.conninfo_to_dict(path)
    parts.setdefault("connect_timeout", _CONNECT_SECONDS)
    parts.setdefault("application_name", "skdpspectral")
    parts["client_encoding"] = "utf8"  # text of servers that know none comes as bytes
    return lib.connect(**parts, autocommit=True)


def begin(database: Any) -> bool:
    """Begin a transaction, and try once to lock the ledger, if it exists."""
    # One statement after another: each sees what was committed before it, so what
    # follows the lock sees all that its last holder wrote.
    database.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    database.execute("SET LOCAL synchronous_commit = on")
    database.execute(_PATH)
    database.execute(_DIGITS)
    if database.execute("SHOW fsync").fetchone()[0] != "on":
        raise LedgerError(
            "the server of this ledger runs with fsync = off: what it acknowledges may "
            "be lost; turn it on"
        )
    if not database.execute(HAS_LEDGER).fetchone()[0]:
        database.execute(_CREATION_PATIENCE)
        return True
    try:
        database.execute(_LOCK)
    except psycopg().errors.LockNotAvailable:
        return False
    return True


def first_line(error: Exception) -> str:
    """Return the first line of a server's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


_PAUSES = 0.002, 0.1
_ATTEMPTS = 10  # to make a ledger that others make at the same time
_WRITES = ("INSERT", "UPDATE", "CREATE")


class ServerLedger:
    """Handle of a ledger at an address, without a connection between calls.

    `ledger_id` is the required identity; None accepts any.
    """

    def __init__(self, path: str, ledger_id: str | None = None) -> None:
        self.path = path
        self.ledger_id = ledger_id

    @contextlib.contextmanager
    def _connect(self) -> Iterator[ServerConnection]:
        """Lock the ledger for this thread of this process."""
        with turn(self.path), lock_tables(self.path) as connection:
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
        """Copy the ledger to a new SQLite file."""
        with self._connect() as connection:
            connection.keep = False
            Transaction(connection)  # refuses to seal what is damaged
            tables = {
                name: connection.execute(f"SELECT * FROM {name}").fetchall()
                for name in ("entries", "curves", "streams", "counts")
            }
            meta = connection.meta()
        del meta["schema_version"]
        write_copy(path, meta, tables)

    @contextlib.contextmanager
    def inspected(self) -> Iterator[ServerConnection]:
        """Yield the ledger for an inspection."""
        with self._connect() as connection:
            connection.keep = False
            yield connection

    @contextlib.contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[Transaction]:
        """Hold the ledger's lock; commit at the end, or roll back without `keep`."""
        with self._connect() as connection:
            connection.keep = keep
            if keep and connection.reads:
                raise not_writable(self.path)
            yield Transaction(connection)


class ServerConnection:
    """An open transaction on a server that holds the ledger's lock.

    `used` is the period of use, `reads` whether the user is restricted to reading.
    """

    def __init__(self, path: str, database: Any, used: Use, reads: bool) -> None:
        self.path, self._database, self._used = path, database, used
        self.reads = reads
        self.keep, self._written = True, False
        self._ledger_id = ""

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement; raise if a fork took the connection over."""
        self._used.check()
        cursor = self._database.execute(statement.replace("?", "%s"), values or None)
        self._written |= statement.startswith(_WRITES)
        return cursor

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""
        meta = dict(self.execute("SELECT key, value FROM meta").fetchall())
        check_version(meta.get("schema_version"), self.path)
        return check_terms(meta, self.path)

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""
        self.execute(SET_META, (key, json.dumps(value)))

    def unexpected(self) -> list[str]:
        """Return tables, views and triggers that no ledger has, and what it lacks."""
        found = set(self.execute(OBJECTS).fetchall())
        return differences(WANTED, found)

    def check(self, ledger_id: str | None) -> None:
        """Refuse other ledgers, and outdated copies of this one."""
        if not self.execute(HAS_LEDGER).fetchone()[0]:
            raise LedgerError(
                f"there is no ledger at {self.path}: a pickled accountant opens the "
                "ledger that it came from and never creates one"
            )
        self._ledger_id = check_identity(self, ledger_id)
        self._written = False

    def end(self) -> None:
        """Commit, or roll back."""
        self._used.check()
        mark = None
        if self.keep and self._written:
            mark = count_write(self)
        self._finish("COMMIT" if self.keep else "ROLLBACK")
        if mark is not None:
            remember(self._ledger_id, mark)

    def _finish(self, statement: str) -> None:
        try:
            done = self._database.execute(statement)
        except psycopg().Error as error:
            raise LedgerError(
                f"the ledger {self.path} did not acknowledge a charge "
                f"({first_line(error)}): it may or may not have been entered, "
                "and nothing was released"
            ) from None
        if self.keep and done.statusmessage != "COMMIT":
            raise LedgerError(f"the server rolled a charge to {self.path} back")

    def abort(self) -> None:
        """Roll back, if the transaction belongs to this process."""
        if not self._used.inherited:
            with contextlib.suppress(psycopg().Error):
                self._database.execute("ROLLBACK")


@contextlib.contextmanager
def lock_tables(path: str) -> Iterator[ServerConnection]:
    """Lock the ledger of a server, and let forks wait.

    The turn must be this thread's. Raises a LedgerError if another process keeps the
    lock for two minutes, or the server can't be used.
    """
    for _ in attempts(path, *_PAUSES):
        with use() as used:
            check_wanted()
            with _connection(path, used) as database:
                begun, reads = _begin(database)
                if begun:
                    check_wanted()  # again: connecting takes its time
                    yield ServerConnection(path, database, used, reads)
                    return


def _begin(database: Any) -> tuple[bool, bool]:
    """Begin a transaction; return whether it began, and whether it is read-only."""
    try:
        return begin(database), False
    except psycopg().errors.InsufficientPrivilege:
        database.execute("ROLLBACK")
        # The ledger as it is at one moment.
        database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        database.execute(_PATH)
        database.execute(_DIGITS)
        return True, True


@contextlib.contextmanager
def _connection(path: str, used: Use) -> Iterator[Any]:
    """Yield a new connection, which a forked child neither uses nor closes."""
    error_of_server = psycopg().Error
    try:
        database = connect(path)
        try:
            yield database
        finally:
            if used.inherited:
                never_close(database)
            else:
                database.close()
    except error_of_server as error:
        raise LedgerError(
            f"the ledger {path} can't be used ({first_line(error)}); nothing was "
            "charged. Its server must be running, accept this user, and be the "
            "primary server, which accepts writes"
        ) from None


@uninterrupted
def create_tables(path: str, terms: dict[str, Any]) -> None:
    """Create a ledger with these terms on a server, unless one exists."""
    for _ in range(_ATTEMPTS):
        with turn(path), lock_tables(path) as connection:
            if connection.execute(HAS_LEDGER).fetchone()[0]:
                return
            errors = psycopg().errors
            try:
                for statement in SCHEMA:
                    connection.execute(statement)
                meta = {"schema_version": SCHEMA_VERSION, **first_terms(terms)}
                for key, value in {**meta, HEAD: head_of(meta, 0, "")}.items():
                    connection.set_meta(key, value)
                connection.execute("COMMIT")
                return
            # Somebody else made, or is about to make it: it is there the next time.
            except (errors.UniqueViolation, errors.DuplicateTable):
                connection.abort()
            except (errors.DuplicateSchema, errors.LockNotAvailable):
                connection.abort()
    raise LedgerError(
        f"no ledger can be created at {path}: another process is creating one"
    )


AnyLedger: TypeAlias = Ledger | ServerLedger
FilePath = TypeVar("FilePath", bound=str | os.PathLike[str])


def ledger_at(path: str, ledger_id: str | None = None) -> AnyLedger:
    """Return a handle of the ledger at a path or address, of this identity."""
    if is_address(path):
        return ServerLedger(path, ledger_id)
    return Ledger(path, ledger_id)


def existing_ledger(path: str) -> AnyLedger:
    """Return a handle of an existing ledger, after checking it."""
    ledger = ledger_at(check_address(path) if is_address(path) else _no_address(path))
    ledger.meta()
    return ledger


def open_path(path: str | os.PathLike[str], terms: dict[str, Any]) -> str:
    """Return the location of a ledger; create it with these terms if missing."""
    if isinstance(path, str) and is_address(path):
        address = check_address(path)
        create_tables(address, terms)
        return address
    file = Path(_no_address(path))
    if not file.exists():
        if not file.parent.is_dir():
            raise LedgerError(
                f"path: the folder {file.parent} does not exist; create it"
            )
        create_file(file, terms)
    return str(file.absolute())


def _no_address(path: FilePath) -> FilePath:
    """Return the path of a file; refuse other addresses."""
    if isinstance(path, str) and "://" in path:  # not quoted: it may have a password
        raise ValueError(
            "path must be a file, or an address that begins with postgresql://"
        )
    return path
