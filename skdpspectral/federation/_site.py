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
    "the session was begun here, and the client that held it is gone: what was not "
    "answered is spent, and is not drawn again"
)


class Site:
    """Answers requests of servers within the budget of a ledger.

    A client serves one session. A site makes one client per session, charges it under
    that session's name, and writes every answer to a file before it is sent. So the
    process can be killed at any moment. After a restart the site repeats earlier
    answers byte by byte. It refuses requests that were charged and not answered, as a
    new draw would be a second release, and all new steps of earlier sessions, as the
    file of answers may be incomplete or an older copy.

    Parameters
    ----------
    open_client : callable
        ``open_client(accountant)`` returns a new client of this site, which charges
        that accountant: a :class:`LocalClient` or a :class:`GroupClient`, or anything
        with the same `name`, `task`, `plan` and ``respond(request: bytes)``. Its rows
        are read at each call, so that it is called only for sessions that the ledger
        can pay for.
    accountant : PrivacyAccountant
        The site's ledger, in a file of its own; its budget is the limit of all
        sessions together.
    answers : str or path-like
        File of answers, beside the ledger; made where there is none.
    max_sessions : int, default=4
        Sessions that are held at a time; of an older one only what was answered is
        answered again.

    Attributes
    ----------
    name : str
        The client's name.
    latest : object or None
        The client that has answered last, as ``open_client`` made it; of a
        :class:`GroupClient` it has the models of the site's users in the end.

    Raises
    ------
    ValueError
        If the file of answers cannot be opened, or from `open_client`.

    See Also
    --------
    serve_site : Answer other processes of this machine.
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
            raise ValueError("accountant must be a PrivacyAccountant: a site has one")
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
        """Answer a request, once; the same request again gets the same answer.

        Parameters
        ----------
        request : bytes
            Of any session.

        Returns
        -------
        bytes
            The client's answer.

        Raises
        ------
        MessageError
            If the request is malformed, or not one that may be answered; nothing is
            released.
        PrivacyBudgetError
            If the ledger refuses the session; nothing is charged or released.
        """
        # Before the lock: a fork may have copied it while a thread held it.
        if self._process != os.getpid():
            raise MessageError(
                "this site is a forked copy: two copies would answer one session "
                "twice, and write over each other's answers; make the site in the "
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
                    "open_client must give its client the accountant that it is handed"
                )
            # Written before it is sent.
            self._answers.write((_KEEP, [(*key, answer)]))
            return answer

    def longest(self) -> int:
        """Largest size in bytes of a request that can be answered."""
        return self._task.longest()

    def close(self) -> None:
        """Let another process serve this site."""
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
        """The client that has answered last, or None."""
        return next(reversed(self._clients.values()), None)

    def _hold(self, session: bytes, client) -> None:
        self._clients[session] = client
        self._clients.move_to_end(session)
        while len(self._clients) > self._most:
            self._clients.popitem(last=False)

    def _is_charged(self, label: str) -> bool:
        return any(entry.label == label for entry in self._accountant.ledger)
