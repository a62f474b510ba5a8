"""The file of a ledger: one SQLite database, one transaction a charge.

The file survives copies, pickles and processes; what it says was spent was committed
before any data were read. Entries are written by `entry_chain`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import struct
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._errors import LedgerError
from .entry_chain import (
    COLUMNS,
    HEAD,
    INDICES,
    SCHEMA_VERSION,
    TABLES,
    Mark,
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
from .locks import PATIENCE, Use, lock_file, turn, uninterrupted

APPLICATION_ID = 0x534B4450  # "SKDP"
_MAGIC = b"SQLite format 3\x00"

_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE entries ({", ".join(f"{k} {v}" for k, v in COLUMNS.items())});
CREATE TABLE curves
    (entry INTEGER NOT NULL, curve TEXT NOT NULL, times INTEGER NOT NULL);
CREATE TABLE streams (id TEXT PRIMARY KEY, position INTEGER) WITHOUT ROWID;
CREATE TABLE counts (curve TEXT PRIMARY KEY, times INTEGER NOT NULL);
{"".join(f"CREATE INDEX {name} ON {on};" for name, on in INDICES.items())}
"""


class TemporaryFolder:
    """A folder that its creating process deletes after its last use."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="skdpspectral-")
        weakref.finalize(self, self._remove, self.name, os.getpid())

    @staticmethod
    def _remove(name: str, owner: int) -> None:
        if os.getpid() == owner:
            shutil.rmtree(name, ignore_errors=True)


# -- making and copying ----------------------------------------------------------------


@uninterrupted
def create_file(path: Path, meta: dict[str, Any]) -> None:
    """Create a ledger file at `path`, atomically, unless it exists."""
    if path.is_symlink():
        raise LedgerError(f"there is no ledger at {path}, which is a broken link")
    real = os.path.realpath(path)
    with turn(real), lock_file(real):
        if os.path.exists(real):
            return
        _refuse_remains(path, real)
        with _published(Path(real), "ledger") as connection:
            _write_schema(connection, first_terms(meta))
            connection.commit()
            connection.execute("PRAGMA journal_mode = WAL")


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the ledger of a connection to a new file, atomically."""
    with _new_backup(path) as copy:
        connection.backup(copy)


def write_copy(
    path: Path, meta: dict[str, Any], tables: dict[str, list[tuple[Any, ...]]]
) -> None:
    """Write a server's ledger to a new file, atomically."""
    with _new_backup(path) as copy:
        _write_schema(copy, meta, tables["entries"])
        for name, rows in tables.items():
            if rows:
                marks = ",".join("?" * len(rows[0]))
                copy.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        copy.commit()
        copy.execute("PRAGMA journal_mode = WAL")


@contextlib.contextmanager
def _new_backup(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield the database of a backup; an existing file is not replaced."""
    if os.path.lexists(path):  # first: beside a ledger in use lies its log
        raise _already_there(path, "backup")
    _refuse_remains(path, os.path.realpath(path))
    with _published(path, "backup") as copy:
        yield copy


def _write_schema(
    connection: sqlite3.Connection,
    meta: dict[str, Any],
    entries: Sequence[tuple[Any, ...]] = (),
) -> None:
    """Create the tables of a new ledger with these entries and terms."""
    connection.executescript(_SCHEMA)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    last = max(entries, default=None)  # the first column is the id, the last the digest
    head = head_of(meta, len(entries), "" if last is None else last[-1])
    rows = {**meta, HEAD: head}.items()
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def _refuse_remains(path: Path, real: str) -> None:
    """Refuse a path where SQLite would find the log of a deleted ledger."""
    if os.path.exists(f"{real}-wal"):
        raise LedgerError(
            f"{path}-wal is left over from another ledger at {path}: put that ledger "
            "back, or move its remaining files away too"
        )


@contextlib.contextmanager
def _published(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """Yield a database that appears at `path` when it is complete."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=_draft_suffix(path))
    except OSError as error:
        raise LedgerError(f"no {what} can be created at {path}: {error}") from None
    os.close(handle)
    try:
        with contextlib.closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
        os.link(draft, path)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise _already_there(path, what) from None
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"no {what} can be created at {path}: {error}; it requires a local disk"
        ) from error
    finally:
        for left in (draft, f"{draft}-journal", f"{draft}-wal", f"{draft}-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)


def _already_there(path: Path, what: str) -> LedgerError:
    """Return the error for an existing file."""
    return LedgerError(
        f"no {what} can be created at {path}: there is a file of that name, which was "
        "left as it is; choose another name"
    )


def _draft_suffix(path: Path) -> str:
    return f".{path.name}.draft"


# -- what a file must be ---------------------------------------------------------------


_MOUNTS = "/proc/self/mountinfo"


def check_no_mount(real: str) -> None:
    """Refuse a mount point: its log and lock are in another folder."""
    try:
        with open(_MOUNTS, "rb") as file:
            # Blanks and backslashes are written as octal numbers.
            points = {line.split()[4] for line in file}
        escaped = (
            rb"\%03o" % c if c in b" \t\n\\" else bytes([c]) for c in os.fsencode(real)
        )
        mounted = b"".join(escaped) in points
    except (OSError, IndexError):  # no Linux
        folder = os.path.dirname(real)
        mounted = stat_of(Path(real)).st_dev != stat_of(Path(folder)).st_dev
    if mounted:
        raise LedgerError(
            f"the ledger {real} is a mount point. Processes that use it by another "
            "path have other locks, and charges would be lost. Mount its folder "
            "instead, as in `docker run -v /host/folder:/folder`"
        )


def check_header(path: Path) -> None:
    """Refuse a file of another format, before SQLite could change it."""
    try:
        # Not open, which waits for the other end of a pipe.
        if not (stat.S_ISREG(os.stat(path).st_mode) or path.is_dir()):
            raise LedgerError(f"{path} is not a file; it was left as is")
        with open(path, "rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        raise LedgerError(
            f"there is no ledger at {path}: check the path, or put the file back. A "
            "pickled accountant never creates a ledger: pass the estimator another "
            "accountant, or keep the ledger on a server for workers of other hosts"
        ) from None
    except OSError as error:
        raise LedgerError(f"the ledger {path} can't be read: {error}") from None
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise LedgerError(f"{path} is not a privacy ledger; it was left as is")
    page, pages = header[16:18], header[28:32]
    version, application = header[60:64], header[68:72]
    if struct.unpack(">I", application)[0] != APPLICATION_ID:
        raise LedgerError(f"{path} is a database of another program; it was left as is")
    check_version(struct.unpack(">I", version)[0], path)
    (page_size,) = struct.unpack(">H", page)
    page_size = 65536 if page_size == 1 else page_size
    # A write-ahead log may hold pages that the header already counts. The order
    # matters: once the log is gone, the file has what an earlier header counted.
    if os.path.exists(f"{path}-wal"):
        return
    if stat_of(path).st_size < page_size * struct.unpack(">I", pages)[0]:
        raise LedgerError(f"the ledger {path} is truncated; it was left as is")


def check_only_name(path: Path) -> os.stat_result:
    """Refuse a file with two names, whose logs would differ; return its stat.

    It requires the ledger's lock: a ledger that is being created has two names.
    """
    found = stat_of(path)
    if found.st_nlink > 1:
        _remove_draft(path, found)
        found = stat_of(path)
    if found.st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has {found.st_nlink} names (hard links): a process "
            "that uses another name would not share locks with this one, and charges "
            "would be lost. Remove the other names; PrivacyAccountant.backup "
            "makes copies, and symbolic links are followed"
        )
    return found


def stat_of(path: Path) -> os.stat_result:
    """Return what the file system says of a ledger."""
    try:
        return os.stat(path)
    except OSError as error:
        raise LedgerError(f"the ledger {path} can't be read: {error}") from None


def _remove_draft(path: Path, found: os.stat_result) -> None:
    """Remove the draft of a process that was killed while creating this ledger."""
    for name in os.listdir(path.parent):
        draft = path.parent / name
        with contextlib.suppress(OSError):
            if name.endswith(_draft_suffix(path)) and os.path.samestat(
                os.lstat(draft), found
            ):
                draft.unlink()


def check_in_place(path: Path, opened: os.stat_result) -> None:
    """Raise if the file that was written is no longer at its path."""
    if not os.path.samestat(stat_of(path), opened):
        raise LedgerError(
            f"the ledger {path} was replaced while it was being written: what was "
            "just entered is not in the file that is there now"
        )


_OBJECTS = "SELECT type, name, tbl_name FROM sqlite_master"
_WANTED = {("table", name, name) for name in TABLES} | {
    ("index", name, on.split()[0]) for name, on in INDICES.items()
}


# -- handles and connections -----------------------------------------------------------


class Ledger:
    """Handle of a ledger file, without a connection between calls.

    `ledger_id` is the required identity; None accepts any.
    """

    def __init__(
        self, path: str | os.PathLike[str], ledger_id: str | None = None
    ) -> None:
        self.path = Path(path)
        self.ledger_id = ledger_id

    @contextlib.contextmanager
    def _connect(self) -> Iterator[SqliteConnection]:
        """Open the file for this thread of this process."""
        real = os.path.realpath(self.path)
        with turn(real):
            # Before the lock: beside a foreign file nothing is made.
            check_header(self.path)
            check_no_mount(real)
            mode = stat_of(self.path).st_mode & 0o666
            with lock_file(real, mode) as used:
                opened = check_only_name(Path(real))
                with self._opened(real, used) as connection:
                    yield connection
                if connection.written is not None:
                    check_in_place(Path(real), opened)
                    remember(connection.ledger_id, connection.written)

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
                        never_close(database)
                    else:
                        database.close()
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} can't be used ({error}). It must be on a "
                "local disk of this host, writable and undamaged"
            ) from error

    @uninterrupted
    def meta(self) -> dict[str, Any]:
        """Return identity, budget, unit and neighbors, after a check of the file."""
        with self._connect() as connection:
            connection.check_pages()
            return connection.meta()

    @uninterrupted
    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        with self._connect() as connection:
            return all_entries(connection)

    @uninterrupted
    def back_up(self, path: Path) -> None:
        """Copy the ledger to a new file."""
        with self._connect() as connection:
            back_up(connection.database, path)

    @contextlib.contextmanager
    def inspected(self) -> Iterator[SqliteConnection]:
        """Yield the ledger for an inspection."""
        with self._connect() as connection:
            connection.check_pages()
            # What is no text is shown all the same.
            connection.database.text_factory = _shown
            yield connection

    @contextlib.contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[Transaction]:
        """Hold the write lock; commit at the end, or roll back without `keep`."""
        if keep and os.path.exists(self.path) and not may_write(self.path):
            raise not_writable(self.path)
        with self._connect() as connection:
            begin = "BEGIN IMMEDIATE" if may_write(self.path) else "BEGIN"
            connection.execute(begin)
            try:
                yield Transaction(connection)
                connection.end(keep)
            except BaseException:
                connection.abort()
                raise


class SqliteConnection:
    """An open ledger whose identity and state were checked.

    `used` is the period of use.
    """

    def __init__(self, ledger: Ledger, database: sqlite3.Connection, used: Use):
        self.database, self._used, self.path = database, used, ledger.path
        self.written: Mark | None = None
        # Again: the header of the file does not know what its log says.
        check_version(self.execute("PRAGMA user_version").fetchone()[0], self.path)
        self.ledger_id = check_identity(self, ledger.ledger_id)
        self._changes = database.total_changes

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run a statement; raise if a fork took the connection over."""
        self._used.check()
        return self.database.execute(statement, values)

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""
        rows = self.execute("SELECT key, value FROM meta").fetchall()
        return check_terms(dict(rows), self.path)

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def check_pages(self) -> None:
        """Refuse a file with damaged pages."""
        verdict = self.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise LedgerError(f"the ledger {self.path} is damaged: {verdict}")

    def unexpected(self) -> list[str]:
        """Return tables, views and triggers that no ledger has, and what it lacks."""
        return differences(_WANTED, set(self.execute(_OBJECTS).fetchall()))

    def end(self, keep: bool) -> None:
        """Commit, or roll back."""
        self._used.check()
        mark = None
        if keep and self.database.total_changes > self._changes:
            mark = count_write(self)
        self.execute("COMMIT" if keep else "ROLLBACK")
        self.written = mark

    def abort(self) -> None:
        """Roll back, if the transaction belongs to this process."""
        if not self._used.inherited and self.database.in_transaction:
            self.database.execute("ROLLBACK")


def _shown(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def may_write(path: str | os.PathLike[str]) -> bool:
    """Return whether the current user may change a file."""
    return os.access(
        path, os.W_OK, effective_ids=os.access in os.supports_effective_ids
    )


@contextlib.contextmanager
def _readable(real: str) -> Iterator[tuple[str, str]]:
    """Yield the file to open for a locked ledger, and the mode.

    Read-only users must not create files beside the ledger, which its writers could not
    use.
    """
    if may_write(real):
        yield real, "mode=rw"  # which never creates a file
    elif not os.path.exists(f"{real}-wal"):
        yield real, "mode=ro&immutable=1"
    else:
        folder = TemporaryFolder()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{real}{suffix}", f"{folder.name}/ledger{suffix}")
        yield f"{folder.name}/ledger", "mode=rw"


def never_close(database: Any) -> None:
    """Keep open a connection that a fork took over during a charge.

    Closing it would overwrite what the parent has written since.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
