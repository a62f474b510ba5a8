"""Parts of a federation: messages, clients that trust no server, and a server."""

from typing import TYPE_CHECKING

from .. import _on_demand

if TYPE_CHECKING:
    from .._messages.messages import FederationError as FederationError
    from .._messages.messages import MessageError as MessageError
    from .._messages.messages import Reply as Reply
    from .._messages.messages import Request as Request
    from ..decomposition._federated_client import LocalClient as LocalClient
    from ..decomposition._federated_server import Rounds as Rounds
    from ..decomposition._federated_task import Registration as Registration
    from ..decomposition._federated_task import SpectralTask as SpectralTask
    from ._group_tasks import GroupTask as GroupTask
    from ._groups import GroupClient as GroupClient
    from ._groups import GroupRounds as GroupRounds

_HOMES = {
    "._messages.messages": "FederationError MessageError Reply Request",
    ".decomposition._federated_client": "LocalClient",
    ".decomposition._federated_server": "Rounds",
    ".decomposition._federated_task": "Registration SpectralTask",
    "_group_tasks": "GroupTask",
    "_groups": "GroupClient GroupRounds",
}
__getattr__, __dir__, __all__ = _on_demand.names_of(__name__, _HOMES)
