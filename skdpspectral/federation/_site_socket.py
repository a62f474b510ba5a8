"""A site for other processes of its machine, by a socket that is a file.

Whoever carries messages to and from the network, code of others among it, needs no
access to rows and ledger: the socket's file is all that it opens.

What becomes of a request: an answer, a refusal with its reason, or a failure.

What carries requests starts anew for each of them, so that nothing here imports more
than messages: ledgers alone would take longer than all of its work.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
import threading
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import TYPE_CHECKING

from .._messages.messages import MessageError

if TYPE_CHECKING:
    from ._site import Site


_LOG = logging.getLogger(__name__)


ANSWER, REFUSAL, FAILURE = "answer", "refusal", "failure"


# What somebody elsewhere is told of a refusal, in characters.
_LONGEST_REASON = 500


class SiteError(RuntimeError):
    """A site could not be reached, or failed; the reason stays there."""


def as_bytes(message) -> bytes:
    """Return a message's byte form; it may be bytes already."""
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    return message.to_bytes()


def told(answer) -> tuple[str, bytes]:
    """Return what somebody elsewhere may know of an answer, or of an error.

    Parameters
    ----------
    answer : bytes or exception
        What became of a request.

    Returns
    -------
    kind : {"answer", "refusal", "failure"}
        What the content is.
    content : bytes
        An answer, a reason in UTF-8 that speaks of messages and public numbers alone,
        or nothing: the error itself may speak of rows.
    """
    if isinstance(answer, bytes):
        return ANSWER, answer
    if isinstance(answer, MessageError):
        return REFUSAL, str(answer)[:_LONGEST_REASON].encode()
    if isinstance(answer, SiteError):
        return FAILURE, b""
    # Imported long since, wherever there is a ledger that can refuse.
    from ..accounting import PrivacyBudgetError

    if isinstance(answer, PrivacyBudgetError):
        # What else a ledger was spent on is its holder's own business.
        return REFUSAL, b"its ledger has not enough budget left for this session"
    return FAILURE, b""


def outcome_of(client, request: bytes) -> tuple[str, bytes]:
    """Return what somebody elsewhere may know of a client's answer to a request.

    Parameters
    ----------
    client : object with ``respond``
        A site, or a client.
    request : bytes
        Whatever came.

    Returns
    -------
    kind, content
        As of :func:`told`.
    """
    try:
        return told(as_bytes(client.respond(request)))
    except Exception as error:
        outcome = told(error)
        if outcome[0] == FAILURE and not isinstance(error, SiteError):
            _LOG.exception("a request could not be answered")  # for the rows' holder
        return outcome


def heard(kind, content):
    """Return bytes, or the error that a kind and a content stand for.

    Parameters
    ----------
    kind, content : object
        Whatever came.

    Returns
    -------
    bytes or exception
        As for :meth:`Server.collect`.
    """
    if kind == ANSWER and isinstance(content, bytes):
        return content
    if kind == REFUSAL and isinstance(content, bytes):
        text = content[: 4 * _LONGEST_REASON].decode(errors="replace")
        return MessageError("".join(c if c.isprintable() else "?" for c in text))
    return SiteError()


# First byte of a question, and of what comes back.
_NAME, _REQUEST = b"n", b"r"


_KINDS = {ANSWER: b"a", REFUSAL: b"r", FAILURE: b"f"}


_LONGEST_REQUEST = 2**28


_BACKLOG = 16


# Connections at a time, and seconds that one may be silent: more of them wait.
_MOST_CONNECTIONS, _PATIENCE = 16, 10.0


# What a system lacks for the moment when a connection comes, or the connection is gone.
_PASSING = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
    errno.ECONNABORTED,
}


# Bytes that the path of a socket may have, on any system.
_LONGEST_PATH = 100


def serve_site(site: Site, path, *, mode=0o600, on_ready=None) -> None:
    """Answer requests that come by a socket, until interrupted.

    Parameters
    ----------
    site : Site
        Who answers.
    path : str or path-like
        Where to make the socket; at most 100 bytes. A socket that a dead process has
        left there is replaced.
    mode : int, default=0o600
        Who may connect: by default the processes of this user alone. With ``0o660``
        and a folder of that group, a carrier runs as another user than the site.
    on_ready : callable or None, default=None
        Called once requests can come.

    Raises
    ------
    ValueError
        If there is another file at `path`, another process serves there, or the path
        is too long.
    """
    path = _free(Path(path))
    earlier = os.umask(0o777 & ~mode)
    try:
        listener = Listener(str(path), family="AF_UNIX", backlog=_BACKLOG)
    finally:
        os.umask(earlier)
    with listener:
        if on_ready is not None:
            on_ready()
        places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        while True:
            places.acquire()
            connection = _accepted(listener)
            threading.Thread(
                target=_serve, args=(site, connection, places), daemon=True
            ).start()


def _accepted(listener):
    """Return the next connection: no number of them ends a site."""
    while True:
        try:
            return listener.accept()
        except OSError as error:
            if error.errno not in _PASSING:
                raise
        time.sleep(0.1)


def _free(path: Path) -> Path:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ValueError(
            f"the path of a socket must have at most {_LONGEST_PATH} bytes, got {path}"
        )
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ValueError(f"there is a file at {path}, which is no socket")
        if _is_served(path):
            raise ValueError(f"another process serves at {path}")
        path.unlink()
    return path


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # whoever made it has ended
            return False
        except (TimeoutError, BlockingIOError):  # too many wait for an answer
            return True
    return True


def _serve(site: Site, connection, places: threading.BoundedSemaphore) -> None:
    try:
        _answer(site, connection)
    finally:
        places.release()


def _answer(site: Site, connection) -> None:
    # Whoever connects may send anything, stay silent, or be gone.
    with connection, contextlib.suppress(OSError, EOFError):
        if not connection.poll(_PATIENCE):
            return
        asked = connection.recv_bytes(_LONGEST_REQUEST)
        if asked[:1] == _NAME:
            kind, content = ANSWER, site.name.encode()
        else:
            kind, content = outcome_of(site, asked[1:])
        connection.send_bytes(_KINDS[kind] + content)


class SiteConnection:
    """A site that another process of this machine serves.

    Parameters
    ----------
    path : str or path-like
        The socket of :func:`serve_site`.
    """

    def __init__(self, path):
        self._path = str(path)

    @property
    def name(self) -> str:
        """The client's name, as the site says it."""
        return self._ask(_NAME).decode()

    def respond(self, request: bytes) -> bytes:
        """Return the site's answer.

        Parameters
        ----------
        request : bytes
            Whatever a server has sent.

        Raises
        ------
        MessageError
            If the site refuses; the text is the site's.
        SiteError
            If nobody serves the site, or it failed.
        """
        return self._ask(_REQUEST + bytes(request))

    def _ask(self, asked: bytes) -> bytes:
        try:
            with Client(self._path, family="AF_UNIX") as connection:
                connection.send_bytes(asked)
                told = connection.recv_bytes()
        except (OSError, EOFError):
            raise SiteError(f"no site answers at {self._path}") from None
        kinds = {byte: kind for kind, byte in _KINDS.items()}
        answer = heard(kinds.get(told[:1]), told[1:])
        if isinstance(answer, BaseException):
            raise answer
        return answer
