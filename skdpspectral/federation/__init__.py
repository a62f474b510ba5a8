"""Parts of a federation: messages, clients that trust no server, and a server."""

from typing import TYPE_CHECKING

from .. import _on_demand

if TYPE_CHECKING:
    from .._messages.messages import (
        FederationError,
        MessageError,
        Reply,
        Request,
        Topic,
    )
    from ..decomposition._federated_client import LocalClient
    from ..decomposition._federated_server import Rounds, Server
    from ..decomposition._federated_task import Registration, SpectralTask, make_task
    from ._group_tasks import GroupTask
    from ._groups import GroupClient, GroupRounds

__all__ = [
    "FederationError",
    "GroupClient",
    "GroupRounds",
    "GroupTask",
    "LocalClient",
    "MessageError",
    "Registration",
    "Reply",
    "Request",
    "Rounds",
    "Server",
    "SpectralTask",
    "Topic",
    "make_task",
]
_HOMES = {
    "._messages.messages": (
        "FederationError",
        "MessageError",
        "Reply",
        "Request",
        "Topic",
    ),
    ".decomposition._federated_client": ("LocalClient",),
    ".decomposition._federated_server": ("Rounds", "Server"),
    ".decomposition._federated_task": ("make_task", "Registration", "SpectralTask"),
    "_group_tasks": ("GroupTask",),
    "_groups": ("GroupClient", "GroupRounds"),
}
__getattr__, __dir__ = _on_demand.names_of(__name__, _HOMES)
