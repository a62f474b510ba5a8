"""The file of a ledger: its schema, how it is made and copied, what it must be.

Ledgers of the schema before this one: read as they are, migrated by the first write.

Version 2 did not know of mechanisms that are no Gaussians, version 3 had no chain of
entries (`_chain.py`). A copy of the file is put
beside it before anything changes; the migration is one transaction, with which the file
has the new version.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from .._errors import LedgerError
from .arguments import new_name
from .chain import ENTRY_COLUMNS, HEAD, Chain, head_of
from .locks import lock_file, turn, uninterrupted
from .store import Connection, seal

if TYPE_CHECKING:
    from .store import SqliteConnection


APPLICATION_ID = 0x534B4450  # "SKDP"


# 1 did not know of failures, 2 of mechanisms that are no Gaussians, 3 had no chain.
SCHEMA_VERSION, OLDEST_VERSION = 4, 2


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
    "failure": "REAL NOT NULL",
    "unit": "TEXT NOT NULL",
    "neighbors": "TEXT NOT NULL",
    "assumption": "TEXT NOT NULL",
    "seeded": "INTEGER NOT NULL",
    "plan": "TEXT NOT NULL",
    "kind": "TEXT NOT NULL DEFAULT 'gaussian'",
    "totals": "TEXT NOT NULL DEFAULT ''",
    "digest": "TEXT NOT NULL DEFAULT ''",
}


# Mechanisms of entries that are no Gaussians, equal ones by equal texts.
CURVES = (
    "CREATE TABLE curves "
    "(entry INTEGER NOT NULL, curve TEXT NOT NULL, times INTEGER NOT NULL)"
)


KIND = f"kind {_COLUMNS['kind']}"


STREAMS = (
    "CREATE TABLE IF NOT EXISTS streams (id TEXT PRIMARY KEY, position INTEGER) "
    "WITHOUT ROWID"
)


# What the chain of entries added to a ledger.
CHAIN_COLUMNS = tuple(f"{name} {_COLUMNS[name]}" for name in ("totals", "digest"))


INDICES = {
    "asserted_blocks": "entries (partition, block) WHERE asserted = 1",
    "asserted_partitions": "entries (partition, id) WHERE asserted = 1",
    "curves_of_entries": "curves (entry)",
}


CHAIN = (
    STREAMS,
    "CREATE TABLE counts (curve TEXT PRIMARY KEY, times INTEGER NOT NULL)",
    *(f"CREATE INDEX {name} ON {columns}" for name, columns in INDICES.items()),
)


TABLES = frozenset({"meta", "entries", "curves", "streams", "counts"})


_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE entries ({", ".join(f"{k} {v}" for k, v in _COLUMNS.items())});
{CURVES};
{"; ".join(CHAIN)};
"""


_META_KEYS = frozenset({"ledger_id", "epsilon", "delta", "unit", "neighbors"})


class TemporaryFolder:
    """A folder that its creating process deletes when nobody holds it any more."""

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
    """Make a new ledger file at `path`, atomically; keep one that is there."""
    if path.is_symlink():
        raise LedgerError(f"there is no ledger at {path}, a link that leads nowhere")
    real = os.path.realpath(path)
    with turn(real), lock_file(real):
        if os.path.exists(real):
            return
        _refuse_remains(path, real)
        with _published(Path(real), "ledger") as connection:
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            _write_meta(connection, {"ledger_id": new_name(), **meta})
            connection.commit()
            connection.execute("PRAGMA journal_mode = WAL")


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the ledger of a connection to a new file, whole or not at all."""
    if os.path.lexists(path):  # first: beside a ledger in use lies its log
        raise _taken(path, "backup")
    _refuse_remains(path, os.path.realpath(path))
    with _published(path, "backup") as copy:
        connection.backup(copy)


def write_copy(
    path: Path, meta: dict[str, Any], tables: dict[str, list[tuple[Any, ...]]]
) -> None:
    """Make a ledger file of what a server holds, whole or not at all."""
    if os.path.lexists(path):
        raise _taken(path, "backup")
    _refuse_remains(path, os.path.realpath(path))
    with _published(path, "backup") as copy:
        copy.executescript(_SCHEMA)
        copy.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        copy.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        _write_meta(copy, meta, tables["entries"])
        for name, rows in tables.items():
            if rows:
                marks = ",".join("?" * len(rows[0]))
                copy.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        copy.commit()
        copy.execute("PRAGMA journal_mode = WAL")


def _write_meta(
    connection: sqlite3.Connection,
    meta: dict[str, Any],
    entries: Sequence[tuple[Any, ...]] = (),
) -> None:
    """Write the terms of a new ledger of these entries."""
    last = max(entries, default=None)  # the first column is the id, the last the digest
    head = head_of(meta, len(entries), "" if last is None else last[-1])
    rows = {**meta, HEAD: head}.items()
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def _refuse_remains(path: Path, real: str) -> None:
    """Refuse a place where SQLite would find the log of a ledger that was there."""
    if os.path.exists(f"{real}-wal"):
        raise LedgerError(
            f"{path}-wal is what is left of another ledger at {path}: put that "
            "ledger back, or move the rest of it away too"
        )


@contextlib.contextmanager
def _published(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """Yield a database that appears at `path` once it is complete."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=_draft_suffix(path))
    except OSError as error:
        raise LedgerError(f"no {what} can be made at {path}: {error}") from None
    os.close(handle)
    try:
        with contextlib.closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
        os.link(draft, path)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise _taken(path, what) from None
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"no {what} can be made at {path}: {error}; it needs a local disk"
        ) from error
    finally:
        for left in (draft, f"{draft}-journal", f"{draft}-wal", f"{draft}-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)


def _taken(path: Path, what: str) -> LedgerError:
    """Say that a file would have to be replaced."""
    return LedgerError(
        f"no {what} can be made at {path}: there is a file of that name, which was "
        "left as it is; choose another name"
    )


def _draft_suffix(path: Path) -> str:
    return f".{path.name}.draft"


# -- what a file must be ---------------------------------------------------------------


_MOUNTS = "/proc/self/mountinfo"


def check_no_mount(real: str) -> None:
    """Refuse a file that is a mount point: its log and lock lie in another folder.

    Parameters
    ----------
    real : str
        The file, without symbolic links.
    """
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
    """Refuse a foreign file before SQLite may touch it."""
    try:
        # Not open, which waits for the other end of a pipe.
        if not (stat.S_ISREG(os.stat(path).st_mode) or path.is_dir()):
            raise LedgerError(f"{path} is not a file; it was left as is")
        with open(path, "rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        raise LedgerError(
            f"there is no ledger at {path}: a pickled accountant opens the ledger that "
            "it came from and never creates one. Give the estimator another "
            "accountant, or put the file back; for workers of other hosts keep the "
            "ledger on a server"
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


def check_version(version: int, path: Path | str) -> None:
    """Refuse a schema that this release does not know."""
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {path} has schema version {version}, this release reads "
            f"versions {OLDEST_VERSION} to {SCHEMA_VERSION}; it was left as is"
        )


def check_only_name(path: Path) -> os.stat_result:
    """Refuse a file with two names, whose logs and locks would differ; return its stat.

    To be called under the ledger's lock: a ledger that is being made has two.
    """
    found = stat_of(path)
    if found.st_nlink > 1:
        _remove_draft(path, found)
        found = stat_of(path)
    if found.st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has {found.st_nlink} names (hard links): under another "
            "name it would be written without regard to this one, and charges would "
            "be lost. Remove the other names; PrivacyAccountant.backup makes copies, "
            "and symbolic links are followed"
        )
    return found


def stat_of(path: Path) -> os.stat_result:
    """Return what the file system says of a ledger."""
    try:
        return os.stat(path)
    except OSError as error:
        raise LedgerError(f"the ledger {path} can't be read: {error}") from None


def _remove_draft(path: Path, found: os.stat_result) -> None:
    """Finish what a process began that was killed while it made this ledger."""
    for name in os.listdir(path.parent):
        draft = path.parent / name
        with contextlib.suppress(OSError):
            if name.endswith(_draft_suffix(path)) and os.path.samestat(
                os.lstat(draft), found
            ):
                draft.unlink()


def check_in_place(path: Path, opened: os.stat_result) -> None:
    """Refuse to call something written that went to a file which is not there now."""
    if not os.path.samestat(stat_of(path), opened):
        raise LedgerError(
            f"the ledger {path} was replaced while it was written to: what was just "
            "entered is not in the file that is there now"
        )


_OBJECTS = "SELECT type, name, tbl_name FROM sqlite_master"


def unexpected(connection: sqlite3.Connection) -> list[str]:
    """Return what a ledger of this schema has not, or lacks."""
    wanted = {("table", name, name) for name in TABLES}
    wanted |= {("index", name, on.split()[0]) for name, on in INDICES.items()}
    return differences(wanted, set(connection.execute(_OBJECTS).fetchall()))


def differences(wanted: set[Any], found: set[Any]) -> list[str]:
    """Say which tables, indices, views and triggers are too many or too few."""
    more = sorted(o for o in found - wanted if not str(o[1]).startswith("sqlite_"))
    said = [
        f"{kind} {name!r} of {table!r} is no part of it" for kind, name, table in more
    ]
    return said + [f"{o[0]} {o[1]!r} is missing" for o in sorted(wanted - found)]


def read_meta(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return the terms of a ledger, all of them."""
    return check_terms(dict(connection.execute("SELECT key, value FROM meta")), path)


def check_terms(meta: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """Refuse terms that lack some."""
    if not meta.keys() >= _META_KEYS:
        # A lost budget must not pass for no budget.
        missing = sorted(_META_KEYS - meta.keys())
        raise LedgerError(f"the ledger {path} is damaged: it lost {missing}")
    return meta


# -- what this process has seen of a ledger --------------------------------------------


class Mark(NamedTuple):
    """How far a ledger has come: writes so far, and the last entry."""

    generation: int
    entry: tuple[Any, ...] | None


_LAST_ENTRY = "SELECT id, partition, time FROM entries ORDER BY id DESC LIMIT 1"


_ENTRY = "SELECT id, partition, time FROM entries WHERE id = ?"


_GENERATION = "SELECT value FROM meta WHERE key = 'generation'"


# By the identity of the ledger, for all handles of this process: pickles of a handle
# must not change with what was spent.
_seen: dict[str, Mark] = {}


def count_write(connection: Connection) -> None:
    """Move a ledger on, in the transaction that changes something else in it."""
    connection.set_meta("generation", _generation(connection) + 1)
    seal(connection)


def read_mark(connection: Connection) -> Mark:
    """Return how far a ledger has come."""
    entry = connection.execute(_LAST_ENTRY).fetchone()
    return Mark(_generation(connection), entry)


def _generation(connection: Connection) -> int:
    found = connection.execute(_GENERATION).fetchone()
    return 0 if found is None else int(found[0])


def check_mark(connection: Connection, ledger_id: str, path: Path | str) -> Mark:
    """Refuse a ledger that lacks what this process has seen in it."""
    now, seen = read_mark(connection), _seen.get(ledger_id)
    if seen is not None:
        entry = seen.entry and connection.execute(_ENTRY, seen.entry[:1]).fetchone()
        if now.generation < seen.generation or entry != seen.entry:
            raise LedgerError(
                f"the ledger {path} lacks what this process has seen in it: an older "
                "copy was put in its place, or another copy is in use elsewhere. Put "
                "the newest file back; what a copy lacks was spent all the same"
            )
    return now


def remember(ledger_id: str, mark: Mark) -> None:
    """Note how far a ledger has come, once that is on the disk."""
    seen = _seen.get(ledger_id)
    if seen is None or seen.generation <= mark.generation:
        _seen[ledger_id] = mark


def forget(ledger_id: str) -> None:
    """Know nothing of a ledger that is gone."""
    _seen.pop(ledger_id, None)


_BATCH = (
    f"SELECT id, {', '.join(ENTRY_COLUMNS)} FROM entries WHERE id > ? "
    "ORDER BY id LIMIT 1000"
)


_CURVES = "SELECT curve, times FROM curves WHERE entry = ?"


_LINK = "UPDATE entries SET totals = ?, digest = ? WHERE id = ?"


def migrate(connection: SqliteConnection, path: Path) -> None:
    """Bring a ledger to this release's schema, after a copy; old or new, never neither.

    Parameters
    ----------
    connection : SqliteConnection
        The locked ledger, in no transaction.
    path : Path
        Its file.
    """
    version = connection.version()
    if version == SCHEMA_VERSION:
        return
    real = Path(os.path.realpath(path))
    back_up(connection.database, _free_name(real, version))
    connection.execute("BEGIN IMMEDIATE")
    try:
        upgrade(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.abort()
        raise
    # An older release looks at the version in the file itself, not at its log.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def upgrade(connection: SqliteConnection) -> None:
    """Change the schema in an open transaction, if it is an older one."""
    version = connection.version()
    if version == SCHEMA_VERSION:
        return
    if version == 2:
        connection.execute(f"ALTER TABLE entries ADD COLUMN {KIND}")
        connection.execute(CURVES)
        if connection.execute("SELECT EXISTS (SELECT 1 FROM entries)").fetchone()[0]:
            # Its budget has been watched as that of Gaussians, by their exact limit.
            connection.set_meta("mechanisms", "gaussian")
    for column in CHAIN_COLUMNS:
        connection.execute(f"ALTER TABLE entries ADD COLUMN {column}")
    for statement in CHAIN:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    link_entries(connection)


def link_entries(connection: Connection) -> None:
    """Write the chain of all entries of a ledger that had none."""
    chain, batch = Chain(), [()]
    while batch:
        batch = connection.execute(_BATCH, (chain.last.id,)).fetchall()
        for number, *values in batch:
            if number != chain.last.id + 1:
                raise LedgerError(
                    f"the ledger {connection.path} is damaged: entry "
                    f"{chain.last.id + 1} is missing; it was left as it is"
                )
            curves = connection.execute(_CURVES, (number,)).fetchall()
            link = chain.add(values, curves)
            connection.execute(_LINK, (link.totals, link.digest, number))
    for item in chain.counts.items():
        connection.execute("INSERT INTO counts VALUES (?, ?)", item)
    seal(connection)


def _free_name(path: Path, version: int) -> Path:
    """Return the first name for a copy that nothing has, not even a link."""
    name, number = path.with_name(f"{path.name}-version{version}"), 1
    while os.path.lexists(name):
        number += 1
        name = path.with_name(f"{path.name}-version{version}-{number}")
    return name
