"""Parts of a federation: messages, clients that trust no server, and a server."""

from ._client import LocalClient
from ._in_process import InProcessSession
from ._messages import MessageError, Reply, Request, Topic
from ._server import FederationError, Server
from ._tasks import SpectralTask, make_task

__all__ = [
    "FederationError",
    "InProcessSession",
    "LocalClient",
    "MessageError",
    "Reply",
    "Request",
    "Server",
    "SpectralTask",
    "Topic",
    "make_task",
]
