"""Where a ledger is: a SQLite file, or the tables of a PostgreSQL server.

A charge is one transaction under one lock, and is on disk when it is acknowledged.
Nothing is open between charges: copies and forks of an accountant share an address.

The lock of a file is an ``flock`` of another one: SQLite's own locks end when anything
else in the process reads the file and closes it. A process holds one ledger at a time;
forks wait for that, and a child that was forked by the thread of a charge is refused. A
journal that is deleted at each commit leaves nothing that a copy would lack.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sqlite3
import struct
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import LedgerError
from .costs import COLUMNS, LedgerEntry, Sums, digest_of

try:
    import fcntl
except ImportError:  # Windows, where closing a file ends no other handle's locks
    fcntl = None  # type: ignore[assignment]

VERSION = 9
APPLICATION_ID = 0x534B4450  # "SKDP"
PATIENCE = 120.0  # seconds
_PAUSES = 0.0005, 0.02
_FORKED = (
    "this process was forked in the middle of a charge: the charge belongs to the "
    "parent, and this process can no longer use that ledger"
)
SERVER = ("postgresql://", "postgres://")
_SERVER_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION"}

# Facts are the terms, the sums of the entries, and positions of streams; each has a
# digest of itself.
_TABLES = {
    "entries": COLUMNS,
    "facts": {
        "name": "TEXT PRIMARY KEY",
        "value": "TEXT NOT NULL",
        "digest": "TEXT NOT NULL",
    },
}
_PUT = (
    "INSERT INTO facts VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
    "SET value = excluded.value, digest = excluded.digest"
)
_LAST = "SELECT * FROM entries ORDER BY id DESC LIMIT 2"

# Held by the thread that has a ledger open. Reentrant for the thread that forks.
_mutex = threading.RLock()
_here = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_mutex.acquire,
        after_in_parent=_mutex.release,
        after_in_child=_mutex.release,
    )

# Ledgers that SQLite takes to be open for ever, in a child of a charging thread.
_lost: set[str] = set()

# Number and digest of the last entry, and number of moves of streams, that this process
# has seen in each ledger, by its id.
_seen: dict[str, tuple[int, str, int]] = {}


class Transaction:
    """A locked ledger: its terms, sums and entries."""

    def __init__(
        self, path: str, database: Any, ledger_id: str | None, damaged: bool = False
    ) -> None:
        self.path, self._database, self._process = path, database, os.getpid()
        terms, sums = self._fact("terms"), self._fact("sums")
        if terms is None or sums is None:
            raise self._damage("it lost its terms or its sums")
        self.terms: dict[str, Any] = json.loads(terms)
        check_version(path, self.terms["version"])
        if ledger_id not in (None, self.terms["id"]):
            raise LedgerError(
                f"{path} now holds a different ledger from the one that this "
                "accountant was created for"
            )
        self.sums = Sums.from_json(sums)
        self._moves = int(self._fact("moves") or 0)  # of streams
        if not damaged:
            self._check_end()

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement; raise in a child that was forked during a charge."""
        if self._process != os.getpid():
            raise LedgerError(_FORKED)
        return self._database.execute(statement, values)

    def _fact(self, name: str) -> str | None:
        ask = "SELECT value, digest FROM facts WHERE name = ?"
        row = self.execute(ask, (name,)).fetchone()
        if row is not None and row[1] != digest_of(name, row[:1]):
            raise self._damage(f"{name.partition(' ')[0]!r} is not as it was left")
        return None if row is None else str(row[0])

    def _put(self, name: str, value: str) -> None:
        self.execute(_PUT, (name, value, digest_of(name, [value])))

    def _damage(self, fault: str) -> LedgerError:
        return LedgerError(
            f"the ledger {self.path} is damaged: {fault}. Nothing was charged; put a "
            "backup in its place. `skdpspectral-ledger check` lists what is wrong"
        )

    def _mark(self) -> tuple[int, str, int]:
        return self.sums.number, self.sums.digest, self._moves

    def _check_end(self) -> None:
        """Refuse a ledger whose end is not as it was left, or an older copy."""
        mark, seen = self._mark(), _seen.get(self.terms["id"], (0, "", 0))
        last, before = (*self.execute(_LAST).fetchall(), None, None)[:2]
        end = (0, "") if last is None else (last[0], last[-1])
        whole = end == mark[:2]
        if last is not None:
            whole &= end[1] == digest_of(before[-1] if before else "", last[:-1])
        if not whole:
            raise self._damage("its last entries are not as they were left")
        ask = "SELECT digest FROM entries WHERE id = ?"
        entry = self.execute(ask, seen[:1]).fetchone() if seen[0] else (seen[1],)
        if entry != seen[1:2] or mark[2] < seen[2]:
            raise LedgerError(
                f"the ledger {self.path} lacks changes that this process has seen in "
                "it: it was replaced by an older copy, or another copy is in use "
                "elsewhere. Put the newest file back; releases that a copy lacks were "
                "charged nevertheless"
            )
        _seen[self.terms["id"]] = mark

    def entries(self, most: int = 2**53) -> list[LedgerEntry]:
        """Return the entries, oldest first."""
        ask = "SELECT * FROM entries WHERE id <= ? ORDER BY id"
        return list(map(LedgerEntry.of, self.execute(ask, (most,)).fetchall()))

    def append(self, row: tuple[Any, ...], terms: dict[str, Any], sums: Sums) -> None:
        """Write an entry, and the terms and sums after it."""
        marks = ", ".join("?" * len(row))
        self.execute(f"INSERT INTO entries VALUES ({marks})", row)
        if terms != self.terms:  # of the first entry
            self._put("terms", json.dumps(terms))
        self._put("sums", sums.to_json())
        self.terms, self.sums = terms, sums

    def check_pages(self) -> None:
        """Refuse a file with damaged pages."""
        if not self.path.startswith(SERVER):
            verdict = self.execute("PRAGMA quick_check").fetchone()[0]
            if verdict != "ok":
                raise self._damage(verdict)

    def move_stream(self, name: str, before: int | None, after: int) -> bool:
        """Enter or advance a stream; return whether it was at `before`."""
        if self.stream(name) != before:
            return False
        self._put(f"stream {name}", str(after))
        self._moves += 1
        self._put("moves", str(self._moves))
        return True

    def stream(self, name: str) -> int | None:
        """Return the position of a stream; None if the ledger does not have it."""
        found = self._fact(f"stream {name}")
        return None if found is None else int(found)


def check_version(path: str, version: Any) -> None:
    """Refuse ledgers of other versions, with a word on what to do."""
    if version == VERSION:
        return
    remedy = "print it with that release, and enter what it has spent in a new ledger"
    if isinstance(version, int) and version > VERSION:
        remedy = "update skdpspectral"
    raise LedgerError(
        f"the ledger {path} has version {version}, but this release of skdpspectral "
        f"only reads version {VERSION}; it was left as is, and nothing was charged: "
        f"{remedy}"
    )


@contextlib.contextmanager
def transaction(
    path: str, ledger_id: str | None = None, *, keep: bool = True, damaged: bool = False
) -> Iterator[Transaction]:
    """Lock a ledger; commit at the end, or roll back without `keep` and on errors."""
    # Refused if its end is not as it was left, unless it may be `damaged`.
    with _locked(path, keep) as database:
        locked = Transaction(path, database, ledger_id, damaged)
        yield locked
        locked.execute("COMMIT" if keep else "ROLLBACK")
        if keep:
            _seen[locked.terms["id"]] = locked._mark()  # what is on disk


@contextlib.contextmanager
def _locked(path: str, keep: bool, new: bool = False) -> Iterator[Any]:
    """Yield a database in a transaction, or the place of a new file, with all locks."""
    if path in _lost:
        raise LedgerError(_FORKED)
    if getattr(_here, "busy", False):
        raise LedgerError(
            f"the ledger {path} can't be used in the middle of a charge of this same "
            "thread: a signal handler or a finalizer must not charge"
        )
    waited, pause = 0.0, _PAUSES[0]
    begin = _begin_server if path.startswith(SERVER) else _begin_file
    while True:
        # Forks and own threads wait for the mutex: not held, nor counted, in between.
        with _mutex, contextlib.ExitStack() as open_now:
            began = time.monotonic()
            _here.busy = True
            open_now.callback(setattr, _here, "busy", False)
            database = begin(path, open_now, keep, new)
            if database is not None:
                yield database
                return
        if waited > PATIENCE:
            raise LedgerError(
                f"the ledger {path} was in use by another process for {PATIENCE:g} "
                "seconds; nothing was charged. Look for a suspended process"
            )
        time.sleep(pause)
        waited += time.monotonic() - began
        pause = min(1.5 * pause, _PAUSES[1])


@contextlib.contextmanager
def _closing(database: Any, errors: type[Exception], path: str) -> Iterator[None]:
    """Close a database at the end, and reword its errors."""
    process = os.getpid()
    try:
        yield
    except errors as error:
        said = str(error).strip().partition("\n")[0]
        raise LedgerError(
            f"the ledger {path} can't be used ({said}); nothing was released. A file "
            "must be on a local disk, writable and undamaged; a server must be running "
            "and accept this user"
        ) from error
    finally:
        if process == os.getpid():
            with contextlib.suppress(Exception):
                database.execute("ROLLBACK")
            database.close()
        else:  # a forked child: closing would end or overwrite what the parent writes
            import ctypes

            _lost.add(path)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))


def _not_writable(path: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} can't be written by this user, who may only read it; "
        "nothing was charged"
    )


# -- files -----------------------------------------------------------------------------


def _begin_file(
    path: str, open_now: contextlib.ExitStack, keep: bool, new: bool
) -> Any:
    """Return the database of a file, locked; None if another process has the lock."""
    real = os.path.realpath(path)
    if not new:
        _check_file(path, real)
    writes = new or os.access(real, os.W_OK)
    if keep and not writes:
        raise _not_writable(path)
    if writes and not _lock_file(real, open_now):
        return None
    if new:
        return real
    uri = f"{Path(real).as_uri()}?mode={'rw' if writes else 'ro'}"
    database = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
    open_now.enter_context(_closing(database, sqlite3.Error, path))
    database.execute("PRAGMA synchronous = EXTRA")
    database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    asked = ("PRAGMA page_count", "PRAGMA page_size")
    pages, size = (database.execute(ask).fetchone()[0] for ask in asked)
    if os.path.getsize(real) < pages * size:
        raise LedgerError(f"the ledger {path} is truncated; it was left as is")
    return database


def _check_file(path: str, real: str) -> None:
    """Refuse what is no ledger, and names that hide the lock or the journal."""
    if not os.path.isfile(real):
        raise LedgerError(
            f"there is no ledger at {path}: check the path, or put the file back. A "
            "pickled accountant never creates a ledger: pass the estimator another "
            "accountant, or keep the ledger on a server for workers of other hosts"
        )
    try:
        with open(real, "rb") as file:
            header = file.read(72)
        found = os.stat(real)
        folder = os.stat(os.path.dirname(real))
    except OSError as error:
        raise LedgerError(f"the ledger {path} can't be read: {error}") from None
    if header[:15] != b"SQLite format 3" or header[68:] != struct.pack(
        ">I", APPLICATION_ID
    ):
        raise LedgerError(f"{path} is not a privacy ledger; it was left as is")
    check_version(path, struct.unpack(">I", header[60:64])[0])
    if found.st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has {found.st_nlink} names (hard links), so that an "
            "interrupted charge could be lost: remove the others; backup() makes copies"
        )
    if found.st_dev != folder.st_dev:
        raise LedgerError(
            f"the ledger {path} is a mount point, which hides its lock from other "
            "processes: mount its folder, as in `docker run -v /host/folder:/folder`"
        )


def _lock_file(real: str, open_now: contextlib.ExitStack) -> bool:
    """Try once to lock the file beside a ledger."""
    if fcntl is None:
        return True
    name = f"{real}-lock"
    try:
        mode = os.stat(real).st_mode & 0o666 if os.path.exists(real) else 0o600
        flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(name, flags, mode)
        open_now.callback(os.close, descriptor)
        if os.fstat(descriptor).st_mode & 0o666 != mode:
            with contextlib.suppress(PermissionError):  # its owner does it
                os.fchmod(descriptor, mode)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # At once, although a forked child may hold the same open file.
        open_now.callback(_unlock, descriptor, os.getpid())
        return os.path.samestat(os.fstat(descriptor), os.stat(name))
    except (BlockingIOError, FileNotFoundError, NotADirectoryError):
        folder = os.path.dirname(real)
        if os.path.isdir(folder):
            return False
        said = f"path: the folder {folder} does not exist; create it"
        raise LedgerError(said) from None
    except OSError as error:
        raise LedgerError(
            f"the ledger {real} can't be locked ({error}): it must be on a local disk "
            f"of this host, and {name} must be a file that this user can read or create"
        ) from error


def _unlock(descriptor: int, process: int) -> None:
    if process == os.getpid():
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def create(path: str, terms: dict[str, Any]) -> None:
    """Create a ledger with these terms, unless there is one."""
    whole = {"version": VERSION, "id": uuid.uuid4().hex, **terms}
    facts = {"terms": json.dumps(whole), "sums": Sums().to_json()}
    rows = [(name, text, digest_of(name, [text])) for name, text in facts.items()]
    tables: dict[str, list[Any]] = {"facts": rows}
    with _locked(path, keep=True, new=True) as place:
        if isinstance(place, _Server):
            if not _exists(place):
                place.execute("CREATE SCHEMA IF NOT EXISTS skdpspectral")
                _write_tables(place, tables)
                place.execute("COMMIT")
        elif not os.path.exists(place):
            _write_file(place, tables)


def _write_file(real: str, tables: dict[str, list[Any]]) -> None:
    """Write a ledger that appears at its path when it is complete."""
    folder = os.path.dirname(real)
    if os.path.lexists(f"{real}-journal"):
        raise LedgerError(
            f"{real}-journal is left over from another ledger at {real}: put that "
            "ledger back, or move its remaining files away too"
        )
    try:
        with tempfile.TemporaryDirectory(prefix=".ledger-", dir=folder) as draft:
            place = f"{draft}/new"
            os.close(os.open(place, os.O_CREAT | os.O_EXCL, 0o600))
            with contextlib.closing(sqlite3.connect(place)) as database:
                database.execute("PRAGMA synchronous = EXTRA")
                database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                database.execute(f"PRAGMA user_version = {VERSION}")
                _write_tables(database, tables)
                database.commit()
            os.rename(place, real)
        if os.name == "posix":
            descriptor = os.open(folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"no ledger can be created at {real}: {error}; it requires a local disk"
        ) from error


def _write_tables(database: Any, tables: dict[str, list[Any]]) -> None:
    """Create the tables with these rows."""
    for table, columns in _TABLES.items():
        kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        database.execute(f"CREATE TABLE {table} ({kinds})")
        marks = ", ".join("?" * len(columns))
        for row in tables.get(table, ()):
            database.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(row))


def back_up(path: str, ledger_id: str, copy: str) -> None:
    """Copy a ledger to a new file."""
    real = os.path.realpath(copy)
    if os.path.lexists(copy):
        raise LedgerError(
            f"no backup can be created at {copy}: there is a file of that name, which "
            "was left as it is; choose another name"
        )
    with transaction(path, ledger_id, keep=False) as locked:
        rows = {t: locked.execute(f"SELECT * FROM {t}").fetchall() for t in _TABLES}
    _write_file(real, rows)


# -- servers ---------------------------------------------------------------------------


class _Server:
    """A connection of psycopg that takes SQLite's marks and types."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.close = connection.close

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        for name, other in _SERVER_TYPES.items() if "CREATE" in statement else ():
            statement = statement.replace(f" {name}", f" {other}")
        if values:
            statement = statement.replace("%", "%%").replace("?", "%s")
        done = self._connection.execute(statement, values or None)
        if statement == "COMMIT" and done.statusmessage != "COMMIT":
            raise LedgerError("the server of a ledger rolled a charge back")
        return done


def check_address(path: str) -> str:
    """Return a valid address of a server; raise otherwise."""
    lib = _psycopg()
    try:
        parts = lib.conninfo.conninfo_to_dict(path)
    except lib.Error:
        raise ValueError(
            "path must be the address postgresql://user@host:port/database of a "
            "server; the given path can't be read as one"
        ) from None
    if {"password", "sslpassword"} & parts.keys():
        raise ValueError(
            "path must not contain a password, which would be in every pickle: store "
            "it in a password file (~/.pgpass), in PGPASSWORD, or in a service file"
        )
    for name in ("host", "hostaddr", "port"):
        if "," in str(parts.get(name, "")):
            raise ValueError(f"path must name one server, got several in {name}")
    if not parts.get("dbname"):
        raise ValueError("path must name a database: postgresql://user@host/database")
    return path


def _psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise ImportError(
            "a ledger at postgresql://... needs psycopg 3: "
            "pip install '.[postgres]' in a checkout"
        ) from error


def _exists(database: _Server) -> bool:
    """Return whether there is a ledger."""
    found = database.execute("SELECT to_regclass('skdpspectral.facts')").fetchone()
    return found[0] is not None


def _begin_server(
    path: str, open_now: contextlib.ExitStack, keep: bool, new: bool
) -> Any:
    """Return a connection to a server, with the ledger locked; None if it is in use."""
    lib = _psycopg()
    parts = lib.conninfo.conninfo_to_dict(path)
    parts = {"connect_timeout": 10, "application_name": "skdpspectral", **parts}
    try:
        made = lib.connect(**{**parts, "client_encoding": "utf8"}, autocommit=True)
    except lib.Error as error:
        said = str(error).strip().partition("\n")[0]
        raise LedgerError(
            f"the ledger {path} can't be used ({said}); nothing was charged"
        ) from None
    database = _Server(made)
    open_now.enter_context(_closing(database, lib.Error, path))
    _begin(database, "READ COMMITTED READ WRITE")
    if database.execute("SHOW fsync").fetchone()[0] != "on":
        raise LedgerError(
            f"the server of {path} runs with fsync = off: what it acknowledges may be "
            "lost; turn it on"
        )
    if not _exists(database):
        if not new:
            raise LedgerError(
                f"there is no ledger at {path}: a pickled accountant opens the ledger "
                "that it came from and never creates one"
            )
        database.execute("SELECT pg_advisory_xact_lock(1397441616)")
        return database  # one creates it, others wait
    try:
        database.execute("LOCK TABLE facts IN EXCLUSIVE MODE NOWAIT")
    except lib.errors.LockNotAvailable:
        return None
    except lib.errors.InsufficientPrivilege:
        if keep and not new:
            raise _not_writable(path) from None
        database.execute("ROLLBACK")  # the ledger as it is at one moment
        _begin(database, "REPEATABLE READ READ ONLY")
    return database


def _begin(database: _Server, kind: str) -> None:
    """Begin a transaction, in which no other schema's tables can be meant."""
    database.execute(f"BEGIN ISOLATION LEVEL {kind}")
    database.execute("SET LOCAL synchronous_commit = on")
    database.execute("SET LOCAL search_path = skdpspectral, pg_temp")
    database.execute("SET LOCAL extra_float_digits = 3")
