"""A file of one process at a time, in which what is written stays."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Sequence


class KeptFile:
    """An SQLite file of one kind, held by one process until it ends.

    Parameters
    ----------
    path : str or path-like
        Made where there is none, for this user alone.
    kind : int
        Number of the kind of file, which is written into it.
    tables : sequence of str
        Statements that fill a new file.

    Raises
    ------
    ValueError
        If the file is of another kind, or another process holds it.
    """

    VERSION = 1

    def __init__(self, path, kind: int, tables: Sequence[str]):
        try:
            # Of a trusted server it holds what nobody else may see.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            self._file = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
            self._open(kind, tables)
        except (OSError, sqlite3.OperationalError) as error:
            raise ValueError(
                f"{path} cannot be opened ({error}); one process at a time holds it"
            ) from None
        except sqlite3.DatabaseError:
            raise ValueError(f"{path} is another kind of file") from None

    def _open(self, kind: int, tables: Sequence[str]) -> None:
        run = self._file.execute
        # Kept for good before a statement is done; the lock ends with the process.
        run("PRAGMA synchronous=EXTRA")
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        found = [
            run(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        ]
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if found == [0, 0] and empty:
            run(f"PRAGMA application_id={kind}")
            run(f"PRAGMA user_version={self.VERSION}")
            for statement in tables:
                run(statement)
        elif found != [kind, self.VERSION]:
            raise sqlite3.DatabaseError
        self._file.commit()

    def read(self, query: str, values: Sequence = ()) -> list[tuple]:
        """Return the rows that a query finds."""
        return self._file.execute(query, values).fetchall()

    def write(self, *statements: tuple[str, Sequence[Sequence]]) -> None:
        """Write rows by statements, all of them or none."""
        with self._file:
            for statement, rows in statements:
                self._file.executemany(statement, rows)

    def close(self) -> None:
        """Let another process have the file."""
        self._file.close()


def digest_of(request: bytes) -> bytes:
    """Return what a request is found by."""
    return hashlib.blake2b(request, digest_size=32).digest()
