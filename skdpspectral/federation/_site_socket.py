"""A site for other processes of its machine, through a Unix socket.

The process that carries messages to and from the network needs no access to rows or
ledger. It starts anew for each request, so this file imports messages alone.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
import struct
import threading
import time
from multiprocessing.connection import Client
from pathlib import Path
from typing import TYPE_CHECKING

from .._messages.messages import MessageError

if TYPE_CHECKING:
    from ._site import Site


_LOG = logging.getLogger(__name__)
ANSWER, REFUSAL, FAILURE = "answer", "refusal", "failure"
# Largest length of the reason of a refusal, in characters.
_LONGEST_REASON = 500


class SiteError(RuntimeError):
    """A site could not be reached, or failed; the reason stays there."""


def as_bytes(message) -> bytes:
    """Return a message's byte form; it may be bytes already."""
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    return message.to_bytes()


def encode_outcome(answer) -> tuple[str, bytes]:
    """Return kind and content of an answer, or of an error, for another process.

    A refusal has a reason that speaks of messages and public numbers alone; a failure
    has no content, as the text of its error may quote rows.
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
        # Other entries of the ledger are private to its holder.
        return REFUSAL, b"its ledger has not enough budget left for this session"
    return FAILURE, b""


def respond_safely(client, request: bytes) -> tuple[str, bytes]:
    """Return :func:`encode_outcome` of a client's answer to a request."""
    try:
        return encode_outcome(as_bytes(client.respond(request)))
    except Exception as error:
        outcome = encode_outcome(error)
        if outcome[0] == FAILURE and not isinstance(error, SiteError):
            _LOG.exception("a request could not be answered")  # for the rows' holder
        return outcome


def decode_outcome(kind, content):
    """Return bytes, or the error that a kind and a content stand for; any input."""
    if kind == ANSWER and isinstance(content, bytes):
        return content
    if kind == REFUSAL and isinstance(content, bytes):
        text = content[: 4 * _LONGEST_REASON].decode(errors="replace")
        return MessageError("".join(c if c.isprintable() else "?" for c in text))
    return SiteError()


# First byte of a question, and of what comes back.
_NAME, _REQUEST = b"n", b"r"
_KINDS = {ANSWER: b"a", REFUSAL: b"r", FAILURE: b"f"}
# How `multiprocessing.connection` writes a length: short, or -1 and long.
_SHORT, _LONG = struct.Struct("!i"), struct.Struct("!Q")
_BACKLOG = _MOST_PEERS = 16
# Seconds that a peer may keep the site waiting in one direction, with free places and
# without; and the least number of bytes that it must move per second.
_PATIENCE, _CROWDED, _SLOWEST = 10.0, 1.0, 2**25
_TICK = 0.25
# Errors that pass: the system lacks resources for the moment, or the peer has left.
_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED}
# Bytes that the path of a socket may have, on any system.
_LONGEST_PATH = 100


def serve_site(site: Site, path, *, mode=0o600, on_ready=None) -> None:
    """Answer requests from a socket until interrupted.

    Up to sixteen peers are served at a time. A peer that does not send its request or
    receive its answer within 10 seconds is disconnected, or within one second if there
    are sixteen peers. The time to compute an answer does not count. A request longer
    than ``site.longest()`` is refused unread.

    Parameters
    ----------
    site : Site
        The site, or any object with `name`, ``longest()`` and ``respond(request)``.
    path : str or path-like
        Path of the socket, at most 100 bytes. A stale socket there is replaced.
    mode : int, default=0o600
        Permissions of the socket. By default, only processes of this user can connect.
        With ``0o660`` and a folder of that group, another user's process can relay.
    on_ready : callable or None, default=None
        Called when the socket accepts requests.

    Raises
    ------
    ValueError
        If `path` is another file, is served by another process, or is too long.
    """
    longest, path = site.longest(), _free(Path(path))
    with socket.socket(socket.AF_UNIX) as listener:
        earlier = os.umask(0o777 & ~mode)
        try:
            listener.bind(str(path))
        finally:
            os.umask(earlier)
        try:
            listener.listen(_BACKLOG)
            if on_ready is not None:
                on_ready()
            _serve(site, listener, longest)
        finally:
            path.unlink(missing_ok=True)


def _serve(site: Site, listener: socket.socket, longest: int) -> None:
    """Answer all peers; no number of connections ends a site."""
    places, peers = threading.BoundedSemaphore(_MOST_PEERS), _Peers()
    listener.settimeout(_TICK)
    while True:
        full = not places.acquire(blocking=False)
        peers.let_go(_CROWDED if full else _PATIENCE)
        if full and not places.acquire(timeout=_TICK):
            continue
        try:
            peer, _ = listener.accept()
        except OSError as error:
            places.release()
            if error.errno in _PASSING:
                peers.let_go(_CROWDED)
                time.sleep(_TICK)
            elif not isinstance(error, TimeoutError):
                raise
            continue
        threading.Thread(
            target=_answer, args=(site, peer, longest, peers, places), daemon=True
        ).start()


class _Peers:
    """Peers that the site waits for, with start times."""

    def __init__(self):
        self._lock = threading.Lock()
        self._since: dict[socket.socket, float] = {}

    @contextlib.contextmanager
    def awaited(self, peer: socket.socket, size: int):
        """Wait for a peer to send or take up to so many bytes."""
        with self._lock:
            self._since[peer] = time.monotonic() + size / _SLOWEST
        try:
            yield
        finally:
            with self._lock:
                del self._since[peer]

    def let_go(self, seconds: float) -> None:
        """Disconnect peers that are awaited for longer, whatever they have sent."""
        latest = time.monotonic() - seconds
        with self._lock:
            for peer, since in self._since.items():
                if since < latest:
                    with contextlib.suppress(OSError):
                        peer.shutdown(socket.SHUT_RDWR)


def _free(path: Path) -> Path:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ValueError(
            f"the path of a socket must have at most {_LONGEST_PATH} bytes, got {path}"
        )
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ValueError(f"there is a file at {path} that is not a socket")
        if _is_served(path):
            raise ValueError(f"another process is already serving at {path}")
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


def _answer(site: Site, peer: socket.socket, longest: int, peers, places) -> None:
    # A peer may send anything, stay silent, or disconnect.
    try:
        with peer, contextlib.suppress(OSError, EOFError):
            with peers.awaited(peer, longest):
                asked = _received(peer, longest)
            if asked is None:
                kind, content = encode_outcome(
                    MessageError(f"requests of this task have at most {longest} bytes")
                )
            elif asked[:1] == _NAME:
                kind, content = ANSWER, site.name.encode()
            else:
                kind, content = respond_safely(site, asked[1:])
            with peers.awaited(peer, len(content)):
                _send(peer, _KINDS[kind] + content)
                while asked is None and peer.recv(2**16):
                    pass  # it reads the refusal once all was taken from it
    finally:
        places.release()


def _received(peer: socket.socket, longest: int) -> bytes | None:
    """Return a kind and a request, or None where more bytes are announced."""
    with peer.makefile("rb") as stream:
        (size,) = _SHORT.unpack(_exactly(stream, _SHORT.size))
        if size == -1:
            (size,) = _LONG.unpack(_exactly(stream, _LONG.size))
        return _exactly(stream, size) if 0 <= size <= longest + 1 else None


def _exactly(stream, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _send(peer: socket.socket, content: bytes) -> None:
    size = len(content)
    short = size < 2**31
    peer.sendall(_SHORT.pack(size) if short else _SHORT.pack(-1) + _LONG.pack(size))
    peer.sendall(content)


class SiteConnection:
    """Connection to a site that another process on this machine serves.

    Parameters
    ----------
    path : str or path-like
        Socket of :func:`serve_site`.
    """

    def __init__(self, path):
        self._path = str(path)

    @property
    def name(self) -> str:
        """Name of the client, as reported by the site."""
        return self._ask(_NAME).decode()

    def respond(self, request: bytes) -> bytes:
        """Return the answer of the site.

        Parameters
        ----------
        request : bytes
            Request of a server.

        Raises
        ------
        MessageError
            If the site refuses the request. The message comes from the site.
        SiteError
            If nobody serves the site, or the site failed.
        """
        return self._ask(_REQUEST + bytes(request))

    def _ask(self, asked: bytes) -> bytes:
        try:
            with Client(self._path, family="AF_UNIX") as connection:
                connection.send_bytes(asked)
                received = connection.recv_bytes()
        except (OSError, EOFError):
            raise SiteError(f"no site answers at {self._path}") from None
        kinds = {byte: kind for kind, byte in _KINDS.items()}
        answer = decode_outcome(kinds.get(received[:1]), received[1:])
        if isinstance(answer, BaseException):
            raise answer
        return answer
