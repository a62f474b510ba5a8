"""Ledgers of the schema before this one: read as they are, migrated by the first write.

Version 2 did not know of mechanisms that are no Gaussians. A copy of the file is put
beside it before anything changes; the migration is one transaction, with which the file
has the new version.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from . import _ledger_schema as _file

if TYPE_CHECKING:
    from ._ledger import SqliteConnection


def migrate(connection: SqliteConnection, path: Path) -> None:
    """Bring a ledger to this release's schema, after a copy; old or new, never neither.

    Parameters
    ----------
    connection : SqliteConnection
        The locked ledger, in no transaction.
    path : Path
        Its file.
    """
    version = _version(connection)
    if version == _file.SCHEMA_VERSION:
        return
    real = Path(os.path.realpath(path))
    _file.back_up(connection.database, _free_name(real, version))
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
    if _version(connection) == _file.SCHEMA_VERSION:
        return
    connection.execute(f"ALTER TABLE entries ADD COLUMN {_file.KIND}")
    connection.execute(_file.CURVES)
    if connection.execute("SELECT EXISTS (SELECT 1 FROM entries)").fetchone()[0]:
        # Its budget has been watched as that of Gaussians, by their exact limit.
        connection.set_meta("mechanisms", "gaussian")
    connection.execute(f"PRAGMA user_version = {_file.SCHEMA_VERSION}")


def _version(connection: SqliteConnection) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    _file.check_version(version, "that was opened")
    return version


def _free_name(path: Path, version: int) -> Path:
    """Return the first name for a copy that nothing has, not even a link."""
    name, number = path.with_name(f"{path.name}-version{version}"), 1
    while os.path.lexists(name):
        number += 1
        name = path.with_name(f"{path.name}-version{version}-{number}")
    return name
