"""Federations on Flower: its nodes carry requests to sites, and answers back.

Mathematics, messages and checks are those of the rest of this room; here bytes are put
into Flower's messages and taken out. It needs ``pip install "skdpspectral[federated]"``
(Python 3.11 or later) where an app runs, and nothing of it where rows are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ._kept_session import KeptSession
from ._messages import MessageError, check_name
from ._outcomes import ANSWER, SiteError, as_bytes, heard
from ._site import outcome_of
from ._site_socket import SiteConnection

__all__ = ["Progress", "client_app", "connect_to_site", "hold_session"]

# What Flower calls our messages, and the record in them.
_ASK, _NAME = "query.respond", "query.name"
_RECORD, _REQUEST, _KIND, _CONTENT = "skdpspectral", "request", "kind", "content"
_POLL_SECONDS = 0.5
# An answer that was lost is asked for again; a site answers with the same bytes.
_MOST_ATTEMPTS = 3


class Progress(NamedTuple):
    """One answer, or what stands for it.

    Parameters
    ----------
    step : int
        Number of the request, from 0.
    client : str
        Whose answer it is.
    answer : bytes or exception
        What came.
    n_sent, n_received : int
        Bytes of the request, and of the answer.
    n_answers, n_clients : int
        How many have answered this request, of how many.
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
    """Return the app of a node: it hands requests to its site, and answers back.

    Flower starts the app in a new process for each message, by code that the server
    sends. So the app holds no rows, no ledger and no noise, and it tells a server
    nothing of an error but its kind.

    Parameters
    ----------
    open_site : callable, default=connect_to_site
        ``open_site(context)`` returns what has a `name` and ``respond(bytes)``. Hand
        clients of this very process out for simulations alone.

    Returns
    -------
    flwr.clientapp.ClientApp
        For ``[tool.flwr.app.components]``.
    """
    from flwr.clientapp import ClientApp

    app = ClientApp()

    # Whatever raises inside of an app is sent to the server in full, by Flower.
    @app.query("name")
    def say_name(message, context):
        try:
            name = check_name(open_site(context).name)
        except Exception:
            return _reply(message, "failure", b"")
        return _reply(message, ANSWER, name.encode())

    @app.query("respond")
    def respond(message, context):
        try:
            request = message.content.config_records[_RECORD][_REQUEST]
            if not isinstance(request, bytes):
                raise TypeError
            site = open_site(context)
        except Exception:
            return _reply(message, "failure", b"")
        return _reply(message, *outcome_of(site, request))

    return app


def _reply(message, kind: str, content: bytes):
    from flwr.app import ConfigRecord, Message, RecordDict

    record = ConfigRecord({_KIND: kind, _CONTENT: content})
    return Message(RecordDict({_RECORD: record}), reply_to=message)


def hold_session(
    grid,
    rounds,
    *,
    timeout: float = 600.0,
    wait: float = 120.0,
    kept: KeptSession | None = None,
    on_answer: Callable[[Progress], None] | None = None,
):
    """Hold a whole session with the nodes of a grid.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Of a ``ServerApp``.
    rounds : Rounds
        All steps. Anything serves that has `done`, ``clients`` (names of those that
        are left), ``request()`` (bytes, or what has ``to_bytes()``; the same until it
        is answered), ``collect(answers)`` and ``result()``.
    timeout : float, default=600.0
        Seconds for the answers to one request. A node that comes back in that time
        is asked again.
    wait : float, default=120.0
        Seconds for all clients to be there before the first request.
    kept : KeptSession or None, default=None
        File of what was heard, for a server that can be killed and go on.
    on_answer : callable or None, default=None
        Called with a :class:`Progress` for each answer.

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
    A node that was registered under a name (``flwr supernode register --name``) speaks
    for the client of that name and for no other; its key proves who it is. A node
    without one is believed: register nodes wherever others can reach the server.
    """
    nodes = _Nodes(grid)
    step = 0
    while not rounds.done:
        request = as_bytes(rounds.request())
        answers = None if kept is None else kept.find(step, request)
        if answers is None:
            if step == 0:
                nodes.wait_for(rounds.clients, wait)
            told = _Told(on_answer, step, len(request), len(rounds.clients))
            answers = nodes.ask(rounds.clients, request, step, timeout, told)
            if kept is not None:
                kept.keep(step, request, answers)
        rounds.collect(answers)
        step += 1
    return rounds.result()


class _Told:
    """Tells a caller of answers as they come."""

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
    """The nodes of a grid, by the names of their clients; they come and go."""

    def __init__(self, grid):
        self._grid = grid
        self._names: dict[int, str] = {}
        self._asked: dict[str, int] = {}  # who was asked for its name, by message

    def wait_for(self, clients, seconds: float) -> None:
        """Wait until all clients are there, or long enough."""
        deadline = time.monotonic() + seconds
        while set(clients) - set(self.present()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def present(self) -> dict[str, int]:
        """Return the nodes that are there, by the names of their clients."""
        nodes = list(self._grid.get_nodes())
        self._ask_names([node.node_id for node in nodes if not node.name])
        # A node that was started again may have been seen twice: the later one counts.
        nodes.sort(key=lambda node: node.online_until)
        said = {self._names.get(node.node_id): node.node_id for node in nodes}
        said.pop(None, None)
        return said | {node.name: node.node_id for node in nodes if node.name}

    def _ask_names(self, nodes: list[int]) -> None:
        known = {*self._names, *self._asked.values()}
        messages = [_message({}, i, _NAME, 0) for i in nodes if i not in known]
        self._asked |= self._push(messages)
        for reply in self._grid.pull_messages(list(self._asked)):
            node = self._asked.pop(reply.metadata.reply_to_message_id, None)
            name = _heard(reply)
            if node is not None and isinstance(name, bytes):
                self._names[node] = name.decode(errors="replace")

    def _push(self, messages: list) -> dict[str, int]:
        """Send messages; return the nodes that each went to, by message."""
        if not messages:
            return {}
        nodes = [message.metadata.dst_node_id for message in messages]
        sent = list(self._grid.push_messages(messages))
        return {m: i for m, i in zip(sent, nodes, strict=False) if m}

    def ask(self, clients, request: bytes, step: int, timeout: float, told) -> dict:
        """Put a request to clients; return what came of it in time, by name."""
        deadline = time.monotonic() + timeout
        answers: dict[str, object] = {}
        asked: dict[str, tuple[str, int]] = {}  # client and node, by message
        attempts: dict[tuple[str, int], int] = {}
        while set(clients) - set(answers) and time.monotonic() < deadline:
            open_ = {pair for pair in asked.values() if pair[0] not in answers}
            pairs = [
                (name, node)
                for name, node in self.present().items()
                if name in clients and name not in answers and (name, node) not in open_
            ]
            due = [p for p in pairs if attempts.get(p, 0) < _MOST_ATTEMPTS]
            messages = [_message({_REQUEST: request}, i, _ASK, step) for _, i in due]
            names = {node: name for name, node in due}
            for message, node in self._push(messages).items():
                pair = names[node], node
                asked[message] = pair
                attempts[pair] = attempts.get(pair, 0) + 1
            for reply in self._grid.pull_messages(list(asked)) if asked else ():
                pair = asked.pop(reply.metadata.reply_to_message_id, None)
                if pair is None or pair[0] in answers:
                    continue
                answer = _heard(reply)
                # A node that fails may be well again; a refusal stands.
                if isinstance(answer, SiteError) and attempts[pair] < _MOST_ATTEMPTS:
                    continue
                answers[pair[0]] = answer
                told(pair[0], answer)
            if set(clients) - set(answers):
                time.sleep(_POLL_SECONDS)
        return answers


def _message(values: dict, node: int, kind: str, step: int):
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict({_RECORD: ConfigRecord(values)})
    return Message(content, dst_node_id=node, message_type=kind, group_id=str(step))


def _heard(reply):
    """Return an answer or an error from whatever a node has sent."""
    try:
        if reply.has_error():
            return SiteError()
        record = reply.content.config_records[_RECORD]
        return heard(record[_KIND], record[_CONTENT])
    except (KeyError, TypeError, AttributeError):
        return MessageError("its node has sent another message than was asked for")
