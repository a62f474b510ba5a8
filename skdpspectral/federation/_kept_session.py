"""What a server has asked and heard, so that it can be killed and go on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ._kept_file import KeptFile
from ._messages import MessageError
from ._outcomes import heard, told

_KIND = 0x534B4453
_TABLES = [
    "CREATE TABLE sessions (session BLOB)",
    "CREATE TABLE requests (step INTEGER PRIMARY KEY, request BLOB, answered INTEGER)",
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

    @property
    def requests(self) -> list[bytes]:
        """All requests that were begun, in their order."""
        rows = self._file.read("SELECT request FROM requests ORDER BY step")
        return [request for (request,) in rows]

    def begin(self, step: int, request: bytes) -> dict[str, object] | None:
        """Write a request down before it is sent; return answers that there are.

        Returns
        -------
        dict of str to (bytes or exception), or None
            By client; None if nobody has answered it yet.

        Raises
        ------
        MessageError
            If another request was begun at this step: of other parameters, or made by
            noise of a server, which is not drawn again.
        """
        query = "SELECT request, answered FROM requests WHERE step = ?"
        begun = self._file.read(query, (step,))
        if not begun:
            row = (step, request, False)
            self._file.write(("INSERT INTO requests VALUES (?, ?, ?)", [row]))
            return None
        if begun[0][0] != request:
            raise MessageError(
                f"{self._path} keeps a session with another request at step {step}: "
                "go on with the parameters that it was begun with, or begin another in "
                "a new file. A session in which the server draws noise does not go on: "
                "to draw again would be a second release"
            )
        if not begun[0][1]:
            return None
        query = "SELECT client, kind, content FROM answers WHERE step = ?"
        return {name: heard(*rest) for name, *rest in self._file.read(query, (step,))}

    def end(self, step: int, answers: Mapping[str, object]) -> None:
        """Write the answers to a request down, before the next one is begun."""
        rows = [(step, name, *told(answer)) for name, answer in answers.items()]
        self._file.write(
            ("INSERT INTO answers VALUES (?, ?, ?, ?)", rows),
            ("UPDATE requests SET answered = TRUE WHERE step = ?", [(step,)]),
        )

    def close(self) -> None:
        """Let another process go on with the session."""
        self._file.close()
