"""Federations on Flower: its nodes carry requests to clients, and answers back.

It needs ``pip install ".[federated]"`` (Python 3.11 or later) where an app
runs. Clients do not need it: Flower is imported where it is used.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from .._messages import MessageError, check_name, cleaned

_LOG = logging.getLogger(__name__)
ANSWER, REFUSAL, FAILURE = "answer", "refusal", "failure"

# Flower's type of our messages, and the record in them: to a node the names of clients
# and the request, from it the client's name, kind and content of its answer.
_ASK, _RECORD = "query.respond", "skdpspectral"
_CLIENTS, _REQUEST = "clients", "request"
_CLIENT, _KIND, _CONTENT = "client", "kind", "content"
_POLL_SECONDS = 0.5
# An answer that was lost is asked for again; a client answers with the same bytes.
_MOST_ATTEMPTS = 3


class ClientError(RuntimeError):
    """A client could not be reached, or failed; the reason stays there."""


def respond_safely(client, request: bytes) -> tuple[str, bytes]:
    """Return kind and content of a client's answer, or of an error in its place."""
    try:
        return ANSWER, _as_bytes(client.respond(request))
    except MessageError as error:
        return REFUSAL, cleaned(str(error)).encode()  # of messages and public numbers
    except ClientError:
        return FAILURE, b""
    except Exception as error:
        from ..accounting import PrivacyBudgetError  # nodes alone do without it

        if isinstance(error, PrivacyBudgetError):
            # Other entries of the ledger are private to its holder.
            return REFUSAL, b"its ledger has not enough budget left for this session"
        _LOG.exception("a request could not be answered")  # for the rows' holder
        return FAILURE, b""  # without the text of the error, which may quote rows


def decode_outcome(kind, content):
    """Return bytes, or the error that a kind and a content stand for; any input."""
    if kind == ANSWER and isinstance(content, bytes):
        return content
    if kind == REFUSAL and isinstance(content, bytes):
        return MessageError(cleaned(content.decode(errors="replace")))
    return ClientError()


def _as_bytes(message) -> bytes:
    return message if isinstance(message, bytes) else bytes(message.to_bytes())


def client_app(open_client: Callable[[Any], Any]):
    """Return the Flower app of a node, which relays messages to and from a client.

    Flower starts the app in a new process for each message, with code that the server
    sends. Therefore the app holds no rows, ledger or noise, and only reports the type
    of an error to the server.

    Parameters
    ----------
    open_client : callable
        ``open_client(context)`` returns an object with a `name` and ``respond(bytes)``:
        a connection to the process that has the rows, such as the one of
        ``examples/federated``, or a client of this process in simulations.

    Returns
    -------
    flwr.clientapp.ClientApp
        App for ``[tool.flwr.app.components]``.
    """
    app = _flower("clientapp").ClientApp()

    @app.query("respond")
    def respond(message, context):
        # Flower would send the text of an error raised here to the server.
        name, outcome = "", (FAILURE, b"")
        try:
            record = message.content.config_records[_RECORD]
            request, clients = record[_REQUEST], record[_CLIENTS]
            if isinstance(request, bytes) and isinstance(clients, list):
                client = open_client(context)
                name = check_name(client.name)
                # A client that was not asked is not charged.
                outcome = REFUSAL, b"another client was asked"
                if name in clients:
                    outcome = respond_safely(client, request)
        except Exception:
            outcome = FAILURE, b""
        kind, content = outcome
        record = {_CLIENT: name, _KIND: kind, _CONTENT: content}
        return _flower("app").Message(_content(record), reply_to=message)

    return app


def _content(values: dict):
    app = _flower("app")
    return app.RecordDict({_RECORD: app.ConfigRecord(values)})


def _flower(module: str) -> Any:
    """Return a module of Flower, or say how to install it."""
    try:
        return importlib.import_module(f"flwr.{module}")
    except ImportError as error:
        raise ImportError(
            "federations on Flower require Flower, and Python 3.11 or later: pip "
            "install '.[federated]' in a checkout"
        ) from error


def hold_session(
    grid,
    rounds,
    *,
    timeout: float = 600.0,
):
    """Run a whole session with the nodes of a grid; answers are logged as they come.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Grid of a ``ServerApp``.
    rounds : Rounds
        All steps of the session. Any object works that has `done`, ``clients`` (names
        of the remaining clients), ``request()`` (bytes or an object with
        ``to_bytes()``, the same until it is answered), ``collect(answers)`` and
        ``result()``.
    timeout : float, default=600.0
        Number of seconds to wait for the answers to one request. Nodes that connect or
        reconnect in that time are also asked.

    Returns
    -------
    object
        ``rounds.result()``.

    Raises
    ------
    FederationError
        If too few clients are left.

    Notes
    -----
    A node that was registered under a name (``flwr supernode register --name``) can
    only answer for the client of that name, and proves its identity with its key. The
    names of unregistered nodes are not verified, so register nodes if others can reach
    the server.
    """
    nodes, step = _Nodes(grid), 0
    while not rounds.done:
        given = step, tuple(rounds.clients), _as_bytes(rounds.request())
        rounds.collect(nodes.answers(*given, timeout))
        step += 1
    return rounds.result()


class _Nodes:
    """The nodes of a grid, and the names of their clients."""

    def __init__(self, grid):
        self._grid = grid
        self._names: dict[int, str] = {}  # what nodes have said
        self._proven: dict[int, str] = {}  # what they are registered as

    def _present(self, clients: list[str]) -> dict[int, list[str]]:
        """Return the nodes that are there, and which of the clients each may be."""
        nodes = {node.node_id: node.name for node in self._grid.get_nodes()}
        self._proven = {node: name for node, name in nodes.items() if name}
        # A client whose node is registered is not looked for elsewhere.
        proven = self._proven.values()
        unproven = [name for name in clients if name not in proven]
        found = {}
        for node, registered in nodes.items():
            name = registered or self._names.get(node)
            own = clients if registered else unproven
            found[node] = own if name is None else [n for n in own if n == name]
        return found

    def _client_of(self, node: int, said) -> str | None:
        """Return the client that a node speaks for: its registration beats its word."""
        if isinstance(said, str) and said:
            self._names.setdefault(node, said)
        return self._proven.get(node) or self._names.get(node)

    def answers(
        self, step: int, clients: tuple[str, ...], request: bytes, seconds: float
    ) -> dict[str, object]:
        """Send a request to the nodes of clients; return what has come in time."""
        found: dict[str, object] = {}
        asked: dict[str, tuple[int, list[str]]] = {}  # by message
        attempts, settled = Counter[int](), set[int]()
        deadline = time.monotonic() + seconds
        while True:
            pending = [name for name in clients if name not in found]
            busy = settled | {node for node, _ in asked.values()}
            due = {
                node: own
                for node, own in self._present(pending).items()
                if own and node not in busy and attempts[node] < _MOST_ATTEMPTS
            }
            messages = [_message(*item, request, step) for item in due.items()]
            sent = self._grid.push_messages(messages) if messages else ()
            for message, (node, own) in zip(sent, due.items(), strict=False):
                if message:
                    asked[message] = node, own
                    attempts[node] += 1
            replies = self._grid.pull_messages(list(asked)) if asked else ()
            for reply in replies:
                node, own = asked.pop(reply.metadata.reply_to_message_id, (-1, []))
                said, answer = _decoded(reply)
                # A node that fails may be well again; what it has said stands.
                again = isinstance(answer, ClientError)
                if not own or (again and attempts[node] < _MOST_ATTEMPTS):
                    continue
                settled.add(node)
                name = self._client_of(node, said)
                if name not in own or name in found:
                    continue
                found[name] = answer
                kind = "answered" if isinstance(answer, bytes) else "refused"
                given = step + 1, name, kind, len(found), len(clients)
                _LOG.info("round %d: %s %s (%d of %d)", *given)
            left = deadline - time.monotonic()
            if len(found) == len(clients) or left <= 0.0:
                return found
            time.sleep(min(_POLL_SECONDS, left))


def _message(node: int, clients: list[str], request: bytes, step: int):
    return _flower("app").Message(
        _content({_CLIENTS: clients, _REQUEST: request}),
        dst_node_id=node,
        message_type=_ASK,
        group_id=str(step),
    )


def _decoded(reply) -> tuple[str | None, object]:
    """Return the client's name, and an answer or an error, from any reply."""
    try:
        if reply.has_error():
            return None, ClientError()
        record = reply.content.config_records[_RECORD]
        return record[_CLIENT], decode_outcome(record[_KIND], record[_CONTENT])
    except (KeyError, TypeError, AttributeError):
        return None, MessageError("its node has sent a message that was not requested")
