"""Flower as a transport: its nodes carry requests to sites, and answers back.

It needs ``pip install ".[federated]"`` (Python 3.11 or later) where an app
runs. Sites do not need it: Flower is imported where it is used.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from .._messages.messages import MessageError, check_name
from ._kept import KeptSession
from ._site_socket import (
    FAILURE,
    SiteConnection,
    SiteError,
    as_bytes,
    decode_outcome,
    encode_outcome,
    respond_safely,
)

# Flower's type of our messages, and the record in them: to a node the names of clients
# and the request, from it the client's name, kind and content of its answer.
_ASK, _RECORD = "query.respond", "skdpspectral"
_CLIENTS, _REQUEST = "clients", "request"
_CLIENT, _KIND, _CONTENT = "client", "kind", "content"
_POLL_SECONDS = 0.5
# An answer that was lost is asked for again; a site answers with the same bytes.
_MOST_ATTEMPTS = 3


class Progress(NamedTuple):
    """One answer, or the error in its place; the `n_answers`-th of `n_clients`.

    `step` is the number of the request, from 0; `n_sent` and `n_received` are bytes.
    """

    step: int
    client: str
    answer: object
    n_sent: int
    n_received: int
    n_answers: int
    n_clients: int


def connect_to_site(context) -> SiteConnection:
    """Return the site that the configuration of a node names.

    Parameters
    ----------
    context : flwr.app.Context
        Of a node with ``--node-config 'site="/path/of/its.socket"'``.

    Returns
    -------
    SiteConnection
        See :func:`~skdpspectral.federation.serve_site`.
    """
    path = context.node_config.get("site")
    if not isinstance(path, str) or not path:
        raise SiteError('this node has no site="..." in its --node-config')
    return SiteConnection(path)


def client_app(open_site: Callable[[Any], Any] = connect_to_site):
    """Return the Flower app of a node, which relays messages to and from its site.

    Flower starts the app in a new process for each message, with code that the server
    sends. Therefore the app holds no rows, ledger or noise, and only reports the type
    of an error to the server.

    Parameters
    ----------
    open_site : callable, default=connect_to_site
        ``open_site(context)`` returns an object with a `name` and ``respond(bytes)``.
        Return clients of the same process only in simulations.

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
                site = open_site(context)
                name = check_name(site.name)
                # A client that was not asked is not charged.
                outcome = _WRONG_CLIENT
                if name in clients:
                    outcome = respond_safely(site, request)
        except Exception:
            outcome = FAILURE, b""
        return _reply(message, name, *outcome)

    return app


_WRONG_CLIENT = encode_outcome(MessageError("another client was asked"))


def _reply(message, name: str, kind: str, content: bytes):
    record = {_CLIENT: name, _KIND: kind, _CONTENT: content}
    return _flower("app").Message(_content(record), reply_to=message)


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
    kept: KeptSession | None = None,
    on_answer: Callable[[Progress], None] | None = None,
):
    """Run a whole session with the nodes of a grid.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Grid of a ``ServerApp``.
    rounds : Rounds
        All steps of the session. Any object works that has `done`, ``clients`` (names
        of the remaining clients), ``request()`` (bytes or an object with
        ``to_bytes()``, the same until it is answered), ``collect(answers)`` and
        ``result()``. If it draws noise itself, it also needs ``restore(requests)``,
        which continues after the requests that were sent.
    timeout : float, default=600.0
        Number of seconds to wait for the answers to one request. Nodes that connect or
        reconnect in that time are also asked.
    kept : KeptSession or None, default=None
        File of received answers, for a server that can be killed and restarted.
    on_answer : callable or None, default=None
        Called for each answer with a named tuple ``(step, client, answer, n_sent,
        n_received, n_answers, n_clients)``. `answer` contains the bytes or an error,
        and `n_sent` and `n_received` count bytes.

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
    sent = [] if kept is None else kept.requests
    if sent and hasattr(rounds, "restore"):
        # What was released is in the requests: none of it is released again.
        rounds.restore(sent)
        step = len(sent) - 1
    while not rounds.done:
        request = as_bytes(rounds.request())
        before = None if kept is None else kept.begin(step, request)
        answers = before
        if answers is None:
            report = _ProgressReporter(
                on_answer, step, len(request), len(rounds.clients)
            )
            asked = _PendingRequest(nodes, rounds.clients, request, step)
            answers = asked.answers(timeout, report)
        rounds.collect(answers)
        if kept is not None and before is None:
            # Where too few have answered they are asked again by whoever goes on.
            kept.end(step, answers)
        step += 1
    return rounds.result()


class _ProgressReporter:
    """Calls `on_answer` for each answer."""

    def __init__(self, on_answer, step: int, n_sent: int, n_clients: int):
        self._on_answer, self._step = on_answer, step
        self._n_sent, self._n_clients, self._n_answers = n_sent, n_clients, 0

    def __call__(self, client: str, answer) -> None:
        self._n_answers += 1
        if self._on_answer is None:
            return
        received = len(answer) if isinstance(answer, bytes) else 0
        numbers = self._n_sent, received, self._n_answers, self._n_clients
        self._on_answer(Progress(self._step, client, answer, *numbers))


class _Nodes:
    """The nodes of a grid, and the names of their clients."""

    def __init__(self, grid):
        self.grid = grid
        self._names: dict[int, str] = {}  # what nodes have said
        self._proven: dict[int, str] = {}  # what they are registered as

    def present(self, clients: list[str]) -> dict[int, list[str]]:
        """Return the nodes that are there, and which of the clients each may be."""
        nodes = {node.node_id: node.name for node in self.grid.get_nodes()}
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

    def client_of(self, node: int, said) -> str | None:
        """Return the client that a node speaks for: its registration beats its word."""
        if isinstance(said, str) and said:
            self._names.setdefault(node, said)
        return self._proven.get(node) or self._names.get(node)


class _PendingRequest:
    """One request, sent to the present nodes of clients that have not answered."""

    def __init__(self, nodes: _Nodes, clients, request: bytes, step: int):
        self._nodes, self._clients, self._step = nodes, tuple(clients), step
        self._request = request
        self._found: dict[str, object] = {}
        self._open: dict[str, tuple[int, list[str]]] = {}  # who was asked, by message
        self._attempts: Counter[int] = Counter()
        self._settled: set[int] = set()

    def answers(self, seconds: float, report) -> dict[str, object]:
        """Return what has come in time, by client."""
        deadline = time.monotonic() + seconds
        while True:
            self._send()
            self._read(report)
            left = deadline - time.monotonic()
            if not self._pending() or left <= 0.0:
                return self._found
            time.sleep(min(_POLL_SECONDS, left))

    def _pending(self) -> list[str]:
        return [name for name in self._clients if name not in self._found]

    def _send(self) -> None:
        waiting = {node for node, _ in self._open.values()}
        due = {
            node: clients
            for node, clients in self._nodes.present(self._pending()).items()
            if clients
            and node not in waiting | self._settled
            and self._attempts[node] < _MOST_ATTEMPTS
        }
        if not due:
            return
        messages = [self._message(*item) for item in due.items()]
        sent = self._nodes.grid.push_messages(messages)
        for message, (node, clients) in zip(sent, due.items(), strict=False):
            if message:
                self._open[message] = node, clients
                self._attempts[node] += 1

    def _message(self, node: int, clients: list[str]):
        return _flower("app").Message(
            _content({_CLIENTS: clients, _REQUEST: self._request}),
            dst_node_id=node,
            message_type=_ASK,
            group_id=str(self._step),
        )

    def _read(self, report) -> None:
        replies = self._nodes.grid.pull_messages(list(self._open)) if self._open else ()
        for reply in replies:
            asked = self._open.pop(reply.metadata.reply_to_message_id, None)
            if asked is None:
                continue
            node, clients = asked
            said, answer = _decoded(reply)
            # A node that fails may be well again; what it has said stands.
            if isinstance(answer, SiteError) and self._attempts[node] < _MOST_ATTEMPTS:
                continue
            self._settled.add(node)
            name = self._nodes.client_of(node, said)
            if name in clients and name not in self._found:
                self._found[name] = answer
                report(name, answer)


def _decoded(reply):
    """Return the client's name, and an answer or an error, from any reply."""
    try:
        if reply.has_error():
            return None, SiteError()
        record = reply.content.config_records[_RECORD]
        return record[_CLIENT], decode_outcome(record[_KIND], record[_CONTENT])
    except (KeyError, TypeError, AttributeError):
        return None, MessageError("its node has sent a message that was not requested")
