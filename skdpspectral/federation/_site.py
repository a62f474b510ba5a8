"""A site: one client per session, and answers that outlive the process."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .._messages.answering import check_step, check_task
from .._messages.messages import MessageError, Request, check_name
from ..accounting import PrivacyAccountant
from ._kept import KeptFile, request_digest
from ._site_socket import as_bytes

_KIND = 0x534B4441
_TABLES = [
    "CREATE TABLE answers (session BLOB, request BLOB, answer BLOB, "
    "PRIMARY KEY (session, request))"
]
_FIND = "SELECT answer FROM answers WHERE session = ? AND request = ?"
_KEEP = "INSERT INTO answers VALUES (?, ?, ?)"
_SPENT = (
    "the session was begun here, and its client is gone: requests without an answer "
    "are spent, and their noise is not drawn again"
)


class Site:
    """Answers requests of servers within the budget of a ledger.

    A client serves one session. A site creates one client per session, charges it under
    the name of that session, and writes every answer to a file before sending it. The
    process can therefore be killed at any time. After a restart the site repeats
    earlier answers byte by byte. It refuses requests that were charged but not
    answered, because a new draw would be a second release. It also refuses new steps of
    earlier sessions, because the file of answers may be incomplete or an older copy.

    Parameters
    ----------
    open_client : callable
        ``open_client(accountant)`` returns a new client of this site, which charges
        that accountant: a :class:`LocalClient`, a :class:`GroupClient`, or any object
        with the same `name`, `task`, `plan` and ``respond(request: bytes)``. Each call
        reads the rows, so it is only called for sessions that the ledger can afford.
    accountant : PrivacyAccountant
        Ledger of the site, in its own file. Its budget limits all sessions together.
    answers : str or path-like
        File of answers next to the ledger, created if missing.
    max_sessions : int, default=4
        Maximum number of sessions in memory. Older ones only repeat earlier answers.

    Attributes
    ----------
    name : str
        Name of the client.
    latest : object or None
        The last client that answered, as returned by ``open_client``. At the end, a
        :class:`GroupClient` has the models of the site's users.

    Raises
    ------
    ValueError
        If the file of answers cannot be opened, or if `open_client` raises this error.

    See Also
    --------
    serve_site : Answers other processes on this machine.
    """

    def __init__(
        self,
        open_client: Callable[[PrivacyAccountant], Any],
        accountant: PrivacyAccountant,
        answers,
        *,
        max_sessions: int = 4,
    ):
        if not isinstance(accountant, PrivacyAccountant):
            raise ValueError(
                "accountant must be a PrivacyAccountant: a site requires one"
            )
        self._open_client, self._accountant = open_client, accountant
        # Rows are checked here, so that their holder sees the error.
        client = open_client(accountant)
        self.name, self._task = check_name(client.name), client.task
        self._plan, self._most = client.plan, max_sessions
        # Answers by session and digest of the request; not secret from their servers.
        self._answers = KeptFile(answers, _KIND, _TABLES)
        self._clients: OrderedDict[bytes, Any] = OrderedDict()
        self._lock, self._process = threading.Lock(), os.getpid()

    def respond(self, request: bytes) -> bytes:
        """Answer a request once; a repeated request gets the same answer.

        Parameters
        ----------
        request : bytes
            Request of any session.

        Returns
        -------
        bytes
            Answer of the client.

        Raises
        ------
        MessageError
            If the request is malformed or must not be answered; nothing is released.
        PrivacyBudgetError
            If the ledger refuses the session; nothing is charged or released.
        """
        # Before the lock: a fork may have copied it while a thread held it.
        if self._process != os.getpid():
            raise MessageError(
                "this site is a forked copy: two copies would answer one session "
                "twice, and write over each other's answers; create the site in the "
                "process that answers"
            )
        request = bytes(request)
        asked = Request.from_bytes(request, max_bytes=self.longest())
        check_task(asked, self._task)
        session = asked.session
        with self._lock:
            key = session, request_digest(request)
            kept = self._answers.read(_FIND, key)
            if kept:
                return kept[0][0]
            label = f"session {session.hex()}"
            client = self._client_of(asked, label)
            try:
                answer = as_bytes(client.respond(request))
            finally:
                charged = self._is_charged(label)
                if charged:
                    self._hold(session, client)
            if not charged:
                raise RuntimeError(
                    "open_client must give its client the accountant that it receives"
                )
            # Written before it is sent.
            self._answers.write((_KEEP, [(*key, answer)]))
            return answer

    def longest(self) -> int:
        """Largest size in bytes of a request that can be answered."""
        return self._task.longest()

    def close(self) -> None:
        """Close the site, so that another process can serve it."""
        with self._lock:
            self._answers.close()

    def _client_of(self, asked: Request, label: str):
        """Return the client of a session; a new one only if it will be charged."""
        if asked.session in self._clients:
            return self._clients[asked.session]
        if self._is_charged(label):
            raise MessageError(_SPENT)
        check_step(asked, 0)
        self._task.check(asked)
        self._accountant.check(self._plan)
        return self._open_client(self._accountant.named(label))

    @property
    def latest(self):
        """The last client that answered, or None."""
        return next(reversed(self._clients.values()), None)

    def _hold(self, session: bytes, client) -> None:
        self._clients[session] = client
        self._clients.move_to_end(session)
        while len(self._clients) > self._most:
            self._clients.popitem(last=False)

    def _is_charged(self, label: str) -> bool:
        return any(entry.label == label for entry in self._accountant.ledger)
