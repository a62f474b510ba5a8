"""Parts of a federation: messages, clients that trust no server, and a server."""

from typing import TYPE_CHECKING

from .. import _on_demand

if TYPE_CHECKING:
    from .._messages import FederationError as FederationError
    from .._messages import MessageError as MessageError
    from .._messages import Reply as Reply
    from .._messages import Request as Request
    from ..decomposition._federated_client import LocalClient as LocalClient
    from ..decomposition._federated_server import Rounds as Rounds
    from ..decomposition._federated_task import Registration as Registration
    from ..decomposition._federated_task import SpectralTask as SpectralTask
    from ._flower import client_app as client_app
    from ._flower import hold_session as hold_session
    from ._groups import GroupClient as GroupClient
    from ._groups import GroupRounds as GroupRounds
    from ._groups import GroupTask as GroupTask

_HOMES = {
    "._messages": "FederationError MessageError Reply Request",
    ".decomposition._federated_client": "LocalClient",
    ".decomposition._federated_server": "Rounds",
    ".decomposition._federated_task": "Registration SpectralTask",
    "_flower": "client_app hold_session",
    "_groups": "GroupClient GroupRounds GroupTask",
}
__getattr__, __dir__, __all__ = _on_demand.names_of(__name__, _HOMES)
