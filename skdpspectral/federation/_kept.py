"""Durable files of a site's or a server's messages, so that it can be restarted."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import uuid
from collections.abc import Mapping, Sequence

from .._messages.messages import MessageError
from ._site_socket import decode_outcome, encode_outcome


class KeptFile:
    """An SQLite file of one kind, readable by this user, held by one process.

    `tables` are statements that fill a new file. A ValueError is raised if the file is
    of another `kind`, or if another process holds it.
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
                f"{path} cannot be opened ({error}); only one process can use it at a "
                "time"
            ) from None
        except sqlite3.DatabaseError:
            raise ValueError(f"{path} is a different kind of file") from None

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


def request_digest(request: bytes) -> bytes:
    """Return the key of a request."""
    return hashlib.blake2b(request, digest_size=32).digest()


_KIND = 0x534B4453
_TABLES = [
    "CREATE TABLE sessions (session BLOB)",
    "CREATE TABLE requests (step INTEGER PRIMARY KEY, request BLOB, answered INTEGER)",
    "CREATE TABLE answers (step INTEGER, client TEXT, kind TEXT, content BLOB, "
    "PRIMARY KEY (step, client))",
]


class KeptSession:
    """File with the name of a session and the answers to each of its requests.

    A restarted server continues the same session. Answered requests use the answers in
    the file, so later requests are identical, and clients that are asked again repeat
    their earlier answers. Nobody is charged twice.

    Parameters
    ----------
    path : str or path-like
        SQLite file. If it does not exist, it is created for a new session.

    Attributes
    ----------
    session : bytes
        Session to pass as ``Server(..., session=kept.session)``.

    Raises
    ------
    ValueError
        If the file is of another kind, or is locked by another process.
    """

    def __init__(self, path):
        self._path, self._file = path, KeptFile(path, _KIND, _TABLES)
        if not self._file.read("SELECT session FROM sessions"):
            new = (uuid.uuid4().bytes,)
            self._file.write(("INSERT INTO sessions VALUES (?)", [new]))
        self.session: bytes = self._file.read("SELECT session FROM sessions")[0][0]

    @property
    def requests(self) -> list[bytes]:
        """All started requests, in order."""
        rows = self._file.read("SELECT request FROM requests ORDER BY step")
        return [request for (request,) in rows]

    def begin(self, step: int, request: bytes) -> dict[str, object] | None:
        """Store a request before it is sent, and return existing answers.

        Returns
        -------
        dict of str to (bytes or exception), or None
            Answers by client. None if nobody has answered yet.

        Raises
        ------
        MessageError
            If another request was started at this step: one with other parameters, or
            one with server noise, which is not drawn again.
        """
        query = "SELECT request, answered FROM requests WHERE step = ?"
        begun = self._file.read(query, (step,))
        if not begun:
            row = (step, request, False)
            self._file.write(("INSERT INTO requests VALUES (?, ?, ?)", [row]))
            return None
        if begun[0][0] != request:
            raise MessageError(
                f"{self._path} contains a session with a different request at step "
                f"{step}: use the parameters of that session, or a new file. A "
                "session in which the server draws noise cannot continue: a new draw "
                "would be a second release"
            )
        if not begun[0][1]:
            return None
        query = "SELECT client, kind, content FROM answers WHERE step = ?"
        return {
            name: decode_outcome(*rest)
            for name, *rest in self._file.read(query, (step,))
        }

    def end(self, step: int, answers: Mapping[str, object]) -> None:
        """Store the answers to a request before the next one is started."""
        rows = [
            (step, name, *encode_outcome(answer)) for name, answer in answers.items()
        ]
        self._file.write(
            ("INSERT INTO answers VALUES (?, ?, ?, ?)", rows),
            ("UPDATE requests SET answered = TRUE WHERE step = ?", [(step,)]),
        )

    def close(self) -> None:
        """Close the file, so that another process can continue the session."""
        self._file.close()
