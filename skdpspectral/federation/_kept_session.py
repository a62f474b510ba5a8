"""What a server has asked and heard, so that it can be killed and go on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ._kept_file import KeptFile, digest_of
from ._messages import MessageError
from ._outcomes import heard, told

_KIND = 0x534B4453
_TABLES = [
    "CREATE TABLE sessions (session BLOB)",
    "CREATE TABLE requests (step INTEGER PRIMARY KEY, request BLOB)",
    "CREATE TABLE answers (step INTEGER, client TEXT, kind TEXT, content BLOB, "
    "PRIMARY KEY (step, client))",
]


class KeptSession:
    """A session's name, and the answers to each of its requests, in a file.

    A server that is started again holds the same session: requests that were answered
    have the answers in the file, so that those after them are the same, and clients
    that are asked again answer with what they answered before. Nobody is charged twice.

    Parameters
    ----------
    path : str or path-like
        SQLite file; made where there is none, and then of a new session.

    Attributes
    ----------
    session : bytes
        For ``Server(..., session=kept.session)``.

    Raises
    ------
    ValueError
        If the file is of another kind, or another process holds it.
    """

    def __init__(self, path):
        self._path, self._file = path, KeptFile(path, _KIND, _TABLES)
        if not self._file.read("SELECT session FROM sessions"):
            new = (uuid.uuid4().bytes,)
            self._file.write(("INSERT INTO sessions VALUES (?)", [new]))
        self.session: bytes = self._file.read("SELECT session FROM sessions")[0][0]

    def find(self, step: int, request: bytes) -> dict[str, object] | None:
        """Return the answers to a request, or None if it was not answered.

        Raises
        ------
        MessageError
            If another request was answered at this step: the session is that of other
            parameters.
        """
        asked = self._file.read("SELECT request FROM requests WHERE step = ?", (step,))
        if not asked:
            return None
        if asked[0][0] != digest_of(request):
            raise MessageError(
                f"{self._path} keeps a session with another request at step {step}: "
                "give the parameters that it was begun with, or another file"
            )
        query = "SELECT client, kind, content FROM answers WHERE step = ?"
        return {name: heard(*rest) for name, *rest in self._file.read(query, (step,))}

    def keep(self, step: int, request: bytes, answers: Mapping[str, object]) -> None:
        """Write the answers to a request down, before they are used."""
        rows = [(step, name, *told(answer)) for name, answer in answers.items()]
        self._file.write(
            ("INSERT INTO requests VALUES (?, ?)", [(step, digest_of(request))]),
            ("INSERT INTO answers VALUES (?, ?, ?, ?)", rows),
        )

    def close(self) -> None:
        """Let another process go on with the session."""
        self._file.close()
